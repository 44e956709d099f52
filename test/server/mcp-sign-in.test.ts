import { createServer, type RequestListener, type Server } from 'node:http'
import type { OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freePort } from '../sources/everything-server.ts'
import { testSettings } from '../test-settings.ts'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

/** The package has no types; a name of type `string` keeps the compiler from resolving it. */
const PACKAGE: string = 'oidc-provider'
const { default: Provider }: { readonly default: ProviderClass } = await import(PACKAGE)

type ProviderClass = new (issuer: string, configuration: object) => { callback(): RequestListener }

const CALLBACK = 'http://127.0.0.1:9/callback'

/** A provider that registers clients, requires users to sign in, and issues no token without a scope. */
async function startProvider(): Promise<{ readonly issuer: string; readonly http: Server }> {
  const http = createServer()
  await new Promise<void>((done) => http.listen(0, '127.0.0.1', done))
  const address = http.address()
  if (address === null || typeof address === 'string') throw new Error('the provider does not listen')
  const issuer = `http://127.0.0.1:${address.port}`
  const provider = new Provider(issuer, {
    scopes: ['openid', 'mcp'],
    clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
    features: {
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_context: unknown, resource: string) => ({
          ...{ scope: 'mcp', audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: 300 },
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  })
  http.on('request', provider.callback())
  return { issuer, http }
}

/** Acts as a user's browser: follows redirects, signs in and consents; returns the client's callback address. */
async function signIn(start: URL): Promise<URL> {
  const jar = new Map<string, string>()
  let url = start
  let form: URLSearchParams | undefined
  for (let step = 0; step < 20; step += 1) {
    const cookie = [...jar].map((pair) => pair.join('=')).join('; ')
    const response = await fetch(url, {
      ...(form === undefined ? {} : { method: 'POST', body: form }),
      ...{ redirect: 'manual', headers: { cookie } },
    })
    for (const line of response.headers.getSetCookie()) {
      const [name = '', value = ''] = (line.split(';')[0] ?? '').split('=')
      jar.set(name, value)
    }
    const location = response.headers.get('location')
    const page = await response.text()
    form = undefined
    if (location !== null) url = new URL(location, url)
    else {
      const [, prompt] = /name="prompt" value="(\w+)"/.exec(page) ?? []
      if (prompt === undefined) throw new Error(`${response.status} ${page.slice(0, 400)}`)
      form = new URLSearchParams({ prompt, login: 'alice', password: 'any' })
    }
    if (url.href.startsWith(CALLBACK)) return url
  }
  throw new Error('the sign-in does not end')
}

/** The state of an SDK client, which names no scope itself. */
class StoredClient implements OAuthClientProvider {
  readonly redirectUrl = CALLBACK
  readonly clientMetadata = {
    ...{ client_name: 'Tests', redirect_uris: [CALLBACK], token_endpoint_auth_method: 'none' },
    ...{ grant_types: ['authorization_code'], response_types: ['code'] },
  }
  asked: URL | undefined
  #kept = new Map<string, unknown>()
  // biome-ignore lint/suspicious/noExplicitAny: what the client gave is what it gets
  #get = (name: string): any => this.#kept.get(name)
  clientInformation = () => this.#get('client')
  saveClientInformation = (client: unknown) => void this.#kept.set('client', client)
  tokens = () => this.#get('tokens')
  saveTokens = (tokens: unknown) => void this.#kept.set('tokens', tokens)
  codeVerifier = () => this.#get('verifier')
  saveCodeVerifier = (verifier: string) => void this.#kept.set('verifier', verifier)
  redirectToAuthorization = (url: URL) => {
    this.asked = url
  }
}

let provider: { readonly issuer: string; readonly http: Server }
let server: PrincipalsServer
const closing: (() => unknown)[] = []

async function start(scopes: readonly string[]): Promise<PrincipalsServer> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const { server: usual } = testSettings()
  const started = await startPrincipalsServer({
    server: { ...usual, port },
    auth: {
      apiKeys: [],
      jwt: undefined,
      issuers: [
        {
          ...{ issuer: provider.issuer, audiences: [`${url}/mcp`], scopes: [...scopes], tenant: 'acme' },
          ...{ jwksUri: undefined, algorithms: undefined },
          claims: { tenant: undefined, scopes: undefined, roles: undefined },
        },
      ],
    },
  })
  closing.push(() => started.stop())
  return started
}

beforeAll(async () => {
  provider = await startProvider()
  server = await start(['openid', 'mcp'])
})
afterAll(async () => {
  for (const close of closing) await close()
  provider.http.closeAllConnections()
  await new Promise((done) => provider.http.close(done))
})

describe('a client that signs in by itself', () => {
  it('MCP-91: reads the scopes from the challenge and from the document', async () => {
    const { status, headers } = await server.ask('/mcp', { method: 'POST', body: {} })
    expect([status, headers['www-authenticate']]).toEqual([
      401,
      `Bearer resource_metadata="${server.url}/.well-known/oauth-protected-resource/mcp", scope="openid mcp"`,
    ])
    for (const path of ['', '/mcp']) {
      const { json } = await server.ask(`/.well-known/oauth-protected-resource${path}`)
      expect(json).toMatchObject({
        authorization_servers: [provider.issuer],
        scopes_supported: ['openid', 'mcp'],
      })
    }
  })

  it('names no scope where none is configured', async () => {
    const plain = await start([])
    const { headers } = await plain.ask('/mcp', { method: 'POST', body: {} })
    expect(headers['www-authenticate']).not.toContain('scope')
    expect((await plain.ask('/.well-known/oauth-protected-resource')).json).not.toHaveProperty(
      'scopes_supported',
    )
  })

  it('MCP-90: registers, signs in with the published scopes, and calls a tool', async () => {
    const keeper = new StoredClient()
    const serverUrl = new URL(`${server.url}/mcp`)
    const first = new StreamableHTTPClientTransport(serverUrl, { authProvider: keeper })
    await expect(new Client({ name: 't', version: '1' }).connect(first)).rejects.toThrow('Unauthorized')
    expect(keeper.asked?.searchParams.get('scope')).toBe('openid mcp')
    const back = await signIn(keeper.asked ?? serverUrl)
    expect(back.searchParams.get('error')).toBeNull()
    await first.finishAuth(back.searchParams.get('code') ?? '')
    const client = new Client({ name: 't', version: '1' })
    await client.connect(new StreamableHTTPClientTransport(serverUrl, { authProvider: keeper }))
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).toContain('Open_Say')
    expect(await client.callTool({ name: 'Open_Say', arguments: {} })).toMatchObject({
      structuredContent: { result: 'done' },
    })
    await client.close()
  })
})

describe('OAuth requests to a server with keys', () => {
  it.each([
    ['GET', '/.well-known/oauth-authorization-server', 404],
    ['POST', '/register', 400],
    ['GET', '/authorize', 400],
    ['POST', '/token', 400],
  ])('%s %s is answered with what to send instead', async (method, path, status) => {
    const keyed = await startPrincipalsServer({ auth: { apiKeys: [key('root', ['*'])], jwt: undefined } })
    closing.push(() => keyed.stop())
    const answer = await keyed.ask(path, {
      method,
      ...(method === 'POST' ? { body: { client_name: 'c' } } : {}),
    })
    expect([answer.status, answer.json]).toEqual([
      status,
      { error: 'access_denied', error_description: expect.stringContaining('"Authorization: Bearer KEY"') },
    ])
  })

  it('MCP-166: the error text is what a client shows to its user', async () => {
    const keyed = await startPrincipalsServer({ auth: { apiKeys: [key('root', ['*'])], jwt: undefined } })
    closing.push(() => keyed.stop())
    const authProvider = new StoredClient()
    const transport = new StreamableHTTPClientTransport(new URL(`${keyed.url}/mcp`), { authProvider })
    const connecting = new Client({ name: 't', version: '1' }).connect(transport)
    await expect(connecting).rejects.toThrow('This server accepts API keys, not OAuth')
  })
})
