import type { IdentifiedCall } from '#core/calls/identity'
import { fault } from '#core/errors'
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { ApprovalStore, ApprovalSubject } from '#core/ports/approval-store'
import type { Tool } from '#core/tool'

const LONGEST_TEXT = 200
const MOST_MEMBERS = 30
const DEEPEST_IN_SUMMARIZE_INPUT = 4

type Member = [string, JsonValue]

export type ShownInput = Pick<ApprovalSubject, 'summaryJson' | 'inputJson' | 'hidden'>

/** Member names whose values are taken for credentials where nothing else says so: in options of sources. */
const SECRET_NAME =
  /pass(word|wd|phrase)?$|secret|token|api[-_]?key|private[-_]?key|credential|authorization|cookie|bearer|\bpin\b|\bcvv\b|otp$/i

export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name)
}

/**
 * An input as approvers see it: whole. Only credentials that the tool declares are hidden, and how many is told: what a
 * caller merely calls a secret could be what matters. With a summary, which says what it leaves out.
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
  const summary = summarizeInput(shown, declared)
  return { summaryJson: JSON.stringify(summary), inputJson: JSON.stringify(shown), hidden }
}

/** A caller must not push what a tool acts on out of an approver's sight with members that mean nothing. */
function declaredFirst(input: JsonObject, declared: JsonValue | undefined): readonly Member[] {
  const members = Object.entries(input)
  if (!isJsonObject(declared)) return members
  const isDeclared = ([name]: Member): boolean => Object.hasOwn(declared, name)
  return [...members.filter(isDeclared), ...members.filter((member) => !isDeclared(member))]
}

/** What is shown first: short, and it says what is left out. The whole stands beside it. */
function summarizeInput(input: JsonValue, declared: JsonValue | undefined): JsonObject {
  if (!isJsonObject(input)) return { input: summarize(input, 0) }
  return summarizeMembers(declaredFirst(input, declared), 0)
}

function summarize(value: JsonValue, depth: number): JsonValue {
  if (typeof value === 'string') return shorten(value)
  if (typeof value !== 'object' || value === null) return value
  if (!isJsonObject(value)) {
    if (depth >= DEEPEST_IN_SUMMARIZE_INPUT) return `[${value.length} items]`
    const shown = value.slice(0, MOST_MEMBERS).map((member) => summarize(member, depth + 1))
    return value.length > shown.length ? [...shown, `… ${value.length - shown.length} more`] : shown
  }
  const members = Object.entries(value)
  return depth >= DEEPEST_IN_SUMMARIZE_INPUT
    ? `{${members.length} members}`
    : summarizeMembers(members, depth)
}

function summarizeMembers(members: readonly Member[], depth: number): JsonObject {
  const shown = members
    .slice(0, MOST_MEMBERS)
    .map(([name, member]): Member => [shorten(name), summarize(member, depth + 1)])
  const more = members.length - shown.length
  return Object.fromEntries(more > 0 ? [...shown, ['…', `${more} more`]] : shown)
}

/** By whole characters, and it says how much is missing. */
function shorten(text: string): string {
  if (text.length <= LONGEST_TEXT) return text
  const kept = text.slice(0, LONGEST_TEXT).toWellFormed()
  return `${kept}… (${text.length} characters)`
}

/**
 * Tells equal credentials without telling them, one tag per declared one (rule 21): of what the caller sent, and of the
 * place in the vault whatever else comes from, because its value may be renewed while the call waits.
 */
export function credentialTags(
  approvals: ApprovalStore,
  tool: Tool,
  { request, vaultRefs }: Pick<IdentifiedCall, 'request' | 'vaultRefs'>,
): readonly string[] {
  const { authorization = [], secrets = [] } = tool.requirements ?? {}
  const tagOf = (kind: 'authorization' | 'secrets', id: string, value: string | undefined) => {
    const ref = vaultRefs?.get(`${kind}:${id}`)
    if (value === undefined && ref === undefined) return []
    const what = ref === undefined ? [kind, id, value] : [kind, id, 'vault', ref]
    return [approvals.sign('credential', JSON.stringify(what))]
  }
  return [
    ...authorization.flatMap(({ id }) => tagOf('authorization', id, request.tokens.get(id)?.reveal())),
    ...secrets.flatMap(({ id }) => tagOf('secrets', id, request.secrets.get(id)?.reveal())),
  ]
}

interface BoundCall {
  readonly call: IdentifiedCall
  readonly tool: Tool
  /** What `run` gets. */
  readonly input: unknown
  /** One opaque tag per credential: an HMAC of what the caller sent, or a reference to what is kept for it. */
  readonly credentials: readonly string[]
}

/** Everything a yes is for, as one keyed digest (rule 21). */
export function approvalBinding(
  approvals: ApprovalStore,
  { call, tool, input, credentials }: BoundCall,
): string {
  const { tenant, principal, record, request, inputJson } = call
  const parts = [
    ...[tenant, principal.id, record],
    ...[request.userId ?? null, request.sessionId ?? null],
    ...[tool.id, tool.definitionHash],
    ...[inputJson, canonicalValue(input)],
    [...credentials].sort(),
    // Calls without it keep the form they had before it reached tools.
    ...(request.userInfo === undefined ? [] : [canonicalJson(request.userInfo)]),
    // An approver was told whether the user is proven; an array, so that it is no text of anybody.
    ...(call.isUserProven === true ? [['proven user']] : []),
  ]
  return approvals.sign('grant', JSON.stringify(parts))
}

const DEEPEST = 200

/**
 * One text per value that a schema library can hand to `run`: JSON, and what libraries make of it (dates, big
 * numbers, maps, sets, bytes, objects of classes). A yes is for exactly this (rule 21).
 */
export function canonicalValue(value: unknown, depth = 0): string {
  if (depth > DEEPEST) throw unbindable()
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
  const prototype: unknown = Object.getPrototypeOf(value)
  const isPlain = prototype === Object.prototype || prototype === null
  return `${isPlain ? '' : value.constructor.name}{${members.join(',')}}`
}

function unbindable() {
  return fault('internal', 'The input of this tool cannot be approved: it holds something without a text.', {
    developerMessage: 'Let the input schema give plain data, not functions or symbols.',
  })
}
