import { decodeJwt } from 'jose'
import type { MaybePromise } from '#core/ports/store'
import type { Principal } from '#core/principal'
import type { Clock } from '#core/runtime'
import { BoundedMap } from './bounded-map.ts'
import type { JwtVerifier } from './jwt.ts'
import type { OidcIssuer } from './oidc-issuer.ts'
import { refusedToken, SKEW_SECONDS } from './refused-token.ts'
import type { VerifiedToken } from './token-claims.ts'

/** Longer ones are refused before anything of them is read. */
const LONGEST_TOKEN = 8_192
const MOST_CACHED = 10_000
const MOST_CACHED_CHARACTERS = 8 * 1_024 * 1_024
/** How long a verified token needs no look at its signature: a key its issuer takes back counts no longer than this. */
const REMEMBERED_MS = 60_000

export interface TokensOptions {
  /** Of the shared secret. */
  readonly jwt: JwtVerifier | undefined
  /** By the exact `iss` of their tokens. */
  readonly issuers: ReadonlyMap<string, OidcIssuer>
  readonly clock: Clock
}

/** Every JWT, sent to the one verifier that may judge it, and remembered for a moment. */
export class Tokens {
  readonly #options: TokensOptions
  /** By the token, which a map compares only if hashes that are seeded at random are equal. */
  readonly #verified = new BoundedMap<string, { readonly principal: Principal; readonly untilMs: number }>({
    entries: MOST_CACHED,
    weight: MOST_CACHED_CHARACTERS,
  })

  constructor(options: TokensOptions) {
    this.#options = options
  }

  /** Who a token that was just verified means. */
  recall(token: string): Principal | undefined {
    const known = this.#verified.get(token)
    if (known === undefined) return undefined
    if (this.#options.clock.nowMs() < known.untilMs) return known.principal
    this.#verified.delete(token)
    return undefined
  }

  /** Throws `unauthenticated`, or `not_ready` when an issuer does not answer. */
  verify(token: string): MaybePromise<Principal> {
    return this.recall(token) ?? this.#verifyNew(token)
  }

  async #verifyNew(token: string): Promise<Principal> {
    if (token.length > LONGEST_TOKEN)
      throw refusedToken(`The token is longer than ${LONGEST_TOKEN} characters.`)
    const { principal, expiresAt } = await this.#judge(token)
    const nowMs = this.#options.clock.nowMs()
    const untilMs = Math.min((expiresAt + SKEW_SECONDS) * 1_000, nowMs + REMEMBERED_MS)
    this.#verified.set(token, { principal, untilMs }, token.length)
    return principal
  }

  /**
   * A token that says it is of a configured issuer is judged by that issuer alone: whoever holds the shared secret must
   * not speak for the issuer's subjects.
   */
  #judge(token: string): Promise<VerifiedToken> {
    const { jwt, issuers } = this.#options
    const issuer = issuers.size === 0 ? undefined : issuers.get(issuerOf(token))
    if (issuer !== undefined) return issuer.verify(token)
    if (jwt !== undefined) return jwt.verify(token)
    throw refusedToken('The token is of no issuer that this server knows.')
  }
}

function issuerOf(token: string): string {
  try {
    return decodeJwt(token).iss ?? ''
  } catch {
    throw refusedToken('The token is not a JWT.')
  }
}
