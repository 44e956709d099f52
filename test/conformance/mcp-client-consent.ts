/**
 * The steps before Collet calls an MCP server that requires tokens: an operator found its authorization
 * server, registered a client and configured a provider; the broker's client sent a user there, who consented.
 */
import { randomBytes } from 'node:crypto'
import {
  discoverOAuthServerInfo,
  extractWWWAuthenticateParams,
  registerClient,
} from '@modelcontextprotocol/client'
import type { OAuthClientSettings } from '#config/settings'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { Secret } from '#kernel/base/secret'
import { OAuthClient } from '#oauth/client'

const REDIRECT_URI = 'http://127.0.0.1:4100/oauth/callback'
const METADATA_URL = 'https://conformance-test.local/client-metadata.json'

export interface KnownClient {
  readonly client_id?: string
  readonly client_secret?: string
}

/** The token, or the reason for its absence. `more` are scopes that a call was found to need. */
export async function consentFor(url: string, known: KnownClient, more: readonly string[]): Promise<string> {
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
  const refused = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify(ping),
  })
  await refused.text()
  const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(refused)
  const info = await discoverOAuthServerInfo(
    url,
    resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl },
  )
  const { authorizationServerMetadata: server, resourceMetadata } = info
  if (server === undefined) throw new Error('no authorization server')
  if (resourceMetadata !== undefined && !url.startsWith(resourceMetadata.resource))
    throw new Error('the metadata is of another resource')
  const wanted = scope?.split(' ') ?? resourceMetadata?.scopes_supported ?? []
  const canRefresh = server.scopes_supported?.includes('offline_access') === true
  const scopes = [...new Set([...wanted, ...more, ...(canRefresh ? ['offline_access'] : [])])]
  const registered = await register(info.authorizationServerUrl, server, known)
  const settings: OAuthClientSettings = {
    ...registered,
    issuer: server.issuer,
    authorizationEndpoint: undefined,
    tokenEndpoint: undefined,
    revocationEndpoint: undefined,
    ...(resourceMetadata === undefined ? {} : { resource: resourceMetadata.resource }),
  }
  const broker = new OAuthClient(settings, { fetch, clock: SYSTEM_CLOCK })
  const random = (): string => randomBytes(32).toString('base64url')
  const departure = { state: random(), verifier: random(), nonce: undefined, redirectUri: REDIRECT_URI }
  const page = await broker.authorizationUrl(departure, { scopes, parameters: {} })
  if (page === undefined) throw new Error('nowhere to send the browser')
  const visit = await fetch(page, { redirect: 'manual' })
  const parameters = new URL(visit.headers.get('location') ?? '').searchParams
  const exchanged = await broker.exchange({ ...departure, parameters }, { scopes, identify: false })
  if (exchanged.kind !== 'tokens') throw new Error(`no tokens: ${JSON.stringify(exchanged)}`)
  return exchanged.tokens.accessToken.reveal()
}

type ServerMetadata = NonNullable<
  Awaited<ReturnType<typeof discoverOAuthServerInfo>>['authorizationServerMetadata']
>

async function register(
  serverUrl: string,
  metadata: ServerMetadata,
  known: KnownClient,
): Promise<Pick<OAuthClientSettings, 'clientId' | 'clientSecret' | 'clientAuth'>> {
  const methods = metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
  if (known.client_id !== undefined)
    return withMethod(
      known.client_id,
      known.client_secret,
      methods.find((method) => method !== 'none'),
    )
  if (
    'client_id_metadata_document_supported' in metadata &&
    metadata.client_id_metadata_document_supported === true
  )
    return withMethod(METADATA_URL, undefined, 'none')
  const client = await registerClient(serverUrl, {
    metadata,
    clientMetadata: {
      client_name: 'collet',
      redirect_uris: [REDIRECT_URI],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: methods[0] ?? 'none',
      application_type: 'native',
    },
  })
  return withMethod(client.client_id, client.client_secret, client.token_endpoint_auth_method ?? methods[0])
}

function withMethod(clientId: string, secret: string | undefined, method: string | undefined) {
  const clientAuth =
    method === 'none' || secret === undefined ? 'none' : method === 'client_secret_post' ? 'post' : 'basic'
  return {
    clientId,
    clientSecret: secret === undefined ? undefined : new Secret(secret),
    clientAuth,
  } as const
}
