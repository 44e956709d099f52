import type { Secret } from './secret.ts'

/**
 * The interface to the authorization servers of which this server is a client. The credentials stage asks a broker to refresh
 * and revoke tokens, and whether a person can be asked for consent. No method of a broker throws.
 */

export interface TokenSet {
  readonly accessToken: Secret
  readonly refreshToken: Secret | undefined
  readonly scopes: readonly string[]
  readonly expiresAtMs: number | undefined
}

export type RefreshAnswer =
  | { readonly kind: 'tokens'; readonly tokens: TokenSet }
  /** The provider will never accept this refresh token again. */
  | { readonly kind: 'refused' }
  /** The result is unknown: the provider is unreachable or slow, or its answer is malformed. */
  | { readonly kind: 'unavailable' }

/** The config has no such provider, the server could not identify the person (rule 25), or the config does not allow the scopes. */
export type BrokerObstacle = 'no_provider' | 'no_sign_in' | 'scopes'

export interface TokenBroker {
  /** Why a person cannot be asked for consent; `undefined` if a person can. */
  obstacle(provider: string, scopes: readonly string[]): BrokerObstacle | undefined
  /** `scopes` are the scopes of the refresh token. */
  refresh(provider: string, refreshToken: Secret, scopes: readonly string[]): Promise<RefreshAnswer>
  /** Asks the provider to revoke a token; `false` if that failed. */
  revoke(provider: string, token: Secret): Promise<boolean>
}

/** The broker of a server without providers; its callers send their own tokens. */
export const NO_BROKER: TokenBroker = {
  obstacle: () => 'no_provider',
  refresh: async () => ({ kind: 'unavailable' }),
  revoke: async () => false,
}
