import { parse } from 'yaml'
import { fault } from '#core/errors'
import type { JsonValue } from '#core/json'

/** YAML can name a part many times over; a description needs few such names. */
const MOST_ALIASES = 1_000

/** JSON or YAML, told apart by how it begins: file names and media types are often wrong. */
export function parseText(text: string, place: string): JsonValue {
  const body = text.startsWith('\uFEFF') ? text.slice(1) : text
  try {
    if (/^\s*[[{]/.test(body)) return parseJson(body)
    const value: JsonValue | undefined = parse(body, {
      merge: true,
      maxAliasCount: MOST_ALIASES,
      logLevel: 'error',
    })
    return value ?? null
  } catch (error) {
    const why = error instanceof Error ? (error.message.split('\n')[0] ?? '') : ''
    throw fault('upstream_failed', `${place} is neither JSON nor YAML.`, {
      developerMessage: why,
      cause: error,
    })
  }
}

/** YAML's flow style also begins with a brace. */
function parseJson(text: string): JsonValue {
  try {
    const value: JsonValue = JSON.parse(text)
    return value
  } catch (error) {
    if (text.length > 1_000_000) throw error
    const value: JsonValue = parse(text, { maxAliasCount: MOST_ALIASES, logLevel: 'error' })
    return value
  }
}
