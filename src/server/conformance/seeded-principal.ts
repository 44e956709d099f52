import { grantedScopes, makePrincipal, type Principal, type RoleTable } from '#core/principal'

const SYSTEM_ROLE = 'system'
const ROLES: RoleTable = new Map([[SYSTEM_ROLE, ['*']]])
const ROLES_OF: ReadonlyMap<string, readonly string[]> = new Map([['core.system', [SYSTEM_ROLE]]])

/** Somebody the suite speaks of. Who has no role here has no scope either (OWP-60). */
export function seededPrincipal(name: string, tenant: string): Principal {
  const scopes = grantedScopes(ROLES, { scopes: [], roles: ROLES_OF.get(name) ?? [] })
  return makePrincipal({ id: `seam:${name}`, tenant, scopes })
}
