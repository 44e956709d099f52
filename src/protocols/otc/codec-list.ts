import { fault } from '#kernel/base/errors'
import { defined, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { factsOf, notableFacts } from '#kernel/tool/facts'
import type { Tool } from '#kernel/tool/tool'
import type { HttpRequest } from '#protocols/http-exchange'
import type { SearchResult } from '#search/tool-search'
import { decodeVersion } from './codec-request.ts'
import {
  DEFAULT_SCHEMA_ID,
  FACTS_MEMBER,
  OXP_VERSION_HEADER,
  type SchemaFamily,
  schemaFamily,
} from './wire.ts'

/*
 * Decodes requests for the tool list and encodes the list in each published shape. `routes.ts` uses it.
 * Invariant: tool definitions contain only the members of the closed schema (OTC-41); Collet's facts are in a separate member of the
 * list.
 */

/** The published shapes of a list (OTC §3.1): `header` has no `$schema`, `uts` is a bare array (OTC/C-08). */
export type ListShape = 'header' | 'tools' | 'arcade' | 'both' | 'items' | 'uts'

export interface ListForm {
  readonly shape: ListShape
  /** `$schema` of the answer; `undefined` if the shape has none. */
  readonly schemaId: string | undefined
}

const SHAPES = { arcade: 'arcade', otc: 'tools', oxp: 'both' } as const satisfies Record<
  SchemaFamily,
  ListShape
>

/**
 * Reads the list shape that a request asks for. Browsers cannot send a body with GET, so `?schema=` and `?$schema=` are accepted
 * too (OTC/C-31).
 */
export function decodeListRequest(
  request: Pick<HttpRequest, 'headers' | 'body' | 'query'>,
  defaultSchema = DEFAULT_SCHEMA_ID,
): ListForm {
  const header = request.headers[OXP_VERSION_HEADER]
  const schema = readSchema(request.body, request.query)
  const { schemaId } = decodeVersion(schema, header, defaultSchema)
  if (header !== undefined && schema === undefined) return { shape: 'header', schemaId: undefined }
  return { shape: SHAPES[schemaFamily(schemaId) ?? 'otc'], schemaId }
}

/** For refusals: the `$schema` of a list request, if it can be read. */
export function namedSchema({ body, query }: Pick<HttpRequest, 'body' | 'query'>): JsonValue | undefined {
  return (isJsonObject(body) ? body.$schema : undefined) ?? schemaInQuery(query)
}

function readSchema(body: JsonValue | undefined, query: URLSearchParams): JsonValue | undefined {
  if (body !== undefined && !isJsonObject(body)) {
    throw fault(
      'request_invalid',
      'The body of a list request must be a JSON object such as {"$schema":"otc://1.0"}, or absent.',
    )
  }
  const inBody = body?.$schema ?? undefined
  const inQuery = schemaInQuery(query)
  if (inBody !== undefined && inQuery !== undefined && inBody !== inQuery) {
    throw fault(
      'request_invalid',
      '"$schema" in the body and "schema" in the query differ; send one of them.',
    )
  }
  return inBody ?? inQuery
}

function schemaInQuery(query: URLSearchParams): string | undefined {
  return query.get('schema') ?? query.get('$schema') ?? undefined
}

interface ListContent {
  readonly tools: readonly Tool[]
  /** Toolkit descriptions by name (OTC/C-11). */
  readonly toolkits: ReadonlyMap<string, string>
  /** `undefined` on the last page. */
  readonly nextCursor?: string | undefined
  /** Further members of the list, as JSON. */
  readonly more?: string
}

/** The answer to `?q=`: the matching tools, best first, or the groups of tools that exist if none matches. */
export function encodeSearch(
  form: ListForm,
  { found, families }: SearchResult,
  toolkits: ReadonlyMap<string, string>,
): string {
  const reasons = found.flatMap(({ tool, unavailable }) =>
    unavailable === undefined ? [] : [[tool.id, unavailable]],
  )
  const more = [
    ...(reasons.length === 0 ? [] : [`,"unavailable":${JSON.stringify(Object.fromEntries(reasons))}`]),
    ...(found.length === 0 ? [`,"tool_families":${JSON.stringify(families)}`] : []),
  ]
  return encodeList(form, { tools: found.map(({ tool }) => tool), toolkits, more: more.join('') })
}

export function encodeList({ shape, schemaId }: ListForm, content: ListContent): string {
  const schema = `"$schema":${JSON.stringify(schemaId ?? '')}`
  const items = () => encodeArray(content.tools, toItem)
  const tools = () => encodeArray(content.tools, toWrappedItem)
  const next = content.nextCursor === undefined ? '' : `,"next_cursor":${JSON.stringify(content.nextCursor)}`
  const facts = `${encodeFacts(content.tools)}${next}${content.more ?? ''}`
  const shapes = {
    header: () => `{"items":${items()}${facts}}`,
    items: () => `{${schema},"items":${items()}${facts}}`,
    tools: () => `{${schema},"tools":${tools()}${facts}}`,
    both: () => `{${schema},"tools":${tools()},"items":${items()}${facts}}`,
    arcade: () =>
      `{${schema},"tools":${encodeArray(content.tools, (tool) => toArcadeItem(tool, content))}${facts}}`,
    uts: items,
  } satisfies Record<ListShape, () => string>
  return shapes[shape]()
}

function encodeArray(tools: readonly Tool[], toWire: (tool: Tool) => object): string {
  return `[${tools.map((tool) => JSON.stringify(toWire(tool))).join(',')}]`
}

/**
 * Facts of each tool by its id, in a member beside the definitions: definitions are closed (OTC-41), the list
 * is not (OTC/C-32). The facts are written once, even if a list contains every definition twice.
 */
function encodeFacts(tools: readonly Tool[]): string {
  if (tools.length === 0) return ''
  const entries = tools.map((tool) => `${JSON.stringify(tool.id)}:${JSON.stringify(toWireFacts(tool))}`)
  return `,"${FACTS_MEMBER}":{${entries.join(',')}}`
}

/** Absent members have defaults: host code, non-deterministic, no approval, no scopes, no credential. */
function toWireFacts(tool: Tool): object {
  const { catalogId, safetyTier, replay, costHint, latencyHint, modelBytes, modelFormat, ...same } =
    notableFacts(tool)
  return {
    ...defined({ catalog_id: catalogId, safety_tier: safetyTier, replay_policy: replay }),
    ...same,
    ...defined({ cost_hint: costHint, latency_hint: latencyHint }),
    ...defined({ model_bytes: modelBytes, model_format: modelFormat }),
  }
}

/** Always writes all six members, although parts of the specification make two of them optional (OTC/C-13). */
function toItem(tool: Tool) {
  return {
    id: tool.id,
    name: tool.writtenName ?? tool.name,
    description: tool.description,
    version: tool.parts.version,
    input_schema: describedInput(tool),
    output_schema: tool.outputSchema,
    ...toWireRequirements(tool),
  }
}

/** Every parameter must have a description (OTC-32); an imported parameter without one gets its title or its name. */
function describedInput({ inputSchema, authored }: Tool): JsonObject {
  const { properties, ...others } = inputSchema
  if (!isJsonObject(properties)) return inputSchema
  // If the author wrote no `properties`, the listed definition has none either.
  const isAdded = authored !== undefined && authored.input.properties === undefined
  if (isAdded && Object.keys(properties).length === 0) return others
  if (Object.values(properties).every(isDescribed)) return inputSchema
  const described = Object.entries(properties).map(([name, parameter]) => {
    if (isDescribed(parameter)) return [name, parameter]
    const schema = isJsonObject(parameter) ? parameter : {}
    const description = typeof schema.title === 'string' && schema.title.trim() !== '' ? schema.title : name
    return [name, { ...schema, description }]
  })
  return { ...inputSchema, properties: Object.fromEntries(described) }
}

/** The schema `false` allows no value and stays unchanged. */
function isDescribed(parameter: JsonValue): boolean {
  if (!isJsonObject(parameter)) return parameter !== true
  return typeof parameter.description === 'string' && parameter.description.trim() !== ''
}

/** In `tools[]` the schema is under `parameters`; in `items[]` it is bare (OTC/C-09). */
function toWrappedItem(tool: Tool) {
  return { ...toItem(tool), input_schema: { parameters: describedInput(tool) } }
}

/** Adds the members of the RFC's list sample (OTC/C-11). */
function toArcadeItem(tool: Tool, { toolkits }: ListContent) {
  const { toolkit: name, version } = tool.parts
  const { required } = tool.inputSchema
  return {
    ...toWrappedItem(tool),
    // The draft requires a description of the toolkit.
    toolkit: { name, description: toolkits.get(name) ?? `${name} tools.`, version },
    input: { parameters: describedInput(tool), required: Array.isArray(required) ? required : [] },
    output:
      tool.outputSchema === null
        ? { available_modes: ['null', 'error'] }
        : {
            available_modes: ['value', 'error'],
            description: outputDescription(tool.outputSchema.description),
            value: { parameters: tool.outputSchema },
          },
  }
}

function outputDescription(description: JsonValue | undefined): string {
  return typeof description === 'string' ? description : 'The result produced by the tool.'
}

/**
 * Lists requirements as the author wrote them, including unknown members (OTC-41); absent if there are none
 * (OTC-37). A required approval is listed too, because clients assume that a tool without requirements runs
 * when called (OTC-49).
 */
function toWireRequirements(tool: Tool): { requirements?: object } {
  const { userId, ...others } = tool.requirements ?? {}
  const { approval } = factsOf(tool)
  const listed = {
    ...others,
    ...(userId === undefined ? {} : { user_id: userId !== false }),
    ...(approval === 'never' ? {} : { approval }),
  }
  return Object.keys(listed).length === 0 ? {} : { requirements: listed }
}
