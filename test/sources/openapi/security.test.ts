import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { call as callTool, type ImportedApi, importApi } from './imported-api.ts'
import { type RecordingServer, startRecordingServer } from './recording-server.ts'

let server: RecordingServer
let other: RecordingServer
let api: ImportedApi | undefined

beforeAll(async () => {
  server = await startRecordingServer()
  other = await startRecordingServer()
})
afterAll(async () => {
  await server.close()
  await other.close()
})
beforeEach(() => {
  server.requests.length = 0
  other.requests.length = 0
  server.answer(() => ({}))
})
afterEach(async () => {
  await api?.close()
  api = undefined
})

const SCHEMES = {
  header: { type: 'apiKey', in: 'header', name: 'X-Api-Key' },
  query: { type: 'apiKey', in: 'query', name: 'key' },
  cookie: { type: 'apiKey', in: 'cookie', name: 'session' },
  basic: { type: 'http', scheme: 'basic' },
  bearer: { type: 'http', scheme: 'Bearer' },
  oauth: {
    type: 'oauth2',
    flows: {
      authorizationCode: {
        authorizationUrl: 'https://a.example/auth',
        tokenUrl: 'https://a.example/token',
        scopes: {},
      },
    },
  },
  oidc: { type: 'openIdConnect', openIdConnectUrl: 'https://a.example/.well-known/openid-configuration' },
  digest: { type: 'http', scheme: 'digest' },
  tls: { type: 'mutualTLS' },
  odd: { type: 'apiKey', in: 'header', name: 'X Key' },
}

async function open(
  security: readonly JsonObject[] | undefined,
  options: object = {},
  parameters: JsonObject[] = [],
) {
  const operation = {
    operationId: 'op',
    responses: {},
    parameters,
    ...(security === undefined ? {} : { security }),
  }
  const paths = { '/things': { get: operation } }
  api = await importApi(
    { paths, components: { securitySchemes: SCHEMES } },
    { baseUrl: server.origin, ...options },
    [server.host, other.host],
  )
  return api
}

describe('every security scheme is sent at its location', () => {
  it.each([
    ['header', 'k', (r: JsonObject) => r['x-api-key'], 'k'],
    ['cookie', 'a;b', (r: JsonObject) => r.cookie, 'session=a%3Bb'],
    ['cookie', 'a+b/c==', (r: JsonObject) => r.cookie, 'session=a+b/c=='],
    ['basic', 'user:pass', (r: JsonObject) => r.authorization, 'Basic dXNlcjpwYXNz'],
    ['bearer', 'tok', (r: JsonObject) => r.authorization, 'Bearer tok'],
    ['oauth', 'tok', (r: JsonObject) => r.authorization, 'Bearer tok'],
    ['oidc', 'tok', (r: JsonObject) => r.authorization, 'Bearer tok'],
  ] as const)('%s, by a secret', async (scheme, text, read, expected) => {
    const { call, tool } = await open([{ [scheme]: [] }])
    const id = `api_${scheme}`
    expect(tool('op').requirements).toEqual({ secrets: [{ id }] })
    await call('op', {}, { secrets: { [id]: text } })
    expect(read(JSON.parse(JSON.stringify(server.requests[0]?.headers)))).toBe(expected)
  })

  it('query, by a secret with its own name, and hidden from the input', async () => {
    const parameters = [{ name: 'key', in: 'query', schema: {} }]
    const { call, tool } = await open(
      [{ query: [] }],
      { security: { query: { secret: 'MY_KEY' } } },
      parameters,
    )
    expect(tool('op').requirements).toEqual({ secrets: [{ id: 'MY_KEY' }] })
    expect(tool('op').inputSchema.properties).toEqual({})
    await call('op', {}, { secrets: { MY_KEY: 'a&b' } })
    expect(server.requests[0]?.url).toBe('/things?key=a%26b')
  })

  it('oauth2 by a provider of the broker, with the scopes that the operation requires', async () => {
    const security = { oauth: { provider: 'acme', scopes: ['extra'] } }
    const { call, tool, discovery } = await open([{ oauth: ['read', 'write'] }], { security })
    const { requirements, binding } = tool('op')
    expect(requirements).toEqual({
      authorization: [{ id: 'acme', oauth2: { scopes: ['read', 'write', 'extra'] } }],
    })
    expect(binding.tokenEndpoints).toEqual(['https://a.example/auth', 'https://a.example/token'])
    expect(discovery.warnings).toEqual([])
    await call('op', {}, { tokens: { acme: 'tok' } })
    expect(server.requests[0]?.headers.authorization).toBe('Bearer tok')
  })

  it('OAuth without a provider is reported with what to write', async () => {
    const { discovery } = await open([{ oauth: ['read'] }])
    expect(discovery.warnings.join()).toMatch(/"oauth" is OAuth .* secret "api_oauth" until you write/)
  })

  it('a token that is invalid in a header is not sent', async () => {
    const { call } = await open([{ bearer: [] }])
    await expect(call('op', {}, { secrets: { api_bearer: 'a\nb' } })).rejects.toThrow(
      /characters that headers/,
    )
    expect(server.requests).toEqual([])
  })
})

describe('a declared parameter that is a security scheme is never an input', () => {
  const parameter = (required: boolean) => [
    { name: 'key', in: 'query', required, schema: { type: 'string' } },
  ]

  it('is a separate secret where the operation needs it besides the chosen alternative', async () => {
    const { call, tool } = await open([{ header: [] }, { query: [] }], {}, parameter(true))
    expect(tool('op').inputSchema).toEqual({ type: 'object', properties: {}, additionalProperties: false })
    expect(tool('op').requirements).toEqual({ secrets: [{ id: 'api_header' }, { id: 'api_query' }] })
    await call('op', {}, { secrets: { api_header: 'h', api_query: 'q' } })
    expect([server.requests[0]?.url, server.requests[0]?.headers['x-api-key']]).toEqual([
      '/things?key=q',
      'h',
    ])
  })

  it('is left out where it is optional besides the chosen alternative', async () => {
    const { tool, discovery } = await open([{ header: [] }, { query: [] }], {}, parameter(false))
    expect(tool('op').inputSchema.properties).toEqual({})
    expect(tool('op').requirements).toEqual({ secrets: [{ id: 'api_header' }] })
    expect(discovery.warnings.join()).not.toContain('"query"')
  })

  it('is sent where it is optional and the operator provides it', async () => {
    const security = { query: { secret: 'Q' }, header: { secret: 'H' } }
    const { tool } = await open([{ header: [] }], { security }, parameter(false))
    expect(tool('op').requirements).toEqual({ secrets: [{ id: 'H' }, { id: 'Q' }] })
  })

  it('an operation without security and with an optional credential is reported with what to write', async () => {
    const { tool, discovery } = await open(undefined, {}, parameter(false))
    expect([tool('op').inputSchema.properties, tool('op').requirements]).toEqual([{}, undefined])
    expect(discovery.warnings).toEqual([
      'Not sent, because the scheme "query" is an optional credential here and none is configured; write `security: { "query": { secret: \'…\' } }` to send it: op.',
    ])
  })
})

describe('alternatives and combinations', () => {
  it('all schemes of one alternative are required and sent', async () => {
    const { call, tool } = await open([{ header: [], query: [], bearer: [] }], {
      security: { bearer: { provider: 'acme' } },
    })
    expect(tool('op').requirements).toEqual({
      authorization: [{ id: 'acme', oauth2: { scopes: [] } }],
      secrets: [{ id: 'api_header' }, { id: 'api_query' }],
    })
    await call('op', {}, { secrets: { api_header: 'h', api_query: 'q' }, tokens: { acme: 't' } })
    const [sent] = server.requests
    expect([sent?.url, sent?.headers['x-api-key'], sent?.headers.authorization]).toEqual([
      '/things?key=q',
      'h',
      'Bearer t',
    ])
  })

  it.each([
    [
      'the one that the operator configured',
      [{ header: [] }, { bearer: [] }],
      { bearer: { secret: 'B' } },
      ['B'],
    ],
    ['none, where the document allows it', [{ header: [] }, {}], {}, []],
    ['the mapped one, even if none is required', [{}, { header: [] }], { header: { secret: 'H' } }, ['H']],
    ['plain secrets before access tokens', [{ oauth: [] }, { header: [] }], {}, ['api_header']],
    [
      'one that can be sent before one that cannot',
      [{ basic: [], bearer: [] }, { cookie: [] }],
      {},
      ['api_cookie'],
    ],
    ['no credential for an empty list', [], { header: { secret: 'H' } }, []],
  ] as const)('chosen: %s', async (_title, security, options, ids) => {
    const { tool } = await open(security, { security: options })
    const { secrets = [] } = tool('op').requirements ?? {}
    expect(secrets.map(({ id }) => id)).toEqual(ids)
  })

  it.each([[{ digest: [] }], [{ tls: [] }], [{ odd: [] }], [{ basic: [], bearer: [] }], [{ unknown: [] }]])(
    '%j cannot be served: the tool is left out, and the operator is notified',
    async (alternative) => {
      const { discovery } = await open([alternative])
      expect(discovery.tools).toEqual([])
      expect(discovery.warnings.join()).toMatch(/Left out because its security schemes .*: op\./)
    },
  )

  it.each([
    [{ digest: [] }, {}],
    [{ digest: [], tls: [], bearer: [] }, {}],
    [{ basic: [], bearer: [] }, {}],
    [{ unknown: [], header: [] }, {}],
    [
      { oauth: ['a'], bearer: [] },
      { oauth: { provider: 'acme' }, bearer: { secret: 'B' } },
    ],
  ])('%j: following the advice literally makes the tool available', async (alternative, security) => {
    const { discovery, close } = await open([alternative], { security })
    expect(discovery.tools).toEqual([])
    const [, advice = ''] = /write `security: (\{.*?\})`/.exec(discovery.warnings.join()) ?? []
    await close()
    const followed = await open([alternative], { security: JSON.parse(advice) })
    expect(followed.discovery.tools.map(({ nativeName }) => nativeName)).toEqual(['op'])
  })

  it('one credential satisfies several schemes of one location, as Google declares two flows of one token', async () => {
    const security = [
      { oauth: ['calendar'], oidc: ['calendar', 'profile'] },
      { oauth: ['other'], oidc: [] },
    ]
    const plain = await open(security)
    expect(plain.tool('op').requirements).toEqual({ secrets: [{ id: 'api_oauth' }] })
    await plain.call('op', {}, { secrets: { api_oauth: 'tok' } })
    expect(server.requests[0]?.headers.authorization).toBe('Bearer tok')
    await plain.close()

    const { call, tool } = await open(security, {
      security: { oidc: { provider: 'google', scopes: ['extra'] } },
    })
    const { requirements, binding } = tool('op')
    expect(requirements).toEqual({
      authorization: [{ id: 'google', oauth2: { scopes: ['calendar', 'profile', 'extra'] } }],
    })
    expect(binding.credentials).toHaveLength(1)
    expect(binding.tokenEndpoints).toContain('https://a.example/token')
    await call('op', {}, { tokens: { google: 'tok' } })
    expect(server.requests[1]?.headers.authorization).toBe('Bearer tok')
  })

  it('the operator describes a scheme for a document that has none', async () => {
    const security = { token: { secret: 'T', scheme: { type: 'apiKey', in: 'header', name: 'X-Token' } } }
    const { call, tool } = await open(undefined, { security })
    expect(tool('op').requirements).toEqual({ secrets: [{ id: 'T' }] })
    await call('op', {}, { secrets: { T: 'tok' } })
    expect(server.requests[0]?.headers['x-token']).toBe('tok')
  })

  it('a name that no scheme has is reported', async () => {
    const { discovery } = await open([{ header: [] }], { security: { haeder: { secret: 'H' } } })
    expect(discovery.warnings).toContain('`security.haeder` does not name a security scheme of the document.')
  })
})

describe('rule 32: a credential is sent only to the accepted origin', () => {
  it('a redirect to another origin is followed without it', async () => {
    server.answer(() => ({ status: 302, headers: { location: `${other.origin}/there` }, body: '' }))
    const { call } = await open([{ header: [], cookie: [], bearer: [] }])
    await call('op', {}, { secrets: { api_header: 'canary', api_cookie: 'canary', api_bearer: 'canary' } })
    expect(JSON.stringify(other.requests)).not.toContain('canary')
    expect(other.requests.length).toBe(1)
  })

  it('a caller can set neither the header of a credential nor the server’s own headers', async () => {
    const header = (name: string) => ({ name, in: 'header', schema: {} })
    const names = ['Authorization', 'X-API-Key', 'Host', 'Cookie', 'Content-Type', 'X Space', 'X-Free']
    const { tool } = await open([{ header: [] }], {}, names.map(header))
    expect(tool('op').inputSchema.properties).toEqual({ 'X-Free': {} })
  })

  it('calls use the binding that they are passed', async () => {
    const { source, tool } = await open([])
    const binding = { ...tool('op').binding, baseUrl: `${other.origin}/v9` }
    await callTool(source, { ...tool('op'), binding }, {})
    expect([server.requests.length, other.requests[0]?.url]).toEqual([0, '/v9/things'])
  })
})
