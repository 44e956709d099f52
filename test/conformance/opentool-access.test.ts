import { readFileSync } from 'node:fs'
import { createServer, request as httpRequest } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dereference, load, type OpenToolDocument, validate } from '#protocols/opentool/index'
import { StartRefused } from '#server/safety'
import { egressTo, testSettings } from '../test-settings.ts'
import type { FixtureFunction } from './opentool-fixtures.ts'
import { startOpentoolServer } from './opentool-test-server.ts'
import { specialFunctions } from './opentool-tools.ts'

type Server = Awaited<ReturnType<typeof startOpentoolServer>>

const KEY = { authorization: 'Bearer k1' }

describe('who may call', () => {
  let server: Server
  beforeAll(async () => {
    server = await startOpentoolServer({ keys: ['k1', 'k2'] })
  })
  afterAll(() => server.close())

  it.each(['Bearer k1', 'bearer k2', 'BEARER  k1 '])('OTS-47: %j is accepted', async (authorization) => {
    expect((await server.ask('GET', '/opentool/version', { headers: { authorization } })).status).toBe(200)
  })

  it.each(['k1', 'Bearer', 'Bearer ', 'Bearer K1', 'Bearer k1,k2', 'Basic k1', 'Bearer k'])(
    'OTS-47: %j is refused',
    async (authorization) => {
      const { status, json, headers } = await server.ask('GET', '/opentool/version', {
        headers: { authorization },
      })
      expect([status, json, headers['www-authenticate']]).toEqual([
        401,
        { error: 'Invalid API key' },
        expect.stringMatching(/^Bearer error="invalid_token", error_description="[^"]+"$/),
      ])
    },
  )

  it('GET /opentool lists the addresses', async () => {
    const { status, json } = await server.ask('GET', '/opentool', { headers: { authorization: 'Bearer k1' } })
    expect([status, json]).toEqual([
      200,
      {
        opentool: '1.1.0',
        version: '/opentool/version',
        load: '/opentool/load',
        call: '/opentool/call',
      },
    ])
  })

  it('OTS-47: without configured keys no key is required', async () => {
    await using open = await startOpentoolServer()
    const headers = { authorization: 'Bearer whatever' }
    expect((await open.ask('GET', '/opentool/version', { headers })).json).toEqual({ version: '1.2.3' })
  })

  it('OTS-31: a public address without keys is refused before anything listens', async () => {
    await expect(startOpentoolServer({ server: { host: '0.0.0.0' } })).rejects.toThrow(StartRefused)
  })

  it.each([
    ['GET', '/opentool/version'],
    ['HEAD', '/opentool/load'],
    ['POST', '/opentool/call'],
    ['GET', '/opentool/call'],
    ['DELETE', '/opentool/version'],
    ['GET', '/opentool'],
    ['GET', '/opentool/'],
    ['GET', '/opentool/nope/deeper'],
    ['POST', '/opentool/streamCall'],
    ['POST', '/opentool/stop'],
  ])('OTS-48: %s %s is 401 without a key, whether or not the path exists', async (method, path) => {
    const { status, headers, text } = await server.ask(method, path)
    expect([status, headers['www-authenticate']]).toEqual([401, 'Bearer'])
    if (method !== 'HEAD') expect(JSON.parse(text)).toEqual({ error: 'Authorization header missing' })
  })

  it('OTS-49: an unauthenticated caller is refused before its body is read', async () => {
    const headers = { 'content-type': 'application/json', 'content-length': '1000000' }
    const status = await new Promise((resolve, reject) => {
      const sent = httpRequest(
        `${server.url}/opentool/call`,
        { method: 'POST', headers, agent: false },
        (response) => {
          resolve(response.statusCode)
          sent.destroy()
        },
      )
      sent.on('error', reject)
      sent.write('{"jsonrpc":')
    })
    expect(status).toBe(401)
  })

  it.each([
    ['GET', '/opentool/nope', 404, undefined],
    ['POST', '/opentool', 405, 'GET'],
    ['GET', '/opentool/nope/', 404, undefined],
    ['POST', '/opentool/streamCall', 404, undefined],
    ['POST', '/opentool/stop', 404, undefined],
    ['POST', '/opentool/version', 405, 'GET'],
    ['DELETE', '/opentool/load', 405, 'GET'],
    ['GET', '/opentool/call', 405, 'POST'],
    ['HEAD', '/opentool/call', 405, 'POST'],
    ['PATCH', '/opentool/call', 405, 'POST'],
  ])('OTS-46, OTS-50, OTS-53: %s %s is %i', async (method, path, wanted, allow) => {
    const { status, headers, text } = await server.ask(method, path, { headers: KEY })
    expect([status, headers.allow]).toEqual([wanted, allow])
    expect(headers['content-type']).toBe('application/json; charset=utf-8')
    if (method !== 'HEAD') expect(JSON.parse(text)).toEqual({ error: expect.any(String) })
  })

  it.each(['/opentool/version', '/opentool/load'])(
    'OTS-46: HEAD %s answers like GET, without the body',
    async (path) => {
      const get = await server.ask('GET', path, { headers: KEY })
      const head = await server.ask('HEAD', path, { headers: KEY })
      expect([head.status, head.text, head.headers['content-length']]).toEqual([
        200,
        '',
        get.headers['content-length'],
      ])
    },
  )

  it("rule 28: a foreign Host is refused in this protocol's form", async () => {
    const { status, json } = await server.ask('GET', '/opentool/version', {
      headers: { ...KEY, host: 'evil.example' },
    })
    expect([status, json]).toEqual([403, { error: expect.any(String) }])
  })
})

describe('GET /opentool/load and /version', () => {
  it("OTS-30, OTS-32: the version is the server's own", async () => {
    await using server = await startOpentoolServer({ opentool: { version: '9.9.9-rc' } })
    const { json, headers } = await server.ask('GET', '/opentool/version')
    expect([json, headers['content-type']]).toEqual([
      { version: '9.9.9-rc' },
      'application/json; charset=utf-8',
    ])
  })

  it('OTS-44, OTS-45: the document is created once per catalog, has no $ref, and is not sent again to a client that has it', async () => {
    let made = 0
    await using server = await startOpentoolServer({
      document: (catalog) => {
        made += 1
        return JSON.stringify({
          opentool: '1.1.0',
          functions: catalog.latest().map(({ name }) => ({ name })),
        })
      },
    })
    const first = await server.ask('GET', '/opentool/load')
    expect(first.json.functions).toHaveLength(6)
    expect(first.text).not.toContain('$ref')
    const again = await server.ask('GET', '/opentool/load', {
      headers: { 'if-none-match': `W/${first.headers.etag}` },
    })
    expect([again.status, again.text, made]).toEqual([304, '', 1])
    expect(
      (await server.ask('GET', '/opentool/load', { headers: { 'if-none-match': '"other"' } })).status,
    ).toBe(200)
  })

  it('OTS-44, OTS-45: the document of our own tools is strictly valid and describes the six functions', async () => {
    await using server = await startOpentoolServer()
    const { json } = await server.ask('GET', '/opentool/load')
    expect(validate(json)).toEqual([])
    const calc = dereference(load(readFileSync(new URL('../../vectors/opentool-calc.json', import.meta.url))))
    const described = ({ functions }: OpenToolDocument) =>
      functions.map(({ name, return: value }) => [name, value?.name])
    expect(described(json)).toEqual(described(calc))
    expect(json.info).toEqual({ title: 'Calculator', version: '1.2.3' })
  })

  it('OTS-44: an absent document is exactly {}', async () => {
    for (const document of [undefined, () => undefined]) {
      await using server = await startOpentoolServer({ document })
      expect((await server.ask('GET', '/opentool/load')).text).toBe('{}')
    }
  })

  it('OTS-44: a document that cannot be created is 500 in JSON, and is retried', async () => {
    let broken = true
    await using server = await startOpentoolServer({
      document: () => {
        if (broken) throw new Error('secret path /srv/x')
        return '{"opentool":"1.1.0"}'
      },
    })
    const { status, json, text } = await server.ask('GET', '/opentool/load')
    expect([status, json]).toEqual([500, { error: expect.any(String) }])
    expect(text).not.toContain('/srv')
    broken = false
    expect((await server.ask('GET', '/opentool/load')).status).toBe(200)
  })
})

describe('the requirements of a call', () => {
  let server: Server
  beforeAll(async () => {
    server = await startOpentoolServer({ tools: specialFunctions().tools })
  })
  afterAll(() => server.close())

  const base64url = (text: string) => Buffer.from(text).toString('base64url')

  it('are sent in headers', async () => {
    const headers = {
      'collet-authorization': `${encodeURIComponent('mail, inc')}=${base64url('tökén, 1')}`,
      'collet-secret': `other=${base64url('x')}, PIN=${base64url('')}`,
      'collet-user': encodeURIComponent('jürgen@example.com'),
    }
    const missing = await server.call('mail', {}, headers)
    expect(missing.json.error.data.missing_requirements).toEqual({ secrets: [{ id: 'PIN' }] })
    const given = await server.call('mail', {}, { ...headers, 'collet-secret': `PIN=${base64url('1234')}==` })
    expect(given.json.result).toEqual({ mail: 'jürgen@example.com tökén, 1 1234' })
  })

  it('OTS-40: are named when missing, with the address in the message and in data', async () => {
    const { status, json, headers } = await server.call('mail', {})
    const { error } = json
    const [challenge] = error.data.missing_requirements.authorization
    expect([status, error.code, json.result]).toEqual([200, 500, {}])
    expect(error.message).toContain(challenge.url)
    expect(error.data).toEqual({
      code: 'requirement_missing',
      call_id: headers['collet-call-id'],
      missing_requirements: {
        authorization: [{ id: expect.any(String), url: challenge.url, check_url: `${challenge.url}/status` }],
        secrets: [{ id: 'PIN' }],
        user_id: true,
      },
      challenges: { [challenge.id]: { provider: 'mail, inc', scopes: [] } },
    })
  })

  it.each([
    ['collet-authorization', 'no equals sign'],
    ['collet-authorization', '=dG9rZW4'],
    ['collet-authorization', 'a=not base64'],
    ['collet-secret', 'a=%%%'],
    ['collet-secret', 'a=gICA'],
    ['collet-secret', 'a=YQ, a=Yg'],
    ['collet-secret', '%zz=YQ'],
    ['collet-user', 'alice, bob'],
    ['collet-user', '%e0'],
  ])('is refused when %s is %j, and no value is repeated', async (name, value) => {
    const { status, json, text } = await server.call('mail', {}, { [name]: value })
    expect([status, json]).toMatchObject([400, { error: { code: -32600 }, id: 'c1' }])
    expect(text).not.toMatch(/YQ|Yg|not base64|alice/)
  })

  it('count as absent when empty', async () => {
    const { json } = await server.call(
      'mail',
      {},
      { 'collet-authorization': '', 'collet-secret': ' ,', 'collet-user': '' },
    )
    expect(Object.keys(json.error.data.missing_requirements)).toEqual(['authorization', 'secrets', 'user_id'])
  })

  it('the trace of the request continues in requests of the tool', async () => {
    const upstream = createServer((request, response) => response.end(request.headers.traceparent))
    await new Promise<void>((listening) => upstream.listen(0, '127.0.0.1', listening))
    const address = upstream.address()
    const port = typeof address === 'object' ? address?.port : undefined
    const tool: FixtureFunction = {
      id: 'Trace.Ask@1.0.0',
      description: 'Asks another server which trace it sees.',
      input: {},
      output: {},
      run: async (_input, { fetch }) => await (await fetch(`http://127.0.0.1:${port}/`)).text(),
    }
    try {
      await using tracing = await startOpentoolServer({
        tools: [tool],
        settingsOf: (changes) => testSettings({ ...changes, egress: egressTo('127.0.0.1') }),
      })
      const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
      const { json, headers } = await tracing.call('Trace_Ask', {}, { traceparent })
      expect(json.result.result).toBe(headers.traceparent)
      expect(headers.traceparent).toMatch(/^00-0af7651916cd43dd8448eb211c80319c-(?!b7ad6b7169203331)/)
    } finally {
      upstream.close()
    }
  })

  it('rule 11: a draining server answers inside the envelope', async () => {
    await using draining = await startOpentoolServer()
    await draining.drain()
    const { status, json } = await draining.call('add', { a: 1, b: 1 })
    expect([status, json.error]).toMatchObject([200, { code: 500, data: { code: 'not_ready' } }])
  })
})
