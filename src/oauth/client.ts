import {
  AuthorizationResponseError,
  type AuthorizationServer,
  allowInsecureRequests,
  authorizationCodeGrantRequest,
  type Client,
  type ClientAuth,
  ClientSecretPost,
  calculatePKCECodeChallenge,
  clockTolerance,
  customFetch,
  discoveryRequest,
  getValidatedIdTokenClaims,
  None,
  processAuthorizationCodeResponse,
  processDiscoveryResponse,
  processRefreshTokenResponse,
  processRevocationResponse,
  ResponseBodyError,
  refreshTokenGrantRequest,
  revocationRequest,
  type TokenEndpointResponse,
  validateApplicationLevelSignature,
  validateAuthResponse,
} from 'oauth4webapi'
import type { OAuthClientSettings } from '#config/settings'
import { readStart } from '#kernel/base/bytes'
import type { Clock } from '#kernel/base/clock'
import { Secret } from '#kernel/base/secret'
import type { RefreshAnswer, TokenSet } from '#kernel/base/token-broker'

/**
 * A client of one authorization server: the code flow with PKCE, refresh and revocation, built on oauth4webapi. The broker, the
 * consent pages and the console's sign-in use it.
 * Texts from a provider reach neither callers nor logs; only codes do.
 */

/** Fails if an answer is too large or too slow, because answers from authorization servers are small and quick. Redirects are not followed. */
export function boundedFetch(
  send: typeof fetch,
  { timeoutMs, maxBytes }: { readonly timeoutMs: number; readonly maxBytes: number },
): typeof fetch {
  return async (resource, init) => {
    const limit = AbortSignal.timeout(timeoutMs)
    const signal = init?.signal == null ? limit : AbortSignal.any([limit, init.signal])
    const response = await send(resource, { ...init, signal, redirect: 'manual' })
    const { bytes, isWhole } = await readStart(response.body, maxBytes)
    if (!isWhole) throw new Error(`an answer is larger than ${maxBytes} bytes`)
    const { status, statusText } = response
    const headers = new Headers(response.headers)
    // These describe the encoded body, which is already decoded.
    for (const name of ['content-encoding', 'content-length', 'transfer-encoding']) headers.delete(name)
    const body = [204, 205, 304].includes(status) ? null : Uint8Array.from(bytes)
    return new Response(body, { status, statusText, headers })
  }
}

export interface Departure {
  readonly state: string
  readonly verifier: string
  /** `undefined` unless an id token is requested. */
  readonly nonce: string | undefined
  readonly redirectUri: string
}

export interface Return extends Departure {
  readonly parameters: URLSearchParams
}

export type Exchanged =
  | {
      readonly kind: 'tokens'
      readonly tokens: TokenSet
      readonly claims: Readonly<Record<string, unknown>> | undefined
      readonly idToken: Secret | undefined
    }
  | { readonly kind: 'denied' }
  /** `reason` is a code, never text from the provider. */
  | { readonly kind: 'failed'; readonly reason: string }

/** Time limit for discovery and refresh together: less than the lease of a refresh, so that no token is sent twice (rule 26). */
const REFRESH_MS = 10_000
const MAX_LIFETIME_SECONDS = 10 * 365 * 86_400

export class OAuthClient {
  readonly #finder: PeerFinder
  readonly #clock: Clock
  readonly #resource: string | undefined

  constructor(settings: OAuthClientSettings, parts: { readonly fetch: typeof fetch; readonly clock: Clock }) {
    this.#finder = new PeerFinder(settings, parts)
    this.#clock = parts.clock
    this.#resource = settings.resource
  }

  /** `undefined` if the endpoints of the server cannot be found. */
  async authorizationUrl(
    departure: Departure,
    asked: { readonly scopes: readonly string[]; readonly parameters: Readonly<Record<string, string>> },
  ): Promise<string | undefined> {
    const peer = await this.#finder.find().catch(() => undefined)
    const url = URL.parse(peer?.as.authorization_endpoint ?? '')
    if (peer === undefined || url === null || !isUsable(url, peer)) return undefined
    for (const [name, value] of Object.entries(asked.parameters)) url.searchParams.set(name, value)
    url.searchParams.set('response_type', 'code')
    url.searchParams.set('client_id', peer.client.client_id)
    url.searchParams.set('redirect_uri', departure.redirectUri)
    url.searchParams.set('state', departure.state)
    url.searchParams.set('code_challenge', await calculatePKCECodeChallenge(departure.verifier))
    url.searchParams.set('code_challenge_method', 'S256')
    if (asked.scopes.length > 0) url.searchParams.set('scope', asked.scopes.join(' '))
    if (this.#resource !== undefined) url.searchParams.set('resource', this.#resource)
    if (departure.nonce !== undefined) url.searchParams.set('nonce', departure.nonce)
    return url.href
  }

  /** Exchanges the code for tokens. With `identify` the answer must have an id token with a valid signature. */
  async exchange(
    back: Return,
    wanted: { readonly scopes: readonly string[]; readonly identify: boolean },
  ): Promise<Exchanged> {
    try {
      const { as, client, clientAuth, options } = await this.#finder.find()
      const parameters = validateAuthResponse(as, client, back.parameters, back.state)
      const response = await authorizationCodeGrantRequest(
        as,
        client,
        clientAuth,
        parameters,
        back.redirectUri,
        back.verifier,
        { ...options, ...this.#audience() },
      )
      const answer = await processAuthorizationCodeResponse(as, client, response, {
        ...(back.nonce === undefined ? {} : { expectedNonce: back.nonce }),
        requireIdToken: wanted.identify,
      })
      if (wanted.identify) await validateApplicationLevelSignature(as, response, options)
      return {
        kind: 'tokens',
        tokens: this.#tokensOf(answer, wanted.scopes),
        claims: getValidatedIdTokenClaims(answer),
        idToken: answer.id_token === undefined ? undefined : new Secret(answer.id_token),
      }
    } catch (error) {
      if (error instanceof AuthorizationResponseError && error.error === 'access_denied')
        return { kind: 'denied' }
      return { kind: 'failed', reason: errorCodeOf(error) }
    }
  }

  async refresh(
    refreshToken: Secret,
    scopes: readonly string[],
  ): Promise<RefreshAnswer & { readonly reason?: string }> {
    try {
      const { as, client, clientAuth, options } = await this.#finder.find(AbortSignal.timeout(REFRESH_MS))
      const response = await refreshTokenGrantRequest(as, client, clientAuth, refreshToken.reveal(), {
        ...options,
        ...this.#audience(),
      })
      const answer = await processRefreshTokenResponse(as, client, response)
      return { kind: 'tokens', tokens: this.#tokensOf(answer, scopes) }
    } catch (error) {
      const refused = error instanceof ResponseBodyError && error.error === 'invalid_grant'
      return refused ? { kind: 'refused' } : { kind: 'unavailable', reason: errorCodeOf(error) }
    }
  }

  async revoke(token: Secret): Promise<boolean> {
    try {
      const { as, client, clientAuth, options } = await this.#finder.find()
      if (as.revocation_endpoint === undefined) return false
      const response = await revocationRequest(as, client, clientAuth, token.reveal(), options)
      await processRevocationResponse(response)
      return true
    } catch {
      return false
    }
  }

  /** RFC 8707 §2.2; an MCP server accepts only tokens that were requested for it (MCP-95). */
  #audience(): { readonly additionalParameters?: Record<string, string> } {
    return this.#resource === undefined ? {} : { additionalParameters: { resource: this.#resource } }
  }

  #tokensOf(answer: TokenEndpointResponse, asked: readonly string[]): TokenSet {
    const { access_token, refresh_token, expires_in, scope } = answer
    const seconds = expires_in === undefined ? undefined : Math.min(expires_in, MAX_LIFETIME_SECONDS)
    return {
      accessToken: new Secret(access_token),
      refreshToken: refresh_token === undefined ? undefined : new Secret(refresh_token),
      // An absent scope means that all were granted as requested (RFC 6749 §5.1); some servers separate scopes by commas.
      scopes: scope === undefined ? asked : scope.split(/[ ,]+/).filter((each) => each !== ''),
      expiresAtMs: seconds === undefined ? undefined : Math.floor(this.#clock.nowMs() + seconds * 1_000),
    }
  }
}

/** Whether a discovered address leads neither to a script nor from https to http. */
function isUsable({ protocol }: URL, { options }: OAuthPeer): boolean {
  return protocol === 'https:' || (protocol === 'http:' && options[allowInsecureRequests])
}

/** Returns only a code, because messages and causes of these errors quote the provider's answer, tokens included. */
function errorCodeOf(error: unknown): string {
  if (error instanceof ResponseBodyError || error instanceof AuthorizationResponseError) {
    return /^[a-z_]{1,40}$/.test(error.error) ? error.error : 'refused'
  }
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code
  return error instanceof Error ? error.name : 'unknown'
}

const METADATA_LIFETIME_MS = 3_600_000
const SKEW_SECONDS = 60

interface OAuthPeer {
  readonly as: AuthorizationServer
  readonly client: Client
  readonly clientAuth: ClientAuth
  readonly options: PeerOptions
}

interface PeerOptions {
  readonly signal?: AbortSignal
  readonly [customFetch]: (
    url: string,
    options: Omit<RequestInit, 'body'> & { readonly body?: RequestInit['body'] | undefined },
  ) => Promise<Response>
  readonly [allowInsecureRequests]: boolean
}

/** Finds the endpoints of a provider; discovered endpoints are kept for an hour, and longer while discovery fails. */
class PeerFinder {
  readonly #settings: OAuthClientSettings
  readonly #clock: Clock
  readonly #options: PeerOptions
  #known: { readonly as: AuthorizationServer; readonly untilMs: number } | undefined

  constructor(settings: OAuthClientSettings, parts: { readonly fetch: typeof fetch; readonly clock: Clock }) {
    this.#settings = settings
    this.#clock = parts.clock
    // The config allows plain http only to this machine.
    const first = settings.issuer ?? settings.tokenEndpoint ?? ''
    this.#options = {
      [customFetch]: (url, { body, ...rest }) =>
        parts.fetch(url, body === undefined ? rest : { ...rest, body }),
      [allowInsecureRequests]: first.startsWith('http:'),
    }
  }

  async find(signal?: AbortSignal): Promise<OAuthPeer> {
    const { clientId } = this.#settings
    const options = signal === undefined ? this.#options : { ...this.#options, signal }
    return {
      as: await this.#server(options),
      client: { client_id: clientId, [clockTolerance]: SKEW_SECONDS },
      clientAuth: clientAuthOf(this.#settings),
      options,
    }
  }

  async #server(options: PeerOptions): Promise<AuthorizationServer> {
    const { issuer, authorizationEndpoint, tokenEndpoint, revocationEndpoint } = this.#settings
    const revocation = revocationEndpoint === undefined ? {} : { revocation_endpoint: revocationEndpoint }
    if (authorizationEndpoint !== undefined && tokenEndpoint !== undefined) {
      return {
        issuer: issuer ?? new URL(authorizationEndpoint).origin,
        authorization_endpoint: authorizationEndpoint,
        token_endpoint: tokenEndpoint,
        ...revocation,
      }
    }
    const nowMs = this.#clock.nowMs()
    if (this.#known !== undefined && nowMs < this.#known.untilMs) return this.#known.as
    try {
      const as = { ...(await this.#discover(issuer ?? '', options)), ...revocation }
      this.#known = { as, untilMs: nowMs + METADATA_LIFETIME_MS }
      return as
    } catch (error) {
      if (this.#known !== undefined) return this.#known.as
      throw error
    }
  }

  async #discover(issuer: string, options: PeerOptions): Promise<AuthorizationServer> {
    const url = new URL(issuer)
    let response = await discoveryRequest(url, { algorithm: 'oidc', ...options })
    // The server is not an OpenID provider, so its metadata is where RFC 8414 says.
    if (response.status === 404) response = await discoveryRequest(url, { algorithm: 'oauth2', ...options })
    return await processDiscoveryResponse(url, response)
  }
}

function clientAuthOf({ clientAuth, clientSecret }: OAuthClientSettings): ClientAuth {
  if (clientSecret === undefined || clientAuth === 'none') return None()
  const text = clientSecret.reveal()
  return clientAuth === 'post' ? ClientSecretPost(text) : basicAuth(text)
}

/**
 * Basic authentication as in RFC 6749 §2.3.1. The library also encodes every `-` and `_`, which is allowed, but a server that does not decode them
 * then finds no client whose id is a UUID.
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
