import fc from 'fast-check'
import type { JsonObject } from '#kernel/base/json'
import { type DefinedTool, tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { SafetyTier, Tool, ToolRequirements } from '#kernel/tool/tool'
import { type Act, act, type Context, PROVIDERS, SECRETS } from './differential-acts.ts'
import { type ParametersPart, parametersPart } from './differential-schemas.ts'

/** One version of one generated tool. */
export interface ToolPlan {
  readonly base: string
  readonly version: string
  readonly functionName: string
  readonly catalogId: string
  readonly input: ParametersPart
  readonly act: Act
  readonly tier: SafetyTier
  readonly approval: 'never' | 'always'
  readonly scopes: readonly string[]
  readonly requirements: ToolRequirements
  readonly isStateful: boolean
  readonly isAsync: boolean
}

export const SCOPES = ['mail:read', 'mail:send', 'db:main:read'] as const

const requirements: fc.Arbitrary<ToolRequirements> = fc.oneof(
  { weight: 2, arbitrary: fc.constant({}) },
  {
    weight: 1,
    arbitrary: fc.record({
      authorization: fc
        .subarray([...PROVIDERS])
        .map((ids) => ids.map((id) => ({ id, oauth2: { scopes: ['s'] } }))),
      secrets: fc.subarray([...SECRETS]).map((ids) => ids.map((id) => ({ id }))),
      userId: fc.constantFrom(false, true, 'claimed' as const),
    }),
  },
)

const shared = fc.record({
  name: fc.option(fc.constantFrom('do_it', 'x', 'Say-Hello'), { nil: undefined }),
  versions: fc.uniqueArray(fc.constantFrom('1.0.0', '1.2.0', '2.0.0', '10.0.0'), {
    minLength: 1,
    maxLength: 2,
  }),
})

const versionPlan = fc.record({
  input: parametersPart,
  act,
  tier: fc.constantFrom<SafetyTier>('pure', 'read', 'write', 'exec'),
  approval: fc.oneof(
    { weight: 12, arbitrary: fc.constant('never' as const) },
    fc.constant('always' as const),
  ),
  scopes: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, fc.subarray([...SCOPES], { maxLength: 2 })),
  requirements,
  isStateful: fc.nat(4).map((roll) => roll === 0),
  isAsync: fc.boolean(),
})

/** Tools of one server; `isHost`: run by the host, which alone may have tools of tier `exec`. */
export function toolPlans(isHost: boolean): fc.Arbitrary<readonly ToolPlan[]> {
  const one = fc.tuple(shared, fc.tuple(versionPlan, versionPlan))
  return fc.array(one, { minLength: 2, maxLength: 5 }).map((all) =>
    all.flatMap(([{ name, versions }, plans], at) => {
      const base = `Kit.Tool_${at}`
      const functionName = name === undefined ? `Kit_Tool_${at}` : `${name}${at}`
      const catalogId = isHost ? `x-host-kit-tool${at}` : `openwop:${base}`
      return versions.map((version, index): ToolPlan => {
        const plan = plans[index] ?? plans[0]
        const tier = plan.tier === 'exec' && !isHost ? 'write' : plan.tier
        return { ...plan, base, version, functionName, catalogId, tier }
      })
    }),
  )
}

/** The definition as an author writes it; its value may violate its output schema, which the types would forbid. */
export function definitionOf(plan: ToolPlan): DefinedTool {
  const { act: does, isAsync, isStateful } = plan
  const promised = tool({
    id: `${plan.base}@${plan.version}`,
    name: plan.functionName,
    catalogId: plan.catalogId,
    description: 'Generated.',
    input: plan.input.schema,
    output: does.output,
    requirements: plan.requirements,
    policy: {
      safetyTier: plan.tier,
      approval: plan.approval,
      scopes: plan.scopes,
      ...(does.timeoutMs === undefined ? {} : { timeoutMs: does.timeoutMs }),
    },
    run: () => null,
  })
  const run = isAsync ? async (input: JsonObject, context: Context) => does.run(input, context) : does.run
  const defined = { ...promised, run, ...(isStateful ? { session: { open: () => ({ uses: 0 }) } } : {}) }
  return defined
}

export function preparedTools(plans: readonly ToolPlan[], isHost: boolean): readonly Tool[] {
  const definitions = plans.map(definitionOf)
  return requireTools(definitions, {
    source: isHost ? 'host-extension' : 'node-pack',
    // Versions are generated independently of one another.
    acknowledgeLaxerVersions: definitions.map(({ id }) => id),
  })
}
