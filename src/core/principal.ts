/** Who calls. The tenant comes only from the credential, never from the request (rule 3). */
export interface Principal {
  /** `key:<principal>`, `jwt:<issuer>#<sub>` or `anonymous`; never reused after deletion. */
  readonly id: string
  readonly tenant: string
  /** Granted scopes, possibly with `*` segments. */
  readonly scopes: readonly string[]
}

export const DEFAULT_TENANT = 'default'

/** Callers without a credential, and tokens without `sub`, share this one (rule 3). */
export const ANONYMOUS: Principal = { id: 'anonymous', tenant: DEFAULT_TENANT, scopes: [] }
