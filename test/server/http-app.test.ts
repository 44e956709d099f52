import { afterEach, describe, expect, it } from 'vitest'
import { fault, StoreError } from '#kernel/base/errors'
import { jsonReply } from '#server/http/exchange'
import { ask } from './node-ask.ts'
import { KEY, openRoute, startApp, stopApps, WITH_KEY } from './start-app.ts'

afterEach(stopApps)

const json = { 'content-type': 'application/json' }

describe('routes', () => {
  it('passes the path, parameters, query and body of a request to the route', async () => {
    const { url } = await startApp()
    const response = await fetch(`${url}/calls/a%2Fb?x=1&y=%20`, {
      method: 'DELETE',
      headers: json,
      body: '{"a":[1]}',
    })
    expect(await response.json()).toMatchObject({
      method: 'DELETE',
      path: '/calls/a%2Fb',
      params: { id: 'a/b' },
      query: { x: '1', y: ' ' },
      body: { a: [1] },
      principal: 'anonymous',
    })
  })

  it('accepts a parameter of any length that a call id can have', async () => {
    const { url } = await startApp()
    const id = '😀'.repeat(128)
    expect(await (await fetch(`${url}/calls/${encodeURIComponent(id)}`)).json()).toMatchObject({
      params: { id },
    })
  })

  it.each(['/nothing', '/nothing/', '/tools//', '//tools', '/%74ools', '/TOOLS', '/tools/call/x', '/'])(
    'OTC/T-26: %s is 404',
    async (path) => {
      const { url, seen } = await startApp()
      const response = await ask(`${url}${path}`, {})
      expect(response.status).toBe(404)
      expect(JSON.parse(response.body)).toEqual({ message: expect.stringContaining('nothing at this path') })
      expect(seen).toEqual([])
    },
  )

  it.each([
    ['GET', '/tools/', '/tools'],
    ['GET', '/tools/?schema=otc://1.0&x', '/tools?schema=otc://1.0&x'],
    ['POST', '/tools/call/', '/tools/call'],
    ['POST', '/tools/', '/tools'],
    ['DELETE', '/calls/a%20b/', '/calls/a%20b'],
  ])('sends %s %s to %s', async (method, path, location) => {
    const { url, seen } = await startApp()
    const response = await ask(`${url}${path}`, { method })
    expect([response.status, response.headers.location, response.body]).toEqual([308, location, ''])
    expect(seen).toEqual([])
  })

  it.each([
    ['/tools', 'GET, HEAD, OPTIONS'],
    ['/tools/call', 'POST, OPTIONS'],
    ['/calls/x', 'DELETE, GET, HEAD, OPTIONS'],
  ])('answers OPTIONS %s without an Origin with 204 and Allow', async (path, allow) => {
    const { url, seen } = await startApp()
    const response = await ask(`${url}${path}`, { method: 'OPTIONS' })
    expect([response.status, response.headers.allow, response.body]).toEqual([204, allow, ''])
    expect(seen).toEqual([])
  })

  it.each(['/%', '/tools/%zz', '/calls/%ff', '/calls/%ed%a0%80'])(
    'answers the malformed path %s with 400',
    async (path) => {
      const { url } = await startApp()
      const response = await ask(`${url}${path}`, {})
      expect(response.status).toBe(400)
      expect(JSON.parse(response.body)).toEqual({ message: expect.stringContaining('percent-encoding') })
    },
  )

  it.each([
    ['POST', '/tools', 'GET, HEAD'],
    ['GET', '/tools/call', 'POST'],
    ['PATCH', '/calls/x', 'DELETE, GET, HEAD'],
    ['PROPFIND', '/tools', 'GET, HEAD'],
  ])('OTC/T-26: %s %s is 405 and allows %s', async (method, path, allow) => {
    const { url } = await startApp()
    const response = await ask(`${url}${path}`, { method })
    expect(response.status).toBe(405)
    expect(response.headers.allow).toBe(allow)
    expect(JSON.parse(response.body)).toMatchObject({
      message: expect.stringContaining(allow),
      code: 'request_invalid',
    })
  })

  it('answers HEAD like GET, without the body', async () => {
    const { url } = await startApp()
    const [head, get] = await Promise.all([
      fetch(`${url}/health`, { method: 'HEAD' }),
      fetch(`${url}/health`),
    ])
    expect(head.status).toBe(200)
    expect(await head.text()).toBe('')
    expect(Number(head.headers.get('content-length'))).toBe((await get.text()).length + 1)
  })

  it('sends bytes, empty replies and 304 unchanged', async () => {
    const replies = {
      '/bytes': {
        status: 200,
        headers: { 'content-type': 'application/octet-stream' },
        body: Uint8Array.of(0, 255),
      },
      '/empty': { status: 202, headers: {}, body: undefined },
      '/same': { status: 304, headers: { etag: '"x"' }, body: undefined },
    }
    const routes = Object.entries(replies).map(([path, reply]) => openRoute(path, () => reply))
    const { url } = await startApp({ routes })
    expect(new Uint8Array(await (await fetch(`${url}/bytes`)).arrayBuffer())).toEqual(Uint8Array.of(0, 255))
    expect((await fetch(`${url}/empty`)).headers.get('content-length')).toBe('0')
    const same = await fetch(`${url}/same`)
    expect([same.status, same.headers.get('etag'), same.headers.get('content-length')]).toEqual([
      304,
      '"x"',
      null,
    ])
  })

  it('sends a reply although a header value contains invalid characters', async () => {
    const { url } = await startApp({
      routes: [openRoute('/echo', () => jsonReply(200, {}, { 'collet-call-id': 'ключ' }))],
    })
    const response = await fetch(`${url}/echo`)
    expect(response.status).toBe(200)
    expect(response.headers.get('collet-call-id')).toBe(encodeURI('ключ'))
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
  })
})

describe('bodies', () => {
  it('OTC-08: reads the body of a GET', async () => {
    const { url } = await startApp()
    const response = await ask(`${url}/tools`, { headers: json, body: '{"$schema":"otc://1.0"}' })
    expect(JSON.parse(response.body).body).toEqual({ $schema: 'otc://1.0' })
  })

  it.each([{}, json, { 'content-type': 'text/plain' }])(
    'treats an empty body as absent, with %j',
    async (headers) => {
      const { url } = await startApp()
      const response = await ask(`${url}/tools/call`, { method: 'POST', headers, body: '' })
      expect([response.status, JSON.parse(response.body).body]).toEqual([200, null])
    },
  )

  it.each([
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON;x=y',
    'application/json ;a=b',
  ])('rule 28: reads a body sent as %s', async (type) => {
    const { url } = await startApp()
    const response = await ask(`${url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': type },
      body: '[1]',
    })
    expect(JSON.parse(response.body).body).toEqual([1])
  })

  it.each([
    undefined,
    'text/plain',
    'application/jsonx',
    'application/json, text/plain',
    'application/x-www-form-urlencoded',
    'text/plain; application/json',
  ])('rule 28: refuses a body sent as %s with 400 and says what to send', async (type) => {
    const { url, seen } = await startApp()
    const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type }
    const response = await ask(`${url}/tools/call`, { method: 'POST', headers, body: '{}' })
    expect(response.status).toBe(400)
    expect(JSON.parse(response.body).message).toMatch(/Content-Type: application\/json/)
    expect(seen).toEqual([])
  })

  it('refuses an encoded body with 400', async () => {
    const { url } = await startApp()
    const headers = { ...json, 'content-encoding': 'gzip' }
    const response = await ask(`${url}/tools/call`, { method: 'POST', headers, body: '{}' })
    expect([response.status, JSON.parse(response.body).message]).toEqual([
      400,
      expect.stringContaining('Content-Encoding'),
    ])
  })

  it.each(['{"request":', '{"a":1e400}', '"\\ud800"', 'nope', '{"a":1}}', "{'a':1}"])(
    'OTC-66: refuses %s with 400',
    async (body) => {
      const { url, seen } = await startApp()
      const response = await ask(`${url}/tools/call`, { method: 'POST', headers: json, body })
      expect([response.status, JSON.parse(response.body).code]).toEqual([400, 'request_invalid'])
      expect(seen).toEqual([])
    },
  )

  it('does not read the body on a route without one', async () => {
    const { url } = await startApp()
    const response = await ask(`${url}/health`, {
      headers: { 'content-type': 'text/plain' },
      body: 'whatever',
    })
    expect([response.status, JSON.parse(response.body).body]).toEqual([200, null])
  })
})

describe('faults', () => {
  it('OTC/T-26: an unexpected fault is 400, leaks nothing and is logged with its stack', async () => {
    const { url, logged } = await startApp({
      routes: [
        openRoute('/x', () => {
          throw new Error('boom s3cr3t')
        }),
      ],
    })
    const response = await fetch(`${url}/x`)
    const text = await response.text()
    expect(response.status).toBe(400)
    expect(JSON.parse(text)).toMatchObject({
      code: 'internal',
      message: expect.stringContaining('same call id'),
    })
    expect(text).not.toContain('s3cr3t')
    expect(JSON.parse(logged[0] ?? '')).toMatchObject({
      level: 'error',
      route: '/x',
      err: { stack: expect.stringContaining('boom') },
    })
  })

  it.each([
    ['full', 'not_ready', 'Nothing was changed', '2'],
    // A client that followed the header would repeat a call that may have taken effect.
    ['unknown', 'not_ready', 'not known whether this request took effect', null],
    ['unreadable', 'internal', 'unexpected fault', null],
  ] as const)('rules 11 and 14: a store that is %s is %s to its caller', async (sort, code, text, after) => {
    const { url, logged } = await startApp({
      routes: [
        openRoute('/x', () => {
          throw new StoreError(sort, 'the disk s3cr3t')
        }),
      ],
    })
    const response = await fetch(`${url}/x`)
    const shown = await response.text()
    expect(response.headers.get('retry-after')).toBe(after)
    expect(JSON.parse(shown)).toMatchObject({ code, message: expect.stringContaining(text) })
    expect(shown).not.toContain('s3cr3t')
    expect(logged[0]).toContain('s3cr3t')
  })

  it('rule 11: an unavailable store does not fill the log, whatever the number of requests', async () => {
    const { url, logged } = await startApp({
      routes: [
        openRoute('/x', () => {
          throw new StoreError('full', 'the disk is full')
        }),
      ],
    })
    for (let asked = 0; asked < 5; asked += 1) expect((await fetch(`${url}/x`)).status).toBe(503)
    expect(logged).toHaveLength(1)
  })

  it('renders a fault of the route in its own protocol', async () => {
    const { url } = await startApp({
      routes: [
        openRoute('/x', () => {
          throw fault('not_authorized', 'Not yours.')
        }),
      ],
    })
    const response = await fetch(`${url}/x`)
    expect([response.status, await response.json()]).toEqual([
      403,
      { message: 'Not yours.', code: 'not_authorized' },
    ])
  })

  it('answers even when rendering the refusal fails', async () => {
    const fail = (): never => {
      throw new Error('worse')
    }
    const { url, logged } = await startApp({ routes: [openRoute('/x', fail, fail)] })
    const response = await fetch(`${url}/x`)
    expect([response.status, await response.json()]).toEqual([
      400,
      { message: expect.stringContaining('unexpected fault') },
    ])
    expect(logged).toHaveLength(2)
  })
})

describe('replies that cannot be sent', () => {
  it('drops the connection, logs the reason and keeps serving', async () => {
    const { url, logged } = await startApp({
      routes: [
        openRoute('/x', () => jsonReply(200, {}, { 'not a name': 'x' })),
        openRoute('/y', () => jsonReply(200, {})),
      ],
    })
    await expect(fetch(`${url}/x`)).rejects.toThrow()
    expect(logged).toHaveLength(1)
    expect((await fetch(`${url}/y`)).status).toBe(200)
  })
})

describe('traces and logs', () => {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

  it('continues the caller’s traceparent and answers with its own span', async () => {
    const { url } = await startApp()
    const response = await fetch(`${url}/tools`, { headers: { traceparent } })
    expect(await response.json()).toMatchObject({ traceId: '0af7651916cd43dd8448eb211c80319c' })
    expect(response.headers.get('traceparent')).toMatch(
      /^00-0af7651916cd43dd8448eb211c80319c-(?!b7ad)[0-9a-f]{16}-01$/,
    )
  })

  it('starts a trace when none is sent, for refusals too', async () => {
    const { url } = await startApp({ auth: WITH_KEY })
    expect((await fetch(`${url}/tools`)).headers.get('traceparent')).toMatch(
      /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/,
    )
  })

  it('logs one line per request at debug, by pattern and without credentials or content', async () => {
    const { url, logged } = await startApp({ auth: WITH_KEY, logLevel: 'debug' })
    await fetch(`${url}/calls/my-call-id?q=s3cr3t`, { headers: { 'x-api-key': KEY, traceparent } })
    expect(logged).toHaveLength(1)
    expect(JSON.parse(logged[0] ?? '')).toMatchObject({
      level: 'debug',
      method: 'GET',
      route: '/calls/:id',
      status: 200,
      durationMs: expect.any(Number),
      traceId: '0af7651916cd43dd8448eb211c80319c',
    })
    expect(logged[0]).not.toMatch(/my-call-id|s3cr3t|k-alice/)
  })

  it('logs nothing per request at info', async () => {
    const { url, logged } = await startApp({ logLevel: 'info' })
    await fetch(`${url}/tools`)
    expect(logged).toEqual([])
  })
})

describe('listen', () => {
  it('reports which port is busy and what to do', async () => {
    const { port } = await startApp()
    await expect(startApp({ settings: { port } })).rejects.toThrow(new RegExp(`Port ${port} .*--port`))
  })

  it('answers on IPv6 loopback by its own name', async () => {
    const { url } = await startApp({ settings: { host: '::1' } })
    expect(url).toMatch(/^http:\/\/\[::1\]:\d+$/)
    expect((await fetch(`${url}/health`)).status).toBe(200)
  })

  it('listens on localhost and on every address', async () => {
    for (const host of ['localhost', '0.0.0.0']) {
      const { url } = await startApp({ settings: { host } })
      expect((await fetch(`${url}/health`)).status).toBe(200)
    }
  })
})
