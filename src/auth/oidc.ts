import { createPublicKey, type KeyObject } from 'node:crypto'
import type { JWTPayload, ProtectedHeaderParameters } from 'jose'
import { ISSUER_ALGORITHMS, type IssuerAlgorithm, type IssuerSettings } from '#config/settings'
import { readStart } from '#core/bytes'
import { fault, type ToolError } from '#core/errors'
import { isRecord } from '#core/json'
import { DEFAULT_TENANT, grantedScopes, type RoleTable } from '#core/principal'
import type { Clock, Logger } from '#core/runtime'
import {
  claimAt,
  principalOfToken,
  refusedToken,
  SKEW_SECONDS,
  type VerifiedToken,
  wordsOf,
} from './tokens.ts'

/** Other kinds of signed tokens (logout tokens, DPoP proofs …) are no access tokens (RFC 8725 §3.11). */
const TYPES: ReadonlySet<string> = new Set(['jwt', 'at+jwt', 'application/at+jwt'])
/** Without a `kid` several keys may have signed; no real issuer has more than these. */
const MOST_TRIED = 4
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
    const { issuer, jwksUri } = settings
    this.#settings = settings
    this.#options = options
    const { fetch: send, clock, log } = options
    this.#keys = new IssuerKeySet({
      issuer,
      jwksUri,
      algorithms: algorithmsOf(settings),
      fetch: send,
      clock,
      log,
    })
  }

  /** Throws `unauthenticated`, or `not_ready` when the issuer's keys cannot be had. */
  async verify(token: string): Promise<VerifiedToken> {
    const { alg, kid, typ } = await readHeader(token)
    if (alg === undefined || !algorithmsOf(this.#settings).some((name) => name === alg))
      throw refusedToken(`The token is signed with an algorithm that is not taken here.`)
    if (typ !== undefined && !TYPES.has(typ.toLowerCase()))
      throw refusedToken('The token is not an access token.')
    const keys = await this.#keys.candidates(kid, alg)
    const claims = await this.#checkSignature(token, keys.slice(0, MOST_TRIED))
    const { iss, sub, exp } = claims
    if (exp === undefined || iss !== this.#settings.issuer)
      throw refusedToken('The token has no `exp` claim, or another issuer.')
    const principal = principalOfToken(
      { issuer: iss, subject: sub },
      { tenant: this.#tenantOf(claims), scopes: this.#scopesOf(claims) },
    )
    return { principal, expiresAt: exp }
  }

  async #checkSignature(token: string, keys: readonly IssuerKey[]): Promise<JWTPayload> {
    const { errors, jwtVerify } = await import('jose')
    for (const { key, algorithms } of keys) {
      try {
        const { payload } = await jwtVerify(token, key, {
          algorithms: [...algorithms],
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

  /** From the claim that was configured for it, and then never from anywhere else (rule 3). */
  #tenantOf(claims: JWTPayload): string {
    const path = this.#settings.claims.tenant
    if (path === undefined) return this.#settings.tenant
    const tenant = claimAt(claims, path)
    if (typeof tenant !== 'string' || !TENANT.test(tenant))
      throw refusedToken('The token names no tenant that this server can use.')
    // Its credentials look after the whole server: an issuer's customer may be called so, and must not be it by chance.
    if (tenant === DEFAULT_TENANT && this.#settings.allowDefaultTenant !== true)
      throw refusedToken('The token names the tenant `default`, which is not for tokens of this issuer.')
    return tenant
  }

  /** Wildcards are for the operator to give, by a role; a scope a client asked its issuer for has none. */
  #scopesOf(claims: JWTPayload): readonly string[] {
    const { scopes: scopePath, roles: rolePath } = this.#settings.claims
    const scopes = wordsOf(claimAt(claims, scopePath ?? ['scope']), 'scopes').filter(
      (scope) => !scope.includes('*'),
    )
    const roles = rolePath === undefined ? [] : wordsOf(claimAt(claims, rolePath), 'roles')
    return grantedScopes(this.#options.roles, { scopes, roles })
  }
}

function algorithmsOf({ algorithms }: IssuerSettings): readonly IssuerAlgorithm[] {
  return algorithms ?? ISSUER_ALGORITHMS
}

async function readHeader(token: string): Promise<ProtectedHeaderParameters> {
  const { decodeProtectedHeader } = await import('jose')
  try {
    return decodeProtectedHeader(token)
  } catch {
    throw refusedToken('The token is not a JWT.')
  }
}

/** Keys are asked for again when they are this old … */
const FRESH_MS = 10 * 60_000
/** … and used up to this age while the issuer does not answer. */
const LONGEST_STALE_MS = 4 * 3_600_000
/** At most one request in this time, whatever `kid`s are presented … */
const PAUSE_MS = 30_000
/** … and after one that failed, so that an outage ends soon after its cause. */
const PAUSE_AFTER_FAILURE_MS = 5_000

interface IssuerKeySetOptions {
  readonly issuer: string
  readonly jwksUri: string | undefined
  readonly algorithms: readonly IssuerAlgorithm[]
  readonly fetch: typeof fetch
  readonly clock: Clock
  readonly log: Logger
}

/** The signing keys of one issuer: found by discovery, kept, refreshed, rotated. */
class IssuerKeySet {
  readonly #options: IssuerKeySetOptions
  #keys: readonly IssuerKey[] | undefined
  #readAtMs = Number.NEGATIVE_INFINITY
  #askAgainAtMs = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined

  constructor(options: IssuerKeySetOptions) {
    this.#options = options
  }

  /**
   * The keys that may have signed a token with this header. An unknown `kid` may be a new key, so it asks the issuer
   * once more; a known one never waits for it.
   */
  async candidates(kid: string | undefined, algorithm: string): Promise<readonly IssuerKey[]> {
    const ageMs = this.#options.clock.monotonicMs() - this.#readAtMs
    if (this.#keys === undefined || ageMs > LONGEST_STALE_MS) await this.#ask()
    else if (ageMs > FRESH_MS) void this.#ask()
    const known = this.#matching(kid, algorithm)
    if (known.length > 0) return known
    await this.#ask()
    return this.#matching(kid, algorithm)
  }

  #matching(kid: string | undefined, algorithm: string): readonly IssuerKey[] {
    const ageMs = this.#options.clock.monotonicMs() - this.#readAtMs
    if (this.#keys === undefined || ageMs > LONGEST_STALE_MS) throw this.#unavailable()
    return this.#keys.filter(
      (key) => (kid === undefined || key.kid === kid) && key.algorithms.some((name) => name === algorithm),
    )
  }

  /** One request at a time, and one per pause. Never throws: what it could not get shows in the keys. */
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
    const { issuer, fetch: send, algorithms, log } = this.#options
    try {
      const uri = this.#options.jwksUri ?? (await this.#discover())
      const keys = readKeySet(await fetchJson(uri, send), algorithms)
      if (keys.length === 0) throw new Error('the key set has no key that can be used')
      this.#keys = keys
      this.#readAtMs = sentAtMs
    } catch (err) {
      this.#askAgainAtMs = sentAtMs + PAUSE_AFTER_FAILURE_MS
      log.warn(
        { err, issuer },
        'the keys of a token issuer could not be read; known ones are used for a while',
      )
    }
  }

  /** OpenID Connect Discovery §4. The document must be the issuer's own, or another's keys could be slipped in. */
  async #discover(): Promise<string> {
    const { issuer, fetch: send } = this.#options
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
    const document = await fetchJson(url, send)
    if (document.issuer !== issuer) throw new Error(`${url} is the document of another issuer`)
    const uri = typeof document.jwks_uri === 'string' ? URL.parse(document.jwks_uri) : null
    // An issuer that is asked over TLS must not send us to keys in the clear.
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

const MOST_KEYS = 100

/** A key of an issuer, and the only algorithms it is ever used with: they are fixed before a token is looked at. */
interface IssuerKey {
  readonly kid: string | undefined
  readonly algorithms: readonly IssuerAlgorithm[]
  readonly key: KeyObject
}

const BY_CURVE: Readonly<Record<string, readonly IssuerAlgorithm[]>> = {
  'P-256': ['ES256'],
  'P-384': ['ES384'],
  'P-521': ['ES512'],
  Ed25519: ['EdDSA', 'Ed25519'],
}

/** The keys of a set that can check signatures; those we cannot use are left out, as RFC 7517 §5 asks. */
function readKeySet(
  document: Readonly<Record<string, unknown>>,
  allowed: readonly IssuerAlgorithm[],
): readonly IssuerKey[] {
  const { keys } = document
  if (!Array.isArray(keys)) throw new Error('the key set has no `keys`')
  if (keys.length > MOST_KEYS) throw new Error(`the key set has more than ${MOST_KEYS} keys`)
  return keys.flatMap((jwk: unknown) => readKey(jwk, allowed) ?? [])
}

function readKey(jwk: unknown, allowed: readonly IssuerAlgorithm[]): IssuerKey | undefined {
  if (!isRecord(jwk) || !isForSignatures(jwk)) return undefined
  const algorithms = algorithmsOfInIssuerKeys(jwk).filter((name) => allowed.includes(name))
  if (algorithms.length === 0) return undefined
  // Only the public members: whatever else a hostile set holds is not even looked at.
  const { kty, crv, x, y, n, e, kid } = jwk
  const members = Object.entries({ kty, crv, x, y, n, e }).filter(([, value]) => typeof value === 'string')
  try {
    const key = createPublicKey({ format: 'jwk', key: Object.fromEntries(members) })
    return { kid: typeof kid === 'string' ? kid : undefined, algorithms, key }
  } catch {
    return undefined
  }
}

function isForSignatures({ use, key_ops: operations }: Readonly<Record<string, unknown>>): boolean {
  if (use !== undefined && use !== 'sig') return false
  return operations === undefined || (Array.isArray(operations) && operations.includes('verify'))
}

/** The key's own `alg`, or what its type can do. */
function algorithmsOfInIssuerKeys(jwk: Readonly<Record<string, unknown>>): readonly IssuerAlgorithm[] {
  const { kty, crv, alg } = jwk
  const possible: readonly IssuerAlgorithm[] =
    kty === 'RSA'
      ? ISSUER_ALGORITHMS.filter((name) => /^[RP]S/.test(name))
      : kty === 'EC' || kty === 'OKP'
        ? (BY_CURVE[String(crv)] ?? [])
        : []
  if (alg === undefined) return possible
  const isEdwards = alg === 'EdDSA' || alg === 'Ed25519'
  return isEdwards ? possible.filter((name) => /^Ed/.test(name)) : possible.filter((name) => name === alg)
}

const LARGEST_BYTES = 512 * 1_024
const PATIENCE_MS = 5_000

/** One JSON object from an issuer: no redirects, bounded in size and time. Throws on anything else. */
async function fetchJson(url: string, send: typeof fetch): Promise<Readonly<Record<string, unknown>>> {
  const response = await send(url, {
    headers: { accept: 'application/json' },
    // Wherever it would lead, nobody configured that place.
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
  const { bytes, isWhole } = await readStart(response.body, LARGEST_BYTES)
  if (!isWhole) throw new Error(`${url} gave more than ${LARGEST_BYTES} bytes`)
  return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
}
