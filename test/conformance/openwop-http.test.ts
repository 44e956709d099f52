import { METHODS } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { KEYS } from './openwop-fixtures.ts'
import { type OpenwopServer, stablePartsOf, startOpenwopServer } from './openwop-server.ts'

let server: OpenwopServer

beforeAll(async () => {
  server = await startOpenwopServer()
})

afterAll(() => server.close())

const root = { key: KEYS.root }
const narrow = { key: KEYS.narrow }

describe('the catalog is read-only', () => {
  it.each(['POST', 'PUT', 'PATCH', 'DELETE'])('OWP-11: %s changes nothing', async (method) => {
    const before = await server.ask('/v1/tools', root)
    for (const path of ['/v1/tools', '/v1/tools/openwop:Who.Am', '/v1/tools/new', '/v1/openapi.json']) {
      const answer = await server.ask(path, {
        ...root,
        method,
        headers: { 'content-type': 'application/json' },
        body: '{"toolId":"openwop:New.Tool","source":"mcp","safetyTier":"read"}',
      })
      expect([answer.status, answer.headers.allow]).toEqual([405, 'GET, HEAD'])
      expect(answer.json.error).toBe('method_not_allowed')
    }
    expect((await server.ask('/v1/tools', root)).text).toBe(before.text)
  })

  it.each(METHODS.filter((method) => !['GET', 'HEAD', 'CONNECT', 'OPTIONS'].includes(method)))(
    'OWP-11, OWP-95: %s is 405 in the flat envelope, with and without a body',
    async (method) => {
      for (const sent of [{}, { headers: { 'content-type': 'application/json' }, body: '{' }]) {
        const answer = await server.ask('/v1/tools', { ...root, method, ...sent })
        expect([answer.status, answer.headers.allow]).toEqual([405, 'GET, HEAD'])
        expect(answer.json).toEqual({ error: 'method_not_allowed', message: expect.any(String) })
      }
    },
  )

  it('OWP-11: a GET with a body is a GET, and no header overrides the method', async () => {
    const before = await server.ask('/v1/tools', root)
    const headers = { 'x-http-method-override': 'DELETE', 'content-type': 'application/json' }
    const answer = await server.ask('/v1/tools', { ...root, headers, body: '{"tools":[]' })
    expect([answer.status, answer.text]).toEqual([200, before.text])
  })

  it.each([
    ['/v1/tools', root, 200],
    ['/v1/tools?view=compact', root, 200],
    ['/v1/tools?source=shell', root, 400],
    ['/v1/tools/openwop:Who.Am', root, 200],
    ['/v1/tools/nothing', root, 404],
    ['/v1/tools', {}, 401],
    ['/.well-known/openwop', {}, 200],
    ['/v1/openapi.json', {}, 200],
  ])('OWP-11: HEAD %s is GET without the body', async (path, who, status) => {
    for (const headers of [{}, { 'accept-encoding': 'gzip' }]) {
      const get = await server.ask(path, { ...who, headers })
      const head = await server.ask(path, { ...who, headers, method: 'HEAD' })
      expect([head.status, head.text]).toEqual([status, ''])
      expect(stablePartsOf({ ...head, text: get.text })).toEqual(stablePartsOf(get))
    }
  })
})

describe('caching', () => {
  it.each(['/v1/tools', '/v1/tools?view=compact', '/v1/tools/openwop:Who.Am'])(
    '%s has a strong ETag, answers 304 and compresses on request',
    async (path) => {
      const plain = await server.ask(path, root)
      const etag = plain.headers.etag ?? ''
      expect(etag).toMatch(/^"[\w-]+"$/)
      expect(plain.headers['cache-control']).toBe('private, no-cache')
      expect(plain.headers.vary).toMatch(/^accept-encoding, authorization, /)
      const again = await server.ask(path, { ...root, headers: { 'if-none-match': `"x", W/${etag}` } })
      expect([again.status, again.text, again.headers.etag]).toEqual([304, '', etag])
      const packed = await server.ask(path, { ...root, headers: { 'accept-encoding': 'gzip' } })
      expect(packed.headers['content-encoding']).toBe('gzip')
      expect(packed.headers.etag).not.toBe(etag)
    },
  )

  it("one principal's ETag is not valid for another", async () => {
    const { headers } = await server.ask('/v1/tools', root)
    const answer = await server.ask('/v1/tools', {
      ...narrow,
      headers: { 'if-none-match': headers.etag ?? '' },
    })
    expect(answer.status).toBe(200)
  })
})

describe('errors below /v1', () => {
  it.each([
    ['GET', '/v1/runs/none', 405, 'method_not_allowed'],
    ['GET', '/v1/runs/none/nothing', 404, 'not_found'],
    ['POST', '/v1/runs', 404, 'not_found'],
    ['POST', '/v1', 405, 'method_not_allowed'],
    ['GET', '/v1/nothing/', 404, 'not_found'],
    ['GET', '/v1/tools/a/b', 404, 'not_found'],
    ['GET', '/v1/%zz', 400, 'validation_error'],
  ])('OWP-13: %s %s is %i in the flat envelope', async (method, path, status, error) => {
    const answer = await server.ask(path, { ...root, method, isUndocumented: true })
    expect(answer.status).toBe(status)
    expect(answer.json).toEqual({ error, message: expect.any(String) })
  })

  it('OWP-13: a foreign Host or Origin has the flat envelope too', async () => {
    for (const path of ['/v1/tools', '/v1/none', '/.well-known/openwop']) {
      for (const headers of [{ origin: 'https://evil.example' }, { host: 'evil.example' }]) {
        const answer = await server.ask(path, { isUndocumented: true, headers })
        expect([answer.status, answer.json.error]).toEqual([403, 'forbidden'])
      }
    }
  })

  it('elsewhere errors have the OTC shape', async () => {
    const { json } = await server.ask('/v1x', { isUndocumented: true })
    expect(json).toEqual({ $schema: 'otc://1.0', message: expect.any(String) })
  })
})

describe('addresses', () => {
  it('GET /v1 lists the addresses, without a credential', async () => {
    const { status, json } = await server.ask('/v1')
    expect([status, json.protocolVersion]).toEqual([200, '1.0'])
    const { protocolVersion: _, tools, ...open } = json
    for (const path of Object.values<string>(open)) expect((await server.ask(path)).status).toBe(200)
    expect((await server.ask(tools, root)).status).toBe(200)
  })

  it('a trailing slash redirects to the path without it', async () => {
    const answer = await server.ask('/v1/tools/?source=mcp', { ...root, isUndocumented: true })
    expect([answer.status, answer.headers.location]).toEqual([308, '/v1/tools?source=mcp'])
  })

  it('GET /v1/tools is paginated on request, and all pages together equal the list', async () => {
    const whole = (await server.ask('/v1/tools', root)).json
    const pages = []
    let path: string | undefined = '/v1/tools?limit=2'
    while (path !== undefined) {
      const { json, headers } = await server.ask(path, root)
      pages.push(...json)
      path = /^<(.*)>; rel="next"$/.exec(headers.link ?? '')?.[1]
    }
    expect(pages).toEqual(whole)
    const wrapped = (await server.ask('/v1/tools?limit=2&view=compact', root)).json
    expect(wrapped.tools).toHaveLength(2)
    const next = (await server.ask(`/v1/tools?view=compact&cursor=${wrapped.nextCursor}`, root)).json
    expect(next).toEqual({ tools: expect.any(Array) })
    expect(next.tools).toHaveLength(whole.length - 2)
  })

  it.each(['limit=0', 'limit=x', 'cursor=zz'])('refuses a page requested by %s', async (query) => {
    expect((await server.ask(`/v1/tools?${query}`, root)).status).toBe(400)
  })
})
