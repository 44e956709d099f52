import { hash } from 'node:crypto'
import { canonicalJson } from '#core/canonical-json'
import { isJsonObject, type JsonValue } from '#core/json'
import type { IdentifiedCall } from './identified-call.ts'
import { redactText } from './redact-secrets.ts'

/** Tells equal inputs without telling them: hex SHA-256 of the canonical input, its call's credentials cut out (OWP-52). */
export function argsHash({ input, inputJson, request }: IdentifiedCall): string {
  const hasCredentials = request.tokens.size > 0 || request.secrets.size > 0
  const told = hasCredentials
    ? canonicalJson(redacted(input, (text) => redactText(text, request)))
    : inputJson
  return hash('sha256', told, 'hex')
}

/** In the texts and not in the JSON around them, where a credential may be written with escapes. */
function redacted(value: JsonValue, clean: (text: string) => string): JsonValue {
  if (typeof value === 'string') return clean(value)
  if (typeof value !== 'object' || value === null) return value
  if (!isJsonObject(value)) return value.map((member) => redacted(member, clean))
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [clean(name), redacted(member ?? null, clean)]),
  )
}
