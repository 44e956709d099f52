import {
  type AuthorizationServer,
  allowInsecureRequests,
  type Client,
  type ClientAuth,
  ClientSecretPost,
  clockTolerance,
  customFetch,
  discoveryRequest,
  None,
  processDiscoveryResponse,
} from 'oauth4webapi'
import type { OAuthClientSettings } from '#config/settings'
import type { Clock } from '#core/runtime'

const METADATA_LIFETIME_MS = 3_600_000
const SKEW_SECONDS = 60

/** One authorization server, and us as its client. */
export interface OAuthPeer {
  readonly as: AuthorizationServer
  readonly client: Client
  readonly clientAuth: ClientAuth
  readonly options: PeerOptions
}

/** What the library hands to `fetch`. */
interface PeerRequest extends Omit<RequestInit, 'body'> {
  readonly body?: RequestInit['body'] | undefined
}

export interface PeerOptions {
  /** Ends every request that is made with them. */
  readonly signal?: AbortSignal
  readonly [customFetch]: (url: string, options: PeerRequest) => Promise<Response>
  readonly [allowInsecureRequests]: boolean
}

/** Finds the endpoints of one provider; what was discovered is kept for an hour, and longer while it cannot be asked. */
export class PeerFinder {
  readonly #settings: OAuthClientSettings
  readonly #clock: Clock
  readonly #options: PeerOptions
  #known: { readonly as: AuthorizationServer; readonly untilMs: number } | undefined

  constructor(settings: OAuthClientSettings, parts: { readonly fetch: typeof fetch; readonly clock: Clock }) {
    this.#settings = settings
    this.#clock = parts.clock
    // The config admits plain http only to this machine.
    const first = settings.issuer ?? settings.tokenEndpoint ?? ''
    this.#options = {
      [customFetch]: (url, { body, ...rest }) =>
        parts.fetch(url, body === undefined ? rest : { ...rest, body }),
      [allowInsecureRequests]: first.startsWith('http:'),
    }
  }

  async find(signal?: AbortSignal): Promise<OAuthPeer> {
    const { clientId } = this.#settings
    const options = signal === undefined ? this.#options : { ...this.#options, signal }
    return {
      as: await this.#server(options),
      client: { client_id: clientId, [clockTolerance]: SKEW_SECONDS },
      clientAuth: clientAuthOf(this.#settings),
      options,
    }
  }

  async #server(options: PeerOptions): Promise<AuthorizationServer> {
    const { issuer, authorizationEndpoint, tokenEndpoint, revocationEndpoint } = this.#settings
    if (authorizationEndpoint !== undefined && tokenEndpoint !== undefined) {
      return {
        issuer: issuer ?? new URL(authorizationEndpoint).origin,
        authorization_endpoint: authorizationEndpoint,
        token_endpoint: tokenEndpoint,
        ...(revocationEndpoint === undefined ? {} : { revocation_endpoint: revocationEndpoint }),
      }
    }
    const nowMs = this.#clock.nowMs()
    if (this.#known !== undefined && nowMs < this.#known.untilMs) return this.#known.as
    try {
      const as = await this.#discover(issuer ?? '', options)
      const whole = revocationEndpoint === undefined ? as : { ...as, revocation_endpoint: revocationEndpoint }
      this.#known = { as: whole, untilMs: nowMs + METADATA_LIFETIME_MS }
      return whole
    } catch (error) {
      if (this.#known !== undefined) return this.#known.as
      throw error
    }
  }

  async #discover(issuer: string, options: PeerOptions): Promise<AuthorizationServer> {
    const url = new URL(issuer)
    const response = await discoveryRequest(url, { algorithm: 'oidc', ...options })
    if (response.status !== 404) return await processDiscoveryResponse(url, response)
    // Not an OpenID provider: the same by RFC 8414.
    return await processDiscoveryResponse(
      url,
      await discoveryRequest(url, { algorithm: 'oauth2', ...options }),
    )
  }
}

function clientAuthOf({ clientAuth, clientSecret }: OAuthClientSettings): ClientAuth {
  if (clientSecret === undefined || clientAuth === 'none') return None()
  const text = clientSecret.reveal()
  return clientAuth === 'post' ? ClientSecretPost(text) : basicAuth(text)
}

/**
 * RFC 6749 §2.3.1. The library's own encodes every `-` and `_` too, which is allowed, but servers that forget to decode
 * then know no client whose id is a UUID.
 */
function basicAuth(secret: string): ClientAuth {
  return (_as, { client_id }, _body, headers) => {
    const pair = `${formEncode(client_id)}:${formEncode(secret)}`
    headers.set('authorization', `Basic ${Buffer.from(pair).toString('base64')}`)
  }
}

function formEncode(text: string): string {
  return new URLSearchParams([['', text]]).toString().slice(1)
}
