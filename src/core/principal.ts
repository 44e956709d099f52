/** Who calls. The tenant comes only from the credential, never from the request (rule 3). */
export interface Principal {
  /** `key:<principal>`, `jwt:<issuer>#<sub>` or `anonymous`; never reused after deletion. */
  readonly id: string
  readonly tenant: string
  /** Granted scopes, possibly with `*` segments; those of its roles are among them. */
  readonly scopes: readonly string[]
  /** Tools this credential may use, by any of their names; absent = every tool its scopes open (OWP-57). */
  readonly tools?: readonly string[]
  /** The server itself, looking at the tools of every tenant; no credential gives it. */
  readonly seesEveryTenant?: true
}

export const DEFAULT_TENANT = 'default'

/** Callers without a credential, and tokens without `sub`, share this one (rule 3). */
export const ANONYMOUS: Principal = { id: 'anonymous', tenant: DEFAULT_TENANT, scopes: [] }

/** Whether nobody in particular stands behind it: such a principal has no vault and decides nothing (rule 3). */
export function isNobody({ id }: Pick<Principal, 'id'>): boolean {
  return id === ANONYMOUS.id
}
