import { createServer, type RequestListener, type Server } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

/** The package has no types; a name of type `string` keeps the compiler from resolving it. */
const PACKAGE: string = 'oidc-provider'
const { default: Provider }: { readonly default: ProviderClass } = await import(PACKAGE)

type ProviderClass = new (
  issuer: string,
  configuration: object,
) => {
  callback(): RequestListener
}

const RESOURCE = 'https://tools.example.com'

/** A real OpenID Connect provider on loopback that issues JWT access tokens for the server's resource. */
async function startProvider(): Promise<{ readonly issuer: string; readonly http: Server }> {
  const http = createServer()
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const address = http.address()
  if (address === null || typeof address === 'string') throw new Error('the provider does not listen')
  const issuer = `http://127.0.0.1:${address.port}`
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'agent',
        client_secret: 'agent-secret',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      },
    ],
    scopes: ['mail:send', 'fs:home:read'],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context: unknown, resource: string) => ({
          scope: 'mail:send fs:home:read',
          audience: resource,
          accessTokenFormat: 'jwt',
          accessTokenTTL: 300,
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  })
  http.on('request', provider.callback())
  return { issuer, http }
}

let provider: { readonly issuer: string; readonly http: Server }
let server: PrincipalsServer

beforeAll(async () => {
  provider = await startProvider()
  server = await startPrincipalsServer({
    auth: {
      apiKeys: [key('root', ['*'])],
      jwt: undefined,
      issuers: [
        {
          issuer: provider.issuer,
          audiences: [RESOURCE],
          jwksUri: undefined,
          claims: { tenant: undefined, scopes: undefined, roles: undefined },
          tenant: 'acme',
          algorithms: undefined,
        },
      ],
    },
  })
})

afterAll(async () => {
  await server.stop()
  provider.http.closeAllConnections()
  await new Promise((resolve) => provider.http.close(resolve))
})

async function fetchToken(scope: string, resource = RESOURCE): Promise<string> {
  const response = await fetch(`${provider.issuer}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from('agent:agent-secret').toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', scope, resource }),
  })
  const answer: { readonly access_token: string } = JSON.parse(await response.text())
  expect(answer).toMatchObject({ token_type: 'Bearer' })
  return answer.access_token
}

describe('a real OpenID Connect provider', () => {
  it('OWP-21: its token grants its scopes, over every protocol', async () => {
    const token = await fetchToken('mail:send')
    const list = await server.ask('/v1/tools', { key: token })
    expect(list.status).toBe(200)
    expect(list.text).toMatch(/Mail.Send/)
    expect(list.text).not.toMatch(/Files.Read/)
    const body = { $schema: 'urn:oxp:1.0', request: { tool_id: 'Mail.Send', input: {} } }
    expect((await server.ask('/tools/call', { method: 'POST', key: token, body })).json.result.success).toBe(
      true,
    )
    const call = { jsonrpc: '2.0', method: 'Mail_Send', params: {}, id: '1' }
    expect(
      (await server.ask('/opentool/call', { method: 'POST', key: token, body: call })).json.result,
    ).toEqual({
      result: 'done',
    })
  })

  it('OWP-12: a token that is for another resource, truncated or modified is 401', async () => {
    const token = await fetchToken('mail:send')
    const [header = '', payload = '', signature = ''] = token.split('.')
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString())
    const widened = Buffer.from(JSON.stringify({ ...claims, scope: 'mail:send fs:home:read' })).toString(
      'base64url',
    )
    for (const bad of [
      await fetchToken('mail:send', 'https://other.example.com'),
      `${header}.${payload}.`,
      `${header}.${widened}.${signature}`,
      token.slice(0, -4),
    ]) {
      expect((await server.ask('/v1/tools', { key: bad })).status).toBe(401)
    }
  })

  it('MCP-90, MCP-91, MCP-92: /mcp accepts tokens for this server only, and reports others as invalid', async () => {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    }
    const ask = (token: string) =>
      fetch(`${server.url}/mcp`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': 'tools/list',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta } }),
      })
    expect((await ask(await fetchToken('mail:send'))).status).toBe(200)
    const refused = await ask(await fetchToken('mail:send', 'https://other.example.com'))
    const metadata = `${server.url}/.well-known/oauth-protected-resource/mcp`
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([
      401,
      `Bearer resource_metadata="${metadata}", error="invalid_token", error_description="The token's \`aud\` claim is not acceptable."`,
    ])
    expect(await refused.json()).toMatchObject({ error: { code: 401 } })
  })

  it('OWP-13: a 401 of every protocol names the document that lists the issuers', async () => {
    const positions: [string, string, string][] = [
      ['GET', '/v1/tools', '/v1'],
      ['GET', '/tools', '/tools'],
      ['POST', '/tools/call', '/tools'],
      ['GET', '/opentool/load', '/opentool'],
      ['POST', '/opentool/call', '/opentool'],
      ['GET', '/opentool/unknown', '/opentool'],
      ['POST', '/mcp', '/mcp'],
      ['GET', '/mcp', '/mcp'],
      ['GET', '/metrics', ''],
      ['GET', '/admin/keys', ''],
    ]
    for (const [method, path, root] of positions) {
      const answer = await server.ask(path, { method, ...(method === 'POST' ? { body: {} } : {}) })
      const metadata = `${server.url}/.well-known/oauth-protected-resource${root}`
      expect([path, answer.status, answer.headers['www-authenticate']]).toEqual([
        path,
        401,
        `Bearer resource_metadata="${metadata}"`,
      ])
      const document = await fetch(metadata)
      expect([document.status, await document.json()]).toEqual([
        200,
        {
          resource: `${server.url}${root}`,
          authorization_servers: [provider.issuer],
          bearer_methods_supported: ['header'],
          resource_name: 'Collet',
        },
      ])
    }
  })

  it('OWP-14: a 404 of a hidden tool carries no challenge', async () => {
    const answer = await server.ask('/v1/tools/openwop:Files.Read', { key: await fetchToken('mail:send') })
    expect([answer.status, answer.headers['www-authenticate']]).toEqual([404, undefined])
  })

  it('without issuers the document does not exist, and the challenge does not name it', async () => {
    const plain = await startPrincipalsServer({ auth: { apiKeys: [key('root', [])], jwt: undefined } })
    expect((await plain.ask('/.well-known/oauth-protected-resource')).status).toBe(404)
    expect((await plain.ask('/v1/tools')).headers['www-authenticate']).toBe('Bearer')
    await plain.stop()
  })
})

describe('roles in the openwop discovery document', () => {
  it('OWP-60, C4: are supported where some are configured, and the public document names none of them', async () => {
    const roles = new Map([['viewer', { scopes: ['tools:fs:read'] }]])
    const withRoles = await startPrincipalsServer({ auth: { apiKeys: [], jwt: undefined, roles } })
    expect((await withRoles.ask('/.well-known/openwop')).json.authorization).toEqual({
      supported: true,
      failClosed: true,
    })
    await withRoles.stop()
    expect((await server.ask('/.well-known/openwop')).json).not.toHaveProperty('authorization')
  })
})
