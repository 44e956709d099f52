import { defined, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { readFacts, type ToolFacts } from '#kernel/tool/facts'
import { ARCADE_SCHEMA_ID, FACTS_MEMBER, OTC_SCHEMA_ID, OXP_SCHEMA_ID, PROTOCOL_VERSION } from './wire.ts'

/*
 * Client side of OTC: reads tool lists in every dialect, detects a server's dialect and builds call bodies.
 * The client package and the OTC source use it.
 * Invariant: requests contain only members of the closed request schema (OTC-57); reading is lenient.
 */

/** A tool as a client sees it, independent of its server's dialect. */
export interface RemoteTool {
  /** An opaque id, which clients send back unchanged. */
  readonly id: string
  readonly name: string
  readonly description: string
  readonly version?: string
  /** JSON Schema of the parameters that a model may fill in; `{}` if there are none. */
  readonly input: JsonObject
  /** JSON Schema of the value; `none` for tools without output; `any` if the server declares nothing. */
  readonly output: JsonObject | 'none' | 'any'
  readonly requirements: RemoteRequirements
  /** Catalog id, safety tier, approval and requirements; only servers of this package send them. */
  readonly facts?: ToolFacts
  /** Parameters that the application fills in; removed from `input`. */
  readonly nonInferrable?: readonly string[]
}

export interface RemoteRequirements {
  readonly authorization: readonly RemoteAuthorization[]
  readonly secrets: readonly { readonly id: string }[]
  readonly userId: boolean
}

export interface RemoteAuthorization {
  readonly id: string
  /** OAuth 2 scopes; empty if the server names none. */
  readonly scopes: readonly string[]
  /** The requirement as the server published it; unknown members are kept. */
  readonly definition: JsonObject
}

/** Reads any form of `GET /tools`; `undefined` if the body is not a tool list (OTC/C-07, OTC/C-08). */
export function readToolList(body: JsonValue): readonly RemoteTool[] | undefined {
  const entries = listEntries(body)
  const factsById = isJsonObject(body) ? body[FACTS_MEMBER] : undefined
  return entries?.flatMap((entry) => {
    const tool = isJsonObject(entry) ? readTool(entry) : undefined
    if (tool === undefined) return []
    const known = isJsonObject(factsById) && Object.hasOwn(factsById, tool.id)
    const facts = known ? readWireFacts(factsById[tool.id]) : undefined
    return facts === undefined ? [tool] : [{ ...tool, facts }]
  })
}

/** The answer to a search. */
export interface FoundTools {
  /** Best first; `unavailable` says why a tool cannot be called now. */
  readonly found: readonly (RemoteTool & { readonly unavailable?: string })[]
  /** The groups of tools that the server has, if no tool was found. */
  readonly families: readonly ToolFamily[]
}

export interface ToolFamily {
  readonly name: string
  readonly count: number
  readonly examples: readonly string[]
}

/** Reads the answer to `GET /tools?q=`; `undefined` if the body is not a tool list. */
export function readFoundTools(body: JsonValue): FoundTools | undefined {
  const tools = readToolList(body)
  if (tools === undefined) return undefined
  const { unavailable, tool_families } = isJsonObject(body) ? body : {}
  const reasons = isJsonObject(unavailable) ? unavailable : {}
  const families: readonly JsonValue[] = isArray(tool_families) ? tool_families : []
  return {
    found: tools.map((tool) => {
      const reason = Object.hasOwn(reasons, tool.id) ? reasons[tool.id] : undefined
      return typeof reason === 'string' ? { ...tool, unavailable: reason } : tool
    }),
    families: families.flatMap((family) => {
      if (!isJsonObject(family) || typeof family.name !== 'string') return []
      const { name, count, examples } = family
      const named: readonly JsonValue[] = isArray(examples) ? examples : []
      return [
        {
          name,
          count: typeof count === 'number' ? count : 0,
          examples: named.filter((each) => typeof each === 'string'),
        },
      ]
    }),
  }
}

/** Renames the snake-case members of OTC. */
function readWireFacts(facts: JsonValue | undefined): ToolFacts | undefined {
  if (!isJsonObject(facts)) return undefined
  return readFacts({
    ...facts,
    catalogId: facts.catalog_id,
    safetyTier: facts.safety_tier,
    replay: facts.replay_policy,
    costHint: facts.cost_hint,
    latencyHint: facts.latency_hint,
    modelBytes: facts.model_bytes,
    modelFormat: facts.model_format,
  })
}

function listEntries(body: JsonValue): readonly JsonValue[] | undefined {
  if (isArray(body)) return body
  if (!isJsonObject(body)) return undefined
  return [body.items, body.tools].find(isArray)
}

/** Reads a definition in any dialect; only a definition without `id` and `name` is unusable (OTC/C-10 to OTC/C-14). */
function readTool(entry: JsonObject): RemoteTool | undefined {
  const toolkit = isJsonObject(entry.toolkit) ? entry.toolkit : {}
  const id = text(entry.id) ?? builtId(entry, toolkit)
  if (id === undefined) return undefined
  const version = text(entry.version) ?? text(toolkit.version) ?? versionInId(id)
  const declared = entry.input_schema ?? entry.inputSchema ?? entry.input
  const listed = isJsonObject(entry.input) ? entry.input.required : undefined
  const nonInferrable = hiddenParameters(declared) ?? hiddenParameters(entry.input) ?? []
  return {
    id,
    name: text(entry.name) ?? id,
    description: text(entry.description) ?? '',
    ...(version === undefined ? {} : { version }),
    input: without(nonInferrable, withRequired(inputSchema(declared), listed)),
    output: outputSchema(entry.output_schema),
    requirements: readRequirements(entry.requirements),
    ...(nonInferrable.length === 0 ? {} : { nonInferrable }),
  }
}

function builtId(entry: JsonObject, toolkit: JsonObject): string | undefined {
  const name = text(entry.name)
  if (name === undefined) return undefined
  const base = text(toolkit.name) === undefined ? name : `${toolkit.name}.${name}`
  const version = text(entry.version) ?? text(toolkit.version)
  return version === undefined ? base : `${base}@${version}`
}

function versionInId(id: string): string | undefined {
  const at = id.lastIndexOf('@')
  return at < 0 ? undefined : text(id.slice(at + 1))
}

/** Reads the schema, wrapped in `parameters` or plain (OTC/C-09); an absent schema means no parameters (OTC/C-13). */
function inputSchema(declared: JsonValue | undefined): JsonObject {
  if (!isJsonObject(declared)) return {}
  const wrapped = declared.parameters !== undefined && !('type' in declared) && !('properties' in declared)
  if (!wrapped) return declared
  return isJsonObject(declared.parameters) ? declared.parameters : {}
}

/** The RFC's list sample names required parameters beside `parameters` (OTC/C-11). */
function withRequired(schema: JsonObject, listed: JsonValue | undefined): JsonObject {
  if (schema.required !== undefined || !isArray(listed)) return schema
  const required = texts(listed)
  return required.length === 0 ? schema : { ...schema, required }
}

/** `null` and `{"type":"null"}` mean no output; unknown forms mean any output (OTC/C-12). */
function outputSchema(declared: JsonValue | undefined): JsonObject | 'none' | 'any' {
  if (declared === null) return 'none'
  if (!isJsonObject(declared) || Object.keys(declared).length === 0) return 'any'
  return declared.type === 'null' ? 'none' : declared
}

function hiddenParameters(declared: JsonValue | undefined): readonly string[] | undefined {
  if (!isJsonObject(declared) || !isArray(declared.non_inferrable_parameters)) return undefined
  return texts(declared.non_inferrable_parameters)
}

/** Removes parameters that a model must not infer, so that it never sees them (OTC/T-29). */
function without(hidden: readonly string[], schema: JsonObject): JsonObject {
  if (hidden.length === 0) return schema
  const shown = ([name]: readonly [string, JsonValue]) => !hidden.includes(name)
  const { properties, required } = schema
  return {
    ...schema,
    ...(isJsonObject(properties)
      ? { properties: Object.fromEntries(Object.entries(properties).filter(shown)) }
      : {}),
    ...(isArray(required) ? { required: texts(required).filter((name) => !hidden.includes(name)) } : {}),
  }
}

/** Entries without an `id` cannot be satisfied and are skipped (OTC/C-29). */
function readRequirements(declared: JsonValue | undefined): RemoteRequirements {
  const members = isJsonObject(declared) ? declared : {}
  return {
    authorization: entriesWithId(members.authorization).map(([id, definition]) => ({
      id,
      scopes: isJsonObject(definition.oauth2) ? texts(definition.oauth2.scopes) : [],
      definition,
    })),
    secrets: entriesWithId(members.secrets).map(([id]) => ({ id })),
    userId: members.user_id === true,
  }
}

function entriesWithId(declared: JsonValue | undefined): readonly (readonly [string, JsonObject])[] {
  const entries = isArray(declared) ? declared : [declared ?? null]
  return entries.flatMap((entry) =>
    isJsonObject(entry) && typeof entry.id === 'string' && entry.id !== ''
      ? [[entry.id, entry] as const]
      : [],
  )
}

function text(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

function texts(value: JsonValue | undefined): readonly string[] {
  return isArray(value) ? value.filter((item) => typeof item === 'string') : []
}

function isArray(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value)
}

interface WireCall {
  readonly toolId: string
  readonly callId: string
  readonly input: JsonValue
  readonly traceId?: string
  readonly context?: WireContext
}

export interface WireContext {
  readonly authorization?: readonly { readonly id: string; readonly token: string }[]
  readonly secrets?: readonly { readonly id: string; readonly value: string }[]
  readonly userId?: string
  readonly userInfo?: JsonValue
}

/** The body of a call, with only the members of the closed request schema (OTC-57, OTC/C-05, OTC/C-06). */
export function buildCallBody(wire: ServerWire, path: CallPath, call: WireCall): JsonObject {
  const executing = path === '/execute' || path === '/tools/execute'
  const request: JsonObject = {
    // The execute drafts know the call id only by its first name, `execution_id` (OTC/C-04).
    [executing ? 'execution_id' : 'call_id']: call.callId,
    ...(call.traceId === undefined ? {} : { trace_id: call.traceId }),
    tool_id: call.toolId,
    input: call.input,
    ...(call.context === undefined ? {} : { context: contextMembers(call.context) }),
  }
  if (wire.dialect === 'oxp-header' && !executing) return request
  return { ...(wire.schemaId === undefined ? {} : { $schema: wire.schemaId }), request }
}

/** Arrays of `{id, token}` and `{id, value}`, never the older objects (OTC/C-26). */
function contextMembers(context: WireContext): JsonObject {
  const { authorization = [], secrets = [], userId, userInfo } = context
  return {
    ...(authorization.length === 0
      ? {}
      : { authorization: authorization.map(({ id, token }) => ({ id, token })) }),
    ...(secrets.length === 0 ? {} : { secrets: secrets.map(({ id, value }) => ({ id, value })) }),
    ...defined({ user_id: userId, user_info: userInfo }),
  }
}

/** Dialects that a client can use. `proto` defines no endpoint, so only its answers are read (OTC/T-30). */
export const CLIENT_DIALECTS = ['otc-1.0', 'oxp-1.0', 'oxp-header', 'rfc-call', 'execute', 'uts'] as const
export type ClientDialect = (typeof CLIENT_DIALECTS)[number]

export const VERSION_HEADER = 'OXP-Version'

/** Every call path that was ever published, newest first (OTC/C-01). */
const CALL_PATHS = ['/tools/call', '/call', '/tools/execute', '/execute'] as const
export type CallPath = (typeof CALL_PATHS)[number]

/** Dialect, schema id and paths to use with one server. */
export interface ServerWire {
  readonly dialect: ClientDialect
  /** `$schema` to repeat in requests; absent if the server sent none (OTC/C-16). */
  readonly schemaId?: string
  /** Call paths in the order in which to try them. */
  readonly paths: readonly CallPath[]
}

/** Detects a server's dialect from its answer to `GET /tools` (OTC/C-02, OTC §3.2). */
export function detectWire(list: JsonValue, versionHeader: string | null): ServerWire {
  if (!isJsonObject(list)) return { dialect: 'uts', paths: CALL_PATHS }
  const schemaId = list.$schema
  if (typeof schemaId === 'string') {
    return { dialect: dialectOfSchema(schemaId), schemaId, paths: CALL_PATHS }
  }
  return { dialect: versionHeader === null ? 'oxp-1.0' : 'oxp-header', paths: CALL_PATHS }
}

/** The wire format for a server whose dialect the caller names. */
export const PINNED_WIRES: Readonly<Record<ClientDialect, ServerWire>> = {
  'otc-1.0': { dialect: 'otc-1.0', schemaId: OTC_SCHEMA_ID, paths: CALL_PATHS },
  'oxp-1.0': { dialect: 'oxp-1.0', schemaId: OXP_SCHEMA_ID, paths: CALL_PATHS },
  'oxp-header': { dialect: 'oxp-header', paths: CALL_PATHS },
  'rfc-call': { dialect: 'rfc-call', schemaId: ARCADE_SCHEMA_ID, paths: startingAt('/call') },
  execute: {
    dialect: 'execute',
    schemaId: ARCADE_SCHEMA_ID,
    paths: startingAt('/tools/execute', '/execute'),
  },
  uts: { dialect: 'uts', paths: CALL_PATHS },
}

/** Headers that carry the protocol version if the body does not (OTC-20); every sample shows `1.0` (OTC-22). */
export function versionHeaders(dialect: ClientDialect | undefined): Readonly<Record<string, string>> {
  return dialect === 'oxp-header' ? { [VERSION_HEADER]: PROTOCOL_VERSION } : {}
}

export const API_KEY_HEADERS = ['OXP-API-Key', 'OTC-API-Key', 'X-API-Key'] as const
export type ApiKeyHeader = (typeof API_KEY_HEADERS)[number]

const KEY_HEADER_OF = {
  'otc-1.0': 'OTC-API-Key',
  'oxp-1.0': 'OXP-API-Key',
  'oxp-header': 'OXP-API-Key',
  'rfc-call': 'X-API-Key',
  execute: 'X-API-Key',
  uts: 'OXP-API-Key',
} satisfies Record<ClientDialect, ApiKeyHeader>

/** The header of the API key in each dialect (OTC/C-25). */
export function apiKeyHeaderOf(dialect: ClientDialect | undefined): ApiKeyHeader {
  return dialect === undefined ? 'OXP-API-Key' : KEY_HEADER_OF[dialect]
}

function dialectOfSchema(schemaId: string): ClientDialect {
  if (schemaId.includes('ArcadeAI/OpenToolCalling')) return 'rfc-call'
  if (schemaId.startsWith('otc:') || schemaId.includes('OpenToolCalling/Specification')) return 'otc-1.0'
  return 'oxp-1.0'
}

function startingAt(...own: readonly CallPath[]): readonly CallPath[] {
  return [...own, ...CALL_PATHS.filter((path) => !own.includes(path))]
}
