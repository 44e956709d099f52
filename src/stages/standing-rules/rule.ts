import { canonicalJson, isJsonObject, type JsonValue } from '#kernel/base/json'
import type { SafetyTier } from '#kernel/tool/tool'

/**
 * A standing rule: a person approves the next calls of one tool by one caller in advance, as long as their input meets the
 * rule's conditions. The stage beside this module applies rules, the store keeps them, approvers make them from a request.
 * Invariant: a rule covers only what it names. Another definition, tier, caller, user or credential, a member that the rule
 * does not mention, and a value outside its conditions are not covered.
 */

/** What is required of one member of the input, named by its JSON Pointer. Everything inside the member is included. */
export type RuleCondition = { readonly path: string } & (
  | { readonly equals: JsonValue }
  | { readonly oneOf: readonly JsonValue[] }
  /** A number within these limits. */
  | { readonly min: number }
  | { readonly max: number }
  | { readonly min: number; readonly max: number }
  /** Any value, also none. */
  | { readonly any: true }
)

/** The calls that a rule is about. All of these must be equal. */
export interface RuleSubject {
  readonly tenant: string
  readonly principal: string
  /** `Toolkit.Name@x.y.z` */
  readonly tool: string
  readonly definitionHash: string
  readonly tier: SafetyTier
  readonly userId: string | undefined
  readonly isUserProven: boolean
  /** Keyed digest of the credentials that the call uses. */
  readonly credentials: string | undefined
}

export interface StandingRule extends RuleSubject {
  readonly id: string
  readonly conditions: readonly RuleCondition[]
  /** Maximum number of calls; `undefined`: no limit besides the expiry. */
  readonly maxUses: number | undefined
  readonly uses: number
  readonly expiresAtMs: number
  readonly reason: string | undefined
  /** The approval that the rule was made from. */
  readonly approval: string
  readonly createdBy: string
  readonly createdAtMs: number
  readonly revokedBy: string | undefined
  readonly revokedAtMs: number | undefined
}

/** A request for approval, as far as rules look at it. */
export interface AskedCall extends RuleSubject {
  readonly quorum: number
  /** The whole input as approvers see it. */
  readonly input: JsonValue
  /** Whether approvers see all of the input. */
  readonly isShownWhole: boolean
}

export type RuleState = 'active' | 'used_up' | 'expired' | 'revoked'

export function stateOfRule(
  { uses, maxUses, expiresAtMs, revokedAtMs }: Omit<StandingRule, keyof RuleSubject>,
  nowMs: number,
): RuleState {
  if (revokedAtMs !== undefined) return 'revoked'
  if (expiresAtMs <= nowMs) return 'expired'
  return maxUses !== undefined && uses >= maxUses ? 'used_up' : 'active'
}

const SUBJECT = [
  ...(['tenant', 'principal', 'tool', 'definitionHash', 'tier'] as const),
  ...(['userId', 'isUserProven', 'credentials'] as const),
]

/** Why no rule can cover a call, whatever its conditions. */
export function ruleObstacle({
  tier,
  quorum,
  isShownWhole,
}: Pick<AskedCall, 'tier' | 'quorum' | 'isShownWhole'>): 'exec' | 'quorum' | 'hidden' | undefined {
  if (tier === 'exec') return 'exec'
  if (quorum > 1) return 'quorum'
  return isShownWhole ? undefined : 'hidden'
}

/** Whether the rule's subject and conditions include this call. Expiry and uses are checked where the use is counted. */
export function covers(rule: RuleSubject & Pick<StandingRule, 'conditions'>, asked: AskedCall): boolean {
  if (ruleObstacle(asked) !== undefined) return false
  return SUBJECT.every((name) => rule[name] === asked[name]) && coversInput(rule.conditions, asked.input)
}

/** Whether each part of the input is named by a condition that it meets, and each required part is there. */
export function coversInput(conditions: readonly RuleCondition[], input: JsonValue): boolean {
  const byPath = new Map(conditions.map((condition) => [condition.path, condition]))
  const met = new Set<string>()
  const isCovered = (value: JsonValue, path: string): boolean => {
    const condition = byPath.get(path)
    if (condition !== undefined) {
      met.add(path)
      return holds(condition, value)
    }
    const parts = partsOf(value, path)
    return parts.length > 0 && parts.every(([part, inner]) => isCovered(part, inner))
  }
  return (
    isCovered(input, '') && conditions.every((condition) => 'any' in condition || met.has(condition.path))
  )
}

function holds(condition: RuleCondition, value: JsonValue): boolean {
  if ('any' in condition) return true
  if ('equals' in condition) return canonicalJson(condition.equals) === canonicalJson(value)
  if ('oneOf' in condition) {
    const text = canonicalJson(value)
    return condition.oneOf.some((allowed) => canonicalJson(allowed) === text)
  }
  const { min, max } = limitsOf(condition)
  return typeof value === 'number' && value >= min && value <= max
}

function limitsOf(condition: object): { readonly min: number; readonly max: number } {
  return { min: Number.NEGATIVE_INFINITY, max: Number.POSITIVE_INFINITY, ...condition }
}

/** The members of an object or array, with their paths; empty for any other value. */
function partsOf(value: JsonValue, path: string): readonly (readonly [JsonValue, string])[] {
  if (typeof value !== 'object' || value === null) return []
  const entries = isJsonObject(value) ? Object.entries(value) : [...value.entries()]
  return entries.map(([name, part]) => [part, `${path}/${escapeName(String(name))}`])
}

function escapeName(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}

/** The narrowest conditions that cover an input: every value equal. Lists are compared as a whole. */
export function conditionsFor(input: JsonValue, path = ''): readonly RuleCondition[] {
  const parts = isJsonObject(input) ? partsOf(input, path) : []
  return parts.length === 0
    ? [{ path, equals: input }]
    : parts.flatMap(([part, inner]) => conditionsFor(part, inner))
}

const POINTER = /^(?:\/(?:[^~/]|~[01])*)*$/

/** The first problem of a rule's conditions, as a sentence; `undefined` if they can be used. */
export function conditionProblem(conditions: readonly RuleCondition[]): string | undefined {
  const paths = new Set<string>()
  for (const condition of conditions) {
    const { path } = condition
    if (!POINTER.test(path)) return `"${path}" is not a JSON Pointer, such as "/amount" or "/to/0".`
    if (paths.has(path)) return `There are two conditions for "${path}".`
    paths.add(path)
    const { min, max } = limitsOf(condition)
    if (min > max) return `The limits of "${path}" exclude every number.`
  }
  const inner = [...paths].find((path) => containersOf(path).some((outer) => paths.has(outer)))
  return inner === undefined
    ? undefined
    : `A condition for a part that contains "${inner}" covers it already.`
}

/** The paths of everything that contains this path. */
function containersOf(path: string): readonly string[] {
  const names = path.split('/')
  return names.slice(1).map((_, index) => names.slice(0, index + 1).join('/'))
}
