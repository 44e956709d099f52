import { isJsonObject, type JsonObject, type JsonValue, setMember } from '#kernel/base/json'
import { writeFacts } from '#kernel/tool/facts'
import { isContentBlocksSchema, type Tool } from '#kernel/tool/tool'
import { REFERENCES, SUBSCHEMAS } from '#schema/keywords'
import { decodeHeaderValue, headerOf, type RequestHeaders } from './codec-message.ts'
import { HEADERS, META, NEW_REVISION, type Revision } from './wire.ts'

/** A tool as one revision lists it (MCP-50 to MCP-56). */
export function toWireTool(tool: Tool, name: string, revision: Revision): JsonObject {
  const output = outputOf(tool)
  return {
    name,
    ...(tool.title === undefined ? {} : { title: tool.title }),
    // Clients take it for required (MCP/T-21).
    description: tool.description || (tool.title ?? name),
    inputSchema: toInputSchema(inputOf(tool, revision), revision),
    ...(output === undefined ? {} : { outputSchema: toOutputSchema(output, revision) }),
    annotations: toAnnotations(tool),
    // What the hints cannot say: its other names, and what a call needs.
    _meta: { [META.tool]: writeFacts(tool) },
  }
}

/** What the tool declares about its value; any value, and none at all, are no promise (MCP-65). */
export function outputOf({ outputSchema, authored }: Tool): JsonObject | undefined {
  if (outputSchema === null || Object.keys(outputSchema).length === 0) return undefined
  // Content of another MCP server is content here too.
  if (isContentBlocksSchema(outputSchema)) return undefined
  return authored?.output ?? outputSchema
}

/** MCP-48: only our own tools may ask for headers, and only in the revision that has them. */
function inputOf(tool: Tool, revision: Revision): JsonObject {
  const schema = tool.authored?.input ?? tool.inputSchema
  const isAnnotated = JSON.stringify(schema).includes('x-mcp-header')
  if (!isAnnotated) return schema
  const keeps = revision === NEW_REVISION && headersAskedBy(tool).length > 0
  return keeps ? schema : withoutHeaderAnnotations(schema)
}

export function headersAskedBy(tool: Tool): ReturnType<typeof headerParameters> {
  const isOwn = tool.source === 'node-pack' || tool.source === 'workflow'
  return isOwn ? headerParameters(tool.authored?.input ?? tool.inputSchema) : []
}

/** MCP-56: hints derived from the policy, which is what is enforced, and from what the operator believes beyond it. */
function toAnnotations({ policy: { safetyTier, replay, egress }, shownHints = {} }: Tool): JsonObject {
  const readOnlyHint = safetyTier === 'pure' || safetyTier === 'read'
  const openWorldHint = safetyTier !== 'pure' && egress !== 'none' && shownHints.closedWorld !== true
  if (readOnlyHint) return { readOnlyHint, openWorldHint }
  return {
    readOnlyHint,
    destructiveHint: shownHints.additive !== true,
    idempotentHint: replay !== 'non-deterministic',
    openWorldHint,
  }
}

/** Some models refuse an object schema that names no `properties`. */
const NO_PARAMETERS: JsonObject = { type: 'object', properties: {}, additionalProperties: false }

/** MCP-51, MCP-52, MCP-55: the schema as it was written, with an object at its root. */
export function toInputSchema(schema: JsonObject, revision: Revision): JsonObject {
  if (Object.keys(schema).length === 0) return NO_PARAMETERS
  const isWhole = schema.type === 'object' && schema.properties !== undefined
  const rooted: JsonObject = isWhole ? schema : { properties: {}, ...schema, type: 'object' }
  return revision === NEW_REVISION ? rooted : withoutBooleans(rooted)
}

/** MCP-53: older revisions take objects only, so everything else is put inside one. */
export function toOutputSchema(schema: JsonObject, revision: Revision): JsonObject {
  if (revision === NEW_REVISION) return schema
  return withoutBooleans(isObjectSchema(schema) ? schema : wrapSchema(schema))
}

/** Whether values of this schema go out as they are in every revision (MCP-67). */
export function isObjectSchema(schema: JsonObject): boolean {
  return schema.type === 'object'
}

function wrapSchema(schema: JsonObject): JsonObject {
  const { $schema, ...rest } = schema
  // A schema with an id of its own is what its references are relative to, wherever it stands.
  const inner = '$id' in rest ? rest : mapSchema(rest, moveReferences)
  return {
    ...($schema === undefined ? {} : { $schema }),
    type: 'object',
    properties: { result: inner },
    required: ['result'],
  }
}

function moveReferences(schema: JsonObject): JsonObject {
  if (![...REFERENCES].some((keyword) => keyword in schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).map(([keyword, value]) => [
      keyword,
      REFERENCES.has(keyword) ? moveReference(value) : value,
    ]),
  )
}

function moveReference(reference: JsonValue): JsonValue {
  if (typeof reference !== 'string') return reference
  return reference === '#' || reference.startsWith('#/')
    ? `#/properties/result${reference.slice(1)}`
    : reference
}

/** Older revisions describe the members of `properties` as objects. */
function withoutBooleans(schema: JsonObject): JsonObject {
  const { properties } = schema
  if (!isJsonObject(properties) || !Object.values(properties).some((value) => typeof value === 'boolean'))
    return schema
  const plain = Object.entries(properties).map(([name, value]): [string, JsonValue] => [
    name,
    typeof value === 'boolean' ? (value ? {} : { not: {} }) : value,
  ])
  return { ...schema, properties: Object.fromEntries(plain) }
}

/** A parameter whose value a header repeats (MCP-48). */
export interface HeaderParameter {
  readonly path: readonly string[]
  readonly header: string
  readonly type: 'string' | 'integer' | 'boolean'
}

const ANNOTATION = 'x-mcp-header'
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const TYPES = ['string', 'integer', 'boolean'] as const

/** Annotated parameters that `properties` alone lead to; those that clients would drop a tool for do not count (MCP/T-20). */
function headerParameters(schema: JsonObject): readonly HeaderParameter[] {
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
function withoutHeaderAnnotations(schema: JsonObject): JsonObject {
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

/** A copy in which every schema, the inner ones first, went through `change`; data inside schemas stays as it is. */
function mapSchema(schema: JsonObject, change: (schema: JsonObject) => JsonObject): JsonObject {
  const copy: Record<string, JsonValue> = {}
  for (const [keyword, value] of Object.entries(schema))
    setMember(copy, keyword, mapMember(SUBSCHEMAS.get(keyword), value, change))
  return change(copy)
}

function mapMember(
  holds: 'one' | 'list' | 'map' | undefined,
  value: JsonValue,
  change: (schema: JsonObject) => JsonObject,
): JsonValue {
  const mapOne = (inner: JsonValue): JsonValue => (isJsonObject(inner) ? mapSchema(inner, change) : inner)
  if (holds === undefined) return value
  if (holds === 'one') return mapOne(value)
  if (Array.isArray(value)) return value.map(mapOne)
  if (!isJsonObject(value)) return value
  const copy: Record<string, JsonValue> = {}
  for (const [name, member] of Object.entries(value)) setMember(copy, name, mapOne(member))
  return copy
}
