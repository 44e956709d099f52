import type { Principal } from './principal.ts'

/** Scopes by role name. A role that is not here grants nothing (OWP-60). */
export type RoleTable = ReadonlyMap<string, readonly string[]>

export const NO_ROLES: RoleTable = new Map()

/** What scopes and roles come to, each scope once; unknown roles add nothing (OWP-60, OWP-61). */
export function grantedScopes(
  roles: RoleTable,
  held: { readonly scopes: readonly string[]; readonly roles: readonly string[] },
): readonly string[] {
  const granted = new Set(held.scopes)
  for (const role of held.roles) for (const scope of roles.get(role) ?? []) granted.add(scope)
  return Object.freeze([...granted])
}

/** Frozen, because it is kept and shared by every request of the same credential. */
export function makePrincipal(facts: {
  readonly id: string
  readonly tenant: string
  readonly scopes: readonly string[]
  readonly tools?: readonly string[] | undefined
}): Principal {
  const { id, tenant, scopes, tools } = facts
  return Object.freeze({
    id,
    tenant,
    scopes: Object.freeze([...scopes]),
    ...(tools === undefined ? {} : { tools: Object.freeze([...tools]) }),
  })
}
