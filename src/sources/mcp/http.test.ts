import { describe, expect, it, vi } from 'vitest'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import type { PlainResponse, SendRequest } from '#sources/kit/source'
import { McpConnection } from './connection.ts'
import { HttpTransport } from './http.ts'
import { CALL_BOUNDS } from './transport.ts'

const ID = 1
const RESULT = { content: [{ type: 'text', text: '5' }] }
const COMPLETE = { resultType: 'complete', ...RESULT }

/** An answer whose body arrives in chunks of a few bytes. */
function answer(status: number, type: string, text: string, headers: PlainResponse['headers'] = {}) {
  const bytes = Buffer.from(text)
  async function* body() {
    for (let from = 0; from < bytes.length; from += 7) yield bytes.subarray(from, from + 7)
  }
  return { status, headers: { 'content-type': type, ...headers }, body: body() }
}

const json = (value: unknown, status = 200) => answer(status, 'application/json', JSON.stringify(value))
const stream = (...events: readonly string[]) => answer(200, 'text/event-stream', events.join(''))
const event = (value: unknown, id = '') =>
  `${id === '' ? '' : `id: ${id}\n`}event: message\ndata: ${JSON.stringify(value)}\n\n`
const done = (result: unknown) => ({ jsonrpc: '2.0', id: ID, result })

/** Makes a call that gets these answers, in this order. */
async function call(answers: readonly PlainResponse[], revision?: string) {
  const left = [...answers]
  const send = vi.fn<SendRequest>(async () => left.shift() ?? json({}, 500))
  const transport = new HttpTransport({
    url: 'http://up.example/mcp',
    headers: { 'X-Own': new Secret('operator') },
    credentials: { headers: { authorization: 'Bearer of-the-connection' }, fingerprint: '1' },
    fetch: () => Promise.reject(new Error('not used')),
    send,
  })
  const onListChanged = vi.fn()
  const connection = new McpConnection({
    transport,
    handlers: {
      requests: new Map(),
      notifications: new Map([['notifications/tools/list_changed', onListChanged]]),
    },
    openedMs: 0,
    log: SILENT_LOGGER,
    callsAtOnce: 10,
    traits: { asks: false },
    onLost: () => undefined,
  })
  await transport.start(connection)
  connection.describeRequests(revision)
  const onProgress = vi.fn()
  const stop = new AbortController()
  const calling = connection.request(
    'tools/call',
    { name: 'añadir', arguments: { a: 2 }, _meta: { traceparent: 'x' } },
    {
      ...{ signal: stop.signal, bounds: CALL_BOUNDS, onProgress },
      credentials: { headers: { authorization: 'Bearer of-the-call' }, fingerprint: '2' },
      headers: { 'Mcp-Param-Region': 'eu' },
    },
  )
  calling.catch(() => undefined)
  return { calling, send, connection, onListChanged, onProgress, stop }
}

describe('a request over HTTP', () => {
  it('carries its metadata in 2026-07-28, and its progress token in every revision', async () => {
    const { calling, send } = await call([json(done(COMPLETE))], '2026-07-28')
    expect(await calling).toEqual(COMPLETE)
    const [request] = send.mock.lastCall ?? []
    expect(request?.headers).toMatchObject({
      authorization: 'Bearer of-the-call',
      'x-own': 'operator',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': '=?base64?YcOxYWRpcg==?=',
      'mcp-param-region': 'eu',
      accept: 'application/json, text/event-stream',
    })
    expect(JSON.parse(request?.body ?? '')).toMatchObject({
      jsonrpc: '2.0',
      id: ID,
      method: 'tools/call',
      params: {
        arguments: { a: 2 },
        _meta: {
          traceparent: 'x',
          progressToken: ID,
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
        },
      },
    })
    const old = await call([json(done(RESULT))])
    expect(await old.calling).toEqual(RESULT)
    expect(old.send.mock.lastCall?.[0].headers).not.toHaveProperty('mcp-method')
    expect(JSON.parse(old.send.mock.lastCall?.[0].body ?? '').params._meta).toEqual({
      traceparent: 'x',
      progressToken: ID,
    })
  })

  it('finds its answer in a batch and among events, and delivers earlier messages', async () => {
    const changed = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' }
    const progress = { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: ID } }
    const other = { jsonrpc: '2.0', id: 99, result: {} }
    const listed = await call([json([changed, progress, other, done(RESULT)])])
    expect(await listed.calling).toEqual(RESULT)
    expect(listed.onListChanged).toHaveBeenCalledTimes(1)
    expect(listed.onProgress).toHaveBeenCalledWith({ progressToken: ID })
    const text = `: hello\r\n\r\ndata: {"not json\n\n${event(changed)}event: other\ndata: {}\n\ndata: {"jsonrpc":"2.0",\ndata: "id":${ID},"result":{"a":1}}\n\n`
    const streamed = await call([stream(text)])
    expect(await streamed.calling).toEqual({ a: 1 })
    expect(streamed.onListChanged).toHaveBeenCalledTimes(1)
  })

  it('MCP-27: resumes a stream that broke off, if its events have ids', async () => {
    const { calling, send } = await call([
      stream('id: e1\nretry: 1000\ndata:\n\n'),
      stream(event(done(RESULT))),
    ])
    await expect(calling).resolves.toEqual(RESULT)
    expect(send.mock.lastCall?.[0]).toMatchObject({
      method: 'GET',
      headers: { 'last-event-id': 'e1', authorization: 'Bearer of-the-call' },
    })
    const unnumbered = await call([stream('data:\n\n')])
    await expect(unnumbered.calling).rejects.toMatchObject({ name: 'StreamEnded' })
    expect(unnumbered.send).toHaveBeenCalledTimes(1)
  })

  it('rule 33: follows only redirects within the origin', async () => {
    const moved = await call([answer(307, '', '', { location: '/mcp/' }), json(done(RESULT))])
    expect(await moved.calling).toEqual(RESULT)
    expect(moved.send.mock.lastCall?.[0]).toMatchObject({ method: 'POST', url: { pathname: '/mcp/' } })
    for (const location of ['http://other.example/mcp', 'http://me:pw@up.example/mcp'])
      await expect((await call([answer(307, '', '', { location })])).calling).rejects.toThrow('not followed')
    await expect((await call([answer(302, '', '', { location: '/' })])).calling).rejects.toMatchObject({
      details: { status: 302 },
    })
  })

  it('fails if there is no answer', async () => {
    const ended = { name: 'StreamEnded' }
    await expect((await call([answer(202, '', '')])).calling).rejects.toMatchObject(ended)
    await expect((await call([answer(200, 'text/html', '<p>')])).calling).rejects.toThrow('text/html')
    await expect((await call([json({ id: ID, result: {} })])).calling).rejects.toThrow('JSON-RPC')
    await expect((await call([json([])])).calling).rejects.toMatchObject(ended)
  })

  it('recognises a refusal by its status, and by its message if it has one', async () => {
    const error = { jsonrpc: '2.0', id: ID, error: { code: -32_022, message: 'no' } }
    await expect((await call([json(error)])).calling).rejects.toMatchObject({ code: -32_022 })
    await expect((await call([json(error, 400)], '2026-07-28')).calling).rejects.toMatchObject({
      code: -32_022,
    })
    await expect((await call([json(error, 400)])).calling).rejects.toMatchObject({ details: { status: 400 } })
    const busy = await call([answer(503, '', 'later', { 'retry-after': '3' })])
    await expect(busy.calling).rejects.toMatchObject({ details: { status: 503, retryAfterMs: 3_000 } })
    const challenge = { 'www-authenticate': 'Bearer error="insufficient_scope", scope="files:read"' }
    await expect((await call([answer(403, '', '', challenge)])).calling).rejects.toMatchObject({
      details: { status: 403, requiredScope: 'files:read' },
    })
  })

  it.each([
    ['without a type', {}],
    ['of an unknown type', { resultType: 'partly' }],
    ['without a question', { resultType: 'input_required', inputRequests: {} }],
  ])('rejects a result of 2026-07-28 %s', async (_, result) => {
    await expect((await call([json(done(result))], '2026-07-28')).calling).rejects.toThrow('Invalid result')
  })

  it.each(['application/json', 'text/event-stream'])('stops reading %s that is too deep', async (type) => {
    const text = `${type === 'application/json' ? '' : 'data:'}${'['.repeat(5_000)}\n\n`
    const deep = await call([answer(200, type, text)])
    await expect(deep.calling).rejects.toMatchObject({ code: 'upstream_failed' })
  })

  it('MCP-85: sends a server of a 2025 revision the cancellation with the credentials of the call', async () => {
    const { calling, send, stop } = await call([stream('id: e1\ndata:\n\n')])
    await vi.waitUntil(() => send.mock.calls.length === 1)
    stop.abort(new Error('enough'))
    await expect(calling).rejects.toThrow('enough')
    const [request] = send.mock.lastCall ?? []
    expect(request?.headers).toMatchObject({ authorization: 'Bearer of-the-call' })
    expect(JSON.parse(request?.body ?? '')).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: ID, reason: 'Error: enough' },
    })
  })

  it('fails when the connection is closed', async () => {
    const { calling, connection } = await call([stream('id: e1\ndata:\n\n')])
    await connection.close()
    await expect(calling).rejects.toMatchObject({ name: 'ConnectionClosed' })
    const late = connection.request('ping', {}, { signal: new AbortController().signal })
    await expect(late).rejects.toMatchObject({ name: 'NotConnected' })
  })
})
