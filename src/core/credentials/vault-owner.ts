import type { Store } from '#core/ports/store'
import type { VaultAddress } from '#core/ports/vault-store'
import { ANONYMOUS, type Principal } from '#core/principal'
import { coversScope } from '#core/scopes'

/** Acting for users other than the credential's own subject. */
export const ASSERT_USERS_SCOPE = 'users:assert'

export type VaultOwner = Pick<VaultAddress, 'tenant' | 'principal' | 'user'>

/**
 * Whose part of the vault a call may reach; `undefined` = none. The anonymous principal is shared by everybody, so it
 * has no vault (rule 3). A user id counts only if it is the credential's own subject, or the principal may assert users;
 * there is no way from a user to the principal's own entries, nor back (rule 24).
 */
export function vaultOwner(
  store: Pick<Store, 'digest'>,
  principal: Principal,
  userId: string | undefined,
): VaultOwner | undefined {
  if (principal.id === ANONYMOUS.id) return undefined
  const { id, tenant } = principal
  if (userId === undefined || userId === '') return { tenant, principal: id, user: '' }
  return mayNameUser(principal, userId)
    ? { tenant, principal: id, user: userDigest(store, userId) }
    : undefined
}

/** Whether the credential itself proves the user: its own subject, or it may assert users (T-27). */
export function mayNameUser(principal: Principal, userId: string): boolean {
  return subjectOf(principal.id) === userId || coversScope(principal.scopes, ASSERT_USERS_SCOPE)
}

/** A user id is kept as a digest only. */
export function userDigest(store: Pick<Store, 'digest'>, userId: string | undefined): string {
  return userId === undefined || userId === '' ? '' : store.digest(`user:${userId}`)
}

/** The subject of `jwt:<issuer>#<sub>`; an issuer's own `#` is escaped, so the first one ends it. */
function subjectOf(principalId: string): string | undefined {
  if (!principalId.startsWith('jwt:')) return undefined
  const at = principalId.indexOf('#')
  return at === -1 ? undefined : principalId.slice(at + 1)
}
