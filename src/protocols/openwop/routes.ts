import { type Clock, SYSTEM_CLOCK } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import { DEFAULT_TENANT, type Principal } from '#kernel/base/principal'
import type { Gateway } from '#kernel/call/gateway'
import type { Catalog } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import { API_KEY_HEADERS, type HttpReply, type HttpRequest, type HttpRoute } from '#protocols/http-exchange'
import {
  nextPageLink,
  oncePer,
  PreparedBytes,
  PreparedViews,
  readListPage,
  readSearch,
  replyPrepared,
  takePage,
} from '#protocols/prepared'
import type { ProtocolServices } from '#protocols/protocol'
import {
  type DecodeOptions,
  decodeListForm,
  encodeList,
  isCompact,
  MAX_FORMS,
  toCompactDescriptor,
  toDescriptor,
} from './codec-catalog.ts'
import { refuse } from './errors.ts'
import { type KeyedRequestParts, KeyedRequests } from './keyed-requests.ts'
import openApi from './openapi.json' with { type: 'json' }
import { interruptRoutes, runRoutes, sessionRoutes } from './run-routes.ts'
import {
  API_ROOT,
  DISCOVERY_PATH,
  isSourceKind,
  OPENAPI_PATH,
  PROTOCOL_VERSION,
  SCHEMA_PATH,
  SCHEMAS_PATH,
  SOURCE_KINDS,
  TOOL_PATH,
  TOOLS_PATH,
  type WireDiscovery,
} from './wire.ts'

/*
 * The openwop routes: discovery, OpenAPI, schemas and the tool catalog; run routes are in `run-routes.ts`. `protocol.ts` loads it.
 * Invariant: only the capabilities in `options.capabilities` are served and advertised (OWP-05).
 */

export function openwopRoutes(gateway: Gateway, options: OpenwopOptions): readonly HttpRoute[] {
  const settings = openwopSettings(options)
  const { toolCatalog, compactView, sessionLifecycle } = settings.capabilities
  const routes = [
    discoveryRoute(gateway, settings),
    { ...documentRoute(OPENAPI_PATH, openwopOpenApi(settings)), owns: API_ROOT },
    indexRoute(toolCatalog),
    ...schemaRoutes(),
    ...runRoutes(gateway),
    ...interruptRoutes(gateway),
    // If these are turned off, their paths are unknown, so every method gets 404 (OWP-06).
    ...(toolCatalog && sessionLifecycle ? sessionRoutes(gateway) : []),
    ...(toolCatalog ? catalogRoutes(gateway, { compactView }, options) : []),
  ]
  const { store } = options
  if (store === undefined) return routes
  const keyed = new KeyedRequests({ gateway, store, clock: settings.clock })
  return routes.map((route) => keyed.guard(route))
}

/** OpenAPI 3.1 document of the routes that are served (OWP-07); `openapi.json` describes all possible ones. */
export function openwopOpenApi({ serverVersion, capabilities }: OpenwopSettings): OpenwopDocument {
  const { toolCatalog, compactView, sessionLifecycle } = capabilities
  const {
    '/v1/sessions': sessions,
    '/v1/sessions/{sessionId}': session,
    '/v1/tools': tools,
    '/v1/tools/{toolId}': tool,
    ...always
  } = openApi.paths
  const catalog = compactView
    ? { '/v1/tools': tools, '/v1/tools/{toolId}': tool }
    : {
        '/v1/tools': { get: withoutCompactView(tools.get) },
        '/v1/tools/{toolId}': { ...tool, get: withoutCompactView(tool.get) },
      }
  return {
    ...openApi,
    info: { ...openApi.info, version: serverVersion },
    paths: {
      ...always,
      ...(toolCatalog && sessionLifecycle
        ? { '/v1/sessions': sessions, '/v1/sessions/{sessionId}': session }
        : {}),
      ...(toolCatalog ? catalog : {}),
    },
  }
}

type OpenwopDocument = Omit<typeof openApi, 'paths'> & { readonly paths: Readonly<Record<string, object>> }

/** Removes the view's parameter and its response shape (OWP-26). */
function withoutCompactView(operation: CatalogOperation) {
  const { parameters, responses } = operation
  const { anyOf } = responses[200].content['application/json'].schema
  const shapes = anyOf.filter((shape) => !JSON.stringify(shape).includes('/CompactToolDescriptor"'))
  const schema = shapes.length === 1 ? shapes[0] : { anyOf: shapes }
  return {
    ...operation,
    parameters: parameters.filter(({ name }) => name !== 'view'),
    responses: { ...responses, 200: { ...responses[200], content: { 'application/json': { schema } } } },
  }
}

type CatalogOperation = (typeof openApi.paths)['/v1/tools' | '/v1/tools/{toolId}']['get']

/** `GET /v1`: an index for people and programs that open the address in the answer of `GET /`. */
function indexRoute(toolCatalog: boolean): HttpRoute {
  const index = {
    protocolVersion: PROTOCOL_VERSION,
    discovery: DISCOVERY_PATH,
    openapi: OPENAPI_PATH,
    schemas: SCHEMAS_PATH,
    ...(toolCatalog ? { tools: TOOLS_PATH } : {}),
  }
  return documentRoute(API_ROOT, index)
}

/** Schema documents, by their file names in the specification. */
const SCHEMA_FILES = {
  'tool-descriptor.schema.json': 'ToolDescriptor',
  'compact-tool-descriptor.schema.json': 'CompactToolDescriptor',
  'run-event.schema.json': 'RunEvent',
  'run-events.schema.json': 'RunEvents',
  'session-request.schema.json': 'SessionRequest',
  'session.schema.json': 'Session',
  'discovery.schema.json': 'Discovery',
  'error.schema.json': 'Error',
} as const satisfies Record<string, keyof typeof openApi.components.schemas>

/** Builds each schema document as a stand-alone JSON Schema from the OpenAPI document. */
function schemaDocuments(): ReadonlyMap<string, PreparedBytes> {
  const { schemas } = openApi.components
  return new Map(
    Object.entries(SCHEMA_FILES).map(([file, name]) => {
      const used = JSON.stringify(schemas[name]).matchAll(/#\/components\/schemas\/(\w+)/g)
      const names = new Set([...used].map(([, each]) => each))
      const parts = Object.entries(schemas).filter(([each]) => names.has(each))
      const schema = JSON.stringify({
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        $id: `${SCHEMAS_PATH}/${file}`,
        title: name,
        ...schemas[name],
        ...(parts.length === 0 ? {} : { $defs: Object.fromEntries(parts) }),
      })
      return [file, new PreparedBytes(schema.replaceAll('#/components/schemas/', '#/$defs/'))]
    }),
  )
}

/** `GET /v1/schemas` lists the schema documents, `GET /v1/schemas/{name}` returns one. */
function schemaRoutes(): readonly HttpRoute[] {
  const documents = schemaDocuments()
  const names = [...documents.keys()].map((file) => `${SCHEMAS_PATH}/${file}`)
  return [
    documentRoute(SCHEMAS_PATH, { schemas: names }),
    openGet(SCHEMA_PATH, (request) => {
      const document = documents.get(request.params.name ?? '')
      if (document !== undefined) return replyPrepared(request, document, PUBLIC_HEADERS)
      const message = `There is no such schema. Available: ${names.join(', ')}.`
      return refuse(request, fault('request_invalid', message), 404)
    }),
  ]
}

/** A principal that sees every tool that is not private to a tenant. Used only to list the sources in the discovery document. */
const EVERYTHING: Principal = { id: 'discovery', tenant: DEFAULT_TENANT, scopes: ['*'] }

const PUBLIC_HEADERS = { vary: 'accept-encoding', 'cache-control': 'public, max-age=300' }

/** `/.well-known/openwop`: public, and the same for all callers (OWP-01). */
function discoveryRoute(gateway: Gateway, settings: OpenwopSettings): HttpRoute {
  const documents = new PreparedViews(1)
  return openGet(DISCOVERY_PATH, (request) => {
    const catalog = gateway.catalogFor(EVERYTHING)
    const prepared = documents.get(catalog, 'discovery', () =>
      JSON.stringify(discoveryDocument(catalog, settings)),
    )
    return replyPrepared(request, prepared, PUBLIC_HEADERS)
  })
}

/** The discovery document, which lists only the sources of existing tools (OWP-05). */
function discoveryDocument(catalog: Catalog, settings: OpenwopSettings): WireDiscovery {
  const { toolCatalog, compactView, sessionLifecycle, families } = settings.capabilities
  const tools = catalog.latest()
  const present = new Set(tools.map(({ source }) => source))
  // Sessions are advertised only if a tool has them (OWP/C3).
  const hasSessions = sessionLifecycle && tools.some(({ session }) => session !== undefined)
  return {
    protocolVersion: PROTOCOL_VERSION,
    // No envelopes are exchanged here, so there are none to version or count (OWP-02).
    supportedEnvelopes: [],
    schemaVersions: {},
    limits: { clarificationRounds: 0, schemaRounds: 0, envelopesPerTurn: 0 },
    implementation: { name: 'collet', version: settings.serverVersion, vendor: 'collet' },
    ...(toolCatalog
      ? {
          toolCatalog: {
            supported: true,
            sources: SOURCE_KINDS.filter(isSourceKind).filter((source) => present.has(source)),
            ...(hasSessions ? { sessionLifecycle: true } : {}),
            ...(compactView ? { compactView: true } : {}),
          },
        }
      : {}),
    ...families,
  }
}

/** Served capabilities; the discovery document lists these and no others (OWP-05). */
export interface OpenwopCapabilities {
  /** `/v1/tools` and `/v1/tools/{toolId}`; off = 404 on both (OWP-06). Default on. */
  readonly toolCatalog?: boolean
  /** `?view=compact`. Default on. */
  readonly compactView?: boolean
  /** `/v1/sessions`; every stateful use of a tool is bracketed by `tool.session.*` (OWP/C3). Default on. */
  readonly sessionLifecycle?: boolean
  /** Further families at the document's root, by name: `toolHooks`, `authorization` … (OWP/C4). */
  readonly families?: Readonly<Record<string, JsonObject>>
}

interface OpenwopOptions {
  readonly serverVersion: string
  readonly capabilities?: OpenwopCapabilities
  readonly clock?: Clock
  /** Records requests with an `Idempotency-Key`; without it keys are ignored. */
  readonly store?: KeyedRequestParts['store']
  readonly onUnknownTool?: ProtocolServices['onUnknownTool']
  /** Orders the catalog for `?q=`; without it the parameter is ignored. */
  readonly search?: ProtocolServices['search']
}

export function openwopSettings({
  serverVersion,
  capabilities: { toolCatalog = true, compactView = true, sessionLifecycle = true, families = {} } = {},
  clock = SYSTEM_CLOCK,
}: OpenwopOptions) {
  return { serverVersion, clock, capabilities: { toolCatalog, compactView, sessionLifecycle, families } }
}

type OpenwopSettings = ReturnType<typeof openwopSettings>

/** A public document that does not change while the server runs. */
function documentRoute(path: string, document: object): HttpRoute {
  const prepared = new PreparedBytes(JSON.stringify(document))
  return openGet(path, (request) => replyPrepared(request, prepared, PUBLIC_HEADERS))
}

/** A route that needs no credential and reads no body. */
function openGet(path: string, handle: HttpRoute['handle']): HttpRoute {
  return { method: 'GET', path, access: 'open', body: 'never', handle, refuse }
}

/** Catalog answers are private to the caller and revalidated each time, because scopes may change. */
const HEADERS = {
  vary: ['accept-encoding', 'authorization', ...API_KEY_HEADERS].join(', '),
  'cache-control': 'private, no-cache',
}

/** The read-only catalog (OWP-10…28), which describes the tools that the principal may call. */
function catalogRoutes(
  gateway: Gateway,
  options: DecodeOptions,
  { onUnknownTool, search }: Pick<OpenwopOptions, 'onUnknownTool' | 'search'>,
): readonly HttpRoute[] {
  const lists = new PreparedViews(MAX_FORMS)
  const list = async (request: HttpRequest): Promise<HttpReply> => {
    const form = decodeListForm(request.query, options)
    const asked = readSearch(request.query)
    if (asked !== undefined && search !== undefined) {
      const { found } = await search.find(request.principal, asked.text, asked.limit)
      const tools = found.map(({ tool }) => tool)
      const wanted = tools.filter(({ source }) => form.source === undefined || source === form.source)
      return await replyPrepared(request, new PreparedBytes(encodeList(form, wanted)), HEADERS)
    }
    const catalog = gateway.catalogFor(request.principal)
    const page = readListPage(request.query)
    const tools = () =>
      catalog
        .latest()
        .filter(({ source }) => form.source === undefined || source === form.source)
        .toSorted(byCatalogId)
    if (page === undefined) {
      const prepared = lists.get(catalog, `${form.view} ${form.source}`, () => encodeList(form, tools()))
      return replyPrepared(request, prepared, HEADERS)
    }
    const { items, nextCursor } = takePage(tools(), page, ({ catalogId }) => catalogId)
    const prepared = new PreparedBytes(encodeList(form, items, nextCursor))
    return replyPrepared(request, prepared, { ...HEADERS, ...nextPageLink(request, nextCursor) })
  }

  const standard = oncePer((tool: Tool) => new PreparedBytes(JSON.stringify(toDescriptor(tool))))
  const compact = oncePer((tool: Tool) => new PreparedBytes(JSON.stringify(toCompactDescriptor(tool))))
  const byId = ({ principal, params, query, headers }: HttpRequest): Promise<HttpReply> => {
    const { toolId = '' } = params
    const tool = gateway.catalogFor(principal).find(toolId)
    if (tool === undefined) {
      onUnknownTool?.(principal, toolId)
      // Unknown and withheld ids get the same error, which does not name the id (OWP-14, OWP-22).
      const message = 'There is no such tool, or you may not see it; GET /v1/tools lists yours.'
      throw fault('tool_not_found', message)
    }
    return replyPrepared({ headers }, (isCompact(query, options) ? compact : standard)(tool), HEADERS)
  }
  const guarded = { method: 'GET', access: 'authenticated', body: 'never', refuse } as const
  return [
    { ...guarded, path: TOOLS_PATH, handle: list },
    { ...guarded, path: TOOL_PATH, handle: byId },
  ]
}

/** Orders tools by the code units of their ids, so that an unchanged catalog has unchanged bytes (OWP-17). */
function byCatalogId(left: Tool, right: Tool): number {
  return left.catalogId < right.catalogId ? -1 : 1
}
