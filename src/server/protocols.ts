/**
 * Attaches the protocols of `protocols/list.ts` to a server: their routes, those of a conformance suite, and the documents from
 * which OAuth clients learn who issues tokens for each protocol (RFC 9728). Without an issuer, clients that try OAuth get an answer
 * that names the credential to send.
 */

import type { Settings } from '#config/settings'
import { clientDocument, DOCUMENT_PATH } from '#oauth/registration'
import { PROTOCOLS } from '#protocols/list'
import type { ProtocolServices, ServedProtocol } from '#protocols/protocol'
import { openToOperators } from './admin/access.ts'
import type { ServerHost } from './host.ts'
import { jsonReply, OPEN_ROUTE } from './http/exchange.ts'
import type { ServerRoute } from './http/router.ts'
import type { Live, ServerPart } from './part.ts'
import { VERSION } from './version.ts'

export async function openProtocols(host: ServerHost): Promise<ServerPart> {
  const { gateway, services, clock, log, authenticator, metadata, consents, onUnknownTool, options } = host
  const { noteDenial, fetch: configuredFetch } = services
  const { store } = services.gateway
  const settings = host.settings.current
  const protocolServices: ProtocolServices = {
    gateway: services.search.watch(gateway),
    ...{ store, clock, log, consents, onUnknownTool, search: services.search },
    publicUrl: host.address.publicUrl,
    serverVersion: VERSION,
    isClosed: authenticator.isConfigured,
    metadataUrl: metadata?.urlFor,
    operations: host.telemetry.operations,
  }
  const served: readonly ServedProtocol[] = await Promise.all(
    Object.values(PROTOCOLS).map((protocol) =>
      protocol.serve(settings, protocolServices, options.protocols ?? {}),
    ),
  )
  const routes = served.flatMap((protocol) => protocol.routes)
  const suite = { ...protocolServices, store, settings, noteDenial, fetch: configuredFetch }
  return {
    routes: [...openToOperators(routes, host.access), ...(options.conformance?.routes(suite) ?? [])],
    close() {
      for (const protocol of served) protocol.close?.()
    },
  }
}

const WELL_KNOWN = '/.well-known/oauth-protected-resource'
/** Resources that clients name: the whole server, or the root of one protocol. */
const ROOTS = ['', ...Object.values(PROTOCOLS).map(({ root }) => root)]

export interface ResourceMetadata {
  readonly routes: readonly ServerRoute[]
  /** `WWW-Authenticate` of a 401 at this path (RFC 9728 §5.1) (OWP-13). Its URL is below `publicUrl`, which a proxy forwards. */
  challengeFor(path: string): string
  /** URL of the document for a path. */
  urlFor(path: string): string
}

/** Documents that name the token issuers (RFC 9728), one for every root. */
export function createResourceMetadata(
  settings: Live<Pick<Settings, 'auth'>>,
  publicUrl: () => string,
): ResourceMetadata {
  const issuers = () => settings.current.auth.issuers ?? []
  const scopes = (): readonly string[] => [...new Set(issuers().flatMap((issuer) => issuer.scopes ?? []))]
  const documentOf = (root: string): object => ({
    resource: `${publicUrl()}${root}`,
    authorization_servers: issuers().map(({ issuer }) => issuer),
    ...(scopes().length === 0 ? {} : { scopes_supported: scopes() }),
    bearer_methods_supported: ['header'],
    resource_name: 'Collet',
  })
  const urlFor = (path: string): string => {
    const root = ROOTS.find((name) => name !== '' && (path === name || path.startsWith(`${name}/`))) ?? ''
    return `${publicUrl()}${WELL_KNOWN}${root}`
  }
  return {
    routes: ROOTS.map((root) => ({
      ...OPEN_ROUTE,
      method: 'GET',
      path: `${WELL_KNOWN}${root}`,
      handle: () => jsonReply(200, documentOf(root), { 'cache-control': 'public, max-age=300' }),
    })),
    urlFor,
    challengeFor(path) {
      // Clients ask their provider for the scopes of the challenge, else for those of the document (MCP-91).
      const scope = scopes().length === 0 ? '' : `, scope="${scopes().join(' ')}"`
      return `Bearer resource_metadata="${urlFor(path)}"${scope}`
    },
  }
}

/** Paths that clients try in turn after a 401 that names no authorization server (MCP 2025-03-26, "Fallbacks"). */
const FALLBACK_PATHS = [
  ['GET', '/.well-known/oauth-authorization-server', 404],
  ['POST', '/register', 400],
  ['GET', '/authorize', 400],
  ['POST', '/token', 400],
] as const

/**
 * Serves the documents that name the issuers. A server without an issuer answers OAuth requests with an `error_description` that says how to
 * authenticate, because clients show that text to their user; otherwise they would report a missing path.
 */
export function openResourceMetadata({ metadata, authenticator, address }: ServerHost): ServerPart {
  const document = clientDocumentRoute(address.publicUrl)
  if (metadata !== undefined) return { routes: [...metadata.routes, document] }
  const routes = FALLBACK_PATHS.map(([method, path, status]) => ({
    ...OPEN_ROUTE,
    method,
    path,
    handle: () =>
      jsonReply(status, {
        error: 'access_denied',
        error_description: authenticator.isConfigured
          ? 'This server accepts API keys, not OAuth: send the header "Authorization: Bearer KEY". Its operator creates a key with "collet keys create".'
          : 'This server needs no sign-in: connect without credentials.',
      }),
  }))
  return { routes: [...routes, document] }
}

/** Describes this server as an OAuth client of other servers (MCP-156). */
function clientDocumentRoute(publicUrl: () => string): ServerRoute {
  return {
    ...OPEN_ROUTE,
    method: 'GET',
    path: DOCUMENT_PATH,
    handle: () => {
      const document = clientDocument(publicUrl())
      return document === undefined
        ? jsonReply(404, { message: 'This document exists only if server.publicUrl is an https address.' })
        : jsonReply(200, document, { 'cache-control': 'public, max-age=300' })
    },
  }
}
