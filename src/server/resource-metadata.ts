import { PROTOCOLS } from '#protocols/list'
import { jsonReply, refuseWithMessage } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'
/** What clients name as the resource: the server as a whole, or the root of one protocol. */
const ROOTS = ['', ...Object.values(PROTOCOLS).map(({ root }) => root)]

interface ResourceMetadata {
  readonly routes: readonly ServerRoute[]
  /** `WWW-Authenticate` of a 401 at this path as RFC 9728 says in §5.1 (OWP-13): below `publicUrl`, which is all that a proxy is known to hand on. */
  challengeFor(path: string, hasToken?: boolean): string
  /** Where the document for a path is. */
  urlFor(path: string): string
}

/** Where a caller without a token learns who gives one: RFC 9728, for every root its path form. */
export function createResourceMetadata(options: {
  /** They may change while the server runs. */
  issuers(): readonly string[]
  /** Never taken from a request. */
  publicUrl(): string
}): ResourceMetadata {
  const { issuers, publicUrl } = options
  const documentOf = (root: string): object => ({
    resource: `${publicUrl()}${root}`,
    authorization_servers: issuers(),
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
