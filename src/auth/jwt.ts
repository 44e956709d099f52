import { createSecretKey, hash, type KeyObject } from 'node:crypto'
import { errors, type JWTPayload, jwtVerify } from 'jose'
import type { JwtSettings } from '#config/settings'
import { fault, type ToolError } from '#core/errors'
import type { Clock } from '#core/ports/clock'
import type { MaybePromise } from '#core/ports/store'
import { ANONYMOUS, type Principal } from '#core/principal'

/** How far clocks may differ (T-15). */
const SKEW_SECONDS = 60
const MOST_CACHED = 10_000

interface VerifiedToken {
  readonly principal: Principal
  readonly endsAtMs: number
}

/** HS256 tokens signed with a shared secret (OTC-104…110, T-15). */
export class JwtVerifier {
  readonly #settings: JwtSettings
  readonly #clock: Clock
  readonly #key: KeyObject
  /** Verified tokens by digest until they end: a repeated token costs one hash. */
  readonly #verified = new Map<string, VerifiedToken>()

  constructor(settings: JwtSettings, clock: Clock) {
    this.#settings = settings
    this.#clock = clock
    this.#key = createSecretKey(settings.secret.reveal(), 'utf8')
  }

  /** Throws `unauthenticated`. Why a token fails is told only once its signature is good. */
  verify(token: string): MaybePromise<Principal> {
    const digest = hash('sha256', token)
    const known = this.#verified.get(digest)
    if (known !== undefined) {
      if (this.#clock.nowMs() < known.endsAtMs) return known.principal
      this.#verified.delete(digest)
    }
    return this.#verifyNew(token, digest)
  }

  async #verifyNew(token: string, digest: string): Promise<Principal> {
    const claims = await this.#checkSignature(token)
    const { exp, iat, aud } = claims
    if (exp === undefined) throw refused('The token has no `exp` claim; add one at most 15 minutes ahead.')
    this.#checkLifetime(exp, iat)
    this.#checkAudience(aud)
    const principal = this.#principalOf(claims)
    this.#remember(digest, { principal, endsAtMs: (exp + SKEW_SECONDS) * 1_000 })
    return principal
  }

  async #checkSignature(token: string): Promise<JWTPayload> {
    try {
      const { payload } = await jwtVerify(token, this.#key, {
        algorithms: ['HS256'],
        clockTolerance: SKEW_SECONDS,
        currentDate: new Date(this.#clock.nowMs()),
      })
      return payload
    } catch (cause) {
      if (cause instanceof errors.JWTExpired) throw refused('The token has expired; get a new one.', cause)
      if (cause instanceof errors.JWTClaimValidationFailed) {
        throw refused(`The token's \`${cause.claim}\` claim is not acceptable.`, cause)
      }
      throw refused('The token is not a JWT signed with HS256 and the shared secret of this server.', cause)
    }
  }

  #checkLifetime(exp: number, iat: number | undefined): void {
    const { maxLifetimeSeconds } = this.#settings
    const limit = maxLifetimeSeconds + SKEW_SECONDS
    const ahead = exp - this.#clock.nowMs() / 1_000
    const span = iat === undefined ? ahead : Math.max(ahead, exp - iat)
    if (span <= limit) return
    throw refused(`The token lives too long: \`exp\` may be at most ${maxLifetimeSeconds} seconds ahead.`)
  }

  /** Optional, but checked when present (OTC-109). */
  #checkAudience(aud: string | string[] | undefined): void {
    if (aud === undefined) return
    const given = Array.isArray(aud) ? aud : [aud]
    if (given.some((audience) => this.#settings.audiences.includes(audience))) return
    throw refused('The token is meant for another audience than this server.')
  }

  #principalOf(claims: JWTPayload): Principal {
    const { iss, sub, scope, scopes } = claims
    const { tenant } = this.#settings
    if (iss !== undefined && typeof iss !== 'string')
      throw refused("The token's `iss` claim is not a string.")
    if (sub !== undefined && typeof sub !== 'string')
      throw refused("The token's `sub` claim is not a string.")
    // Tokens without a subject share the principal that decides nothing (rule 3).
    if (sub === undefined || sub === '') return { ...ANONYMOUS, tenant }
    return Object.freeze({
      id: `jwt:${withoutHash(iss ?? '')}#${sub}`,
      tenant,
      scopes: Object.freeze(scopesOf(scope ?? scopes)),
    })
  }

  #remember(digest: string, token: VerifiedToken): void {
    if (this.#verified.size >= MOST_CACHED) {
      const oldest = this.#verified.keys().next()
      if (oldest.done === false) this.#verified.delete(oldest.value)
    }
    this.#verified.set(digest, token)
  }
}

/** Keeps two (issuer, subject) pairs from ever giving one principal. */
function withoutHash(issuer: string): string {
  return issuer.replaceAll('%', '%25').replaceAll('#', '%23')
}

function scopesOf(claim: unknown): string[] {
  if (claim === undefined) return []
  if (typeof claim === 'string') return claim.split(' ').filter((scope) => scope !== '')
  if (Array.isArray(claim) && claim.every((scope) => typeof scope === 'string')) return claim
  throw refused("The token's scopes are neither a string in `scope` nor an array of strings in `scopes`.")
}

function refused(message: string, cause?: unknown): ToolError {
  return fault('unauthenticated', message, cause === undefined ? {} : { cause })
}
