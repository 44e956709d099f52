/**
 * The tokens with which Collet calls an MCP server that requires them, through the broker's own clients: a configured provider that
 * names only the server, a user who consents, and the grants without a person.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { OAUTH } from '#config/schema-oauth'
import type { OAuthProviderSettings } from '#config/settings'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { Secret } from '#kernel/base/secret'
import { OAuthClient, type ProviderClient } from '#oauth/client'
import { EnterpriseClient } from '#oauth/enterprise-client'
import type { ClientRegistry } from '#oauth/registration'

const REDIRECT_URI = 'http://127.0.0.1:4100/oauth/callback'
const METADATA_URL = 'https://conformance-test.local/client-metadata.json'

/** The facts about itself that the suite gives the client, by scenario. */
export interface KnownClient {
  readonly client_id?: string
  readonly client_secret?: string
  readonly private_key_pem?: string
  readonly valid_jwt?: string
  readonly idp_client_id?: string
  readonly idp_id_token?: string
  readonly idp_issuer?: string
}

/** The token, or the reason for its absence. `more` are scopes that a call was found to need. */
export async function tokenFor(
  url: string,
  scenario: string,
  known: KnownClient,
  more: readonly string[],
): Promise<Secret> {
  const kept = new Map<string, NonNullable<Awaited<ReturnType<ClientRegistry['find']>>>>()
  const clients: ClientRegistry = {
    documentUrl: () => METADATA_URL,
    redirectUri: () => REDIRECT_URI,
    find: async (issuer) => kept.get(issuer),
    keep: async (issuer, client) => void kept.set(issuer, client),
  }
  const parts = { fetch, clock: SYSTEM_CLOCK, clients }
  const folder = mkdtempSync(join(tmpdir(), 'collet-suite-'))
  try {
    const settings = settingsFor(url, scenario, known, folder)
    const { identityProvider, grant = 'authorization_code' } = settings
    if (identityProvider !== undefined) {
      const client = new EnterpriseClient(settings, identityProvider, parts)
      const subject = { token: new Secret(known.idp_id_token ?? ''), type: 'id_token' } as const
      return accessOf(await client.accessFor(subject, { refreshToken: undefined }, more))
    }
    const client = new OAuthClient(settings, parts)
    if (grant !== 'authorization_code') return accessOf(await client.obtain(more))
    return await consent(client, more)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function settingsFor(
  url: string,
  scenario: string,
  known: KnownClient,
  folder: string,
): OAuthProviderSettings {
  const { client_id, client_secret, private_key_pem, valid_jwt } = known
  const assertionFile = join(folder, 'jwt')
  if (valid_jwt !== undefined) writeFileSync(assertionFile, valid_jwt)
  const isOwn = scenario.startsWith('auth/client-credentials')
  const provider = {
    resource: url,
    ...(client_id === undefined ? {} : { clientId: client_id }),
    ...(client_secret === undefined ? {} : { clientSecret: client_secret }),
    ...(private_key_pem === undefined ? {} : { privateKey: private_key_pem }),
    ...(isOwn ? { grant: 'client_credentials' } : {}),
    ...(valid_jwt === undefined ? {} : { grant: 'jwt_bearer', assertionFile }),
    ...(known.idp_client_id === undefined
      ? {}
      : { identityProvider: { issuer: known.idp_issuer, clientId: known.idp_client_id } }),
  }
  const settings = OAUTH.parse({ providers: { up: provider } }).providers.up
  if (settings === undefined) throw new Error('no provider')
  return settings
}

function accessOf(answer: Awaited<ReturnType<EnterpriseClient['accessFor']>>): Secret {
  if (answer.kind !== 'tokens') throw new Error(`no token: ${answer.kind} ${answer.reason}`)
  return answer.tokens.accessToken
}

/** A user who consents to everything. */
async function consent(client: ProviderClient, scopes: readonly string[]): Promise<Secret> {
  const random = (): string => randomBytes(32).toString('base64url')
  const departure = { state: random(), verifier: random(), nonce: undefined, redirectUri: REDIRECT_URI }
  const page = await client.authorizationUrl(departure, { scopes, parameters: {} })
  if (page === undefined) throw new Error('nowhere to send the browser')
  const visit = await fetch(page, { redirect: 'manual' })
  const parameters = new URL(visit.headers.get('location') ?? '').searchParams
  const exchanged = await client.exchange({ ...departure, parameters }, { scopes, identify: false })
  if (exchanged.kind !== 'tokens') throw new Error(`no tokens: ${JSON.stringify(exchanged)}`)
  return exchanged.tokens.accessToken
}
