import type { Logger } from '#core/ports/logger'
import type { Principal } from '#core/principal'
import { within } from '#core/sessions/within'
import type { SafetyTier, Tool } from '#core/tool'
import {
  type ApprovalFacts,
  type ApprovalPredicate,
  type ApprovalRules,
  type NamedTool,
  writtenFor,
} from './approval-rules.ts'

const LONGEST_MS = 5_000

/** What a predicate is told, before it is made safe to be told. */
interface AskedCall {
  readonly principal: Principal
  readonly userId: string | undefined
  readonly claimedUserId: string | undefined
  /** What `run` gets: whole, because a caller chooses what a summary would leave out. */
  readonly input: unknown
}

/** Rule 21: whatever is not certainly a "no need" means that a yes is needed. */
export async function needsApproval(
  tool: NamedTool & Pick<Tool, 'id' | 'policy'>,
  rules: Pick<ApprovalRules, 'when' | 'whenPerTool'>,
  { call, log }: { readonly call: AskedCall; readonly log: Logger },
): Promise<boolean> {
  const { id, policy } = tool
  if (policy.approval !== 'conditional') return policy.approval === 'always'
  const when = writtenFor(rules.whenPerTool, tool)[0] ?? rules.when
  if (when === undefined) return true
  try {
    const facts = factsOf({ tool: id, tier: policy.safetyTier, ...call })
    return (await within(LONGEST_MS, () => when(facts))) !== false
  } catch (error) {
    log.error({ err: error, tool: id }, 'approvals.when failed, so the call needs an approval')
    return true
  }
}

function factsOf(
  told: AskedCall & { readonly tool: string; readonly tier: SafetyTier },
): Parameters<ApprovalPredicate>[0] {
  const { input, ...rest } = told
  const shown: ApprovalFacts = { ...rest, input: isObject(input) ? input : {} }
  return guarded(shown, '')
}

function isObject(value: unknown): value is ApprovalFacts['input'] {
  return typeof value === 'object' && value !== null
}

/** A predicate read what a call does not have: its author was wrong about the tool, or the caller left it out. */
export class MissingMember extends Error {
  override readonly name = 'MissingMember'
}

/**
 * A copy that can only be read, and only what is there: `undefined > 100` is `false`, and `false` would let the call
 * run. So a member that is not there throws, as does comparing a whole object. `in` and `Object.hasOwn` ask first.
 */
export function guarded<Value>(value: Value, path: string): Value
export function guarded(value: unknown, path: string): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const members = value.map((member: unknown, place) => guarded(member, `${path}[${place}]`))
    return new Proxy(Object.freeze(members), guardOf(path, Array.prototype))
  }
  // Dates, maps, sets and bytes: nothing of them is a member, and the tool's own must stay as they are.
  if (!isPlain(value)) return structuredClone(value)
  const members = Object.entries(value).map(([name, member]) => [
    name,
    guarded(member, path === '' ? name : `${path}.${name}`),
  ])
  return new Proxy(Object.freeze(Object.fromEntries(members)), guardOf(path, Object.prototype))
}

/** What the language itself looks for on objects that do not have it. */
const LOOKED_FOR: ReadonlySet<string> = new Set(['toJSON', 'then'])

function guardOf(path: string, methods: object): ProxyHandler<object> {
  return {
    get(target, name) {
      if (name === Symbol.toPrimitive) {
        throw new MissingMember(`${path || 'facts'} is no single value and was taken for one`)
      }
      const isThere = typeof name === 'symbol' || Object.hasOwn(target, name) || name in methods
      if (isThere || LOOKED_FOR.has(name)) return Reflect.get(target, name)
      const read = path === '' ? name : `${path}.${name}`
      throw new MissingMember(
        `it read ${read}, which this call does not have. Where that may be, ask first: '${name}' in ${path || 'facts'}`,
      )
    },
  }
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
