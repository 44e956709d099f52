import type { OAuthClientSettings, OAuthProviderSettings, OAuthSettings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import type { Logger } from '#kernel/base/logger'
import type { BrokerObstacle, TokenBroker } from '#kernel/base/token-broker'
import { boundedFetch, OAuthClient } from './client.ts'

/**
 * The authorization servers in the config, each with this server as its client. The credentials stage refreshes and revokes
 * tokens through it, and the consent pages send people to it.
 * Every request to a provider is bounded in time and size.
 */

const BOUNDS = { timeoutMs: 10_000, maxBytes: 256 * 1_024 }

interface OAuthBrokerOptions {
  readonly settings: OAuthSettings
  /** Whether a consent can be bound to its user: by a sign-in, or because this is the user's own machine (rule 25). */
  readonly canBind: boolean
  readonly fetch: typeof fetch
  readonly clock: Clock
  readonly log: Logger
}

interface BrokeredProvider {
  readonly settings: OAuthProviderSettings
  readonly client: OAuthClient
}

export class OAuthBroker implements TokenBroker {
  readonly signIn: OAuthClient | undefined
  readonly #providers: ReadonlyMap<string, BrokeredProvider>
  readonly #canBind: boolean
  readonly #log: Logger
  readonly #parts: { readonly fetch: typeof fetch; readonly clock: Clock }

  constructor({ settings, canBind, fetch: send, clock, log }: OAuthBrokerOptions) {
    this.#parts = { fetch: boundedFetch(send, BOUNDS), clock }
    this.#canBind = canBind
    this.#log = log
    this.signIn = settings.signIn && this.clientOf(settings.signIn)
    const providers = Object.entries(settings.providers)
    this.#providers = new Map(
      providers.map(([id, provider]) => [id, { settings: provider, client: this.clientOf(provider) }]),
    )
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

  async refresh(...[provider, refreshToken, scopes]: Parameters<TokenBroker['refresh']>) {
    const found = this.#providers.get(provider)
    if (found === undefined) return { kind: 'unavailable' } as const
    const answer = await found.client.refresh(refreshToken, scopes)
    if (answer.kind === 'unavailable')
      this.#log.warn({ provider, reason: answer.reason }, 'a token could not be renewed')
    return answer
  }

  async revoke(...[provider, token]: Parameters<TokenBroker['revoke']>): Promise<boolean> {
    return (await this.#providers.get(provider)?.client.revoke(token)) ?? false
  }
}

/** Returns why people cannot consent to these scopes of a provider. */
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
