import { parse } from 'yaml'

/** YAML can name a part many times over; a description needs few such names. */
const MOST_ALIASES = 1_000
const MOST_CHARACTERS = 64 * 1_048_576

/** YAML as JSON text: what names itself or unfolds without end throws here and not in whoever walks the value. */
export function yamlToJson(text: string): string {
  const value: unknown = parse(text, { merge: true, maxAliasCount: MOST_ALIASES, logLevel: 'error' })
  const json = JSON.stringify(value ?? null)
  if (json.length > MOST_CHARACTERS) throw new RangeError(`more than ${MOST_CHARACTERS} characters`)
  return json
}
