import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'

const SCALARS: ReadonlySet<JsonValue | undefined> = new Set(['string', 'number', 'integer', 'boolean'])
const SECRET = /pass(?:word|phrase)|secret|api[-_ ]?key|token|credential/i
const LINK = /https?:\/\//i

/** MCP-76: what is wrong with a form, or nothing. Secrets and links have no place in one: a page is asked for instead. */
export function findFormProblem(message: string, schema: JsonObject): string | undefined {
  if (LINK.test(message)) return 'its text has a link; ask with a page instead'
  if (schema.type !== 'object' || !isJsonObject(schema.properties)) return 'its schema is not a flat object'
  for (const [name, field] of Object.entries(schema.properties)) {
    if (!isJsonObject(field) || !isFlat(field)) return `'${name}' is not a text, number, yes or no, or choice`
    if (SECRET.test(name)) return `'${name}' asks for a secret; ask with a page instead`
  }
  return undefined
}

function isFlat(field: JsonObject): boolean {
  if (SCALARS.has(field.type) || Array.isArray(field.enum) || Array.isArray(field.oneOf)) return true
  return field.type === 'array' && isJsonObject(field.items)
}
