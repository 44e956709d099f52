import { createServer, type RequestListener } from 'node:http'
import { createRemoteJWKSet, exportJWK, generateKeyPair, jwtVerify, SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask } from '../conformance/mcp-talk.ts'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

/*
 * Enterprise-managed authorization towards Collet: the identity provider of a company gives a client an ID-JAG, the authorization
 * server of Collet exchanges it for an access token, and Collet accepts only that token.
 */

/** The package has no types; a name of type `string` keeps the compiler from resolving it. */
const PACKAGE: string = 'oidc-provider'
const { default: Provider }: { readonly default: ProviderClass } = await import(PACKAGE)

// biome-ignore lint/suspicious/noExplicitAny: the package has no types
type Untyped = any
type ProviderClass = new (issuer: string, configuration: object) => Untyped

const GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const RESOURCE = 'https://tools.example.com'
const ALG = 'RS256'
const closing: (() => Promise<void>)[] = []

async function listen(listener: RequestListener) {
  const http = createServer(listener)
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  closing.push(async () => {
    http.closeAllConnections()
    await new Promise((resolve) => http.close(resolve))
  })
  const address = http.address()
  return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
}

/** The company's identity provider: it has keys and signs. */
async function startIdentityProvider() {
  const { publicKey, privateKey } = await generateKeyPair(ALG, { extractable: true })
  const jwk = { ...(await exportJWK(publicKey)), kid: 'company', alg: ALG, use: 'sig' }
  const issuer = await listen((_request, response) => response.end(JSON.stringify({ keys: [jwk] })))
  const sign = (claims: object, typ: string) =>
    new SignJWT({ iss: issuer, sub: 'ann', client_id: 'agent', ...claims })
      .setProtectedHeader({ alg: ALG, kid: 'company', typ })
      .setIssuedAt()
      .setExpirationTime('5m')
      .setJti(crypto.randomUUID())
      .sign(privateKey)
  return { issuer, sign }
}

type IdentityProvider = Awaited<ReturnType<typeof startIdentityProvider>>

/** The real authorization server, which exchanges ID-JAGs of the company. */
async function startAuthorizationServer(company: IdentityProvider): Promise<string> {
  let handle: RequestListener = () => undefined
  const issuer = await listen((request, response) => handle(request, response))
  const info = {
    scope: 'mail:send fs:home:read users:assert',
    audience: RESOURCE,
    accessTokenFormat: 'jwt',
    accessTokenTTL: 300,
    jwt: { sign: { alg: ALG } },
  }
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'agent',
        client_secret: 'agent-secret',
        grant_types: [GRANT],
        redirect_uris: [],
        response_types: [],
      },
    ],
    scopes: ['mail:send', 'fs:home:read'],
    features: {
      devInteractions: { enabled: false },
      resourceIndicators: { enabled: true, getResourceServerInfo: () => info },
    },
  })
  const keys = createRemoteJWKSet(new URL(`${company.issuer}/jwks`))
  provider.registerGrantType(
    GRANT,
    async (context: Untyped) => {
      const { client, params } = context.oidc
      const { payload } = await jwtVerify(params.assertion, keys, {
        issuer: company.issuer,
        audience: issuer,
        typ: 'oauth-id-jag+jwt',
      }).catch(() => ({ payload: undefined }))
      if (payload?.client_id !== client.clientId || payload?.resource !== RESOURCE) {
        context.status = 400
        context.body = { error: 'invalid_grant' }
        return
      }
      const token = new provider.AccessToken({ client, accountId: payload.sub, gty: 'jwt-bearer' })
      token.resourceServer = { ...info, identifier: () => RESOURCE, scopes: new Set(info.scope.split(' ')) }
      token.scope = payload.scope
      context.body = { access_token: await token.save(), token_type: 'Bearer', scope: payload.scope }
    },
    ['assertion'],
  )
  handle = provider.callback()
  return issuer
}

let company: IdentityProvider
let issuer: string
let collet: PrincipalsServer

beforeAll(async () => {
  company = await startIdentityProvider()
  issuer = await startAuthorizationServer(company)
  collet = await startPrincipalsServer({
    hooks: { bindUser: (_principal, userId) => userId === 'ann' },
    auth: {
      apiKeys: [key('root', ['*'])],
      jwt: undefined,
      issuers: [
        {
          issuer,
          audiences: [RESOURCE],
          jwksUri: undefined,
          claims: { tenant: undefined, scopes: undefined, roles: undefined },
          tenant: 'acme',
          algorithms: undefined,
          scopes: ['mail:send'],
        },
      ],
    },
  })
}, 60_000)
afterAll(async () => {
  await collet.stop()
  for (const close of closing.reverse()) await close()
})

async function exchange(assertion: string) {
  const answer = await fetch(`${issuer}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from('agent:agent-secret').toString('base64')}` },
    body: new URLSearchParams({ grant_type: GRANT, assertion }),
  })
  return JSON.parse(await answer.text())
}

const grantFor = (claims: object = {}, typ = 'oauth-id-jag+jwt') =>
  company.sign({ aud: issuer, resource: RESOURCE, scope: 'mail:send', ...claims }, typ)

const list = (token: string) =>
  ask(collet.url, { method: 'tools/list' }, { headers: { authorization: `Bearer ${token}` } })

describe('enterprise-managed authorization', () => {
  it('MCP-167: the document names the authorization server and scopes that a client needs for the exchange', async () => {
    const refused = await list('none')
    const challenge = refused.headers.get('www-authenticate') ?? ''
    expect([refused.status, challenge]).toEqual([401, expect.stringContaining('scope="mail:send"')])
    const address = /resource_metadata="([^"]+)"/.exec(challenge)?.[1] ?? ''
    const document = await (await fetch(address)).json()
    expect(document).toMatchObject({
      resource: `${collet.url}/mcp`,
      authorization_servers: [issuer],
      scopes_supported: ['mail:send'],
      bearer_methods_supported: ['header'],
    })
  })

  it('MCP-167: a token that the authorization server issued for an ID-JAG is its subject, with its scopes', async () => {
    const { access_token: token } = await exchange(await grantFor())
    const { result } = (await (await list(token)).json()) as { result: { tools: { name: string }[] } }
    const names = result.tools.map(({ name }) => name)
    expect(names).toContain('Mail_Send')
    expect(names).not.toContain('Files_Read')
    const called = await ask(
      collet.url,
      { method: 'tools/call', params: { name: 'Mail_Send' } },
      { headers: { authorization: `Bearer ${token}`, 'collet-user': 'ann' } },
    )
    expect([called.status, await called.text()]).toEqual([200, expect.stringContaining('done')])
  })

  it('MCP-167: Collet accepts neither an ID-JAG itself, nor other tokens of the identity provider', async () => {
    for (const token of [
      await grantFor(),
      await grantFor({ aud: RESOURCE }),
      await grantFor({ aud: RESOURCE, iss: issuer }),
      await grantFor({ aud: RESOURCE, iss: issuer }, 'at+jwt'),
    ])
      expect((await list(token)).status).toBe(401)
    expect(await exchange(await grantFor({ aud: 'https://other.example' }))).toEqual({
      error: 'invalid_grant',
    })
    expect(await exchange(await grantFor({ resource: 'https://other.example' }))).toEqual({
      error: 'invalid_grant',
    })
  })

  it('MCP-93: a token without the scope for a tool does not see it; the answer is that of an unknown tool', async () => {
    const { access_token: token } = await exchange(await grantFor())
    const call = async (name: string) => {
      const sent = { headers: { authorization: `Bearer ${token}` } }
      const answer = await ask(collet.url, { method: 'tools/call', params: { name } }, sent)
      return [
        answer.status,
        answer.headers.get('www-authenticate'),
        JSON.parse(await answer.text()).error.code,
      ]
    }
    expect(await call('Files_Read')).toEqual(await call('No_Such'))
    expect((await call('Files_Read'))[1]).toBeNull()
  })

  it('MCP-93: a call for another user is answered with the scopes that the token lacks', async () => {
    const { access_token: token } = await exchange(await grantFor())
    const answer = await ask(
      collet.url,
      { method: 'tools/call', params: { name: 'Mail_Send' } },
      { headers: { authorization: `Bearer ${token}`, 'collet-user': 'bob' } },
    )
    expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([
      403,
      `Bearer error="insufficient_scope", scope="mail:send users:assert", resource_metadata="${collet.url}/.well-known/oauth-protected-resource/mcp"`,
    ])
    const { access_token: full } = await exchange(await grantFor({ scope: 'mail:send users:assert' }))
    const refused = await ask(
      collet.url,
      { method: 'tools/call', params: { name: 'Mail_Send' } },
      { headers: { authorization: `Bearer ${full}`, 'collet-user': 'bob' } },
    )
    // No scope would help, so the client is not sent to its authorization server again.
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([200, null])
  })
})
