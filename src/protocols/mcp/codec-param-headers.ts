import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { decodeHeaderValue, headerOf, type RequestHeaders } from './codec-headers.ts'
import { mapSchema } from './codec-map-schema.ts'
import { HEADERS } from './wire.ts'

/** A parameter whose value a header repeats (MCP-48). */
export interface HeaderParameter {
  readonly path: readonly string[]
  readonly header: string
  readonly type: 'string' | 'integer' | 'boolean'
}

const ANNOTATION = 'x-mcp-header'
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const TYPES = ['string', 'integer', 'boolean'] as const

/** Annotated parameters that `properties` alone lead to; those that clients would drop a tool for do not count (T-20). */
export function headerParameters(schema: JsonObject): readonly HeaderParameter[] {
  const found: HeaderParameter[] = []
  const collect = (inner: JsonObject, path: readonly string[]): void => {
    if (!isJsonObject(inner.properties)) return
    for (const [name, member] of Object.entries(inner.properties)) {
      if (!isJsonObject(member)) continue
      const header = member[ANNOTATION]
      const type = TYPES.find((known) => known === member.type)
      if (typeof header === 'string' && TOKEN.test(header) && type !== undefined)
        found.push({ path: [...path, name], header: header.toLowerCase(), type })
      collect(member, [...path, name])
    }
  }
  collect(schema, [])
  const names = found.map(({ header }) => header)
  return new Set(names).size === names.length ? found : []
}

/** The schema without annotations: of tools that others defined, and where they are not what they must be. */
export function withoutHeaderAnnotations(schema: JsonObject): JsonObject {
  return mapSchema(schema, ({ [ANNOTATION]: _removed, ...rest }) => rest)
}

/** Present and not null in the body: required in the header, and the same there. Gives the problem, or nothing. */
export function checkParameterHeaders(
  parameters: readonly HeaderParameter[],
  input: JsonObject,
  headers: RequestHeaders,
): string | undefined {
  for (const { path, header, type } of parameters) {
    const value = valueAt(input, path)
    if (value === undefined || value === null) continue
    const shown = `Mcp-Param-${header}`
    const sent = headerOf(headers, `${HEADERS.paramPrefix}${header}`)
    if (sent === undefined) return `${shown} is missing`
    const decoded = decodeHeaderValue(sent)
    if (decoded === undefined) return `${shown} is not valid base64 of UTF-8`
    if (!isSame(decoded, value, type)) return `${shown} does not match ${path.join('.')}`
  }
  return undefined
}

function valueAt(input: JsonObject, path: readonly string[]): JsonValue | undefined {
  let value: JsonValue | undefined = input
  for (const name of path) {
    if (!isJsonObject(value) || !Object.hasOwn(value, name)) return undefined
    value = value[name]
  }
  return value
}

/** Whole numbers have several spellings: they are compared as numbers. */
function isSame(text: string, value: JsonValue, type: HeaderParameter['type']): boolean {
  if (type === 'integer' && typeof value === 'number') return text !== '' && Number(text) === value
  return text === (typeof value === 'string' ? value : JSON.stringify(value))
}
