import type { OAuthClientSettings } from '#config/settings'
import type { Secret } from '#kernel/base/secret'
import type { RefreshAnswer, Renewal, TokenSet } from '#kernel/base/token-broker'
import { type Departure, type Exchanged, OAuthClient, type ProviderClient, type Return } from './client.ts'
import type { OAuthParts } from './peer.ts'

/**
 * Enterprise-managed authorization (MCP-163): people sign in at the identity provider of their company, whose grant (ID-JAG) the
 * provider's authorization server exchanges for an access token. The consent pages and the broker use it like any other client.
 * Invariant: the person's refresh token from the identity provider, which renews the access token, is sent to no other issuer.
 */

type IdentityProvider = NonNullable<OAuthClientSettings['identityProvider']>

export class EnterpriseClient implements ProviderClient {
  readonly #identity: OAuthClient
  readonly #target: OAuthClient
  readonly #resource: string
  readonly #signInScopes: readonly string[]

  constructor(settings: OAuthClientSettings, identityProvider: IdentityProvider, parts: OAuthParts) {
    this.#identity = new OAuthClient(identityProvider, parts)
    this.#target = new OAuthClient(settings, parts)
    this.#resource = settings.resource ?? ''
    this.#signInScopes = identityProvider.scopes
  }

  authorizationUrl(
    departure: Departure,
    { parameters }: { readonly parameters: Readonly<Record<string, string>> },
  ): Promise<string | undefined> {
    return this.#identity.authorizationUrl(departure, { scopes: this.#signInScopes, parameters })
  }

  async exchange(back: Return, { scopes }: { readonly scopes: readonly string[] }): Promise<Exchanged> {
    const signedIn = await this.#identity.exchange(back, { scopes: this.#signInScopes, identify: true })
    if (signedIn.kind !== 'tokens') return signedIn
    const { idToken, claims } = signedIn
    if (idToken === undefined) return { kind: 'failed', reason: 'no_id_token' }
    const answer = await this.accessFor({ token: idToken, type: 'id_token' }, signedIn.tokens, scopes)
    return answer.kind === 'tokens'
      ? { kind: 'tokens', tokens: answer.tokens, claims, idToken }
      : { kind: 'failed', reason: answer.reason ?? answer.kind }
  }

  async refresh(renewal: Renewal): Promise<RefreshAnswer & { readonly reason?: string }> {
    const renewed = await this.#identity.refresh({
      ...renewal,
      scopes: this.#signInScopes,
      proofKey: undefined,
    })
    if (renewed.kind !== 'tokens') return renewed
    const { idToken, tokens } = renewed
    const refreshToken = tokens.refreshToken ?? renewal.refreshToken
    const subject =
      idToken === undefined
        ? ({ token: refreshToken, type: 'refresh_token' } as const)
        : ({ token: idToken, type: 'id_token' } as const)
    return await this.accessFor(subject, { ...tokens, refreshToken }, renewal.scopes)
  }

  revoke(token: Secret): Promise<boolean> {
    return this.#identity.revoke(token)
  }

  forget(): void {
    this.#identity.forget()
    this.#target.forget()
  }

  /** The access token of the provider, together with the refresh token of the identity provider that renews it. */
  async accessFor(
    subject: { readonly token: Secret; readonly type: 'id_token' | 'refresh_token' },
    signedIn: Pick<TokenSet, 'refreshToken' | 'issuer'>,
    scopes: readonly string[],
  ): Promise<RefreshAnswer & { readonly reason?: string }> {
    const audience = await this.#target.issuer()
    if (audience === undefined) return { kind: 'unavailable', reason: 'no_metadata' }
    const granted = await this.#identity.grantFor(subject, { audience, resource: this.#resource, scopes })
    if (granted.kind !== 'grant') return granted
    const answer = await this.#target.redeem(granted.grant, scopes)
    if (answer.kind !== 'tokens') return answer
    const { refreshToken, issuer } = signedIn
    return { kind: 'tokens', tokens: { ...answer.tokens, refreshToken, issuer } }
  }
}
