import { createSecretKey, type KeyObject } from 'node:crypto'
import { errors, type JWTPayload, jwtVerify } from 'jose'
import type { JwtSettings } from '#config/settings'
import type { Clock } from '#core/runtime'
import { refusedToken, SKEW_SECONDS } from './refused-token.ts'
import { principalOfToken, type VerifiedToken, wordsOf } from './token-claims.ts'

/** HS256 tokens signed with a shared secret (OTC-104…110, T-15). */
export class JwtVerifier {
  readonly #settings: JwtSettings
  readonly #clock: Clock
  readonly #key: KeyObject

  constructor(settings: JwtSettings, clock: Clock) {
    this.#settings = settings
    this.#clock = clock
    this.#key = createSecretKey(settings.secret.reveal(), 'utf8')
  }

  /** Throws `unauthenticated`. Why a token fails is told only once its signature is good. */
  async verify(token: string): Promise<VerifiedToken> {
    const claims = await this.#checkSignature(token)
    const { exp, iat, aud, iss, sub } = claims
    if (exp === undefined)
      throw refusedToken('The token has no `exp` claim; add one at most 15 minutes ahead.')
    this.#checkLifetime(exp, iat)
    this.#checkAudience(aud)
    if (iss !== undefined && typeof iss !== 'string')
      throw refusedToken("The token's `iss` claim is not a string.")
    const { tenant } = this.#settings
    const scopes = wordsOf(claims.scope ?? claims.scopes, 'scopes')
    const principal = principalOfToken({ issuer: iss ?? '', subject: sub }, { tenant, scopes })
    return { principal, expiresAt: exp }
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
      if (cause instanceof errors.JWTExpired) throw refusedToken('The token has expired; get a new one.')
      if (cause instanceof errors.JWTClaimValidationFailed) {
        throw refusedToken(`The token's \`${cause.claim}\` claim is not acceptable.`)
      }
      throw refusedToken('The token is not a JWT signed with HS256 and the shared secret of this server.')
    }
  }

  #checkLifetime(exp: number, iat: number | undefined): void {
    const { maxLifetimeSeconds } = this.#settings
    const limit = maxLifetimeSeconds + SKEW_SECONDS
    const ahead = exp - this.#clock.nowMs() / 1_000
    const span = iat === undefined ? ahead : Math.max(ahead, exp - iat)
    if (span <= limit) return
    throw refusedToken(
      `The token lives too long: \`exp\` may be at most ${maxLifetimeSeconds} seconds ahead.`,
    )
  }

  /** Optional, but checked when present (OTC-109). */
  #checkAudience(aud: string | string[] | undefined): void {
    if (aud === undefined) return
    const given = Array.isArray(aud) ? aud : [aud]
    if (given.some((audience) => this.#settings.audiences.includes(audience))) return
    throw refusedToken('The token is meant for another audience than this server.')
  }
}
