import { defined } from './json.ts'

/**
 * The caller of a request: its id, its tenant and its grants, and which user it acts for (OTC/T-27). Authentication makes
 * principals, and every access check reads them. A principal is frozen and comes only from a credential, never from the
 * request itself. A user id that is not proven never opens that user's vault.
 */

/** A digest that stands for a principal in runs and audits, because a principal's id may contain an email address. */
export function opaquePrincipal(
  store: { digest(text: string): string },
  { tenant, id }: Pick<Principal, 'tenant' | 'id'>,
): string {
  return `prn_${store.digest(JSON.stringify(['principal', tenant, id]))}`
}

/** The principal id of an API key's owner (rule 3). */
export function principalIdOf(name: string): string {
  return `key:${name}`
}

interface Role {
  readonly scopes: readonly string[]
  /** Holders see only tools in these toolsets or in the toolsets of their other roles; absent = no restriction. */
  readonly toolsets?: readonly string[] | undefined
}

/** Roles by name. A role that is missing here grants nothing (OWP-60). */
export type RoleTable = ReadonlyMap<string, Role>

export const NO_ROLES: RoleTable = new Map()

interface Assignment {
  readonly scopes: readonly string[]
  readonly roles: readonly string[]
}

/** The assigned scopes and the scopes of the assigned roles; unknown roles add none (OWP-60, OWP-61). */
export function grantedScopes(roles: RoleTable, held: Assignment): readonly string[] {
  const granted = new Set(held.scopes)
  for (const role of held.roles) for (const scope of roles.get(role)?.scopes ?? []) granted.add(scope)
  return Object.freeze([...granted])
}

/** The granted scopes, and the toolsets of the roles. A role without toolsets does not remove the restriction of another role. */
export function granted(roles: RoleTable, held: Assignment): Pick<Principal, 'scopes' | 'toolsets'> {
  const bounds = held.roles.flatMap((role) => roles.get(role)?.toolsets ?? [])
  const isBound = held.roles.some((role) => roles.get(role)?.toolsets !== undefined)
  return { scopes: grantedScopes(roles, held), ...(isBound ? { toolsets: [...new Set(bounds)] } : {}) }
}

type OptionalFact = 'tools' | 'toolsets' | 'toolset' | 'isLocal' | 'operatedBy'

/** Frozen, because every request with the same credential shares it. */
export function makePrincipal(
  facts: Pick<Principal, 'id' | 'tenant' | 'scopes'> & {
    readonly [Name in OptionalFact]?: Principal[Name] | undefined
  },
): Principal {
  const { id, tenant, scopes, tools, toolsets, toolset, isLocal, operatedBy } = facts
  const lists = {
    scopes: Object.freeze([...scopes]),
    tools: tools && Object.freeze([...tools]),
    toolsets: toolsets && Object.freeze([...toolsets]),
  }
  return Object.freeze(defined({ id, tenant, ...lists, toolset, isLocal, operatedBy }))
}

const OPERATED = new WeakMap<Principal, Principal>()

/** The principal of calls that an operator makes in a caller's name. One object per caller, because catalogs are cached by principal. */
export function operatedBy(operator: Pick<Principal, 'id'>, principal: Principal): Principal {
  const made = OPERATED.get(principal) ?? makePrincipal({ ...principal, operatedBy: operator.id })
  OPERATED.set(principal, made)
  return made
}

const WITHIN = new WeakMap<Principal, Map<string, Principal>>()

/** The principal of a caller that uses a toolset's address. One object per toolset, because catalogs are cached by principal. */
export function withinToolset(principal: Principal, toolset: string): Principal {
  const known = WITHIN.get(principal) ?? new Map<string, Principal>()
  WITHIN.set(principal, known)
  const made = known.get(toolset) ?? makePrincipal({ ...principal, toolset })
  known.set(toolset, made)
  return made
}

/**
 * Whether one of the granted scopes covers the needed scope. Scopes are segments joined by `:`; a `*` segment matches
 * exactly one segment, a trailing `*` one or more.
 */
export function coversScope(granted: readonly string[], needed: string): boolean {
  return granted.some((pattern) => pattern === needed || (pattern.includes('*') && matches(pattern, needed)))
}

function matches(pattern: string, needed: string): boolean {
  const patternSegments = pattern.split(':')
  const segments = needed.split(':')
  const isOpenEnded = patternSegments.at(-1) === '*'
  const hasFittingLength = isOpenEnded
    ? segments.length >= patternSegments.length
    : segments.length === patternSegments.length
  if (!hasFittingLength) return false
  return patternSegments.every((segment, index) => segment === '*' || segment === segments[index])
}

/** A caller. All members except `toolset` and `operatedBy` come from the credential, never from the request. */
export interface Principal {
  /** `key:<principal>`, `jwt:<issuer>#<sub>` or `anonymous`; never reused after deletion. */
  readonly id: string
  readonly tenant: string
  /** Granted scopes, including those of its roles; segments may be `*`. */
  readonly scopes: readonly string[]
  /** Tools that this credential may use: names, patterns, toolsets (docs/toolsets.md); absent = every tool that its scopes allow. */
  readonly tools?: readonly string[]
  /** Toolsets that its roles restrict it to; absent = no restriction. */
  readonly toolsets?: readonly string[]
  /** The toolset of the request's address; other tools are hidden. */
  readonly toolset?: string
  /** Set for the server itself, which sees every tenant's tools; no credential grants this. */
  readonly seesEveryTenant?: true
  /** The person at this machine: calls without a credential on a server that only this machine can reach (rule 28). */
  readonly isLocal?: true
  /** The operator who runs tools from the console in this caller's name; recorded with each call. */
  readonly operatedBy?: string
}

export const DEFAULT_TENANT = 'default'

/** Used in the vault instead of a principal's id for credentials that all callers of a tenant share. */
export const WHOLE_TENANT = '*'

/** The principal of callers without a credential, and of tokens without `sub`. */
export const ANONYMOUS: Principal = { id: 'anonymous', tenant: DEFAULT_TENANT, scopes: [] }

/** The person at this machine, who is also called `anonymous` but has a vault and may name users (rule 28). */
export const LOCAL_CALLER: Principal = makePrincipal({ ...ANONYMOUS, isLocal: true })

/** Scope for acting for users other than the credential's own subject. */
export const ASSERT_USERS_SCOPE = 'users:assert'

/** Whether an operator runs calls in this caller's name, and so may not use the caller's stored credentials (rule 24). */
export function isRunAs({ isLocal, operatedBy }: Principal): boolean {
  return operatedBy !== undefined && isLocal !== true
}

/** Whether this credential can prove at least one user without a hook (OTC/T-27). */
export function canProveUsers(principal: Principal): boolean {
  return subjectOf(principal.id) !== undefined || mayAssertUsers(principal)
}

/** Whether the credential itself proves the user: the user is its own subject, or it may assert users (OTC/T-27). */
export function mayNameUser(principal: Principal, userId: string): boolean {
  return subjectOf(principal.id) === userId || mayAssertUsers(principal)
}

function mayAssertUsers({ isLocal, scopes }: Principal): boolean {
  return isLocal === true || coversScope(scopes, ASSERT_USERS_SCOPE)
}

/** The user of a call: the user it names, if proven; if it names none, the subject of the caller's own token (OTC/T-27). */
export function userOf(call: {
  readonly principal: Principal
  readonly request: { readonly userId?: string | undefined }
  readonly isUserProven?: boolean | undefined
}): string | undefined {
  const { userId } = call.request
  if (userId === undefined || userId === '') return subjectOf(call.principal.id)
  return call.isUserProven === true ? userId : undefined
}

/** The subject of `jwt:<issuer>#<sub>`; a `#` in the issuer is escaped, so the first `#` is the separator. */
export function subjectOf(principalId: string): string | undefined {
  if (!principalId.startsWith('jwt:')) return undefined
  const at = principalId.indexOf('#')
  return at === -1 ? undefined : principalId.slice(at + 1)
}
