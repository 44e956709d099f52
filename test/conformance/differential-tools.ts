import fc from 'fast-check'
import { type DefinedTool, tool } from '#core/define-tool'
import { ToolError } from '#core/errors'
import type { JsonObject, JsonValue } from '#core/json'
import { requireTools } from '#core/require-tools'
import type { SafetyTier, StatefulContext, Tool, ToolRequirements } from '#core/tool'
import { anyJson, type ParametersPart, parametersPart, schemaPart } from './differential-schemas.ts'

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

/** What a tool does: a function of its input and context alone, so that every way must see the same. */
interface Act {
  readonly label: string
  readonly output: JsonObject | null
  readonly timeoutMs?: number
  readonly run: (input: JsonObject, context: Context) => unknown
}

type Context = StatefulContext<{ uses: number } | undefined>

export const LARGEST_RESULT = 4_096
export const PROVIDERS = ['google', 'x-y'] as const
export const SECRETS = ['API_KEY', 'b.c'] as const
export const SCOPES = ['mail:read', 'mail:send', 'db:main:read'] as const

const TITLES = [undefined, 'sum', 'not a name', '__proto__', 'a-b_9']
const TIMEOUT_MS = 4

const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom(...TITLES).map(echo) },
  { weight: 4, arbitrary: fc.tuple(anyJson, fc.constantFrom(...TITLES)).map(constant) },
  {
    weight: 3,
    arbitrary: schemaPart.chain(({ schema, fitting }) => fitting.map((value) => typed(schema, value))),
  },
  { weight: 1, arbitrary: fc.constant<Act>({ label: 'no output', output: null, run: () => 'dropped' }) },
  { weight: 1, arbitrary: fc.constant<Act>({ label: 'undefined', output: {}, run: () => undefined }) },
  {
    weight: 1,
    arbitrary: fc.constant<Act>({ label: 'misfit', output: { type: 'integer' }, run: () => 'x' }),
  },
  { weight: 1, arbitrary: fc.constantFrom(1n, Number.NaN, Symbol('s')).map(notJson) },
  {
    weight: 1,
    arbitrary: fc.constant<Act>({ label: 'large', output: {}, run: () => 'ä'.repeat(LARGEST_RESULT) }),
  },
  { weight: 4, arbitrary: toldFailure() },
  { weight: 1, arbitrary: fc.constantFrom(new Error('boom in /etc/x'), 'text', undefined).map(plainFailure) },
  { weight: 1, arbitrary: fc.boolean().map(timeout) },
)

const requirements: fc.Arbitrary<ToolRequirements> = fc.oneof(
  { weight: 2, arbitrary: fc.constant({}) },
  {
    weight: 1,
    arbitrary: fc.record({
      authorization: fc
        .subarray([...PROVIDERS])
        .map((ids) => ids.map((id) => ({ id, oauth2: { scopes: ['s'] } }))),
      secrets: fc.subarray([...SECRETS]).map((ids) => ids.map((id) => ({ id }))),
      userId: fc.boolean(),
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
    all.flatMap(([{ name, versions }, plans], place) => {
      const base = `Kit.Tool_${place}`
      const functionName = name === undefined ? `Kit_Tool_${place}` : `${name}${place}`
      const catalogId = isHost ? `x-host-kit-tool${place}` : `openwop:${base}`
      return versions.map((version, index): ToolPlan => {
        const plan = plans[index] ?? plans[0]
        const tier = plan.tier === 'exec' && !isHost ? 'write' : plan.tier
        return { ...plan, base, version, functionName, catalogId, tier }
      })
    }),
  )
}

/** As an author writes it; what it gives may break its own promise, which types would not let pass. */
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
  return requireTools(plans.map(definitionOf), { source: isHost ? 'host-extension' : 'node-pack' })
}

function echo(title: string | undefined): Act {
  return {
    label: 'echo',
    output: title === undefined ? {} : { title },
    run: (input, { userId = null, session }) => {
      if (session !== undefined) session.uses += 1
      return { input, userId, uses: session?.uses ?? null }
    },
  }
}

function constant([value, title]: [JsonValue, string | undefined]): Act {
  return {
    label: `gives ${JSON.stringify(value)}`,
    output: title === undefined ? {} : { title },
    run: () => value,
  }
}

function typed(output: JsonObject, value: JsonValue): Act {
  return { label: `gives ${JSON.stringify(value)}`, output, run: () => value }
}

function notJson(value: unknown): Act {
  return { label: `gives ${String(value)}`, output: {}, run: () => value }
}

/** Everything an author may say about a failure; its text repeats a credential, which must not get out. */
function toldFailure(): fc.Arbitrary<Act> {
  const options = fc.record(
    {
      developerMessage: fc.constantFrom('for developers', 'größer 😀'),
      canRetry: fc.boolean(),
      retryAfterMs: fc.constantFrom(0, 1.5, 2_000, -3, Number.NaN, Number.POSITIVE_INFINITY, 1e12),
      additionalPromptContent: fc.constantFrom('try "a"', '\u2028'),
      errorNumber: fc.constantFrom(7, -1, 405, 1.5, 0),
    },
    { requiredKeys: [] },
  )
  return fc
    .tuple(fc.constantFrom('Broken.', '', 'Zeile 1\nZeile 2 "😀"'), options)
    .map(([message, told]) => ({
      label: `throws ${JSON.stringify([message, told])}`,
      output: {},
      run: (_input, context) => {
        throw new ToolError(message + credentialsOf(context), told)
      },
    }))
}

function credentialsOf(context: Context): string {
  const given = [
    ...PROVIDERS.map((id) => () => context.token(id)),
    ...SECRETS.map((id) => () => context.secret(id)),
  ]
  return given
    .map((read) => {
      try {
        return read().reveal()
      } catch {
        return ''
      }
    })
    .join('')
}

function plainFailure(thrown: unknown): Act {
  return {
    label: `throws ${String(thrown)}`,
    output: {},
    run: () => {
      throw thrown
    },
  }
}

/** Never ends, or ends when told to stop: a late answer. */
function timeout(isLate: boolean): Act {
  return {
    label: isLate ? 'answers late' : 'never answers',
    output: {},
    timeoutMs: TIMEOUT_MS,
    run: (_input, { signal }) =>
      new Promise((resolve) => {
        if (isLate) signal.addEventListener('abort', () => resolve('late'), { once: true })
      }),
  }
}
