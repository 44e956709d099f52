import {
  AuthorizationResponseError,
  allowInsecureRequests,
  authorizationCodeGrantRequest,
  calculatePKCECodeChallenge,
  getValidatedIdTokenClaims,
  processAuthorizationCodeResponse,
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
import type { Clock, RefreshAnswer, TokenSet } from '#core/runtime'
import { Secret } from '#core/secret'
import { type OAuthPeer, PeerFinder } from './authorization-server.ts'

/** What one way out to the provider is made of. */
export interface Departure {
  readonly state: string
  readonly verifier: string
  /** `undefined` unless an id token is asked for. */
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
    }
  /** The person said no. */
  | { readonly kind: 'denied' }
  /** `reason` is a code, never a text of the provider's. */
  | { readonly kind: 'failed'; readonly reason: string }

/** For discovery and request together: less than a refresh is leased for, so that nobody sends the token twice (rule 26). */
const REFRESH_MS = 10_000
const LONGEST_LIFETIME_SECONDS = 10 * 365 * 86_400

/** We as a client of one authorization server: the code flow with PKCE, refresh and revocation. */
export class OAuthClient {
  readonly #finder: PeerFinder
  readonly #clock: Clock
  readonly #resource: string | undefined

  constructor(settings: OAuthClientSettings, parts: { readonly fetch: typeof fetch; readonly clock: Clock }) {
    this.#finder = new PeerFinder(settings, parts)
    this.#clock = parts.clock
    this.#resource = settings.resource
  }

  /** Where to send the browser; `undefined` when the server cannot be asked for its endpoints. */
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

  /** Trades the code in. With `identify` the answer must hold an id token whose signature holds. */
  async exchange(
    back: Return,
    wanted: { readonly scopes: readonly string[]; readonly identify: boolean },
  ): Promise<Exchanged> {
    try {
      const peer = await this.#finder.find()
      const { as, client, clientAuth, options } = peer
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
      }
    } catch (error) {
      if (error instanceof AuthorizationResponseError && error.error === 'access_denied')
        return { kind: 'denied' }
      return { kind: 'failed', reason: reasonOf(error) }
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
      return refused ? { kind: 'refused' } : { kind: 'unavailable', reason: reasonOf(error) }
    }
  }

  async revoke(token: Secret): Promise<boolean> {
    try {
      const peer: OAuthPeer = await this.#finder.find()
      if (peer.as.revocation_endpoint === undefined) return false
      const { as, client, clientAuth, options } = peer
      await processRevocationResponse(
        await revocationRequest(as, client, clientAuth, token.reveal(), options),
      )
      return true
    } catch {
      return false
    }
  }

  /** RFC 8707 §2.2; an MCP server takes only tokens that were asked for it (MCP-95). */
  #audience(): { readonly additionalParameters?: Record<string, string> } {
    return this.#resource === undefined ? {} : { additionalParameters: { resource: this.#resource } }
  }

  #tokensOf(answer: TokenEndpointResponse, asked: readonly string[]): TokenSet {
    const { access_token, refresh_token, expires_in, scope } = answer
    const seconds = expires_in === undefined ? undefined : Math.min(expires_in, LONGEST_LIFETIME_SECONDS)
    return {
      accessToken: new Secret(access_token),
      refreshToken: refresh_token === undefined ? undefined : new Secret(refresh_token),
      // Left out means as asked for (RFC 6749 §5.1); some write commas.
      scopes: scope === undefined ? asked : scope.split(/[ ,]+/).filter((each) => each !== ''),
      expiresAtMs: seconds === undefined ? undefined : Math.floor(this.#clock.nowMs() + seconds * 1_000),
    }
  }
}

/** What was discovered is somebody else's text: nobody is sent to a script, or from https to http. */
function isUsable({ protocol }: URL, { options }: OAuthPeer): boolean {
  return protocol === 'https:' || (protocol === 'http:' && options[allowInsecureRequests])
}

/** A code for the log: messages and causes of these errors quote what the provider sent, tokens too. */
function reasonOf(error: unknown): string {
  if (error instanceof ResponseBodyError || error instanceof AuthorizationResponseError) {
    return /^[a-z_]{1,40}$/.test(error.error) ? error.error : 'refused'
  }
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code
  return error instanceof Error ? error.name : 'unknown'
}
