import { createSecretKey, type KeyObject } from 'node:crypto'
import type { CryptoKey, JWTPayload, JWTVerifyOptions } from 'jose'
import type { JwtSettings } from '#config/settings'
import { BoundedMap } from '#kernel/base/bounded-map'
import type { Clock } from '#kernel/base/clock'
import { fault, type ToolError } from '#kernel/base/errors'
import { hasControlCharacter } from '#kernel/base/json'
import { ANONYMOUS, makePrincipal, type Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import type { OidcIssuer } from './oidc.ts'

/**
 * Verifies JWTs, each with exactly one verifier: that of its OpenID Connect issuer or the shared secret (OTC-104…110, OTC/T-15).
 * The authenticator calls `Tokens`; the verifiers share the other functions.
 * Invariant: messages contain no part of a token. A verified token is remembered for a minute.
 */

/** Longer tokens are refused without parsing them. */
const MAX_TOKEN_LENGTH = 8_192
const MAX_CACHED = 10_000
const MAX_CACHED_CHARACTERS = 8 * 1_024 * 1_024
/** How long a verified token is remembered, and so how long a withdrawn signing key is trusted at most. */
const REMEMBERED_MS = 60_000

interface TokensOptions {
  readonly jwt: JwtVerifier | undefined
  /** Keyed by the exact `iss` of their tokens. */
  readonly issuers: ReadonlyMap<string, OidcIssuer>
  readonly clock: Clock
}

export class Tokens {
  readonly #options: TokensOptions
  /** Keyed by the token; see `ApiKeys` about timing. */
  readonly #verified = new BoundedMap<string, { readonly principal: Principal; readonly untilMs: number }>({
    entries: MAX_CACHED,
    weight: MAX_CACHED_CHARACTERS,
  })

  constructor(options: TokensOptions) {
    this.#options = options
  }

  /** The principal of a token that was verified within the last minute. */
  recall(token: string): Principal | undefined {
    const known = this.#verified.get(token)
    if (known === undefined) return undefined
    if (this.#options.clock.nowMs() < known.untilMs) return known.principal
    this.#verified.delete(token)
    return undefined
  }

  /** Throws `unauthenticated`, or `not_ready` if an issuer does not answer. */
  verify(token: string): MaybePromise<Principal> {
    return this.recall(token) ?? this.#verifyNew(token)
  }

  async #verifyNew(token: string): Promise<Principal> {
    if (token.length > MAX_TOKEN_LENGTH)
      throw refusedToken(`The token is longer than ${MAX_TOKEN_LENGTH} characters.`)
    const { principal, expiresAt } = await this.#verifyBy(token)
    const nowMs = this.#options.clock.nowMs()
    const untilMs = Math.min((expiresAt + SKEW_SECONDS) * 1_000, nowMs + REMEMBERED_MS)
    this.#verified.set(token, { principal, untilMs }, token.length)
    return principal
  }

  /**
   * A token that names a configured issuer is verified by that issuer alone: a holder of the shared secret must not sign for
   * the issuer's subjects.
   */
  async #verifyBy(token: string): Promise<VerifiedToken> {
    const { jwt, issuers } = this.#options
    const issuer = issuers.size === 0 ? undefined : issuers.get(await issuerOf(token))
    if (issuer !== undefined) return issuer.verify(token)
    if (jwt !== undefined) return jwt.verify(token)
    throw refusedToken('The token is from an issuer that this server does not know.')
  }
}

/** `jose` is loaded with the first token, because most servers get none. */
async function issuerOf(token: string): Promise<string> {
  const { decodeJwt } = await import('jose')
  try {
    return decodeJwt(token).iss ?? ''
  } catch {
    throw refusedToken('The token is not a JWT.')
  }
}

export class JwtVerifier {
  readonly #settings: JwtSettings
  readonly #clock: Clock
  readonly #key: KeyObject

  constructor(settings: JwtSettings, clock: Clock) {
    this.#settings = settings
    this.#clock = clock
    this.#key = createSecretKey(settings.secret.reveal(), 'utf8')
  }

  /** Throws `unauthenticated`. The message is precise only for a token with a valid signature. */
  async verify(token: string): Promise<VerifiedToken> {
    const claims = await verifySignature(token, this.#key, this.#clock, { algorithms: ['HS256'] })
    if (claims === undefined)
      throw refusedToken('The token is not a JWT signed with HS256 and the shared secret of this server.')
    const { exp, iat, aud, iss, sub } = claims
    if (exp === undefined)
      throw refusedToken('The token has no `exp` claim; add one at most 15 minutes ahead.')
    this.#checkLifetime(exp, iat)
    this.#checkAudience(aud)
    if (iss !== undefined && typeof iss !== 'string')
      throw refusedToken("The token's `iss` claim is not a string.")
    const { tenant } = this.#settings
    const scopes = listOf(claims.scope ?? claims.scopes, 'scopes')
    const principal = principalOfToken({ issuer: iss ?? '', subject: sub }, { tenant, scopes })
    return { principal, expiresAt: exp }
  }

  #checkLifetime(exp: number, iat: number | undefined): void {
    const { maxLifetimeSeconds: max } = this.#settings
    const startedAt = Math.min(this.#clock.nowMs() / 1_000, iat ?? Infinity)
    if (exp - startedAt <= max + SKEW_SECONDS) return
    throw refusedToken(`The token's lifetime is too long: \`exp\` may be at most ${max} seconds ahead.`)
  }

  /** The audience is optional, but checked if present (OTC-109). */
  #checkAudience(aud: string | string[] | undefined): void {
    if (aud === undefined) return
    if ([aud].flat().some((audience) => this.#settings.audiences.includes(audience))) return
    throw refusedToken('The token is for an audience other than this server.')
  }
}

/** The claims of a token with a valid signature and valid dates; `undefined` if the key did not sign it. */
export async function verifySignature(
  token: string,
  key: CryptoKey | KeyObject,
  clock: Clock,
  expected: Pick<JWTVerifyOptions, 'algorithms' | 'issuer' | 'audience' | 'requiredClaims'>,
): Promise<JWTPayload | undefined> {
  const { errors, jwtVerify } = await import('jose')
  try {
    const currentDate = new Date(clock.nowMs())
    const options = { ...expected, clockTolerance: SKEW_SECONDS, currentDate }
    return (await jwtVerify(token, key, options)).payload
  } catch (cause) {
    if (cause instanceof errors.JWTExpired) throw refusedToken('The token has expired; get a new one.')
    if (cause instanceof errors.JWTClaimValidationFailed)
      throw refusedToken(`The token's \`${cause.claim}\` claim is not acceptable.`)
    return undefined
  }
}

const MAX_SUBJECT_LENGTH = 512

export interface VerifiedToken {
  readonly principal: Principal
  /** `exp` in seconds, without the tolerance for clocks. */
  readonly expiresAt: number
}

/** Tokens without a subject share the anonymous principal, which cannot decide approvals (rule 3). */
export function principalOfToken(
  token: { readonly issuer: string; readonly subject: unknown },
  granted: Pick<Principal, 'tenant' | 'scopes' | 'toolsets'>,
): Principal {
  const { issuer, subject } = token
  const { tenant, toolsets } = granted
  if (subject !== undefined && typeof subject !== 'string')
    throw refusedToken("The token's `sub` claim is not a string.")
  if (subject === undefined || subject === '') return makePrincipal({ ...ANONYMOUS, tenant, toolsets })
  // The subject becomes part of an id that is stored and shown to operators.
  if (subject.length > MAX_SUBJECT_LENGTH || hasControlCharacter(subject) || !subject.isWellFormed())
    throw refusedToken("The token's `sub` claim is too long or contains invalid characters.")
  if (hasControlCharacter(issuer)) throw refusedToken("The token's `iss` claim contains invalid characters.")
  return makePrincipal({ id: jwtPrincipalId(issuer, subject), ...granted })
}

/** Unique for each pair of issuer and subject, because every `#` in the issuer is escaped (rule 3). */
export function jwtPrincipalId(issuer: string, subject: string): string {
  return `jwt:${issuer.replaceAll('%', '%25').replaceAll('#', '%23')}#${subject}`
}

/** Reads a claim that is one string with spaces, or an array of strings. */
export function listOf(claim: unknown, what: string): readonly string[] {
  if (claim === undefined) return []
  if (typeof claim === 'string') return claim.split(' ').filter((word) => word !== '')
  if (Array.isArray(claim) && claim.every((word) => typeof word === 'string')) return claim
  throw refusedToken(`The token's ${what} are neither a string nor an array of strings.`)
}

export function claimAt(claims: JWTPayload, path: readonly string[]): unknown {
  let value: unknown = claims
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = Reflect.get(value, name)
  }
  return value
}

/** The error has no `cause`, because errors from `jose` contain the token's claims. */
export function refusedToken(message: string): ToolError {
  return fault('unauthenticated', message)
}

/** Tolerated difference between clocks (OTC/T-15). */
const SKEW_SECONDS = 60
