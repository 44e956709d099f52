import type { Secret } from '#core/secret'

/** What a provider gave. */
export interface TokenSet {
  readonly accessToken: Secret
  readonly refreshToken: Secret | undefined
  readonly scopes: readonly string[]
  readonly expiresAtMs: number | undefined
}

export type RefreshAnswer =
  | { readonly kind: 'tokens'; readonly tokens: TokenSet }
  /** The provider will never take this refresh token again. */
  | { readonly kind: 'refused' }
  /** Nobody knows: unreachable, slow, or an answer that makes no sense. */
  | { readonly kind: 'unavailable' }

/** The authorization servers this server is a client of. */
export interface TokenBroker {
  /** Whether a person can be asked for this, here and now. */
  canAsk(provider: string, scopes: readonly string[]): boolean
  /** Never throws. `scopes` are those the refresh token has. */
  refresh(provider: string, refreshToken: Secret, scopes: readonly string[]): Promise<RefreshAnswer>
  /** Tells the provider that a token is not used any more; `false` when that was not possible. Never throws. */
  revoke(provider: string, token: Secret): Promise<boolean>
}

/** Without providers nothing can be asked for: callers bring their tokens. */
export const NO_BROKER: TokenBroker = {
  canAsk: () => false,
  refresh: async () => ({ kind: 'unavailable' }),
  revoke: async () => false,
}
