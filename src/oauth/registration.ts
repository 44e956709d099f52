import { randomBytes } from 'node:crypto'
import { type AuthorizationServer, dynamicClientRegistrationRequest } from 'oauth4webapi'
import type { Clock } from '#kernel/base/clock'
import { isRecord } from '#kernel/base/json'
import { DEFAULT_TENANT } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import type { Store } from '#store/collet-store'
import type { PeerOptions } from './peer.ts'

/**
 * Identifies this server as a client at authorization servers where no operator registered it: by its metadata document, whose URL is
 * the client id, or by dynamic registration (RFC 7591) if an issuer does not read such documents. Providers without a `clientId` use it.
 * Invariant: a registration is kept with its issuer, and used at no other issuer (MCP-157).
 */

export const DOCUMENT_PATH = '/oauth/client-metadata.json'
/** No caller has this principal, so its secrets can reach no tool. */
const OWNER = { tenant: DEFAULT_TENANT, principal: 'collet:oauth', user: '' }
const GRANTS = ['authorization_code', 'refresh_token']

/** This server's client at one issuer. */
export interface RegisteredClient {
  readonly clientId: string
  readonly clientSecret: Secret | undefined
  readonly clientAuth: 'basic' | 'post' | 'none'
}

/** The addresses and the storage that registration needs. */
export interface ClientRegistry {
  /** The public address of the metadata document; `undefined` if authorization servers cannot read it. */
  documentUrl(): string | undefined
  redirectUri(): string
  find(issuer: string): Promise<KeptClient | undefined>
  keep(issuer: string, client: KeptClient): Promise<void>
}

interface KeptClient extends RegisteredClient {
  readonly redirectUri: string
  readonly expiresAtMs: number | undefined
}

/** The client to use at an issuer: that of the metadata document, a kept registration, or a new registration. */
export async function registeredClient(
  as: AuthorizationServer,
  registry: ClientRegistry,
  parts: { readonly options: PeerOptions; readonly clock: Clock },
): Promise<RegisteredClient> {
  const documentUrl = registry.documentUrl()
  if (documentUrl !== undefined && as.client_id_metadata_document_supported === true)
    return { clientId: documentUrl, clientSecret: undefined, clientAuth: 'none' }
  const kept = await registry.find(as.issuer)
  const redirectUri = registry.redirectUri()
  const isCurrent = (kept?.expiresAtMs ?? Number.POSITIVE_INFINITY) > parts.clock.nowMs()
  if (kept !== undefined && kept.redirectUri === redirectUri && isCurrent) return kept
  const client = await register(as, redirectUri, parts.options)
  await registry.keep(as.issuer, client)
  // Another replica may have registered at the same time. All replicas use the registration that was stored.
  return (await registry.find(as.issuer)) ?? client
}

async function register(
  as: AuthorizationServer,
  redirectUri: string,
  options: PeerOptions,
): Promise<KeptClient> {
  if (as.registration_endpoint === undefined)
    throw Object.assign(new Error('the issuer does not register clients'), { code: 'no_registration' })
  const supported = as.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
  const method = METHODS.find(([name]) => supported.includes(name))?.[0] ?? 'none'
  const isNative = new URL(redirectUri).protocol === 'http:'
  const response = await dynamicClientRegistrationRequest(
    as,
    {
      ...metadataFor(redirectUri),
      token_endpoint_auth_method: method,
      application_type: isNative ? 'native' : 'web',
    },
    options,
  )
  // Many servers leave out required members of the answer, so only the members that are used are checked.
  const answer: unknown = await response.json()
  if (!isRecord(answer) || typeof answer.client_id !== 'string' || !response.ok)
    throw Object.assign(new Error('the issuer did not register this server'), {
      code: 'registration_refused',
    })
  const { client_id, client_secret, client_secret_expires_at, token_endpoint_auth_method = method } = answer
  const secret =
    typeof client_secret === 'string' && client_secret !== '' ? new Secret(client_secret) : undefined
  const clientAuth = METHODS.find(([name]) => name === token_endpoint_auth_method)?.[1]
  const expires = typeof client_secret_expires_at === 'number' ? client_secret_expires_at : 0
  return {
    clientId: client_id,
    clientSecret: secret,
    clientAuth: secret === undefined ? 'none' : (clientAuth ?? 'basic'),
    redirectUri,
    expiresAtMs: expires === 0 ? undefined : expires * 1_000,
  }
}

/** Authentication methods in order of preference. */
const METHODS: readonly (readonly [string, RegisteredClient['clientAuth']])[] = [
  ['client_secret_basic', 'basic'],
  ['client_secret_post', 'post'],
  ['none', 'none'],
]

function metadataFor(redirectUri: string) {
  return {
    client_name: 'Collet',
    redirect_uris: [redirectUri],
    grant_types: GRANTS,
    response_types: ['code'],
  }
}

interface StoredClientsOptions {
  readonly store: Pick<Store, 'vault'>
  readonly clock: Clock
  publicUrl(): string
}

/** Registrations in the vault, which all replicas share. */
export function storedClients({ store, clock, publicUrl }: StoredClientsOptions): ClientRegistry {
  const addressOf = (issuer: string) =>
    ({ ...OWNER, provider: `oauth-client ${issuer}`, kind: 'secret' }) as const
  return {
    documentUrl: () => documentUrlOf(publicUrl()),
    redirectUri: () => redirectUriOf(publicUrl()),
    async find(issuer) {
      const entry = await store.vault.find(addressOf(issuer))
      return entry?.value === undefined ? undefined : readKept(entry.value)
    },
    async keep(issuer, { clientSecret, ...client }) {
      const value = new Secret(JSON.stringify({ ...client, clientSecret: clientSecret?.reveal() }))
      const ref = `cred_${randomBytes(18).toString('base64url')}`
      const atMs = clock.nowMs()
      await store.vault.put({
        ...addressOf(issuer),
        ...{ ref, value, scopes: [], expiresAtMs: undefined, by: 'registration', atMs },
      })
    },
  }
}

function readKept(value: Secret): KeptClient | undefined {
  const kept: unknown = JSON.parse(value.reveal())
  if (!isRecord(kept)) return undefined
  const { clientId, clientSecret, clientAuth, redirectUri, expiresAtMs } = kept
  const method = METHODS.find(([, name]) => name === clientAuth)?.[1]
  if (typeof clientId !== 'string' || typeof redirectUri !== 'string' || method === undefined)
    return undefined
  return {
    clientId,
    clientSecret: typeof clientSecret === 'string' ? new Secret(clientSecret) : undefined,
    clientAuth: method,
    redirectUri,
    expiresAtMs: typeof expiresAtMs === 'number' ? expiresAtMs : undefined,
  }
}

/** The metadata document; `undefined` if authorization servers cannot read it (MCP-156). */
export function clientDocument(publicUrl: string): object | undefined {
  const documentUrl = documentUrlOf(publicUrl)
  if (documentUrl === undefined) return undefined
  return {
    client_id: documentUrl,
    client_uri: publicUrl,
    ...metadataFor(redirectUriOf(publicUrl)),
    token_endpoint_auth_method: 'none',
  }
}

function documentUrlOf(publicUrl: string): string | undefined {
  return publicUrl.startsWith('https:') ? `${publicUrl}${DOCUMENT_PATH}` : undefined
}

function redirectUriOf(publicUrl: string): string {
  return `${publicUrl}/oauth/callback`
}
