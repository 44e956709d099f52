import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { ApprovalSubject } from '#core/ports/approval-store'

const LONGEST_TEXT = 200
const MOST_MEMBERS = 30
const DEEPEST = 4

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
    if (depth >= DEEPEST) return `[${value.length} items]`
    const shown = value.slice(0, MOST_MEMBERS).map((member) => summarize(member, depth + 1))
    return value.length > shown.length ? [...shown, `… ${value.length - shown.length} more`] : shown
  }
  const members = Object.entries(value)
  return depth >= DEEPEST ? `{${members.length} members}` : summarizeMembers(members, depth)
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
