import type { OAuthClientSettings, OAuthProviderSettings, OAuthSettings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import type { Logger } from '#kernel/base/logger'
import type { Secret } from '#kernel/base/secret'
import type { BrokerObstacle, OwnTokenNeed, RefreshAnswer, TokenBroker } from '#kernel/base/token-broker'
import { boundedFetch, OAuthClient, type Obtained, type ProviderClient } from './client.ts'
import { EnterpriseClient } from './enterprise-client.ts'
import { OwnTokens, Refusals } from './own-tokens.ts'
import type { OAuthParts } from './peer.ts'
import type { ClientRegistry } from './registration.ts'

/**
 * The authorization servers of the config, at each of which this server is a client. The credentials stage obtains, refreshes and
 * revokes tokens through it, the consent pages send people to them, and sources report tokens that their servers refused.
 * Invariant: every request to a provider is bounded in time and size.
 */

const BOUNDS = { timeoutMs: 10_000, maxBytes: 256 * 1_024 }

interface OAuthBrokerOptions {
  readonly settings: OAuthSettings
  /** True if a consent can be bound to its user: by a sign-in, or because this is the user's own machine (rule 25). */
  readonly canBind: boolean
  readonly fetch: typeof fetch
  readonly clock: Clock
  readonly log: Logger
  /** For providers without a `clientId`. */
  readonly clients?: ClientRegistry
}

interface BrokeredProvider {
  readonly settings: OAuthProviderSettings
  readonly client: ProviderClient
  /** Tokens for this server itself; absent for a provider at which people consent. */
  readonly own?: OwnTokens
}

/** A token of a provider that the server behind a tool refused. */
interface RefusedToken {
  readonly provider: string
  readonly tool: string | undefined
  readonly token: Secret
  /** The scopes that the token lacks; empty if the token itself is not valid. */
  readonly scopes: readonly string[]
}

export class OAuthBroker implements TokenBroker {
  readonly signIn: OAuthClient | undefined
  readonly #providers: ReadonlyMap<string, BrokeredProvider>
  readonly #canBind: boolean
  readonly #log: Logger
  readonly #parts: OAuthParts
  readonly #refusals = new Refusals()

  constructor({ settings, canBind, fetch: send, clock, log, clients }: OAuthBrokerOptions) {
    this.#parts = { fetch: boundedFetch(send, BOUNDS), clock, clients }
    this.#canBind = canBind
    this.#log = log
    this.signIn = settings.signIn && this.clientOf(settings.signIn)
    const providers = Object.entries(settings.providers)
    this.#providers = new Map(providers.map(([id, provider]) => [id, this.#brokered(id, provider)]))
  }

  /** A client of another authorization server, with the same bounds. */
  clientOf(settings: OAuthClientSettings): OAuthClient {
    return new OAuthClient(settings, this.#parts)
  }

  provider(id: string): BrokeredProvider | undefined {
    return this.#providers.get(id)
  }

  obstacle(provider: string, scopes: readonly string[]): BrokerObstacle | undefined {
    return consentObstacle(this.#providers.get(provider)?.settings, scopes, this.#canBind)
  }

  async refresh(...[provider, renewal]: Parameters<TokenBroker['refresh']>) {
    const found = this.#providers.get(provider)
    if (found === undefined) return { kind: 'unavailable' } as const
    const answer = await found.client.refresh(renewal)
    if (answer.kind === 'unavailable')
      this.#log.warn({ provider, reason: answer.reason }, 'cannot renew a token')
    return answer
  }

  obtain({ provider, scopes, owner }: OwnTokenNeed): Promise<RefreshAnswer> | undefined {
    return this.#providers.get(provider)?.own?.find(owner, scopes)
  }

  scopesFor(provider: string, tool: string): readonly string[] {
    return this.#refusals.scopesFor(provider, tool)
  }

  isRejected(token: Secret): boolean {
    return this.#refusals.isRejected(token)
  }

  /**
   * Makes the next call get another token: one with the missing scopes, or a renewed one. Returns false if that cannot help, because
   * the refused token was already requested with these scopes (MCP-160).
   */
  refused({ provider, tool = '', token, scopes }: RefusedToken): boolean {
    const found = this.#providers.get(provider)
    if (found === undefined) return false
    if (scopes.length > 0) return this.#refusals.noteScopes(provider, tool, scopes)
    this.#refusals.reject(token)
    found.own?.drop(token)
    found.client.forget()
    return true
  }

  async revoke(...[provider, token]: Parameters<TokenBroker['revoke']>): Promise<boolean> {
    return (await this.#providers.get(provider)?.client.revoke(token)) ?? false
  }

  #brokered(id: string, settings: OAuthProviderSettings): BrokeredProvider {
    const { identityProvider, grant = 'authorization_code' } = settings
    if (identityProvider !== undefined)
      return { settings, client: new EnterpriseClient(settings, identityProvider, this.#parts) }
    const client = this.clientOf(settings)
    if (grant === 'authorization_code') return { settings, client }
    const obtain = async (scopes: readonly string[]): Promise<Obtained> => {
      const answer = await client.obtain([...new Set([...settings.alwaysScopes, ...scopes])])
      if (answer.kind !== 'tokens')
        this.#log.warn({ provider: id, reason: answer.reason }, 'a provider issued no token for this server')
      return answer
    }
    return { settings, client, own: new OwnTokens(obtain, this.#parts.clock) }
  }
}

/** The reason why people cannot consent to these scopes of a provider; `undefined` if they can. */
export function consentObstacle(
  provider: Pick<OAuthProviderSettings, 'scopes'> | undefined,
  scopes: readonly string[],
  canBind: boolean,
): BrokerObstacle | undefined {
  if (provider === undefined) return 'no_provider'
  if (!canBind) return 'no_sign_in'
  const { scopes: allowed } = provider
  return allowed === undefined || scopes.every((scope) => allowed.includes(scope)) ? undefined : 'scopes'
}
