import { createPrivateKey } from 'node:crypto'
import {
  type AuthorizationServer,
  allowInsecureRequests,
  type Client,
  type ClientAuth,
  ClientSecretPost,
  clockTolerance,
  customFetch,
  discoveryRequest,
  None,
  PrivateKeyJwt,
  processDiscoveryResponse,
} from 'oauth4webapi'
import type { OAuthClientSettings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import type { Secret } from '#kernel/base/secret'
import { type ClientRegistry, registeredClient } from './registration.ts'
import { type DiscoveredResource, discoverResource } from './resource-discovery.ts'

/**
 * Finds an authorization server: its endpoints, this server's client id there, and how the client authenticates. `OAuthClient` uses
 * it before every request.
 * Invariant: discovered endpoints are kept for an hour, or longer while discovery fails; `forget` discards them.
 */

const METADATA_LIFETIME_MS = 3_600_000
const SKEW_SECONDS = 60

export interface OAuthParts {
  readonly fetch: typeof fetch
  readonly clock: Clock
  /** For providers without a `clientId`. */
  readonly clients?: ClientRegistry | undefined
}

export interface OAuthPeer {
  readonly as: AuthorizationServer
  readonly client: Client
  readonly clientAuth: ClientAuth
  readonly options: PeerOptions
  /** The resource that tokens are for (RFC 8707). */
  readonly resource: string | undefined
  /** Scopes that the resource requires. */
  readonly scopes: readonly string[]
  readonly usesDpop: boolean
}

export interface PeerOptions {
  readonly signal?: AbortSignal
  readonly [customFetch]: (
    url: string,
    options: Omit<RequestInit, 'body'> & { readonly body?: RequestInit['body'] | undefined },
  ) => Promise<Response>
  readonly [allowInsecureRequests]: boolean
}

type FoundServer = Pick<DiscoveredResource, 'as' | 'scopes' | 'usesDpop'> & {
  readonly resource: string | undefined
}

export class PeerFinder {
  readonly #settings: OAuthClientSettings
  readonly #parts: OAuthParts
  readonly #options: PeerOptions
  #known: { readonly found: FoundServer; readonly untilMs: number } | undefined

  constructor(settings: OAuthClientSettings, parts: OAuthParts) {
    this.#settings = settings
    this.#parts = parts
    // The config accepts plain http only for addresses of this machine.
    const first = settings.issuer ?? settings.tokenEndpoint ?? settings.resource ?? ''
    this.#options = {
      [customFetch]: (url, { body, ...rest }) =>
        parts.fetch(url, body === undefined ? rest : { ...rest, body }),
      [allowInsecureRequests]: first.startsWith('http:'),
    }
  }

  async find(signal?: AbortSignal): Promise<OAuthPeer> {
    const options = signal === undefined ? this.#options : { ...this.#options, signal }
    const found = await this.#server(options)
    const { clientId, clientAuth } = await this.#client(found.as, options)
    return { ...found, client: { client_id: clientId, [clockTolerance]: SKEW_SECONDS }, clientAuth, options }
  }

  /** Makes the next request read the metadata again, because the resource may have moved to another issuer. */
  forget(): void {
    this.#known = undefined
  }

  async #client(as: AuthorizationServer, options: PeerOptions) {
    const { clientId, grant } = this.#settings
    const { clients, clock } = this.#parts
    if (clientId !== undefined) return { clientId, clientAuth: await clientAuthOf(this.#settings) }
    // The assertion alone identifies this server, but the library requires a client id.
    if (grant === 'jwt_bearer') return { clientId: 'unnamed', clientAuth: () => undefined }
    if (clients === undefined) throw new Error('this process cannot register a client')
    const client = await registeredClient(as, clients, { options, clock })
    return { clientId: client.clientId, clientAuth: await clientAuthOf(client) }
  }

  async #server(options: PeerOptions): Promise<FoundServer> {
    const { issuer, authorizationEndpoint, tokenEndpoint, resource, dpop = false } = this.#settings
    const endpoint = authorizationEndpoint ?? tokenEndpoint
    if (endpoint !== undefined && tokenEndpoint !== undefined) {
      const as = { ...this.#configuredEndpoints(), issuer: issuer ?? new URL(endpoint).origin }
      return { as, scopes: [], usesDpop: dpop, resource }
    }
    const nowMs = this.#parts.clock.nowMs()
    if (this.#known !== undefined && nowMs < this.#known.untilMs) return this.#known.found
    try {
      const found = await this.#discover(options)
      this.#known = { found, untilMs: nowMs + METADATA_LIFETIME_MS }
      return found
    } catch (error) {
      if (this.#known !== undefined) return this.#known.found
      throw error
    }
  }

  async #discover(options: PeerOptions): Promise<FoundServer> {
    const { issuer, resource, dpop, grant = 'authorization_code', identityProvider } = this.#settings
    if (issuer === undefined) {
      const { signal } = options
      const found = await discoverResource(
        resource ?? '',
        (url, init) => this.#parts.fetch(url, signal === undefined ? init : { ...init, signal }),
        { sendsPeople: grant === 'authorization_code' && identityProvider === undefined },
      )
      const as = { ...found.as, ...this.#configuredEndpoints() }
      return { ...found, as, usesDpop: dpop ?? found.usesDpop }
    }
    const url = new URL(issuer)
    let response = await discoveryRequest(url, { algorithm: 'oidc', ...options })
    // A server that is not an OpenID provider has its metadata at the path of RFC 8414.
    if (response.status === 404) response = await discoveryRequest(url, { algorithm: 'oauth2', ...options })
    const as = await processDiscoveryResponse(url, response)
    return { as: { ...as, ...this.#configuredEndpoints() }, scopes: [], usesDpop: dpop ?? false, resource }
  }

  #configuredEndpoints() {
    const { authorizationEndpoint, tokenEndpoint, revocationEndpoint } = this.#settings
    return {
      ...(authorizationEndpoint === undefined ? {} : { authorization_endpoint: authorizationEndpoint }),
      ...(tokenEndpoint === undefined ? {} : { token_endpoint: tokenEndpoint }),
      ...(revocationEndpoint === undefined ? {} : { revocation_endpoint: revocationEndpoint }),
    }
  }
}

type AuthSettings = Pick<OAuthClientSettings, 'clientAuth' | 'clientSecret' | 'privateKey' | 'privateKeyId'>

async function clientAuthOf(settings: AuthSettings): Promise<ClientAuth> {
  const { clientAuth, clientSecret, privateKey } = settings
  if (clientAuth === 'private_key_jwt' && privateKey !== undefined)
    return await keyAuth(privateKey, settings.privateKeyId)
  if (clientSecret === undefined || clientAuth === 'none') return None()
  const text = clientSecret.reveal()
  return clientAuth === 'post' ? ClientSecretPost(text) : basicAuth(text)
}

const CURVES = new Map([
  ['prime256v1', 'ES256'],
  ['secp384r1', 'ES384'],
  ['secp521r1', 'ES512'],
])

/** Authentication with a signed JWT (RFC 7523 §2.2). The key determines the algorithm. */
async function keyAuth(privateKey: Secret, kid: string | undefined): Promise<ClientAuth> {
  const { importPKCS8 } = await import('jose')
  const { asymmetricKeyType, asymmetricKeyDetails } = createPrivateKey(privateKey.reveal())
  const alg =
    asymmetricKeyType === 'ed25519'
      ? 'Ed25519'
      : asymmetricKeyType === 'ec'
        ? (CURVES.get(asymmetricKeyDetails?.namedCurve ?? '') ?? 'ES256')
        : 'RS256'
  const key = await importPKCS8(privateKey.reveal(), alg)
  return PrivateKeyJwt(kid === undefined ? key : { key, kid })
}

/**
 * Basic authentication as in RFC 6749 §2.3.1. The library also encodes every `-` and `_`. That is allowed, but a server that does not
 * decode them would not find a client whose id is a UUID.
 */
function basicAuth(secret: string): ClientAuth {
  return (_as, { client_id }, _body, headers) => {
    const pair = `${formEncode(client_id)}:${formEncode(secret)}`
    headers.set('authorization', `Basic ${Buffer.from(pair).toString('base64')}`)
  }
}

function formEncode(text: string): string {
  return new URLSearchParams([['', text]]).toString().slice(1)
}
