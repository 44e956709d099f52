import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { connect } from '#client/index'
import { type RequestHandler, sendJson, startFakeToolServer } from './fake-tool-server.ts'

const LIST = { items: [{ id: 'A.B@1.0.0', name: 'A_B', description: 'd', version: '1.0.0' }] }
const sleep = async () => undefined

/** Lists one tool; a call is answered by `handler`. */
function onCall(handler: RequestHandler): RequestHandler {
  return (request, response) => {
    if (request.path === '/tools') sendJson(response, 200, LIST)
    else handler(request, response)
  }
}

describe('over real HTTP', () => {
  it('OTC/T-07: a request whose connection is reset before the answer is resent with the same id', async () => {
    let calls = 0
    await using server = await startFakeToolServer(
      onCall((request, response) => {
        calls += 1
        if (calls === 1) response.socket?.resetAndDestroy()
        else
          sendJson(response, 200, {
            result: { call_id: String(request.body.call_id), success: true, value: 1 },
          })
      }),
    )
    expect(await connect(server.url, { sleep }).call('A.B@1.0.0')).toMatchObject({ value: 1, retries: 1 })
    const [first, second] = server.requests.slice(1)
    expect(first?.text).toBe(second?.text)
  })

  it('OTC/T-07: a request whose answer is cut in the middle is resent with the same id', async () => {
    let calls = 0
    await using server = await startFakeToolServer(
      onCall((_request, response) => {
        calls += 1
        if (calls > 1) return sendJson(response, 200, { success: true, value: 1 })
        response.writeHead(200, { 'content-length': '100' }).write('{"success"')
        setImmediate(() => response.socket?.destroy())
      }),
    )
    expect(await connect(server.url, { sleep }).call('A.B@1.0.0')).toMatchObject({ value: 1, retries: 1 })
  })

  it('an address without a server is a transport failure', async () => {
    const server = await startFakeToolServer(() => undefined)
    await server[Symbol.asyncDispose]()
    const client = connect(server.url, { sleep })
    expect(await client.tryCall('A.B@1.0.0')).toMatchObject({ ok: false, error: { class: 'transport' } })
    expect(await client.health()).toEqual({ healthy: false })
  })

  it.each([
    ['headers that never come', () => undefined],
    [
      'a body that never ends',
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json' }).write('{')
      },
    ],
  ] satisfies readonly (readonly [string, RequestHandler])[])(
    '%s: ends at timeoutMs',
    async (_title, handler) => {
      await using server = await startFakeToolServer(onCall(handler))
      const client = connect(server.url, { sleep, maxRetries: 1 })
      await client.list()
      const tried = await client.tryCall('A.B@1.0.0', {}, { timeoutMs: 50 })
      expect(tried).toMatchObject({
        ok: false,
        error: { class: 'transport', retries: 1, message: expect.stringContaining('within 50 ms') },
      })
    },
  )

  it('an aborted call ends at once and reports that it may still run', async () => {
    const caller = new AbortController()
    await using server = await startFakeToolServer(onCall(() => caller.abort(new Error('user left'))))
    const tried = await connect(server.url, { sleep }).tryCall('A.B@1.0.0', {}, { signal: caller.signal })
    expect(tried).toMatchObject({
      ok: false,
      error: { class: 'transport', retries: 0, cause: expect.objectContaining({ message: 'user left' }) },
    })
    if (!tried.ok)
      expect(tried.error.message).toMatch(/aborted by its caller.*It is not known whether the call ran/)
  })

  it("the client's signal ends every call", async () => {
    const owner = new AbortController()
    await using server = await startFakeToolServer(onCall(() => owner.abort()))
    const client = connect(server.url, { signal: owner.signal })
    expect(await client.tryCall('A.B@1.0.0')).toMatchObject({ ok: false, error: { class: 'transport' } })
    await expect(client.list()).rejects.toMatchObject({ class: 'transport' })
  })

  it('a caller that aborts while the list is read does not affect another', async () => {
    const leaving = new AbortController()
    const held: (() => void)[] = []
    await using server = await startFakeToolServer((request, response) => {
      if (request.path === '/tools') held.push(() => sendJson(response, 200, LIST))
      else sendJson(response, 200, { success: true, value: 1 })
    })
    const client = connect(server.url)
    const left = client.tryCall('A.B@1.0.0', {}, { signal: leaving.signal })
    const pending = client.call('A.B@1.0.0')
    leaving.abort()
    expect(await left).toMatchObject({ ok: false, error: { class: 'transport' } })
    await expect.poll(() => held.length).toBe(1)
    for (const release of held) release()
    expect(await pending).toMatchObject({ value: 1 })
    expect(server.requests.filter(({ path }) => path === '/tools')).toHaveLength(1)
  })

  it.each([
    ['a page', '<html>captive portal</html>'],
    ['half JSON', '{"result":'],
    ['nothing', ''],
    ['other JSON', '{"hello":1}'],
  ])('200 with %s is a transport failure, not a value, and not resent', async (_title, text) => {
    await using server = await startFakeToolServer(onCall((_request, response) => response.end(text)))
    const tried = await connect(server.url).tryCall('A.B@1.0.0')
    expect(tried).toMatchObject({ ok: false, error: { class: 'transport', status: 200, retries: 0 } })
    if (!tried.ok) expect(tried.error.message).not.toContain('captive')
  })

  it('stops reading an answer that is too large', async () => {
    const closed = Promise.withResolvers<void>()
    await using server = await startFakeToolServer(
      onCall((_request, response) => {
        response.on('close', () => closed.resolve())
        response.writeHead(200)
        const pour = () => {
          while (!response.destroyed && response.write('x'.repeat(65_536)));
          if (!response.destroyed) void once(response, 'drain').then(pour, () => undefined)
        }
        pour()
      }),
    )
    const tried = await connect(server.url, { maxResponseBytes: 1_000_000 }).tryCall('A.B@1.0.0')
    expect(tried).toMatchObject({
      ok: false,
      error: { class: 'transport', retries: 0, message: expect.stringContaining('more than 1000000 bytes') },
    })
    await closed.promise
  })

  it('an empty 401 is unauthenticated (C-21)', async () => {
    await using server = await startFakeToolServer(
      onCall((_request, response) => response.writeHead(401).end()),
    )
    expect(await connect(server.url).tryCall('A.B@1.0.0')).toMatchObject({
      ok: false,
      error: { class: 'unauthenticated', status: 401 },
    })
  })

  it('never follows a redirect, and shows only where it points', async () => {
    await using other = await startFakeToolServer((_request, response) => sendJson(response, 200, {}))
    await using server = await startFakeToolServer(
      onCall((_request, response) =>
        response.writeHead(308, { location: `${other.url}/tools/call?ticket=hunter2` }).end(),
      ),
    )
    const tried = await connect(server.url, { apiKey: 'k-alice' }).tryCall('A.B@1.0.0')
    expect(tried).toMatchObject({ ok: false, error: { class: 'transport', retries: 0 } })
    if (!tried.ok) expect(tried.error.message).toContain(`a redirect to ${other.url}. `)
    if (!tried.ok) expect(tried.error.message).not.toContain('hunter2')
    expect(other.requests).toEqual([])
  })
})

describe('health', () => {
  it.each([
    [200, true],
    [204, true],
    [503, false],
    [400, false],
    [500, false],
    [404, false],
  ])('OTC-01, OTC-03, C-24: %i is healthy: %s', async (status, healthy) => {
    await using server = await startFakeToolServer((_request, response) => response.writeHead(status).end())
    expect(await connect(server.url).health()).toEqual({ healthy, status })
    expect(server.requests).toHaveLength(1)
  })

  it('OTC-04: sends no credentials', async () => {
    await using server = await startFakeToolServer((_request, response) => response.end())
    await connect(server.url, { apiKey: 'k-alice' }).health()
    expect(JSON.stringify(server.requests[0]?.headers)).not.toContain('k-alice')
  })

  it('does not wait for a body', async () => {
    await using server = await startFakeToolServer((_request, response) =>
      response.writeHead(200).write('still'),
    )
    expect(await connect(server.url).health()).toEqual({ healthy: true, status: 200 })
  })
})
