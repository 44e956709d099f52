import { isJsonObject, type JsonObject, type JsonValue, setMember } from '#kernel/base/json'
import { writeFacts } from '#kernel/tool/facts'
import { isContentBlocksSchema, type Tool } from '#kernel/tool/tool'
import { REFERENCES, SUBSCHEMAS } from '#schema/keywords'
import { decodeHeaderValue, headerOf, type RequestHeaders } from './codec-message.ts'
import { HEADERS, META, type Revision, TRAITS } from './wire.ts'

/*
 * Writes tools for `tools/list` in each revision, and checks the headers that repeat annotated parameters.
 * The tool list, `tools/call` and the operator's view of a tool use it.
 * Invariant: clients get schemas as they were written, except where a revision cannot express them.
 */

/** One entry of `tools/list` (MCP-50 to MCP-56). */
export function toWireTool(tool: Tool, name: string, revision: Revision, hasNativeNames = false): JsonObject {
  const output = outputOf(tool)
  return {
    name,
    ...(tool.title === undefined ? {} : { title: tool.title }),
    // Clients treat it as required (MCP/T-21).
    description: tool.description || (tool.title ?? name),
    inputSchema: toInputSchema(inputOf(tool, revision), revision),
    ...(output === undefined || tool.policy.project !== undefined
      ? {}
      : { outputSchema: toOutputSchema(output, revision) }),
    annotations: toAnnotations(tool),
    // The extension of the newest revision has no such member: the server decides (MCP-126).
    ...(TRAITS[revision].tasks === 'requested'
      ? { execution: { taskSupport: tool.task ?? 'optional' } }
      : {}),
    ...(tool.passedOn?.icons !== undefined && TRAITS[revision].hasIcons
      ? { icons: tool.passedOn.icons }
      : {}),
    // Facts that the annotations cannot express: other names, and the requirements of a call.
    _meta: { ...passedOnMeta(tool, hasNativeNames), [META.tool]: writeFacts(tool) },
  }
}

/** `_meta` from the server behind a tool, with the address at which we serve its page (MCP-146). */
function passedOnMeta({ passedOn, parts }: Tool, hasNativeNames: boolean): JsonObject | undefined {
  const meta = isJsonObject(passedOn?._meta) ? passedOn._meta : undefined
  const ui = isJsonObject(meta?.ui) ? meta.ui : undefined
  if (hasNativeNames || meta === undefined || typeof ui?.resourceUri !== 'string') return meta
  const resourceUri = outerUri(parts.toolkit, ui.resourceUri)
  return { ...meta, ui: { ...ui, resourceUri } }
}

const UI = 'ui://'

/** Pages of different servers may have the same address, so clients see one that begins with the source: `ui://Maps/x` for `ui://x`. */
export function outerUri(toolkit: string, uri: string): string {
  return uri.startsWith(UI) ? `${UI}${toolkit}/${uri.slice(UI.length)}` : uri
}

/** Reverses `outerUri`: the source and the address there. The source is `undefined` if the address does not name one. */
export function innerUri(uri: string): { readonly toolkit: string | undefined; readonly uri: string } {
  const slash = uri.indexOf('/', UI.length)
  if (!uri.startsWith(UI) || slash === -1) return { toolkit: undefined, uri }
  return { toolkit: uri.slice(UI.length, slash), uri: `${UI}${uri.slice(slash + 1)}` }
}

/** The declared output schema; `undefined` if the tool returns nothing or may return any value (MCP-65). */
export function outputOf({
  outputSchema,
  authored,
}: Pick<Tool, 'outputSchema' | 'authored'>): JsonObject | undefined {
  if (outputSchema === null || Object.keys(outputSchema).length === 0) return undefined
  // Content blocks of another MCP server stay content blocks.
  if (isContentBlocksSchema(outputSchema)) return undefined
  return authored?.output ?? outputSchema
}

/** Keeps header annotations only for own tools and tools of MCP servers, in revisions that have such headers (MCP-48). */
function inputOf(tool: Tool, revision: Revision): JsonObject {
  const schema = tool.authored?.input ?? tool.inputSchema
  const isAnnotated = JSON.stringify(schema).includes('x-mcp-header')
  if (!isAnnotated) return schema
  const keeps = TRAITS[revision].hasStandardHeaders && headersAskedBy(tool).length > 0
  return keeps ? schema : withoutHeaderAnnotations(schema)
}

export function headersAskedBy(tool: Tool): ReturnType<typeof headerParameters> {
  const { source } = tool
  const mayAsk = source === 'node-pack' || source === 'workflow' || source === 'mcp'
  return mayAsk ? headerParameters(tool.authored?.input ?? tool.inputSchema) : []
}

/** Hints from the enforced policy and from the operator's overrides (MCP-56). */
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

/** The schema as it was written, with an object at its root (MCP-51, MCP-52, MCP-55). */
export function toInputSchema(schema: JsonObject, revision: Revision): JsonObject {
  if (Object.keys(schema).length === 0) return NO_PARAMETERS
  const isWhole = schema.type === 'object' && schema.properties !== undefined
  const rooted: JsonObject = isWhole ? schema : { properties: {}, ...schema, type: 'object' }
  return TRAITS[revision].hasFullSchemas ? rooted : withoutBooleans(rooted)
}

/** Older revisions accept only objects, so other schemas are wrapped in one (MCP-53). */
export function toOutputSchema(schema: JsonObject, revision: Revision): JsonObject {
  if (TRAITS[revision].hasFullSchemas) return schema
  return withoutBooleans(isObjectSchema(schema) ? schema : wrapSchema(schema))
}

/** True if values of this schema need no wrapper in any revision (MCP-67). */
export function isObjectSchema(schema: JsonObject): boolean {
  return schema.type === 'object'
}

function wrapSchema(schema: JsonObject): JsonObject {
  const { $schema, ...rest } = schema
  // References inside a schema with an `$id` are relative to that schema, so they stay valid.
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

/** Older revisions require objects as members of `properties`. */
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

/** Annotated parameters reachable through `properties` alone; none if two have the same header, for which clients would drop the tool (MCP/T-20). */
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

/** For revisions without these headers, for tools of other sources, and for invalid annotations. */
function withoutHeaderAnnotations(schema: JsonObject): JsonObject {
  return mapSchema(schema, ({ [ANNOTATION]: _removed, ...rest }) => rest)
}

/** A parameter that is present and not null must have an equal header. Returns the problem, or `undefined`. */
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

/** Integers have several spellings, so they are compared as numbers. */
function isSame(text: string, value: JsonValue, type: HeaderParameter['type']): boolean {
  if (type === 'integer' && typeof value === 'number') return text !== '' && Number(text) === value
  return text === (typeof value === 'string' ? value : JSON.stringify(value))
}

/** Applies `change` to every schema, the inner ones first; data inside schemas is not changed. */
export function mapSchema(schema: JsonObject, change: (schema: JsonObject) => JsonObject): JsonObject {
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
