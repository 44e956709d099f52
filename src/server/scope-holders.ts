import type { Settings } from '#config/settings'
import { coversScope, grantedScopes, NO_ROLES } from '#kernel/base/principal'
import type { KeyStore } from '#store/keys'

const MAX_KEYS = 1_000

/** Whether any caller can have the scope. */
export type CanHold = (scope: string) => boolean

/**
 * Finds the scopes that callers can have: those of keys, in the config and in the store, and those of roles. An issuer may grant any scope.
 * If there are more keys than are read, callers count as having every scope.
 */
export async function findScopeHolders(
  { apiKeys, jwt, issuers = [], roles = NO_ROLES }: Settings['auth'],
  keys: Pick<KeyStore, 'listKeys'> | undefined,
  nowMs: number,
): Promise<CanHold> {
  const stored = (await keys?.listKeys({ limit: MAX_KEYS })) ?? []
  if (jwt !== undefined || issuers.length > 0 || stored.length === MAX_KEYS) return () => true
  const usable = [...apiKeys, ...stored.filter(({ revokedAtMs }) => revokedAtMs === undefined)].filter(
    ({ expiresAtMs }) => expiresAtMs === undefined || expiresAtMs > nowMs,
  )
  const held = [
    ...usable.flatMap((key) => grantedScopes(roles, { scopes: key.scopes, roles: key.roles ?? [] })),
    ...grantedScopes(roles, { scopes: [], roles: [...roles.keys()] }),
  ]
  return (scope) => coversScope(held, scope)
}
