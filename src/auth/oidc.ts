import { createPublicKey } from 'node:crypto'
import type { CryptoKey, createLocalJWKSet, JWK, JWTHeaderParameters, JWTPayload } from 'jose'
import { ISSUER_ALGORITHMS, type IssuerSettings } from '#config/settings'
import { readStart } from '#kernel/base/bytes'
import type { Clock } from '#kernel/base/clock'
import { fault, type ToolError } from '#kernel/base/errors'
import { isRecord } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import { DEFAULT_TENANT, granted, type Principal, type RoleTable } from '#kernel/base/principal'
import {
  claimAt,
  principalOfToken,
  refusedToken,
  SKEW_SECONDS,
  type VerifiedToken,
  wordsOf,
} from './tokens.ts'

/*
 * Verifies access tokens of OpenID Connect issuers, and keeps their signing keys.
 * Used by `tokens.ts`.
 * Invariant: keys come only from the configured issuer, and the number of requests to it is bounded.
 */

/** Other kinds of signed tokens (logout tokens, DPoP proofs …) are no access tokens (RFC 8725 §3.11). */
const TYPES: ReadonlySet<string> = new Set(['jwt', 'at+jwt', 'application/at+jwt'])
const TENANT = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$/

interface OidcIssuerOptions {
  readonly roles: RoleTable
  readonly fetch: typeof fetch
  readonly clock: Clock
  readonly log: Logger
}

/** Access tokens of one OpenID Connect issuer: JWTs signed with one of its published keys. */
export class OidcIssuer {
  readonly #settings: IssuerSettings
  readonly #options: OidcIssuerOptions
  readonly #keys: IssuerKeySet

  constructor(settings: IssuerSettings, options: OidcIssuerOptions) {
    this.#settings = settings
    this.#options = options
    this.#keys = new IssuerKeySet(settings, options)
  }

  /** Throws `unauthenticated`, or `not_ready` if the issuer's keys cannot be fetched. */
  async verify(token: string): Promise<VerifiedToken> {
    const header = await readHeader(token)
    const allowed: readonly string[] = this.#settings.algorithms ?? ISSUER_ALGORITHMS
    if (!allowed.includes(header.alg))
      throw refusedToken(`The token is signed with an algorithm that is not taken here.`)
    if (header.typ !== undefined && !TYPES.has(header.typ.toLowerCase()))
      throw refusedToken('The token is not an access token.')
    const claims = await this.#checkSignature(token, header.alg, await this.#keys.candidates(header))
    const { iss, sub, exp } = claims
    if (exp === undefined || iss !== this.#settings.issuer)
      throw refusedToken('The token has no `exp` claim, or another issuer.')
    const principal = principalOfToken(
      { issuer: iss, subject: sub },
      { tenant: this.#tenantOf(claims), ...this.#grantedTo(claims) },
    )
    return { principal, expiresAt: exp }
  }

  async #checkSignature(token: string, alg: string, keys: readonly CryptoKey[]): Promise<JWTPayload> {
    const { errors, jwtVerify } = await import('jose')
    for (const key of keys) {
      try {
        const { payload } = await jwtVerify(token, key, {
          algorithms: [alg],
          issuer: this.#settings.issuer,
          audience: [...this.#settings.audiences],
          requiredClaims: ['exp'],
          clockTolerance: SKEW_SECONDS,
          currentDate: new Date(this.#options.clock.nowMs()),
        })
        return payload
      } catch (cause) {
        if (cause instanceof errors.JWTExpired) throw refusedToken('The token has expired; get a new one.')
        if (cause instanceof errors.JWTClaimValidationFailed)
          throw refusedToken(`The token's \`${cause.claim}\` claim is not acceptable.`)
      }
    }
    throw refusedToken('The token is not signed with a key of its issuer.')
  }

  /** Only from the claim that is configured for it (rule 3). */
  #tenantOf(claims: JWTPayload): string {
    const path = this.#settings.claims.tenant
    if (path === undefined) return this.#settings.tenant
    const tenant = claimAt(claims, path)
    if (typeof tenant !== 'string' || !TENANT.test(tenant))
      throw refusedToken('The token names no tenant that this server can use.')
    // Credentials of this tenant manage the whole server, so a tenant of an issuer must not get it by having its name.
    if (tenant === DEFAULT_TENANT && this.#settings.allowDefaultTenant !== true)
      throw refusedToken('The token names the tenant `default`, which is not for tokens of this issuer.')
    return tenant
  }

  /** Without wildcards: only the operator grants those, by a role. */
  #grantedTo(claims: JWTPayload): Pick<Principal, 'scopes' | 'toolsets'> {
    const { scopes: scopePath, roles: rolePath } = this.#settings.claims
    const scopes = wordsOf(claimAt(claims, scopePath ?? ['scope']), 'scopes').filter(
      (scope) => !scope.includes('*'),
    )
    const roles = rolePath === undefined ? [] : wordsOf(claimAt(claims, rolePath), 'roles')
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

/** Keys are fetched again at this age … */
const FRESH_MS = 10 * 60_000
/** … and used until this age while the issuer does not answer. */
const MAX_STALE_MS = 4 * 3_600_000
/** At most one request in this time, whatever `kid`s are presented … */
const PAUSE_MS = 30_000
/** … and after one that failed, so that an outage ends soon after its cause. */
const PAUSE_AFTER_FAILURE_MS = 5_000

/** The signing keys of one issuer: found by discovery, kept, refreshed, rotated. */
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
   * The keys that may have signed a token with this header. An unknown `kid` may be a new key, so the keys are fetched
   * once more; a known one never waits.
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
    if (this.#find === undefined || ageMs > MAX_STALE_MS) throw this.#unavailable()
    try {
      return [await this.#find(header)]
    } catch (error) {
      const { errors } = await import('jose')
      return error instanceof errors.JWKSMultipleMatchingKeys ? await firstOf(error) : []
    }
  }

  /** One request at a time, and one per pause. Never throws; a failure leaves the keys as they are. */
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
      log.warn(
        { err, issuer },
        'the keys of a token issuer could not be read; known ones are used for a while',
      )
    }
  }

  /** OpenID Connect Discovery §4. The document must name the issuer itself, or foreign keys could be injected. */
  async #discover(): Promise<string> {
    const { issuer } = this.#settings
    const { fetch: send } = this.#options
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
    const document = await fetchJson(url, send)
    if (document.issuer !== issuer) throw new Error(`${url} is the document of another issuer`)
    const uri = typeof document.jwks_uri === 'string' ? URL.parse(document.jwks_uri) : null
    // An issuer with https must not lead to keys over plain http.
    if (uri === null || (uri.protocol !== 'https:' && uri.protocol !== new URL(issuer).protocol))
      throw new Error(`${url} names no usable jwks_uri`)
    return uri.href
  }

  #unavailable(): ToolError {
    return fault('not_ready', 'Tokens of this issuer cannot be checked right now. Try again shortly.', {
      retryAfterMs: PAUSE_AFTER_FAILURE_MS,
    })
  }
}

/** Without a `kid` several keys may have signed; no real issuer has more than `MAX_TRIED`. */
async function firstOf(keys: AsyncIterable<CryptoKey>): Promise<readonly CryptoKey[]> {
  const found: CryptoKey[] = []
  for await (const key of keys) if (found.push(key) === MAX_TRIED) break
  return found
}

const MAX_TRIED = 4
const MAX_KEYS = 100

/** The public keys of a set; those we cannot use are left out, as RFC 7517 §5 asks. */
function readKeySet({ keys }: Readonly<Record<string, unknown>>): readonly JWK[] {
  if (!Array.isArray(keys)) throw new Error('the key set has no `keys`')
  if (keys.length > MAX_KEYS) throw new Error(`the key set has more than ${MAX_KEYS} keys`)
  return keys.flatMap((jwk: unknown) => readKey(jwk) ?? [])
}

/** Reads only the public members and the purpose of a key; other members of a hostile set are ignored. */
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
  // One algorithm has two names (RFC 9864); the curve determines it.
  const isEdwards = alg === 'EdDSA' || alg === 'Ed25519'
  const limits = Object.entries({ kid, alg: isEdwards ? undefined : alg, use, key_ops })
  return { ...key, ...Object.fromEntries(limits.filter(([, value]) => value !== undefined)) }
}

const MAX_BYTES = 512 * 1_024
const PATIENCE_MS = 5_000

/** One JSON object from an issuer: no redirects, bounded in size and time. Throws on anything else. */
async function fetchJson(url: string, send: typeof fetch): Promise<Readonly<Record<string, unknown>>> {
  const response = await send(url, {
    headers: { accept: 'application/json' },
    // A redirect would lead to an address that the operator did not configure.
    redirect: 'error',
    signal: AbortSignal.timeout(PATIENCE_MS),
  })
  if (!response.ok) {
    await response.body?.cancel()
    throw new Error(`${url} answered ${response.status}`)
  }
  const value: unknown = JSON.parse(await readText(response, url))
  if (isRecord(value)) return value
  throw new Error(`${url} gave no JSON object`)
}

async function readText(response: Response, url: string): Promise<string> {
  const { bytes, isWhole } = await readStart(response.body, MAX_BYTES)
  if (!isWhole) throw new Error(`${url} gave more than ${MAX_BYTES} bytes`)
  return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
}
