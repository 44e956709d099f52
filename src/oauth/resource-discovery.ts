import { type AuthorizationServer, processDiscoveryResponse } from 'oauth4webapi'
import { isRecord } from '#kernel/base/json'

/**
 * Finds the authorization server of a protected resource such as an MCP server. It reads the resource's challenge and metadata
 * (RFC 9728), and the metadata of the issuer that they name (RFC 8414, OpenID Connect Discovery). Providers of the config that name
 * only a `resource` use it.
 * Invariant: metadata is accepted only if it is about this resource and this issuer (MCP-155).
 */

export interface DiscoveredResource {
  /** The identifier in the resource's metadata, which is the audience of its tokens. */
  readonly resource: string
  readonly as: AuthorizationServer
  /** The scopes that the resource requires, and `offline_access` if the issuer supports it. */
  readonly scopes: readonly string[]
  /** True if the resource accepts only tokens that are bound to a key. */
  readonly usesDpop: boolean
}

type Send = (url: string, init: RequestInit) => Promise<Response>

const RESOURCE_PATH = '/.well-known/oauth-protected-resource'
const PING = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })

interface DiscoveryOptions {
  /** Whether people authorize at the issuer; it must then support PKCE, and say so (MCP-95). */
  readonly sendsPeople: boolean
}

/** Throws if there is no usable metadata. */
export async function discoverResource(
  url: string,
  send: Send,
  { sendsPeople }: DiscoveryOptions,
): Promise<DiscoveredResource> {
  const challenge = await readChallenge(url, send)
  const document = await readResourceDocument(url, challenge.metadataUrl, send)
  const resource = typeof document?.resource === 'string' ? document.resource : url
  if (!isWithin(url, resource)) throw new Error(`the metadata is about another resource: ${resource}`)
  const [issuer = new URL('/', url).href] = textsIn(document?.authorization_servers)
  const { as, isFallback } = await readServer(issuer, send, document === undefined)
  if (sendsPeople && !isFallback && as.code_challenge_methods_supported?.includes('S256') !== true)
    throw new Error(`${issuer} does not support PKCE with S256, or its metadata does not say so`)
  const wanted = challenge.scopes ?? textsIn(document?.scopes_supported)
  const renews = as.scopes_supported?.includes('offline_access') === true
  return {
    resource,
    as,
    scopes: [...new Set([...wanted, ...(renews ? ['offline_access'] : [])])],
    usesDpop: challenge.usesDpop || document?.dpop_bound_access_tokens_required === true,
  }
}

interface Challenge {
  readonly metadataUrl: string | undefined
  readonly scopes: readonly string[] | undefined
  readonly usesDpop: boolean
}

/** Reads the challenge to a request without a credential. The request is a ping, so it has no effect if the server accepts it. */
async function readChallenge(url: string, send: Send): Promise<Challenge> {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const answer = await send(url, { method: 'POST', headers, body: PING }).catch(() => undefined)
  const header = (answer?.status === 401 && answer.headers.get('www-authenticate')) || ''
  const scope = /\bscope="([^"]*)"/i.exec(header)?.[1]
  return {
    metadataUrl: /\bresource_metadata="([^"]*)"/i.exec(header)?.[1],
    scopes: scope?.split(' ').filter((each) => each !== ''),
    usesDpop: /\bDPoP\b/i.test(header) && !/\bBearer\b/i.test(header),
  }
}

/** The document that the challenge names, otherwise the one at a well-known path; `undefined` for servers of 2025-03-26, which have none. */
async function readResourceDocument(
  url: string,
  metadataUrl: string | undefined,
  send: Send,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  const { origin, pathname } = new URL(url)
  const usual = [`${origin}${RESOURCE_PATH}${pathname === '/' ? '' : pathname}`, `${origin}${RESOURCE_PATH}`]
  for (const place of metadataUrl === undefined ? new Set(usual) : [metadataUrl]) {
    const document = await readJson(place, send)
    if (document !== undefined) return document
  }
  return undefined
}

async function readJson(url: string, send: Send): Promise<Readonly<Record<string, unknown>> | undefined> {
  const answer = await send(url, { headers: { accept: 'application/json' } })
  if (answer.status !== 200) return undefined
  const value: unknown = await answer.json().catch(() => undefined)
  return isRecord(value) ? value : undefined
}

/** True if a URL is the resource or below it, because tokens for a server are valid at its endpoints. */
function isWithin(url: string, resource: string): boolean {
  const endpoint = URL.parse(url)
  const base = URL.parse(resource)
  if (endpoint === null || base === null || endpoint.origin !== base.origin) return false
  const folder = base.pathname.endsWith('/') ? base.pathname : `${base.pathname}/`
  return endpoint.pathname === base.pathname || endpoint.pathname.startsWith(folder)
}

/** `isOld`: for a server of 2025-03-26, whose endpoints are at fixed paths if it has no metadata. */
async function readServer(
  issuer: string,
  send: Send,
  isOld: boolean,
): Promise<{ readonly as: AuthorizationServer; readonly isFallback?: boolean }> {
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/$/, '')
  const places = new Set([
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ])
  for (const place of places) {
    const answer = await send(place, { headers: { accept: 'application/json' } })
    if (answer.status !== 200) continue
    return { as: await processDiscoveryResponse(new URL(issuer), answer) }
  }
  if (!isOld) throw new Error(`no metadata of the authorization server ${origin}`)
  const at = (endpoint: string): string => new URL(endpoint, origin).href
  const as = {
    issuer: origin,
    authorization_endpoint: at('/authorize'),
    token_endpoint: at('/token'),
    registration_endpoint: at('/register'),
  }
  return { as, isFallback: true }
}

function textsIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []
}
