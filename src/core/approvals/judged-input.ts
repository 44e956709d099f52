import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { isSecretName, REDACTED } from './summarize-input.ts'

/**
 * An input as an operator's predicate sees it: whole, because a caller chooses what a summary would leave out, and with
 * what the schema made of it (defaults, other types) in place of what was sent. Only what is named like a secret is cut out.
 */
export function judgedInput(sent: JsonValue, parsed: unknown): JsonObject {
  const made: JsonValue = JSON.parse(JSON.stringify(parsed, plain) ?? 'null')
  const whole = { ...objectOf(sent), ...objectOf(made) }
  return objectOf(withoutSecrets(whole))
}

function objectOf(value: JsonValue): JsonObject {
  return isJsonObject(value) ? value : {}
}

/** What schema libraries make that JSON has no word for. */
function plain(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value)
  if (value instanceof Map) return Object.fromEntries(value)
  return value instanceof Set ? [...value] : value
}

function withoutSecrets(value: JsonValue): JsonValue {
  if (typeof value !== 'object' || value === null) return value
  if (!isJsonObject(value)) return value.map(withoutSecrets)
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      isSecretName(name) ? REDACTED : withoutSecrets(member),
    ]),
  )
}
