import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'

const LONGEST_TEXT = 200
const MOST_MEMBERS = 30
const DEEPEST = 4
export const REDACTED = '[redacted]'

type Member = [string, JsonValue]

/** Member names whose values nobody is shown. */
const SECRET_NAME =
  /pass(word|wd|phrase)?$|secret|token|api[-_]?key|private[-_]?key|credential|authorization|cookie|bearer|\bpin\b|\bcvv\b|otp$/i

export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name)
}

/** An input as approvers and webhooks see it: short, and without what looks like a secret (§6.5). */
export function summarizeInput(
  input: JsonValue,
  clean: (text: string) => string,
  declared: JsonValue | undefined = undefined,
): JsonObject {
  if (!isJsonObject(input)) return { input: summarize(input, clean, 0) }
  return summarizeMembers(declaredFirst(input, declared), clean, 0)
}

/** A caller must not push what a tool acts on out of an approver's sight with members that mean nothing. */
function declaredFirst(input: JsonObject, declared: JsonValue | undefined): readonly Member[] {
  const members = Object.entries(input)
  if (!isJsonObject(declared)) return members
  const isDeclared = ([name]: Member): boolean => Object.hasOwn(declared, name)
  return [...members.filter(isDeclared), ...members.filter((member) => !isDeclared(member))]
}

function summarize(value: JsonValue, clean: (text: string) => string, depth: number): JsonValue {
  if (typeof value === 'string') return shorten(clean(value))
  if (typeof value !== 'object' || value === null) return value
  if (!isJsonObject(value)) {
    if (depth >= DEEPEST) return `[${value.length} items]`
    const shown = value.slice(0, MOST_MEMBERS).map((member) => summarize(member, clean, depth + 1))
    return value.length > shown.length ? [...shown, `… ${value.length - shown.length} more`] : shown
  }
  const members = Object.entries(value)
  return depth >= DEEPEST ? `{${members.length} members}` : summarizeMembers(members, clean, depth)
}

function summarizeMembers(
  members: readonly Member[],
  clean: (text: string) => string,
  depth: number,
): JsonObject {
  const shown = members
    .slice(0, MOST_MEMBERS)
    .map(
      ([name, member]): Member => [
        shorten(clean(name)),
        isSecretName(name) ? REDACTED : summarize(member, clean, depth + 1),
      ],
    )
  const more = members.length - shown.length
  return Object.fromEntries(more > 0 ? [...shown, ['…', `${more} more`]] : shown)
}

/** By whole characters, and it says how much is missing. */
function shorten(text: string): string {
  if (text.length <= LONGEST_TEXT) return text
  const kept = text.slice(0, LONGEST_TEXT).toWellFormed()
  return `${kept}… (${text.length} characters)`
}
