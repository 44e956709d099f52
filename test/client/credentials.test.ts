import { describe, expect, it } from 'vitest'
import { CallFailure, type ClientOptions, connect } from '#client/index'
import { type RequestHandler, sendJson, startFakeToolServer } from './fake-tool-server.ts'
import { breakConnection, failWith, refuse, scriptedFetch, succeed } from './scripted-fetch.ts'

const TOOL = { id: 'A.B@1.0.0', name: 'A_B', description: 'd', version: '1.0.0' }
const HTTPS = 'https://tools.example.com'

/** Demands the key in one header, as a server of that era does. */
function keyed(header: string, list: object): RequestHandler {
  return (request, response) => {
    if (request.headers[header.toLowerCase()] !== 'k-alice') return response.writeHead(401).end()
    if (request.path === '/tools') return sendJson(response, 200, { ...list, tools: [TOOL] })
    return sendJson(response, 200, { result: { call_id: 'x', success: true, value: 1 } })
  }
}

describe('API keys', () => {
  it.each([
    ['OXP-API-Key', { $schema: 'urn:oxp:1.0' }, 1],
    ['OTC-API-Key', { $schema: 'otc://1.0' }, 2],
    ['X-API-Key', {}, 3],
  ] as const)('OTC-99, C-25: a server that reads only %s is found', async (header, list, listings) => {
    await using server = await startFakeToolServer(keyed(header, list))
    const client = connect(server.url, { apiKey: 'k-alice' })
    expect(await client.call('A.B@1.0.0')).toMatchObject({ value: 1 })
    expect(server.requests.filter(({ path }) => path === '/tools')).toHaveLength(listings)
    await client.list()
    expect(server.requests.filter(({ path }) => path === '/tools')).toHaveLength(listings + 1)
  })

  it('OTC-99: go with every list and call, in the header of the dialect', async () => {
    const script = scriptedFetch([TOOL], succeed(1))
    await connect(HTTPS, { ...script, apiKey: 'k', dialect: 'otc-1.0' }).call('A.B@1.0.0')
    expect(script.requests[0]?.headers.get('OTC-API-Key')).toBe('k')
  })

  it('OTC-102: a key that is not accepted is unauthenticated', async () => {
    await using server = await startFakeToolServer((_request, response) =>
      sendJson(response, 401, { message: 'Unknown key' }),
    )
    await expect(connect(server.url, { apiKey: 'wrong' }).list()).rejects.toMatchObject({
      class: 'unauthenticated',
      status: 401,
      message: expect.stringContaining('Unknown key'),
    })
  })

  it.each([[''], ['two words'], ['line\r\nX-Evil: 1'], ['schlüssel']])(
    'refuses %j without repeating it',
    (apiKey) => {
      expect(() => connect(HTTPS, { apiKey })).toThrow(/^apiKey must be/)
    },
  )
})

describe('tokens', () => {
  it('OTC-104, OTC-113: a JWT is preferred to a key, and only it is sent', async () => {
    const script = scriptedFetch([TOOL], succeed(1))
    await connect(HTTPS, { ...script, apiKey: 'k', jwt: 'h.c.s' }).call('A.B@1.0.0')
    const headers = script.requests[0]?.headers
    expect(headers?.get('Authorization')).toBe('Bearer h.c.s')
    expect([...(headers?.values() ?? [])]).not.toContain('k')
  })

  it('a token function is called for every attempt', async () => {
    let made = 0
    const script = scriptedFetch([TOOL], breakConnection, succeed(1))
    const jwt = async () => `token-${made++}`
    await connect(HTTPS, { ...script, jwt }).call('A.B@1.0.0')
    expect(script.requests.map(({ headers }) => headers.get('Authorization'))).toEqual([
      'Bearer token-1',
      'Bearer token-2',
    ])
  })

  it('OTC-105, OTC-110: a shared secret signs short tokens', async () => {
    const script = scriptedFetch([TOOL], succeed(1))
    const now = () => 1_700_000_000_000
    await connect(HTTPS, { ...script, now, jwt: { secret: 's', subject: 'me' } }).call('A.B@1.0.0')
    const [, claims = ''] = script.requests[0]?.headers.get('Authorization')?.split('.') ?? []
    const { iat, exp, sub } = JSON.parse(atob(claims))
    expect({ sub, lifetime: exp - iat }).toEqual({ sub: 'me', lifetime: 600 })
  })

  it('a token function that answers too late causes no request', async () => {
    const script = scriptedFetch([TOOL], succeed(1))
    const late = Promise.withResolvers<string>()
    const client = connect(HTTPS, { ...script, jwt: () => late.promise, timeoutMs: 10, dialect: 'oxp-1.0' })
    expect(await client.tryCall('A.B@1.0.0')).toMatchObject({ ok: false, error: { class: 'transport' } })
    late.resolve('h.c.s')
    await new Promise(setImmediate)
    expect(script.requests).toEqual([])
  })

  it('nothing is sent if the token function fails or returns an invalid token', async () => {
    const script = scriptedFetch([TOOL], succeed(1))
    const failing = connect(HTTPS, { ...script, jwt: () => Promise.reject(new Error('no token')) })
    await expect(failing.call('A.B@1.0.0')).rejects.toMatchObject({ class: 'unauthenticated' })
    const unsafe = connect(HTTPS, { ...script, jwt: () => 'a\nb' })
    await expect(unsafe.call('A.B@1.0.0')).rejects.toMatchObject({ class: 'config' })
    expect(script.requests).toEqual([])
  })
})

describe('plain http', () => {
  it.each([
    [{ apiKey: 'k-hunter2' }],
    [{ jwt: 'k-hunter2' }],
    [{ jwt: () => 'k-hunter2' }],
    [{ jwt: { secret: 'k-hunter2' } }],
  ] satisfies readonly (readonly [ClientOptions])[])('OTC-101: refuses %j for another machine', (options) => {
    const script = scriptedFetch([TOOL], succeed(1))
    let failure: unknown
    try {
      connect('http://api.example.com', { ...script, ...options })
    } catch (error) {
      failure = error
    }
    expect(failure).toBeInstanceOf(CallFailure)
    expect(failure).toMatchObject({ class: 'config', message: expect.not.stringContaining('hunter2') })
    expect(script.requests).toEqual([])
  })

  it('OTC-101: sends credentials to loopback', async () => {
    const script = scriptedFetch([TOOL], succeed(1))
    await connect('http://localhost:4100', { ...script, apiKey: 'k' }).call('A.B@1.0.0')
    expect(script.requests[0]?.headers.get('OXP-API-Key')).toBe('k')
  })

  it('does not send tokens and secrets of a tool either', async () => {
    const tool = { ...TOOL, requirements: { secrets: [{ id: 'K' }] } }
    const script = scriptedFetch([tool], succeed(1))
    const client = connect('http://api.example.com', {
      ...script,
      requirements: { secrets: () => 'hunter2' },
    })
    await expect(client.call('A.B@1.0.0')).rejects.toMatchObject({
      class: 'config',
      message: expect.not.stringContaining('hunter2'),
    })
    expect(script.requests).toEqual([])
  })
})

describe('OTC-103: no failure repeats a credential', () => {
  const requirements = { authorization: [{ id: 'g' }], secrets: [{ id: 'K' }], user_id: true }
  const missing = { authorization: [{ id: 'c', url: 'https://a.example/go' }] }

  it.each([
    ['a broken connection', breakConnection],
    ['a refusal', refuse(400, { message: 'm' })],
    ['401', refuse(401, {})],
    ['a challenge', refuse(400, { message: 'm', missing_requirements: missing })],
    ['a tool failure', failWith({ message: 'm' })],
    ['rubbish', () => new Response('rubbish')],
  ])('%s', async (_title, step) => {
    const script = scriptedFetch([{ ...TOOL, requirements }], step)
    const tried = await connect(HTTPS, {
      ...script,
      apiKey: 'hunter2-key',
      requirements: {
        authorization: () => 'hunter2-token',
        secrets: () => 'hunter2-secret',
        userId: () => 'u',
      },
    }).tryCall('A.B@1.0.0')
    expect(tried.ok).toBe(false)
    if (tried.ok) return
    const { error } = tried
    expect(script.requests[0]?.call.context).toBeDefined()
    expect(`${error} ${error.stack} ${error.modelText} ${JSON.stringify(error)}`).not.toContain('hunter2')
  })
})
