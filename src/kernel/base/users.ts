import { fault } from './errors.ts'
import type { Hooks } from './hooks.ts'
import { coversScope, type Principal } from './principal.ts'

/** Acting for users other than the credential's own subject. */
export const ASSERT_USERS_SCOPE = 'users:assert'

/**
 * Which user a call is for, and whether that is proven (OTC/T-27). Calls, approvals, sessions and the vault use the same
 * answer.
 */

/** Whether the operator runs this caller's calls: their credentials were given to the caller, not to the operator (rule 24). */
export function isRunAs({ isLocal, operatedBy }: Principal): boolean {
  return operatedBy !== undefined && isLocal !== true
}

/** Whether a call with this credential can name a user that counts as proven; a hook may say more (OTC/T-27). */
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
 * OTC/T-27: whether the user a caller names is proven: the subject of its own token, or named by a credential that may assert
 * users, or vouched for by the operator's hook. The hook's `false` refuses; without a hook the rest is the caller's word.
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
