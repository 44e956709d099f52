import { fault } from './errors.ts'
import type { Hooks } from './hooks.ts'
import { coversScope, type Principal } from './principal.ts'

/**
 * Which user a call is for, and whether that is proven (OTC/T-27). Calls, approvals, sessions and the vault all use these
 * functions. A user id that is not proven never opens that user's vault.
 */

/** Acting for users other than the credential's own subject. */
export const ASSERT_USERS_SCOPE = 'users:assert'

/** Whether an operator runs this caller's calls: the credentials were given to the caller, not to the operator (rule 24). */
export function isRunAs({ isLocal, operatedBy }: Principal): boolean {
  return operatedBy !== undefined && isLocal !== true
}

/** Whether this credential can prove any user without a hook (OTC/T-27). */
export function canProveUsers(principal: Principal): boolean {
  return subjectOf(principal.id) !== undefined || mayAssertUsers(principal)
}

/** Whether the credential itself proves the user: its own subject, or it may assert users (OTC/T-27). */
export function mayNameUser(principal: Principal, userId: string): boolean {
  return subjectOf(principal.id) === userId || mayAssertUsers(principal)
}

function mayAssertUsers({ isLocal, scopes }: Principal): boolean {
  return isLocal === true || coversScope(scopes, ASSERT_USERS_SCOPE)
}

/** The user of a call: the one it names, if that one is proven; else the subject of the caller's own token (OTC/T-27). */
export function userOf(call: {
  readonly principal: Principal
  readonly request: { readonly userId?: string | undefined }
  readonly isUserProven?: boolean | undefined
}): string | undefined {
  const { userId } = call.request
  if (userId === undefined || userId === '') return subjectOf(call.principal.id)
  return call.isUserProven === true ? userId : undefined
}

/**
 * OTC/T-27: a named user is proven if it is the subject of the caller's own token, if the credential may assert
 * users, or if the operator's hook vouches for it. The hook's `false` refuses; without a hook any other user is an
 * unproven claim.
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

/** The subject of `jwt:<issuer>#<sub>`; an issuer's own `#` is escaped, so the first one ends it. */
export function subjectOf(principalId: string): string | undefined {
  if (!principalId.startsWith('jwt:')) return undefined
  const at = principalId.indexOf('#')
  return at === -1 ? undefined : principalId.slice(at + 1)
}
