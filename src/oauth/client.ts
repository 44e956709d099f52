import type { webcrypto } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import {
  AuthorizationResponseError,
  allowInsecureRequests,
  authorizationCodeGrantRequest,
  calculatePKCECodeChallenge,
  clientCredentialsGrantRequest,
  DPoP,
  type DPoPHandle,
  genericTokenEndpointRequest,
  getValidatedIdTokenClaims,
  isDPoPNonceError,
  processAuthorizationCodeResponse,
  processClientCredentialsResponse,
  processGenericTokenEndpointResponse,
  processRefreshTokenResponse,
  processRevocationResponse,
  ResponseBodyError,
  refreshTokenGrantRequest,
  revocationRequest,
  type TokenEndpointResponse,
  validateApplicationLevelSignature,
  validateAuthResponse,
  WWWAuthenticateChallengeError,
} from 'oauth4webapi'
import type { OAuthClientSettings } from '#config/settings'
import { readStart } from '#kernel/base/bytes'
import type { Clock } from '#kernel/base/clock'
import { Secret } from '#kernel/base/secret'
import { BoundToken, type RefreshAnswer, type Renewal, type TokenSet } from '#kernel/base/token-broker'
import { type OAuthParts, type OAuthPeer, PeerFinder } from './peer.ts'

/**
 * A client of one authorization server: the code flow with PKCE, grants without a person, refresh and revocation, built on
 * oauth4webapi. The broker, the consent pages and the console's sign-in use it.
 * Invariant: a provider's texts reach neither callers nor logs, only its error codes do.
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
    // These headers describe the encoded body, but `bytes` are decoded.
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

/** A failed request; `reason` is a code. */
type Failure = { readonly kind: 'refused' | 'unavailable'; readonly reason: string }
export type Obtained = Extract<RefreshAnswer, { readonly kind: 'tokens' }> | Failure

/** The methods of a provider's client that the consent pages and the broker use. */
export interface ProviderClient {
  authorizationUrl(departure: Departure, requested: RequestedAccess): Promise<string | undefined>
  exchange(
    back: Return,
    wanted: { readonly scopes: readonly string[]; readonly identify: boolean },
  ): Promise<Exchanged>
  refresh(renewal: Renewal): Promise<RefreshAnswer & { readonly reason?: string }>
  revoke(token: Secret): Promise<boolean>
  forget(): void
}

interface RequestedAccess {
  readonly scopes: readonly string[]
  readonly parameters: Readonly<Record<string, string>>
}

/** Time limit for discovery and request together. Shorter than the lease of a refresh, so that no token is sent twice (rule 26). */
const REQUEST_MS = 10_000
const MAX_LIFETIME_SECONDS = 10 * 365 * 86_400
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'

export class OAuthClient implements ProviderClient {
  readonly #finder: PeerFinder
  readonly #clock: Clock
  readonly #settings: OAuthClientSettings

  constructor(settings: OAuthClientSettings, parts: OAuthParts) {
    this.#finder = new PeerFinder(settings, parts)
    this.#clock = parts.clock
    this.#settings = settings
  }

  /** `undefined` if the endpoints of the server cannot be found. */
  async authorizationUrl(departure: Departure, requested: RequestedAccess): Promise<string | undefined> {
    const peer = await this.#finder.find().catch(() => undefined)
    const url = URL.parse(peer?.as.authorization_endpoint ?? '')
    if (peer === undefined || url === null || !isUsable(url, peer)) return undefined
    for (const [name, value] of Object.entries(requested.parameters)) url.searchParams.set(name, value)
    url.searchParams.set('response_type', 'code')
    url.searchParams.set('client_id', peer.client.client_id)
    url.searchParams.set('redirect_uri', departure.redirectUri)
    url.searchParams.set('state', departure.state)
    url.searchParams.set('code_challenge', await calculatePKCECodeChallenge(departure.verifier))
    url.searchParams.set('code_challenge_method', 'S256')
    const scopes = scopesAt(peer, requested.scopes)
    if (scopes.length > 0) url.searchParams.set('scope', scopes.join(' '))
    if (peer.resource !== undefined) url.searchParams.set('resource', peer.resource)
    if (departure.nonce !== undefined) url.searchParams.set('nonce', departure.nonce)
    return url.href
  }

  /** Exchanges the code for tokens. With `identify` the answer must have an id token with a valid signature. */
  async exchange(
    back: Return,
    wanted: { readonly scopes: readonly string[]; readonly identify: boolean },
  ): Promise<Exchanged> {
    try {
      const peer = await this.#finder.find()
      const { as, client, clientAuth, options } = peer
      const parameters = validateAuthResponse(as, client, back.parameters, back.state)
      const key = peer.usesDpop ? await proofKey(undefined) : undefined
      return await withNonce(async () => {
        const response = await authorizationCodeGrantRequest(
          as,
          client,
          clientAuth,
          parameters,
          back.redirectUri,
          back.verifier,
          { ...options, ...requestOptions(peer, key) },
        )
        const answer = await processAuthorizationCodeResponse(as, client, response, {
          ...(back.nonce === undefined ? {} : { expectedNonce: back.nonce }),
          requireIdToken: wanted.identify,
        })
        if (wanted.identify) await validateApplicationLevelSignature(as, response, options)
        return {
          kind: 'tokens',
          tokens: this.#tokensOf(answer, { peer, key, requested: scopesAt(peer, wanted.scopes) }),
          claims: getValidatedIdTokenClaims(answer),
          idToken: answer.id_token === undefined ? undefined : new Secret(answer.id_token),
        }
      })
    } catch (error) {
      if (error instanceof AuthorizationResponseError && error.error === 'access_denied')
        return { kind: 'denied' }
      return { kind: 'failed', reason: errorCodeOf(error) }
    }
  }

  async refresh(
    renewal: Renewal,
  ): Promise<RefreshAnswer & { readonly reason?: string; readonly idToken?: Secret }> {
    try {
      const peer = await this.#finder.find(AbortSignal.timeout(REQUEST_MS))
      const { as, client, clientAuth, options } = peer
      // The resource has moved to another issuer, which must not see the first one's token (MCP-157).
      if (renewal.issuer !== undefined && renewal.issuer !== as.issuer) return { kind: 'refused' }
      const key = renewal.proofKey === undefined ? undefined : await proofKey(renewal.proofKey)
      return await withNonce(async () => {
        const response = await refreshTokenGrantRequest(
          as,
          client,
          clientAuth,
          renewal.refreshToken.reveal(),
          {
            ...options,
            ...requestOptions(peer, key),
          },
        )
        const answer = await processRefreshTokenResponse(as, client, response)
        return {
          kind: 'tokens',
          tokens: this.#tokensOf(answer, { peer, key, requested: renewal.scopes }),
          ...(answer.id_token === undefined ? {} : { idToken: new Secret(answer.id_token) }),
        }
      })
    } catch (error) {
      const refused = error instanceof ResponseBodyError && error.error === 'invalid_grant'
      return refused ? { kind: 'refused' } : { kind: 'unavailable', reason: errorCodeOf(error) }
    }
  }

  /** Requests a token for this server itself, with its client credentials or its workload identity. Tries only that grant, once. */
  async obtain(scopes: readonly string[]): Promise<Obtained> {
    const { grant, assertionFile = '' } = this.#settings
    if (grant !== 'jwt_bearer') return await this.#request(scopes, 'client_credentials', {})
    const assertion = await readFile(assertionFile, 'utf8').catch(() => undefined)
    if (assertion === undefined) return { kind: 'refused', reason: 'assertion_file_unreadable' }
    return await this.#request(scopes, JWT_BEARER, { assertion: assertion.trim() })
  }

  /** Exchanges the grant of another issuer for a token of the grant's user (RFC 7523). */
  async redeem(assertion: Secret, scopes: readonly string[]): Promise<Obtained> {
    return await this.#request(scopes, JWT_BEARER, { assertion: assertion.reveal() })
  }

  /** Exchanges a token of this authorization server for a grant for another one (ID-JAG). */
  async grantFor(
    subject: { readonly token: Secret; readonly type: 'id_token' | 'refresh_token' },
    target: { readonly audience: string; readonly resource: string; readonly scopes: readonly string[] },
  ): Promise<{ readonly kind: 'grant'; readonly grant: Secret } | Failure> {
    try {
      const { as, client, clientAuth, options } = await this.#finder.find(AbortSignal.timeout(REQUEST_MS))
      const parameters = {
        requested_token_type: 'urn:ietf:params:oauth:token-type:id-jag',
        subject_token: subject.token.reveal(),
        subject_token_type: `urn:ietf:params:oauth:token-type:${subject.type}`,
        audience: target.audience,
        resource: target.resource,
        ...(target.scopes.length === 0 ? {} : { scope: target.scopes.join(' ') }),
      }
      const response = await genericTokenEndpointRequest(
        as,
        client,
        clientAuth,
        TOKEN_EXCHANGE,
        parameters,
        options,
      )
      const answer = await processGenericTokenEndpointResponse(as, client, response, {
        // The grant is not an access token (RFC 8693 §2.2.1).
        recognizedTokenTypes: { n_a: () => undefined },
      })
      return { kind: 'grant', grant: new Secret(answer.access_token) }
    } catch (error) {
      return failureOf(error)
    }
  }

  /** The issuer's identifier; `undefined` if the server cannot be found. */
  async issuer(): Promise<string | undefined> {
    return (await this.#finder.find(AbortSignal.timeout(REQUEST_MS)).catch(() => undefined))?.as.issuer
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

  forget(): void {
    this.#finder.forget()
  }

  async #request(
    scopes: readonly string[],
    grant: 'client_credentials' | typeof JWT_BEARER,
    parameters: Readonly<Record<string, string>>,
  ): Promise<Obtained> {
    try {
      const peer = await this.#finder.find(AbortSignal.timeout(REQUEST_MS))
      const { as, client, clientAuth, resource } = peer
      const key = peer.usesDpop ? await proofKey(undefined) : undefined
      const options = { ...peer.options, ...(key === undefined ? {} : { DPoP: key.handle }) }
      const requested = scopesAt(peer, scopes)
      const form = {
        ...parameters,
        ...(requested.length === 0 ? {} : { scope: requested.join(' ') }),
        ...(resource === undefined ? {} : { resource }),
      }
      return await withNonce(async () => {
        const isOwn = grant === 'client_credentials'
        const response = isOwn
          ? await clientCredentialsGrantRequest(as, client, clientAuth, form, options)
          : await genericTokenEndpointRequest(as, client, clientAuth, grant, form, options)
        const answer = isOwn
          ? await processClientCredentialsResponse(as, client, response)
          : await processGenericTokenEndpointResponse(as, client, response)
        return { kind: 'tokens', tokens: this.#tokensOf(answer, { peer, key, requested }) }
      })
    } catch (error) {
      return failureOf(error)
    }
  }

  #tokensOf(answer: TokenEndpointResponse, { peer, key, requested }: TokenRequest): TokenSet {
    const { refresh_token, expires_in, scope } = answer
    const seconds = expires_in === undefined ? undefined : Math.min(expires_in, MAX_LIFETIME_SECONDS)
    return {
      accessToken: accessToken(answer, key),
      refreshToken: refresh_token === undefined ? undefined : new Secret(refresh_token),
      // An absent scope means that all were granted as requested (RFC 6749 §5.1); some servers separate scopes by commas.
      scopes: scope === undefined ? requested : scope.split(/[ ,]+/).filter((each) => each !== ''),
      expiresAtMs: seconds === undefined ? undefined : Math.floor(this.#clock.nowMs() + seconds * 1_000),
      issuer: peer.as.issuer,
    }
  }
}

interface TokenRequest {
  readonly peer: OAuthPeer
  readonly key: ProofKey | undefined
  readonly requested: readonly string[]
}

function scopesAt({ scopes }: OAuthPeer, requested: readonly string[]): readonly string[] {
  return [...new Set([...scopes, ...requested])]
}

/** Names the resource (RFC 8707 §2.2), because an MCP server accepts only tokens that were requested for it (MCP-95). */
function requestOptions({ resource }: OAuthPeer, key: ProofKey | undefined) {
  return {
    ...(resource === undefined ? {} : { additionalParameters: { resource } }),
    ...(key === undefined ? {} : { DPoP: key.handle }),
  }
}

function failureOf(error: unknown): Failure {
  const isAnswer = error instanceof ResponseBodyError || error instanceof WWWAuthenticateChallengeError
  const kind = isAnswer ? 'refused' : 'unavailable'
  return { kind, reason: errorCodeOf(error) }
}

/** False for a discovered address that is neither https nor, where plain http is allowed, http. */
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

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256' }

/** The key of one token (DPoP, RFC 9449), which is created for each consent and stored with its token. */
interface ProofKey {
  readonly handle: DPoPHandle
  /** The private key as a JWK. */
  readonly jwk: Secret
}

/** Reads a stored key, or creates one. */
async function proofKey(kept: Secret | undefined): Promise<ProofKey> {
  const jwk = kept ?? (await newKey())
  const privateJwk: webcrypto.JsonWebKey = JSON.parse(jwk.reveal())
  const { kty = '', crv = '', x = '', y = '' } = privateJwk
  const publicJwk = { kty, crv, x, y }
  const privateKey = await crypto.subtle.importKey('jwk', privateJwk, ALGORITHM, false, ['sign'])
  const publicKey = await crypto.subtle.importKey('jwk', publicJwk, ALGORITHM, true, ['verify'])
  return { handle: DPoP({}, { privateKey, publicKey }), jwk }
}

async function newKey(): Promise<Secret> {
  const { privateKey } = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const { kty, crv, x, y, d } = await crypto.subtle.exportKey('jwk', privateKey)
  return new Secret(JSON.stringify({ kty, crv, x, y, d }))
}

/** Repeats a request once if the token endpoint requires a nonce; the DPoP handle remembers the nonce (RFC 9449 §8). */
async function withNonce<Answer>(send: () => Promise<Answer>): Promise<Answer> {
  try {
    return await send()
  } catch (error) {
    if (!isDPoPNonceError(error)) throw error
    return await send()
  }
}

/** A token of type `DPoP` is stored with its key; a server that ignores the proof issues a plain token. */
function accessToken(
  { access_token, token_type }: { readonly access_token: string; readonly token_type: string },
  key: ProofKey | undefined,
): Secret {
  const isBound = key !== undefined && token_type.toLowerCase() === 'dpop'
  return isBound ? new BoundToken(access_token, key.jwk) : new Secret(access_token)
}
