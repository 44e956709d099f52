import { createPublicKey } from 'node:crypto'
import type { CryptoKey, createLocalJWKSet, JWK, JWTHeaderParameters, JWTPayload } from 'jose'
import { ISSUER_ALGORITHMS, type IssuerSettings } from '#config/settings'
import { readStart } from '#kernel/base/bytes'
import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { isRecord } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import { DEFAULT_TENANT, granted, type Principal, type RoleTable } from '#kernel/base/principal'
import {
  claimAt,
  listOf,
  principalOfToken,
  refusedToken,
  type VerifiedToken,
  verifySignature,
} from './tokens.ts'

/**
 * Verifies access tokens from OpenID Connect issuers: JWTs signed with a key that the issuer publishes. `tokens.ts` selects the
 * issuer by the `iss` claim.
 * Invariant: an issuer's keys are requested at most once per `PAUSE_MS`, whatever tokens arrive. While the issuer does not answer,
 * known keys are used for hours.
 */

/** Other signed tokens (logout tokens, DPoP proofs …) are not access tokens (RFC 8725 §3.11). */
const TYPES: ReadonlySet<string> = new Set(['jwt', 'at+jwt', 'application/at+jwt'])
const TENANT = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$/

interface OidcIssuerOptions {
  readonly roles: RoleTable
  readonly fetch: typeof fetch
  readonly clock: Clock
  readonly log: Logger
}

export class OidcIssuer {
  readonly #settings: IssuerSettings
  readonly #options: OidcIssuerOptions
  readonly #keys: IssuerKeySet

  constructor(settings: IssuerSettings, options: OidcIssuerOptions) {
    this.#settings = settings
    this.#options = options
    this.#keys = new IssuerKeySet(settings, options)
  }

  /** Throws `unauthenticated`, or `not_ready` if the issuer's keys cannot be read. */
  async verify(token: string): Promise<VerifiedToken> {
    const header = await readHeader(token)
    const allowed: readonly string[] = this.#settings.algorithms ?? ISSUER_ALGORITHMS
    if (!allowed.includes(header.alg))
      throw refusedToken('The token is signed with an algorithm that is not accepted here.')
    if (header.typ !== undefined && !TYPES.has(header.typ.toLowerCase()))
      throw refusedToken('The token is not an access token.')
    const claims = await this.#checkSignature(token, header.alg, await this.#keys.candidates(header))
    const { iss, sub, exp } = claims
    if (exp === undefined || iss !== this.#settings.issuer)
      throw refusedToken('The token has no `exp` claim, or is from another issuer.')
    const principal = principalOfToken(
      { issuer: iss, subject: sub },
      { tenant: this.#tenantOf(claims), ...this.#grantedTo(claims) },
    )
    return { principal, expiresAt: exp }
  }

  async #checkSignature(token: string, alg: string, keys: readonly CryptoKey[]): Promise<JWTPayload> {
    const { issuer, audiences } = this.#settings
    const expected = { algorithms: [alg], issuer, audience: [...audiences], requiredClaims: ['exp'] }
    for (const key of keys) {
      const claims = await verifySignature(token, key, this.#options.clock, expected)
      if (claims !== undefined) return claims
    }
    throw refusedToken("The token is not signed with one of its issuer's keys.")
  }

  /** The tenant comes only from the configured claim (rule 3). */
  #tenantOf(claims: JWTPayload): string {
    const path = this.#settings.claims.tenant
    if (path === undefined) return this.#settings.tenant
    const tenant = claimAt(claims, path)
    if (typeof tenant !== 'string' || !TENANT.test(tenant))
      throw refusedToken('The token does not name a tenant that this server can use.')
    // Credentials of this tenant can operate the whole server, and a customer of the issuer may have this name by chance.
    if (tenant === DEFAULT_TENANT && this.#settings.allowDefaultTenant !== true)
      throw refusedToken('The token names the tenant `default`, which tokens from this issuer may not use.')
    return tenant
  }

  /** Only the operator grants wildcards, by a role; wildcards in a token's scopes are ignored. */
  #grantedTo(claims: JWTPayload): Pick<Principal, 'scopes' | 'toolsets'> {
    const { scopes: scopePath, roles: rolePath } = this.#settings.claims
    const scopes = listOf(claimAt(claims, scopePath ?? ['scope']), 'scopes').filter(
      (scope) => !scope.includes('*'),
    )
    const roles = rolePath === undefined ? [] : listOf(claimAt(claims, rolePath), 'roles')
    return granted(this.#options.roles, { scopes, roles })
  }
}

async function readHeader(token: string): Promise<JWTHeaderParameters> {
  const { decodeProtectedHeader } = await import('jose')
  try {
    const { alg = '', ...header } = decodeProtectedHeader(token)
    return { ...header, alg }
  } catch {
    throw refusedToken('The token is not a JWT.')
  }
}

/** Keys older than this are read again. */
const FRESH_MS = 10 * 60_000
/** While the issuer does not answer, keys are used up to this age. */
const MAX_STALE_MS = 4 * 3_600_000
/** Minimum time between two requests, regardless of the `kid`s that tokens have. */
const PAUSE_MS = 30_000
/** Minimum time after a failed request. It is short, so that tokens work again soon after the issuer's outage. */
const PAUSE_AFTER_FAILURE_MS = 5_000

class IssuerKeySet {
  readonly #settings: IssuerSettings
  readonly #options: OidcIssuerOptions
  #find: ReturnType<typeof createLocalJWKSet> | undefined
  #readAtMs = Number.NEGATIVE_INFINITY
  #askAgainAtMs = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined

  constructor(settings: IssuerSettings, options: OidcIssuerOptions) {
    this.#settings = settings
    this.#options = options
  }

  /**
   * The keys that may have signed a token with this header. An unknown `kid` may be a new key, so the keys are requested again;
   * a known `kid` never waits for the issuer.
   */
  async candidates(header: JWTHeaderParameters): Promise<readonly CryptoKey[]> {
    const ageMs = this.#options.clock.monotonicMs() - this.#readAtMs
    if (this.#find === undefined || ageMs > MAX_STALE_MS) await this.#ask()
    else if (ageMs > FRESH_MS) void this.#ask()
    const known = await this.#matching(header)
    if (known.length > 0) return known
    await this.#ask()
    return this.#matching(header)
  }

  async #matching(header: JWTHeaderParameters): Promise<readonly CryptoKey[]> {
    const ageMs = this.#options.clock.monotonicMs() - this.#readAtMs
    if (this.#find === undefined || ageMs > MAX_STALE_MS) {
      const message = 'Tokens from this issuer cannot be checked right now. Try again shortly.'
      throw fault('not_ready', message, { retryAfterMs: PAUSE_AFTER_FAILURE_MS })
    }
    try {
      return [await this.#find(header)]
    } catch (error) {
      const { errors } = await import('jose')
      return error instanceof errors.JWKSMultipleMatchingKeys ? await firstOf(error) : []
    }
  }

  /** Sends one request at a time, and at most one per pause. Never throws: without an answer the keys stay as they are. */
  #ask(): Promise<void> {
    if (this.#asking !== undefined) return this.#asking
    const nowMs = this.#options.clock.monotonicMs()
    if (nowMs < this.#askAgainAtMs) return Promise.resolve()
    this.#askAgainAtMs = nowMs + PAUSE_MS
    this.#asking = this.#read(nowMs).finally(() => {
      this.#asking = undefined
    })
    return this.#asking
  }

  async #read(sentAtMs: number): Promise<void> {
    const { issuer, jwksUri } = this.#settings
    const { fetch: send, log } = this.#options
    try {
      const keys = readKeySet(await fetchJson(jwksUri ?? (await this.#discover()), send))
      if (keys.length === 0) throw new Error('the key set has no key that can be used')
      const { createLocalJWKSet } = await import('jose')
      this.#find = createLocalJWKSet({ keys: [...keys] })
      this.#readAtMs = sentAtMs
    } catch (err) {
      this.#askAgainAtMs = sentAtMs + PAUSE_AFTER_FAILURE_MS
      const message = 'cannot read the keys of a token issuer; known keys are used for a while'
      log.warn({ err, issuer }, message)
    }
  }

  /** OpenID Connect Discovery §4. The document must name the issuer, so that no other issuer can supply keys. */
  async #discover(): Promise<string> {
    const { issuer } = this.#settings
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
    const document = await fetchJson(url, this.#options.fetch)
    if (document.issuer !== issuer) throw new Error(`${url} is the document of another issuer`)
    const uri = typeof document.jwks_uri === 'string' ? URL.parse(document.jwks_uri) : null
    // An issuer that is reached over TLS must not refer to keys on plain http.
    if (uri === null || (uri.protocol !== 'https:' && uri.protocol !== new URL(issuer).protocol))
      throw new Error(`${url} does not contain a usable jwks_uri`)
    return uri.href
  }
}

/** Without a `kid` several keys may have signed the token; real issuers have no more than `MAX_TRIED`. */
async function firstOf(keys: AsyncIterable<CryptoKey>): Promise<readonly CryptoKey[]> {
  const found: CryptoKey[] = []
  for await (const key of keys) if (found.push(key) === MAX_TRIED) break
  return found
}

const MAX_TRIED = 4
const MAX_KEYS = 100

/** Keys that cannot be used are left out, as RFC 7517 §5 requires. */
function readKeySet({ keys }: Readonly<Record<string, unknown>>): readonly JWK[] {
  if (!Array.isArray(keys)) throw new Error('the key set has no `keys`')
  if (keys.length > MAX_KEYS) throw new Error(`the key set has more than ${MAX_KEYS} keys`)
  return keys.flatMap((jwk: unknown) => readKey(jwk) ?? [])
}

/** Reads only the public members and the use of the key, because a hostile set may contain anything else. */
function readKey(jwk: unknown): JWK | undefined {
  if (!isRecord(jwk)) return undefined
  const { kty, crv, x, y, n, e, kid, alg, use, key_ops } = jwk
  const members = Object.entries({ kty, crv, x, y, n, e }).filter(([, value]) => typeof value === 'string')
  const key = Object.fromEntries(members)
  try {
    createPublicKey({ format: 'jwk', key })
  } catch {
    return undefined
  }
  // These are two names for one algorithm (RFC 9864), which the curve already identifies.
  const isEdwards = alg === 'EdDSA' || alg === 'Ed25519'
  const limits = Object.entries({ kid, alg: isEdwards ? undefined : alg, use, key_ops })
  return { ...key, ...Object.fromEntries(limits.filter(([, value]) => value !== undefined)) }
}

const MAX_BYTES = 512 * 1_024
const REQUEST_TIMEOUT_MS = 5_000

/** Reads a JSON object without redirects, bounded in size and time. Throws for anything else. */
async function fetchJson(url: string, send: typeof fetch): Promise<Readonly<Record<string, unknown>>> {
  const response = await send(url, {
    headers: { accept: 'application/json' },
    // A redirect leads to an address that the operator has not configured.
    redirect: 'error',
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  })
  if (!response.ok) {
    await response.body?.cancel()
    throw new Error(`${url} answered ${response.status}`)
  }
  const { bytes, isWhole } = await readStart(response.body, MAX_BYTES)
  if (!isWhole) throw new Error(`${url} returned more than ${MAX_BYTES} bytes`)
  const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  if (isRecord(value)) return value
  throw new Error(`${url} did not return a JSON object`)
}
