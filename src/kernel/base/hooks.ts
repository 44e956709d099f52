import { fault } from './errors.ts'
import { mayNameUser, type Principal } from './principal.ts'
import type { Secret } from './secret.ts'

/**
 * Functions in the operator's config that add to the server's own checks. The HTTP server, the credentials stage and
 * `proveUser` call them. A hook can only refuse a request or vouch for a user; it never grants more permissions.
 */

/** @public Used in the type of the config schema. The client of a request, before the request is authenticated. */
export interface ClientInfo {
  readonly address: string
  /** The route's pattern, or `unknown`. */
  readonly route: string
  readonly headers: Readonly<Record<string, string | undefined>>
}

/** @public Used in the type of the config schema. Facts about a token that a caller sent. */
export interface TokenFacts {
  /** Id of the authorization requirement. */
  readonly provider: string
  readonly token: Secret
  readonly tool: string
  readonly principal: Principal
  readonly userId: string | undefined
}

export interface Hooks {
  /** For allow-lists, rate limits and similar checks: returns the reason to refuse the request, or `undefined` to accept it. */
  readonly admit?: (client: ClientInfo) => string | undefined
  /** Returns `false` for a token that is certainly invalid: the caller gets a challenge instead of a failed run. */
  readonly verifyToken?: (facts: TokenFacts) => boolean | Promise<boolean>
  /**
   * Whether the principal acts for this user id: `false` refuses the call, `true` vouches for the user, so tools get
   * it as `ctx.userId`. It does not open that user's part of the vault.
   */
  readonly bindUser?: (principal: Principal, userId: string) => boolean | Promise<boolean>
}

/**
 * OTC/T-27: a named user is proven if it is the subject of the caller's own token, if the credential may assert
 * users, or if the operator's hook vouches for it. The hook's `false` refuses the call; without a hook, any other user id
 * is an unproven claim.
 */
export async function proveUser(
  { bindUser }: Hooks,
  principal: Principal,
  userId: string | undefined,
): Promise<boolean> {
  if (userId === undefined || userId === '') return false
  if (bindUser === undefined) return mayNameUser(principal, userId)
  if (await bindUser(principal, userId)) return true
  throw fault('not_authorized', 'This credential may not act for that user id.')
}
