/** A subject may be a mail address; readers of runs and audits get a name that only tells principals apart. */
export function opaquePrincipal(
  store: { digest(text: string): string },
  { tenant, id }: Pick<Principal, 'tenant' | 'id'>,
): string {
  return `prn_${store.digest(JSON.stringify(['principal', tenant, id]))}`
}

/** What holding a role comes to. */
interface Role {
  readonly scopes: readonly string[]
  /** Whoever holds it sees only tools of these, or of those of another role; absent = it bounds nothing. */
  readonly toolsets?: readonly string[] | undefined
}

/** Roles by name. One that is not here grants nothing (OWP-60). */
export type RoleTable = ReadonlyMap<string, Role>

export const NO_ROLES: RoleTable = new Map()

interface Held {
  readonly scopes: readonly string[]
  readonly roles: readonly string[]
}

/** What scopes and roles come to, each scope once; unknown roles add nothing (OWP-60, OWP-61). */
export function grantedScopes(roles: RoleTable, held: Held): readonly string[] {
  const granted = new Set(held.scopes)
  for (const role of held.roles) for (const scope of roles.get(role)?.scopes ?? []) granted.add(scope)
  return Object.freeze([...granted])
}

/** The same with what the roles bound: a role without toolsets lifts no bound of another. */
export function granted(roles: RoleTable, held: Held): Pick<Principal, 'scopes' | 'toolsets'> {
  const bounds = held.roles.flatMap((role) => roles.get(role)?.toolsets ?? [])
  const isBound = held.roles.some((role) => roles.get(role)?.toolsets !== undefined)
  return { scopes: grantedScopes(roles, held), ...(isBound ? { toolsets: [...new Set(bounds)] } : {}) }
}

/** Frozen, because it is kept and shared by every request of the same credential. */
export function makePrincipal(facts: {
  readonly id: string
  readonly tenant: string
  readonly scopes: readonly string[]
  readonly tools?: readonly string[] | undefined
  readonly toolsets?: readonly string[] | undefined
  readonly toolset?: string | undefined
  readonly isLocal?: true | undefined
  readonly operatedBy?: string | undefined
}): Principal {
  const { id, tenant, scopes, tools, toolsets, toolset, isLocal, operatedBy } = facts
  return Object.freeze({
    id,
    tenant,
    scopes: Object.freeze([...scopes]),
    ...(tools === undefined ? {} : { tools: Object.freeze([...tools]) }),
    ...(toolsets === undefined ? {} : { toolsets: Object.freeze([...toolsets]) }),
    ...(toolset === undefined ? {} : { toolset }),
    ...(isLocal === undefined ? {} : { isLocal }),
    ...(operatedBy === undefined ? {} : { operatedBy }),
  })
}

const OPERATED = new WeakMap<Principal, Principal>()

/** This caller as the operator runs it. One object for each, because catalogs are cached by principal. */
export function operatedBy(operator: Pick<Principal, 'id'>, principal: Principal): Principal {
  const made = OPERATED.get(principal) ?? makePrincipal({ ...principal, operatedBy: operator.id })
  OPERATED.set(principal, made)
  return made
}

const WITHIN = new WeakMap<Principal, Map<string, Principal>>()

/** The same caller at the address of a toolset. One object for each: catalogs are remembered by it. */
export function withinToolset(principal: Principal, toolset: string): Principal {
  const known = WITHIN.get(principal) ?? new Map<string, Principal>()
  WITHIN.set(principal, known)
  const made = known.get(toolset) ?? makePrincipal({ ...principal, toolset })
  known.set(toolset, made)
  return made
}

/**
 * Whether one of the granted scopes covers the needed one. Scopes are segments joined by `:`; a `*` segment
 * matches exactly one, a trailing `*` one or more.
 */
export function coversScope(granted: readonly string[], needed: string): boolean {
  return granted.some((pattern) => pattern === needed || (pattern.includes('*') && matches(pattern, needed)))
}

function matches(pattern: string, needed: string): boolean {
  const wanted = pattern.split(':')
  const given = needed.split(':')
  const openEnd = wanted.at(-1) === '*'
  if (openEnd ? given.length < wanted.length : given.length !== wanted.length) return false
  return wanted.every((segment, index) => segment === '*' || segment === given[index])
}

/** Who calls. The tenant comes only from the credential, never from the request. */
export interface Principal {
  /** `key:<principal>`, `jwt:<issuer>#<sub>` or `anonymous`; never reused after deletion. */
  readonly id: string
  readonly tenant: string
  /** Granted scopes, possibly with `*` segments; those of its roles are among them. */
  readonly scopes: readonly string[]
  /** Tools this credential may use: names, patterns, toolsets (docs/toolsets.md); absent = every tool its scopes open. */
  readonly tools?: readonly string[]
  /** Toolsets its roles bound it to; absent = they bound nothing. */
  readonly toolsets?: readonly string[]
  /** The toolset that was asked for with this request: nothing else is there. */
  readonly toolset?: string
  /** The server itself, looking at the tools of every tenant; no credential gives it. */
  readonly seesEveryTenant?: true
  /** The person at this machine: calls without a credential on a server that only this machine reaches (rule 28). */
  readonly isLocal?: true
  /** The operator who runs tools from the console under this caller's name; recorded with each call. */
  readonly operatedBy?: string
}

export const DEFAULT_TENANT = 'default'

/** Stands in the vault where a principal would, for what all callers of a tenant share; never a principal itself. */
export const WHOLE_TENANT = '*'

/** Callers without a credential, and tokens without `sub`, share this one. */
export const ANONYMOUS: Principal = { id: 'anonymous', tenant: DEFAULT_TENANT, scopes: [] }

/** The same name for the person at this machine, who has a vault and may name users (rule 28). */
export const LOCAL_CALLER: Principal = makePrincipal({ ...ANONYMOUS, isLocal: true })
