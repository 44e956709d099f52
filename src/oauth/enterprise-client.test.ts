import { describe, expect, it } from 'vitest'
import { OAUTH } from '#config/schema-oauth'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { Secret } from '#kernel/base/secret'
import { OAuthClient } from './client.ts'
import { EnterpriseClient } from './enterprise-client.ts'
import { clientDocument } from './registration.ts'

const IDP = 'https://login.example.com'
const ISSUER = 'https://id.example.com'
const RESOURCE = 'https://tracker.example.com/mcp'

/** A `fetch` that acts as both issuers and the resource, and records every form sent to a token endpoint. */
function issuers(movedTo = ISSUER) {
  const forms: [string, Record<string, string>][] = []
  const json = (body: object): Response =>
    new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } })
  const send = async (input: Parameters<typeof fetch>[0], init?: RequestInit): Promise<Response> => {
    const url = new URL(String(input))
    if (url.pathname === '/.well-known/oauth-protected-resource/mcp')
      return json({ resource: RESOURCE, authorization_servers: [movedTo] })
    if (url.pathname.startsWith('/.well-known/'))
      return json({
        issuer: url.origin,
        authorization_endpoint: `${url.origin}/authorize`,
        token_endpoint: `${url.origin}/token`,
        code_challenge_methods_supported: ['S256'],
      })
    if (url.pathname !== '/token') return new Response(null, { status: 401 })
    const form = Object.fromEntries(new URLSearchParams(String(init?.body)))
    forms.push([url.origin, form])
    if (url.origin !== IDP)
      return json({ access_token: 'access', token_type: 'Bearer', expires_in: 300, scope: 'issues' })
    return form.grant_type === 'refresh_token'
      ? json({ access_token: 'of-idp', token_type: 'Bearer', refresh_token: 'renewal-2' })
      : json({ access_token: 'jag', token_type: 'N_A', issued_token_type: 'x' })
  }
  return { forms, send }
}

function settings() {
  const { up } = OAUTH.parse({
    providers: {
      up: {
        ...{ resource: RESOURCE, clientId: 'collet', clientSecret: 's' },
        identityProvider: { issuer: IDP, clientId: 'at-idp' },
      },
    },
  }).providers
  if (up?.identityProvider === undefined) throw new Error('no provider')
  return { up, identityProvider: up.identityProvider }
}

describe('enterprise-managed authorization', () => {
  it('MCP-163: renews access with a new grant, and sends the refresh token only to the identity provider', async () => {
    const { forms, send } = issuers()
    const { up, identityProvider } = settings()
    const client = new EnterpriseClient(up, identityProvider, { fetch: send, clock: SYSTEM_CLOCK })
    const renewal = { refreshToken: new Secret('renewal-1'), scopes: ['issues'], issuer: IDP }
    const answer = await client.refresh(renewal)
    if (answer.kind !== 'tokens') throw new Error(JSON.stringify(answer))
    expect(answer.tokens.accessToken.reveal()).toBe('access')
    expect(answer.tokens.refreshToken?.reveal()).toBe('renewal-2')
    expect(answer.tokens.issuer).toBe(IDP)
    expect(forms).toMatchObject([
      [IDP, { grant_type: 'refresh_token', refresh_token: 'renewal-1' }],
      [
        IDP,
        {
          requested_token_type: 'urn:ietf:params:oauth:token-type:id-jag',
          subject_token: 'renewal-2',
          subject_token_type: 'urn:ietf:params:oauth:token-type:refresh_token',
          ...{ audience: ISSUER, resource: RESOURCE, scope: 'issues' },
        },
      ],
      [ISSUER, { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion: 'jag' }],
    ])
  })
})

describe('a resource that moved to another issuer', () => {
  it('MCP-157: the new issuer never gets a refresh token from the old one', async () => {
    const { forms, send } = issuers('https://other.example.com')
    const { up } = settings()
    const client = new OAuthClient(
      { ...up, identityProvider: undefined },
      { fetch: send, clock: SYSTEM_CLOCK },
    )
    const renewal = { refreshToken: new Secret('r'), scopes: [], issuer: ISSUER }
    expect(await client.refresh(renewal)).toEqual({ kind: 'refused' })
    expect(forms).toEqual([])
  })
})

describe('the client id metadata document', () => {
  it('MCP-156: has its own address as client id, and exists only behind https', () => {
    expect(clientDocument('http://127.0.0.1:4100')).toBeUndefined()
    expect(clientDocument('https://tools.example.com')).toMatchObject({
      client_id: 'https://tools.example.com/oauth/client-metadata.json',
      redirect_uris: ['https://tools.example.com/oauth/callback'],
      token_endpoint_auth_method: 'none',
    })
  })
})
