import fc from 'fast-check'
import { compareVersions, LATEST, parseToolRef } from '#kernel/base/ids'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { PROVIDERS, SECRETS } from './differential-acts.ts'
import { anyJson, plain } from './differential-schemas.ts'
import { SCOPES, type ToolPlan, toolPlans } from './differential-tools.ts'

interface Caller {
  readonly tenant: string
  readonly scopes: readonly string[]
}

/** One call, independent of protocol; each lane encodes it differently. */
export interface CallPlan {
  readonly caller: number
  /** `Toolkit.Name`, known or not. */
  readonly base: string
  /** `''`, `@1`, `@1.0.0`, `@latest` or an invalid version. */
  readonly suffix: string
  readonly input: JsonValue | undefined
  readonly key: string | undefined
  readonly userId: string | undefined
  readonly tokens: Readonly<Record<string, string>>
  readonly secrets: Readonly<Record<string, string>>
  readonly runId: string | undefined
  /** Base name of the tool whose session to use; after `@`, another caller's; `''` means an unknown session. */
  readonly session: string | undefined
  /** Selects one of the equivalent encodings. */
  readonly spelling: number
}

/** One server, its callers and their sequential calls. */
export interface Batch {
  readonly isHost: boolean
  readonly tools: readonly ToolPlan[]
  readonly callers: readonly Caller[]
  readonly calls: readonly CallPlan[]
}

/** The last key is longer than allowed; the one before it has the maximum length. */
const KEYS = ['k1', 'k2', 'a key', 'ключ', 'a%20b', '', 'x'.repeat(256), 'x'.repeat(257)]
/** Usually a new key. */
const freshKey = fc.stringMatching(/^[a-z0-9]{6}$/)
const RUNS = ['r1', 'größe/1', '100%']
const SUFFIXES = ['@1', '@1.0.0', '@2', '@01.2.0', '@10.0.0', '@9.9.9', '@latest', '@1.0', '@v1', '@']
const NO_TOOLS = ['Kit.Tool', 'kit.tool_0', 'Nope.Nothing', 'Kit.__proto__']
const VALUES = ['tok-123456', '', 'ключ=,;', 'ab']

const caller: fc.Arbitrary<Caller> = fc.record({
  tenant: fc.constantFrom('acme', 'globex'),
  scopes: fc.oneof(fc.constant(['*']), fc.subarray([...SCOPES, 'mail:*', 'db:*:read', 'users:assert'])),
})

export const batch: fc.Arbitrary<Batch> = fc
  .tuple(
    fc.nat(4).map((roll) => roll === 0),
    fc.array(caller, { minLength: 1, maxLength: 3 }),
  )
  .chain(([isHost, callers]) => fc.tuple(fc.constant(isHost), fc.constant(callers), toolPlans(isHost)))
  .chain(([isHost, callers, tools]) =>
    fc
      .array(fc.tuple(callOf(tools, callers.length), sometimes(echoOf, 3)), {
        minLength: 1,
        maxLength: 60,
        size: 'max',
      })
      .map((calls) => ({ isHost, tools, callers, calls: repeat(calls) })),
  )

/** The parts that a later call copies from an earlier one: everything, or only its key. */
interface Repeat {
  readonly back: number
  readonly keyOnly: boolean
}

const echoOf: fc.Arbitrary<Repeat> = fc.record({ back: fc.nat(3), keyOnly: fc.boolean() })

function repeat(calls: readonly (readonly [CallPlan, Repeat | undefined])[]): readonly CallPlan[] {
  const made: CallPlan[] = []
  for (const [call, again] of calls) {
    const earlier = again === undefined ? undefined : made.at(-1 - again.back)
    if (again === undefined || earlier === undefined) made.push(call)
    else if (!again.keyOnly) made.push({ ...earlier, spelling: call.spelling })
    else made.push({ ...call, caller: earlier.caller, key: earlier.key })
  }
  return made
}

function callOf(tools: readonly ToolPlan[], callers: number): fc.Arbitrary<CallPlan> {
  const [first] = tools
  if (first === undefined) throw new Error('a server without tools')
  return fc.constantFrom(...tools).chain(({ base, input, requirements, isStateful }) =>
    fc.record({
      caller: fc.nat(callers - 1),
      base: rarely(fc.constantFrom(...NO_TOOLS), base),
      suffix: rarely(fc.constantFrom(...SUFFIXES), ''),
      input: inputFor(input.fitting),
      key: sometimes(fc.oneof({ weight: 3, arbitrary: freshKey }, fc.constantFrom(...KEYS)), 6),
      userId: sometimes(fc.constantFrom('ann', 'ünï', 'a,b', ' '), 3),
      tokens: givenOf(
        PROVIDERS,
        (requirements.authorization ?? []).map(({ id }) => id),
      ),
      secrets: givenOf(
        SECRETS,
        (requirements.secrets ?? []).map(({ id }) => id),
      ),
      runId: sometimes(fc.constantFrom(...RUNS), 1),
      session: sometimes(
        fc.constantFrom(...(isStateful ? [base, base, base, base, `@${base}`, ''] : [base])),
        isStateful ? 5 : 0.5,
      ),
      spelling: fc.nat(1_023),
    }),
  )
}

/** Present in `ofTen` of ten cases. */
function sometimes<Value>(value: fc.Arbitrary<Value>, ofTen: number): fc.Arbitrary<Value | undefined> {
  return fc.oneof(
    { weight: 20 - 2 * ofTen, arbitrary: fc.constant(undefined) },
    { weight: 2 * ofTen, arbitrary: value },
  )
}

function rarely<Value>(value: fc.Arbitrary<Value>, usual: Value): fc.Arbitrary<Value> {
  return sometimes(value, 1).map((given) => given ?? usual)
}

/** Usually the requirements of the tool. */
function givenOf(
  all: readonly string[],
  asked: readonly string[],
): fc.Arbitrary<Readonly<Record<string, string>>> {
  const ids = fc.oneof({ weight: 3, arbitrary: fc.constant(asked) }, fc.subarray([...all]))
  return fc
    .tuple(ids, fc.oneof({ weight: 4, arbitrary: fc.constant('tok-123456') }, fc.constantFrom(...VALUES)))
    .map(([given, value]) => Object.fromEntries(given.map((id) => [id, value])))
}

/** Valid, almost valid and arbitrary inputs. */
function inputFor(fitting: fc.Arbitrary<JsonValue>): fc.Arbitrary<JsonValue | undefined> {
  const mutation = fc.tuple(fitting, fc.nat(9), fc.oneof(fc.constant(null), anyJson), fc.nat(2))
  return fc
    .oneof<fc.MaybeWeightedArbitrary<JsonValue | undefined>[]>(
      { weight: 10, arbitrary: fitting },
      { weight: 4, arbitrary: mutation.map(mutate) },
      { weight: 1, arbitrary: anyJson },
      { weight: 1, arbitrary: fc.constant(undefined) },
    )
    .map((input) => (input === undefined ? undefined : plain(input)))
}

/** One member replaced, removed or added. */
function mutate([input, index, value, how]: [JsonValue, number, JsonValue, number]): JsonValue {
  if (!isJsonObject(input)) return input
  const names = Object.keys(input)
  const name = names[index % Math.max(1, names.length)] ?? 'a'
  const added = index < 2 ? '__proto__' : 'extra'
  const others = Object.entries(input).filter(([key]) => key !== name)
  if (how === 0) return Object.fromEntries(others)
  return Object.fromEntries(
    how === 1 ? [...Object.entries(input), [added, value]] : [...others, [name, value]],
  )
}

/** The newest of these tools that is visible to a caller under a name and version; every lane must agree (rule 2). */
export function visibleTool(
  { tools, callers }: Pick<Batch, 'tools' | 'callers'>,
  call: Pick<CallPlan, 'caller' | 'base' | 'suffix'>,
): ToolPlan | undefined {
  const ref = parseToolRef(call.base + call.suffix)
  if (ref === undefined) return undefined
  const granted = callers[call.caller]?.scopes ?? []
  return tools
    .filter(({ base, scopes }) => base === ref.base && scopes.every((scope) => holds(granted, scope)))
    .filter(({ version }) => ref.version === LATEST || version === ref.version)
    .toSorted((left, right) => compareVersions(right.version, left.version))[0]
}

/** Evaluates the grants generated above without the code under test. */
function holds(granted: readonly string[], scope: string): boolean {
  const [area] = scope.split(':')
  const patterns = [scope, '*', ...(area === 'mail' ? ['mail:*'] : ['db:*:read'])]
  return patterns.some((pattern) => granted.includes(pattern))
}

/** OTS-43, computed from the generated parameters instead of the schema. */
export function withoutNulls(tool: ToolPlan | undefined, input: JsonObject): JsonObject {
  if (tool === undefined) return input
  const kept = Object.entries(input).filter(([name, value]) => {
    const parameter = tool.input.parameters.get(name)
    return value !== null || parameter === undefined || parameter.required || parameter.part.takesNull
  })
  return Object.fromEntries(kept)
}
