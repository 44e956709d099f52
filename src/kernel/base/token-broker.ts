import { Secret } from './secret.ts'

/**
 * The interface to OAuth authorization servers, as their client. The credentials stage asks a broker to obtain, refresh and
 * revoke tokens, and whether a person can be asked for consent. No method of a broker throws.
 */

/** An access token that is valid only with proofs by its key (DPoP). */
export class BoundToken extends Secret {
  /** The private key as a JWK. */
  readonly proofKey: Secret

  constructor(text: string, proofKey: Secret) {
    super(text)
    this.proofKey = proofKey
  }
}

export interface TokenSet {
  readonly accessToken: Secret
  readonly refreshToken: Secret | undefined
  readonly scopes: readonly string[]
  readonly expiresAtMs: number | undefined
  /** The issuer of the tokens; no other issuer ever receives the refresh token (MCP-157). */
  readonly issuer?: string | undefined
}

/** The facts that a broker needs to renew a token. */
export interface Renewal extends Pick<TokenSet, 'scopes' | 'issuer'> {
  readonly refreshToken: Secret
  /** The key that the token is bound to. */
  readonly proofKey?: Secret | undefined
}

export type RefreshAnswer =
  | { readonly kind: 'tokens'; readonly tokens: TokenSet }
  /** The provider will never accept this refresh token again. */
  | { readonly kind: 'refused' }
  /** The result is unknown: the provider is unreachable or slow, or its answer is malformed. */
  | { readonly kind: 'unavailable' }

/** The config has no such provider, the server could not identify the person (rule 25), or the config does not allow the scopes. */
export type BrokerObstacle = 'no_provider' | 'no_sign_in' | 'scopes'

export interface OwnTokenNeed {
  readonly provider: string
  readonly scopes: readonly string[]
  /** Tenant and principal: tokens are not shared between them. */
  readonly owner: string
}

export interface TokenBroker {
  /** Why a person cannot be asked for consent; `undefined` if a person can. */
  obstacle(provider: string, scopes: readonly string[]): BrokerObstacle | undefined
  refresh(provider: string, renewal: Renewal): Promise<RefreshAnswer>
  /** A token that this server gets without a person, for one `owner` only; `undefined` if the provider needs a person's consent. */
  obtain?(need: OwnTokenNeed): Promise<RefreshAnswer> | undefined
  /** Scopes that the server behind a tool was found to need (MCP-160). */
  scopesFor?(provider: string, tool: string): readonly string[]
  /** Whether the server behind a tool refused this token, so that it must be renewed even if it has not expired. */
  isRejected?(token: Secret): boolean
  /** Asks the provider to revoke a token; `false` if that failed. */
  revoke(provider: string, token: Secret): Promise<boolean>
}

/** The broker of a server without providers; its callers send their own tokens. */
export const NO_BROKER: TokenBroker = {
  obstacle: () => 'no_provider',
  refresh: async () => ({ kind: 'unavailable' }),
  revoke: async () => false,
}
