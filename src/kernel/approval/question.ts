import { fault } from '#kernel/base/errors'
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import { withDeadline } from '#kernel/base/waiting'
import type { CallRequest } from '#kernel/call/call'
import type { CallAddress } from '#kernel/call/call-record'
import type { KernelStore } from '#kernel/store/store'
import type { Tool } from '#kernel/tool/tool'
import type { ApprovalSubject } from './approval.ts'
import { type ApprovalFacts, type ApprovalRules, type NamedTool, rulesFor } from './approvals.ts'

/**
 * Prepares requests for approval: decides whether a call needs one, selects the input that approvers see, and computes the
 * digest that binds the approval to that input (rule 21). `call/approval.ts` uses this module when it parks a call.
 * A call that is not certainly exempt needs approval; an approval covers exactly the bound input, definition and credentials.
 */

const MAX_PREDICATE_MS = 5_000

/** The facts for a predicate, before they are guarded. The input is complete: a caller could hide members from a summary. */
type PredicateCall = Omit<ApprovalFacts<unknown>, 'tool' | 'tier'>

/** Rule 21: only a certain `false` means that no approval is needed. */
export async function needsApproval(
  tool: NamedTool & Pick<Tool, 'id' | 'policy'>,
  rules: Pick<ApprovalRules, 'when' | 'whenPerTool'>,
  { call, log }: { readonly call: PredicateCall; readonly log: Logger },
): Promise<boolean> {
  const { id, policy } = tool
  if (policy.approval !== 'conditional') return policy.approval === 'always'
  const when = rulesFor(rules.whenPerTool, tool)[0] ?? rules.when
  if (when === undefined) return true
  try {
    const input = isObject(call.input) ? call.input : {}
    const facts = guarded({ ...call, tool: id, tier: policy.safetyTier, input }, '')
    return (await withDeadline(MAX_PREDICATE_MS, () => when(facts))) !== false
  } catch (error) {
    log.error({ err: error, tool: id }, 'approvals.when failed, so the call needs an approval')
    return true
  }
}

function isObject(value: unknown): value is ApprovalFacts['input'] {
  return typeof value === 'object' && value !== null
}

/** Thrown when a predicate reads a member that the call does not have, by mistake or because the caller left the member out. */
export class MissingMember extends Error {
  override readonly name = 'MissingMember'
}

/**
 * A read-only copy whose missing members throw: `undefined > 100` is `false`, and `false` would let the call run. Comparing a
 * whole object throws too. `in` and `Object.hasOwn` work.
 */
export function guarded<Value>(value: Value, path: string): Value
export function guarded(value: unknown, path: string): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const members = value.map((member: unknown, index) => guarded(member, `${path}[${index}]`))
    return new Proxy(Object.freeze(members), guardOf(path, Array.prototype))
  }
  // Dates, maps, sets and bytes have no members to guard; they are copied so that a predicate cannot change the tool's input.
  if (!isPlain(value)) return structuredClone(value)
  const members = Object.entries(value).map(([name, member]) => [
    name,
    guarded(member, path === '' ? name : `${path}.${name}`),
  ])
  return new Proxy(Object.freeze(Object.fromEntries(members)), guardOf(path, Object.prototype))
}

/** Members that JavaScript itself looks up on any object. */
const LANGUAGE_MEMBERS: ReadonlySet<string> = new Set(['toJSON', 'then'])

function guardOf(path: string, methods: object): ProxyHandler<object> {
  return {
    get(target, name) {
      if (name === Symbol.toPrimitive) {
        throw new MissingMember(`${path || 'facts'} is an object, but it was used as a single value`)
      }
      const exists = typeof name === 'symbol' || Object.hasOwn(target, name) || name in methods
      if (exists || LANGUAGE_MEMBERS.has(name)) return Reflect.get(target, name)
      const read = path === '' ? name : `${path}.${name}`
      throw new MissingMember(
        `the predicate read ${read}, which this call does not have. If it may be missing, check first: '${name}' in ${path || 'facts'}`,
      )
    },
  }
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

const MAX_TEXT_LENGTH = 200
const MAX_MEMBERS = 30
const MAX_SHOWN_DEPTH = 4

type Member = [string, JsonValue]

export type ShownInput = Pick<ApprovalSubject, 'summaryJson' | 'inputJson' | 'hidden'>

/**
 * The input as approvers see it: complete, with a summary that states what it leaves out. Only credentials that the tool declares
 * are hidden, and their number is shown. A value that only the caller declares to be secret is shown, because it may matter for
 * the decision.
 */
export function shownInput(
  input: JsonValue,
  declared: JsonValue | undefined,
  hide: (text: string) => string,
): ShownInput {
  let hidden = 0
  const clean = (text: string): string => {
    const shown = hide(text)
    if (shown !== text) hidden += 1
    return shown
  }
  const show = (value: JsonValue): JsonValue => {
    if (typeof value === 'string') return clean(value)
    if (typeof value !== 'object' || value === null) return value
    if (!isJsonObject(value)) return value.map(show)
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [clean(name), show(member)]))
  }
  const shown = show(input)
  const summary = isJsonObject(shown)
    ? summarizeMembers(declaredFirst(shown, declared), 0)
    : { input: summarize(shown, 0) }
  return { summaryJson: JSON.stringify(summary), inputJson: JSON.stringify(shown), hidden }
}

/** Puts declared members first, so that a caller cannot push them out of the summary with meaningless members. */
function declaredFirst(input: JsonObject, declared: JsonValue | undefined): readonly Member[] {
  const members = Object.entries(input)
  if (!isJsonObject(declared)) return members
  const isDeclared = ([name]: Member): boolean => Object.hasOwn(declared, name)
  return [...members.filter(isDeclared), ...members.filter((member) => !isDeclared(member))]
}

function summarize(value: JsonValue, depth: number): JsonValue {
  if (typeof value === 'string') return shorten(value)
  if (typeof value !== 'object' || value === null) return value
  if (!isJsonObject(value)) {
    if (depth >= MAX_SHOWN_DEPTH) return `[${value.length} items]`
    const shown = value.slice(0, MAX_MEMBERS).map((member) => summarize(member, depth + 1))
    return value.length > shown.length ? [...shown, `… ${value.length - shown.length} more`] : shown
  }
  const members = Object.entries(value)
  return depth >= MAX_SHOWN_DEPTH ? `{${members.length} members}` : summarizeMembers(members, depth)
}

function summarizeMembers(members: readonly Member[], depth: number): JsonObject {
  const shown = members
    .slice(0, MAX_MEMBERS)
    .map(([name, member]): Member => [shorten(name), summarize(member, depth + 1)])
  const more = members.length - shown.length
  return Object.fromEntries(more > 0 ? [...shown, ['…', `${more} more`]] : shown)
}

/** Shortens a text without splitting a character, and states the full length. */
function shorten(text: string): string {
  if (text.length <= MAX_TEXT_LENGTH) return text
  const start = text.slice(0, MAX_TEXT_LENGTH).toWellFormed()
  return `${start}… (${text.length} characters)`
}

/** The parts of a call that an approval is bound to. */
interface BoundCall extends CallAddress {
  readonly principal: Principal
  readonly inputJson: string
  readonly request: Pick<CallRequest, 'userId' | 'sessionId' | 'userInfo' | 'tokens' | 'secrets'>
  readonly vaultRefs?: ReadonlyMap<string, string>
  readonly isUserProven?: true
}

/** A keyed digest of the credentials that a call uses; `undefined` if it uses none. */
export function credentialsDigest(
  store: Pick<KernelStore, 'sign'>,
  { call, tool }: { readonly call: BoundCall; readonly tool: Tool },
): string | undefined {
  const tags = credentialTags(store, tool, call)
  return tags.length === 0 ? undefined : store.sign('credential', JSON.stringify(tags.toSorted()))
}

/** Everything an approval covers, as one keyed digest (rule 21). */
export function approvalBinding(
  store: Pick<KernelStore, 'sign'>,
  { call, tool, input }: { readonly call: BoundCall; readonly tool: Tool; readonly input: unknown },
): string {
  const { tenant, principal, record, request, inputJson } = call
  const parts = [
    ...[tenant, principal.id, record],
    ...[request.userId ?? null, request.sessionId ?? null],
    ...[tool.id, tool.definitionHash],
    ...[inputJson, canonicalValue(input)],
    [...credentialTags(store, tool, call)].sort(),
    // `userInfo` is left out if it is absent, so that digests of calls without it stay unchanged.
    ...(request.userInfo === undefined ? [] : [canonicalJson(request.userInfo)]),
    // The approver saw whether the user is proven. This part is an array, so that it cannot equal a caller's text.
    ...(call.isUserProven === true ? [['proven user']] : []),
  ]
  return store.sign('grant', JSON.stringify(parts))
}

/**
 * Identifies equal credentials without revealing them, with one tag per declared credential (rule 21): from the value that the
 * caller sent, or from the reference to a vault entry, whose value may be renewed while the call waits.
 */
function credentialTags(
  store: Pick<KernelStore, 'sign'>,
  tool: Tool,
  { request, vaultRefs }: Pick<BoundCall, 'request' | 'vaultRefs'>,
): readonly string[] {
  const { authorization = [], secrets = [] } = tool.requirements ?? {}
  const tagOf = (kind: 'authorization' | 'secrets', id: string, value: string | undefined) => {
    const ref = vaultRefs?.get(`${kind}:${id}`)
    if (value === undefined && ref === undefined) return []
    const what = ref === undefined ? [kind, id, value] : [kind, id, 'vault', ref]
    return [store.sign('credential', JSON.stringify(what))]
  }
  return [
    ...authorization.flatMap(({ id }) => tagOf('authorization', id, request.tokens.get(id)?.reveal())),
    ...secrets.flatMap(({ id }) => tagOf('secrets', id, request.secrets.get(id)?.reveal())),
  ]
}

const MAX_BOUND_DEPTH = 200

/**
 * One text per value that a schema library can pass to `run`: JSON values, and dates, big integers, maps, sets, bytes and class
 * instances, which libraries make from JSON. An approval covers exactly this text (rule 21).
 */
export function canonicalValue(value: unknown, depth = 0): string {
  if (depth > MAX_BOUND_DEPTH) throw unbindable()
  const inner = (member: unknown): string => canonicalValue(member, depth + 1)
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value)
    case 'number':
      return Object.is(value, -0) ? '-0' : String(value)
    case 'bigint':
      return `${value}n`
    case 'boolean':
    case 'undefined':
      return String(value)
    case 'object':
      return value === null ? 'null' : boundObject(value, inner)
    default:
      throw unbindable()
  }
}

function boundObject(value: object, inner: (member: unknown) => string): string {
  if (Array.isArray(value)) return `[${value.map(inner).join(',')}]`
  if (value instanceof Date) return `Date(${value.getTime()})`
  if (value instanceof URL || value instanceof RegExp) return `${value.constructor.name}(${value})`
  if (value instanceof Map) {
    return `Map(${[...value].map(([key, member]) => `${inner(key)}=>${inner(member)}`).join(',')})`
  }
  if (value instanceof Set) return `Set(${[...value].map(inner).join(',')})`
  if (ArrayBuffer.isView(value)) {
    const { buffer, byteOffset, byteLength } = value
    return `Bytes(${Buffer.from(buffer, byteOffset, byteLength).toString('base64')})`
  }
  const members = Object.entries(value)
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([name, member]) => `${JSON.stringify(name)}:${inner(member)}`)
  return `${isPlain(value) ? '' : value.constructor.name}{${members.join(',')}}`
}

function unbindable() {
  return fault(
    'internal',
    'The input of this tool cannot be approved, because it contains a value that cannot be written as text.',
    {
      developerMessage: 'The input schema must produce plain data, not functions or symbols.',
    },
  )
}
