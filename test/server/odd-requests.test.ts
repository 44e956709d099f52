import { afterEach, describe, expect, it } from 'vitest'
import { open, readReplies, received, request, sendRaw } from './raw-http.ts'
import { heldRoute, startApp, stopApps } from './start-app.ts'

afterEach(stopApps)

const CALL = 'POST /tools/call HTTP/1.1'
const JSON_TYPE = 'Content-Type: application/json'

/** The reply to bytes after which either side closes the connection. */
async function replyTo(port: number, bytes: string | Buffer, half = false) {
  const replies = readReplies(await sendRaw(port, bytes, half))
  expect(replies).toHaveLength(1)
  return {
    status: replies[0]?.status,
    body: replies[0]?.body ?? '',
    headers: replies[0]?.headers ?? new Map(),
  }
}

describe('bytes that are not an HTTP request', () => {
  it.each([
    ['garbage', 'not http at all\r\n\r\n'],
    ['HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a bad header', 'GET /tools HTTP/1.1\r\nHo st: x\r\n\r\n'],
    ['two lengths', 'POST /tools/call HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n'],
    [
      'length and chunks',
      'POST /tools/call HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
    ],
  ])('answers %s with 400 and closes', async (_name, bytes) => {
    const { port, seen } = await startApp()
    const reply = await replyTo(port, bytes)
    expect(reply.status).toBe(400)
    expect(JSON.parse(reply.body)).toEqual({ message: expect.any(String) })
    expect(reply.headers.get('connection')).toBe('close')
    expect(seen).toEqual([])
  })

  it('answers headers that are too large with 431', async () => {
    const { port } = await startApp()
    const reply = await replyTo(port, request(['GET /tools HTTP/1.1', `X: ${'a'.repeat(20_000)}`]))
    expect(reply.status).toBe(431)
  })

  it('treats a missing Host as a malformed request', async () => {
    const { port } = await startApp()
    expect((await replyTo(port, request(['GET /tools HTTP/1.1', 'Connection: close']))).status).toBe(400)
    expect((await replyTo(port, request(['GET /tools HTTP/1.0']))).status).toBe(400)
  })
})

describe('unusual requests', () => {
  it('answers HTTP/1.0 and closes', async () => {
    const { port } = await startApp()
    const reply = await replyTo(port, request(['GET /tools HTTP/1.0', `Host: 127.0.0.1:${port}`]))
    expect(reply.status).toBe(200)
  })

  it('rule 28: refuses two Host headers', async () => {
    const { port, seen } = await startApp()
    const own = `Host: 127.0.0.1:${port}`
    for (const hosts of [
      [own, 'Host: evil.test'],
      ['Host: evil.test', own],
    ]) {
      const reply = await replyTo(port, request(['GET /tools HTTP/1.1', ...hosts, 'Connection: close']))
      expect(reply.status).toBe(403)
    }
    expect(seen).toEqual([])
  })

  it('rule 28: refuses a target with another authority', async () => {
    const { port, seen } = await startApp()
    const lines = ['GET http://evil.test/tools HTTP/1.1', `Host: 127.0.0.1:${port}`, 'Connection: close']
    expect((await replyTo(port, request(lines))).status).toBe(404)
    expect(seen).toEqual([])
  })

  it('answers OPTIONS * with 404', async () => {
    const { port } = await startApp()
    const lines = ['OPTIONS * HTTP/1.1', `Host: 127.0.0.1:${port}`, 'Connection: close']
    expect((await replyTo(port, request(lines))).status).toBe(404)
  })

  it('joins a header that is sent twice', async () => {
    const { port, seen } = await startApp()
    const lines = [
      'GET /tools HTTP/1.1',
      `Host: 127.0.0.1:${port}`,
      'X-A: 1',
      'X-A: 2',
      'Set-Cookie: a',
      'Connection: close',
    ]
    await replyTo(port, request(lines))
    expect(seen[0]?.headers['x-a']).toBe('1, 2')
    expect(seen[0]?.headers['set-cookie']).toBeUndefined()
  })

  it('reads a chunked body, and treats an empty one as absent', async () => {
    const { port, seen } = await startApp()
    const lines = [
      CALL,
      `Host: 127.0.0.1:${port}`,
      JSON_TYPE,
      'Transfer-Encoding: chunked',
      'Connection: close',
    ]
    await replyTo(port, request(lines, '4\r\n{"a"\r\n3\r\n:1}\r\n0\r\n\r\n'))
    expect(seen[0]?.body).toEqual({ a: 1 })
    const plain = lines.with(2, 'Content-Type: text/plain')
    await replyTo(port, request(plain, '0\r\n\r\n'))
    expect(seen[1]?.body).toBeUndefined()
    expect((await replyTo(port, request(plain, '2\r\n{}\r\n0\r\n\r\n'))).status).toBe(400)
  })

  it('answers Expect: 100-continue', async () => {
    const { port, seen } = await startApp()
    const socket = await open(port)
    const text = received(socket)
    socket.write(
      request([
        CALL,
        `Host: 127.0.0.1:${port}`,
        JSON_TYPE,
        'Content-Length: 2',
        'Expect: 100-continue',
        'Connection: close',
      ]),
    )
    await new Promise((resolve) => socket.once('data', resolve))
    socket.write('[]')
    expect(readReplies(await text).map((reply) => reply.status)).toEqual([100, 200])
    expect(seen[0]?.body).toEqual([])
  })

  it('answers pipelined requests in their order', async () => {
    const { port } = await startApp()
    const one = (body: string, last = false) =>
      request(
        [
          CALL,
          `Host: 127.0.0.1:${port}`,
          JSON_TYPE,
          `Content-Length: ${body.length}`,
          ...(last ? ['Connection: close'] : []),
        ],
        body,
      )
    const replies = readReplies(await sendRaw(port, `${one('1')}${one('x')}${one('[3]', true)}`))
    expect(replies.map((reply) => reply.status)).toEqual([200, 400, 200])
    expect(replies.map((reply) => JSON.parse(reply.body).body)).toEqual([1, undefined, [3]])
  })
})

describe('bodies with a wrong end', () => {
  it('OTC-66: answers a body shorter than its length with 400, and runs nothing', async () => {
    const { port, seen } = await startApp()
    const lines = [CALL, `Host: 127.0.0.1:${port}`, JSON_TYPE, 'Content-Length: 100']
    const reply = await replyTo(port, request(lines, '{"request":'), true)
    expect(reply.status).toBe(400)
    expect(JSON.parse(reply.body).message).toMatch(/ended too early/)
    expect(seen).toEqual([])
  })

  it('answers a request, then the bytes beyond its length with 400', async () => {
    const held = heldRoute()
    const { port } = await startApp({ routes: [held.route] })
    const lines = ['POST /held HTTP/1.1', `Host: 127.0.0.1:${port}`, JSON_TYPE, 'Content-Length: 2']
    const text = sendRaw(port, request(lines, '{}surplus\r\n\r\n'))
    await held.entered
    held.release()
    const replies = readReplies(await text)
    expect(replies.map((reply) => reply.status)).toEqual([200, 400])
    expect(replies[0]?.body).toBe('{"done":true}')
  })

  it('answers a broken chunk with 400', async () => {
    const { port, seen } = await startApp()
    const lines = [CALL, `Host: 127.0.0.1:${port}`, JSON_TYPE, 'Transfer-Encoding: chunked']
    expect((await replyTo(port, request(lines, '5\r\n[1,2'.concat('zz\r\nnope')))).status).toBe(400)
    expect(seen).toEqual([])
  })

  it('OTC/T-19: finishes a request whose client disconnected', async () => {
    const held = heldRoute()
    const { port, app, logged } = await startApp({ routes: [held.route] })
    const socket = await open(port)
    const lines = ['POST /held HTTP/1.1', `Host: 127.0.0.1:${port}`, JSON_TYPE, 'Content-Length: 2']
    socket.write(request(lines, '{}'))
    await held.entered
    socket.resetAndDestroy()
    held.release()
    await app.close()
    expect(logged).toEqual([])
  })

  it('discards a request whose client disconnects in the middle of its body', async () => {
    const { port, url, seen } = await startApp()
    const socket = await open(port)
    socket.write(request([CALL, `Host: 127.0.0.1:${port}`, JSON_TYPE, 'Content-Length: 100'], '{'))
    socket.resetAndDestroy()
    expect((await fetch(`${url}/health`)).status).toBe(200)
    expect(seen.map((item) => item.path)).toEqual(['/health'])
  })
})

describe('slow clients', () => {
  const timeouts = { headersMs: 100, requestMs: 200, closeMs: 1_000 }

  it('answers missing headers with 408 and closes', async () => {
    const { port } = await startApp({ timeouts })
    expect((await replyTo(port, 'POST /tools/call HTTP/1.1\r\nHost: ')).status).toBe(408)
  })

  it('answers a missing body with 408 and closes, and runs nothing', async () => {
    const { port, seen } = await startApp({ timeouts })
    const lines = [CALL, `Host: 127.0.0.1:${port}`, JSON_TYPE, 'Content-Length: 100']
    expect((await replyTo(port, request(lines, '{'))).status).toBe(408)
    expect(seen).toEqual([])
  })

  it('rule 11: never answers a running request with 408', async () => {
    const held = heldRoute()
    const { port } = await startApp({ routes: [held.route], timeouts })
    const lines = [
      'POST /held HTTP/1.1',
      `Host: 127.0.0.1:${port}`,
      JSON_TYPE,
      'Content-Length: 2',
      'Connection: close',
    ]
    const text = sendRaw(port, request(lines, '{}'))
    await held.entered
    const other = replyTo(port, 'GET /held HTTP/1.1\r\n')
    expect((await other).status).toBe(408)
    held.release()
    expect(readReplies(await text).map((reply) => reply.status)).toEqual([200])
  })
})

describe('large bodies', () => {
  const tenMegabytes = `"${'a'.repeat(10_000_000)}"`

  it('OTC/T-26: answers 10 MB with 413 before all of it is sent, and the client receives the reply', async () => {
    const { url, seen } = await startApp()
    const headers = { 'content-type': 'application/json' }
    for (let round = 0; round < 3; round += 1) {
      const response = await fetch(`${url}/tools/call`, { method: 'POST', headers, body: tenMegabytes })
      expect(response.status).toBe(413)
      expect(await response.json()).toMatchObject({ message: expect.stringContaining('1000000 bytes') })
    }
    expect(seen).toEqual([])
  })

  it('OTC/T-26: refuses an announced length at once, before any byte of the body arrives', async () => {
    const { port } = await startApp()
    const lines = [CALL, `Host: 127.0.0.1:${port}`, JSON_TYPE, 'Content-Length: 10000000']
    expect((await replyTo(port, request(lines))).status).toBe(413)
  })

  it('OTC/T-26: delivers the 413 to a client that reads only after sending everything', async () => {
    const { port } = await startApp({ settings: { bodyLimitBytes: 1_000 } })
    const socket = await open(port)
    const lines = [CALL, `Host: 127.0.0.1:${port}`, JSON_TYPE, `Content-Length: ${tenMegabytes.length}`]
    const sent = Promise.withResolvers<Error | null | undefined>()
    socket.write(request(lines, tenMegabytes), sent.resolve)
    expect(await sent.promise).toBeFalsy()
    expect(readReplies(await received(socket)).map((reply) => reply.status)).toEqual([413])
  })

  it('OTC/T-26: stops at the limit when no length is announced', async () => {
    const { port } = await startApp({ settings: { bodyLimitBytes: 1_000 } })
    const socket = await open(port)
    const text = received(socket)
    const chunk = `400\r\n${'a'.repeat(1_024)}\r\n`
    socket.write(request([CALL, `Host: 127.0.0.1:${port}`, JSON_TYPE, 'Transfer-Encoding: chunked'], chunk))
    const replies = readReplies(await text)
    expect(replies.map((reply) => reply.status)).toEqual([413])
    expect(replies[0]?.headers.get('connection')).toBe('close')
  })

  it('accepts a body of exactly the limit', async () => {
    const { url } = await startApp({ settings: { bodyLimitBytes: 5 } })
    const send = (body: string) =>
      fetch(`${url}/tools/call`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    expect((await send('"aaa"')).status).toBe(200)
    expect((await send('"aaaa"')).status).toBe(413)
  })

  it('keeps the connection after a small unread body', async () => {
    const { port } = await startApp()
    const bad = request(
      [CALL, `Host: 127.0.0.1:${port}`, 'Content-Type: text/plain', 'Content-Length: 2'],
      '{}',
    )
    const good = request(['GET /health HTTP/1.1', `Host: 127.0.0.1:${port}`, 'Connection: close'])
    expect(readReplies(await sendRaw(port, `${bad}${good}`)).map((reply) => reply.status)).toEqual([400, 200])
  })
})

describe('close', () => {
  it('lets a running request finish, accepts no new connection, and closes idle ones', async () => {
    const held = heldRoute()
    const { port, app, url } = await startApp({ routes: [held.route] })
    const idle = await open(port)
    const idleEnded = received(idle)
    const response = fetch(`${url}/held`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    await held.entered
    const closed = app.close()
    await idleEnded
    await expect(fetch(`${url}/held`)).rejects.toThrow()
    held.release()
    expect(await (await response).json()).toEqual({ done: true })
    expect((await response).headers.get('connection')).toBe('close')
    await closed
  })

  it('answers a request that is already arriving, in the shape of its route', async () => {
    const { port, app } = await startApp()
    const socket = await open(port)
    const text = received(socket)
    socket.write(`GET /health HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n`)
    // The server has read the first line once it has answered a later connection.
    await sendRaw(port, request(['GET /health HTTP/1.0', `Host: 127.0.0.1:${port}`]))
    const closed = app.close()
    socket.write('\r\n')
    const [reply] = readReplies(await text)
    expect([reply?.status, JSON.parse(reply?.body ?? '').path]).toEqual([200, '/health'])
    expect(reply?.headers.get('connection')).toBe('close')
    await closed
  })

  it('aborts requests that do not finish in time', async () => {
    const held = heldRoute()
    const { app, url } = await startApp({ routes: [held.route], timeouts: { closeMs: 50 } })
    const response = fetch(`${url}/held`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    const failure = response.then(
      () => 'answered',
      () => 'cut',
    )
    await held.entered
    await app.close()
    expect(await failure).toBe('cut')
    held.release()
  })
})
