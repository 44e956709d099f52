import { readFileSync } from 'node:fs'
import type { Settings } from '#config/settings'
import type { Gateway } from '#core/calls/gateway'
import type { JsonObject } from '#core/json'
import { hasToolRates } from '#core/limits/settings'
import type { Store } from '#core/ports/store'
import { NO_ROLES } from '#core/principal'
import type { Clock } from '#core/runtime'
import type { Catalog } from '#core/tools/catalog'
import type { HttpRoute } from '#protocols/http-exchange'
import type { McpServices } from '#protocols/mcp/exchange'
import { type McpServing, serveMcp } from '#protocols/mcp/routes'
import type { OpenToolServing } from '#protocols/opentool/call-routes'
import { documentOf, type OpenToolInfo, serialize } from '#protocols/opentool/index'
import { opentoolRoutes } from '#protocols/opentool/routes'
import { BASE_PATH } from '#protocols/opentool/wire'
import type { OpenwopCapabilities } from '#protocols/openwop/routes'
import { jsonReply, refuseWithMessage } from '#server/http/replies'
import type { ServerRoute } from '#server/http/router'
import type { ServerLog } from '#server/telemetry/log'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'
/** What clients name as the resource: the server as a whole, or the root of one protocol. */
const ROOTS = ['', '/tools', '/v1', '/opentool', '/mcp'] as const

interface ResourceMetadata {
  readonly routes: readonly ServerRoute[]
  /** `WWW-Authenticate` of a 401 at this path (OWP-13, RFC 9728 §5.1): below `publicUrl`, which is all that a proxy is known to hand on. */
  challengeFor(path: string, hasToken?: boolean): string
  /** Where the document for a path is. */
  urlFor(path: string): string
}

/** Where a caller without a token learns who gives one: RFC 9728, for every root its path form. */
export function createResourceMetadata(options: {
  readonly issuers: readonly string[]
  /** Never taken from a request. */
  publicUrl(): string
}): ResourceMetadata {
  const { issuers, publicUrl } = options
  const documentOf = (root: string): object => ({
    resource: `${publicUrl()}${root}`,
    authorization_servers: issuers,
    bearer_methods_supported: ['header'],
    resource_name: 'Collet',
  })
  const urlFor = (path: string): string => {
    const root = ROOTS.find((name) => name !== '' && (path === name || path.startsWith(`${name}/`))) ?? ''
    return `${publicUrl()}${WELL_KNOWN}${root}`
  }
  return {
    routes: ROOTS.map((root) => ({
      method: 'GET',
      path: `${WELL_KNOWN}${root}`,
      access: 'open',
      body: 'never',
      handle: () => jsonReply(200, documentOf(root), { 'cache-control': 'public, max-age=300' }),
      refuse: refuseWithMessage,
    })),
    urlFor,
    challengeFor(path, hasToken = false) {
      // RFC 6750 §3.1: a token that was sent and did not do.
      const error = hasToken ? ', error="invalid_token"' : ''
      return `Bearer resource_metadata="${urlFor(path)}"${error}`
    },
  }
}

/** What the discovery document says of this server: nothing that is not on (OWP-05). */
export function openwopCapabilities(settings: Settings): OpenwopCapabilities {
  const { catalog, compactView, sessions } = settings.openwop
  return {
    toolCatalog: catalog,
    compactView,
    sessionLifecycle: sessions,
    families: {
      httpClient: describeHttpClient(settings.egress),
      ...describeRoles(settings.auth),
      ...describeToolHooks(settings.limits),
    },
  }
}

/** OWP-80, OWP-82: what `ctx.fetch` holds to. */
function describeHttpClient({ maxResponseBytes, timeoutMs }: Settings['egress']): JsonObject {
  return {
    supported: true,
    ssrfGuard: true,
    maxResponseBodyBytes: maxResponseBytes,
    requestTimeoutMs: timeoutMs,
    safeFetch: { supported: true },
  }
}

/** Only where roles do something (C4). */
function describeRoles({ roles = NO_ROLES }: Settings['auth']): Readonly<Record<string, JsonObject>> {
  if (roles.size === 0) return {}
  const shown = [...roles].map(([role, scopes]) => ({ role, scopes: [...scopes] }))
  return { authorization: { supported: true, failClosed: true, roles: shown } }
}

/** OWP-56 holds, and is said, only where tools have rates of their own (OWP-05). */
function describeToolHooks(limits: Settings['limits']): Readonly<Record<string, JsonObject>> {
  return hasToolRates(limits) ? { toolHooks: { supported: true, perToolRateLimit: true } } : {}
}

/** What whoever starts the server may add to the settings. */
interface OpenToolSurroundings {
  readonly settings: Settings['opentool']
  readonly log: ServerLog
  /** Whether callers need a credential: `/stop` is served only then (OTS-53). */
  readonly isClosed: boolean
  /** Where callers reach this server. */
  publicUrl(): string
}

/** OpenTool with the document of our own tools. */
export function createOpenToolRoutes(
  gateway: Gateway,
  serving: OpenToolServing,
  { settings, log, isClosed, publicUrl }: OpenToolSurroundings,
): readonly HttpRoute[] {
  const info = openToolInfo(settings)
  const document = (catalog: Catalog): string => {
    const made = documentOf(catalog.latest(), info, { server: { url: `${publicUrl()}${BASE_PATH}` } })
    const skipped = made.skipped.map(({ id }) => id)
    if (skipped.length > 0)
      log.warn({ tools: skipped }, 'OpenTool cannot describe these tools; /opentool/load leaves them out')
    return serialize(made.document)
  }
  const { stringIdsAreKeys, streaming } = settings
  return opentoolRoutes(gateway, {
    version: info.version,
    document,
    stringIdsAreKeys,
    streaming,
    ...serving,
    stop: isClosed ? serving.stop : undefined,
  })
}

/** `info` of the document of our tools (OTS-03); its version is the server's (OTS-32). */
function openToolInfo({
  title,
  version = VERSION,
  description,
}: Pick<Settings['opentool'], 'title' | 'version' | 'description'>): OpenToolInfo {
  return { title, ...(description === undefined ? {} : { description }), version }
}

interface McpSurroundings {
  readonly store: Store
  readonly clock: Clock
  readonly log: ServerLog
  readonly metadataUrl?: () => string
}

/** `/mcp`, unless the operator turned it off. */
export function createMcpRoutes(
  gateway: Gateway,
  settings: Settings['mcp'],
  surroundings: McpSurroundings,
): McpServing {
  if (!settings.enabled) return { routes: [], close: () => undefined }
  return serveMcp(mcpServices(gateway, settings, surroundings))
}

/** What the protocol needs, over HTTP and on stdio. */
export function mcpServices(
  gateway: Gateway,
  { name, instructions, pageSize }: Settings['mcp'],
  { store, clock, log, metadataUrl }: McpSurroundings,
): McpServices {
  return {
    gateway,
    callers: store.callers,
    clock,
    log,
    sign: (text) => store.approvals.sign('mcp', text),
    options: { name, serverVersion: VERSION, instructions, pageSize, metadataUrl },
  }
}

/** This package's version, read once. */
export const VERSION: string = readVersion()

function readVersion(): string {
  const manifest: { readonly version: string } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  )
  return manifest.version
}
