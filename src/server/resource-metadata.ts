import type { IssuerSettings } from '#config/settings'
import { PROTOCOLS } from '#protocols/list'
import { jsonReply, refuseWithMessage } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'
/** What clients name as the resource: the server as a whole, or the root of one protocol. */
const ROOTS = ['', ...Object.values(PROTOCOLS).map(({ root }) => root)]

interface ResourceMetadata {
  readonly routes: readonly ServerRoute[]
  /** `WWW-Authenticate` of a 401 at this path as RFC 9728 says in §5.1 (OWP-13): below `publicUrl`, which is all that a proxy is known to hand on. */
  challengeFor(path: string): string
  /** Where the document for a path is. */
  urlFor(path: string): string
}

/** Where a caller without a token learns who gives one: RFC 9728, for every root its path form. */
export function createResourceMetadata(options: {
  /** They may change while the server runs. */
  issuers(): readonly Pick<IssuerSettings, 'issuer' | 'scopes'>[]
  /** Never taken from a request. */
  publicUrl(): string
}): ResourceMetadata {
  const { issuers, publicUrl } = options
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
      method: 'GET',
      path: `${WELL_KNOWN}${root}`,
      access: 'open',
      body: 'never',
      handle: () => jsonReply(200, documentOf(root), { 'cache-control': 'public, max-age=300' }),
      refuse: refuseWithMessage,
    })),
    urlFor,
    challengeFor(path) {
      // Clients ask their provider for the scopes of the challenge, else for those of the document (MCP-91).
      const scope = scopes().length === 0 ? '' : `, scope="${scopes().join(' ')}"`
      return `Bearer resource_metadata="${urlFor(path)}"${scope}`
    },
  }
}

/** What clients try in turn after a 401 that names no authorization server (MCP 2025-03-26, "Fallbacks"). */
const TRIED_PATHS = [
  ['GET', '/.well-known/oauth-authorization-server', 404],
  ['POST', '/register', 400],
  ['GET', '/authorize', 400],
  ['POST', '/token', 400],
] as const

/**
 * Answers OAuth requests where no issuer is configured. Clients show `error_description` to their user, so it says how
 * to get in; without it they report a missing path.
 */
export function createNoOAuthRoutes({ isKeyed }: { isKeyed(): boolean }): readonly ServerRoute[] {
  return TRIED_PATHS.map(([method, path, status]) => ({
    method,
    path,
    access: 'open',
    body: 'never',
    handle: () =>
      jsonReply(status, {
        error: 'access_denied',
        error_description: isKeyed()
          ? 'This server takes API keys, not OAuth: send the header "Authorization: Bearer KEY". Its operator makes a key with "collet keys create".'
          : 'This server needs no sign-in: connect without credentials.',
      }),
    refuse: refuseWithMessage,
  }))
}
