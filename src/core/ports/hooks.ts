import type { Principal } from '#core/principal'
import type { Secret } from '#core/secret'

/** Who knocks, before anything else is known. */
export interface VisitorFacts {
  readonly address: string
  /** The route's pattern, or `unknown`. */
  readonly route: string
  readonly headers: Readonly<Record<string, string | undefined>>
}

export interface TokenFacts {
  /** Id of the authorization requirement. */
  readonly provider: string
  readonly token: Secret
  readonly tool: string
  readonly principal: Principal
  readonly userId: string | undefined
}

/** What an operator may add to the server's own checks. */
export interface Hooks {
  /** Allow-lists, rate limits and the like (OTC-114): a text refuses the request and says why. */
  readonly admit?: (visitor: VisitorFacts) => string | undefined
  /** `false` for a token that is certainly no good: the caller gets a challenge instead of a failed run (T-17). */
  readonly verifyToken?: (facts: TokenFacts) => boolean | Promise<boolean>
  /**
   * Whether the principal acts for this user id (T-27): `false` refuses the call, `true` vouches for the user, so tools get
   * it as `ctx.userId`. It does not open that user's part of the vault (rule 24).
   */
  readonly bindUser?: (principal: Principal, userId: string) => boolean | Promise<boolean>
}
