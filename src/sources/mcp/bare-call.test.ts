import { describe, expect, it, vi } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import type { PlainAnswer, SendRequest } from '#sources/kit/source'
import { callBarely } from './bare-call.ts'

const ID = 7
const RESULT = { content: [{ type: 'text', text: '5' }] }

/** An answer whose body comes in pieces of a few bytes, as a network may bring it. */
function answer(status: number, type: string, text: string, headers: PlainAnswer['headers'] = {}) {
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

/** Makes the call against these answers, in their order. */
async function call(answers: readonly PlainAnswer[], revision?: string) {
  const left = [...answers]
  const send = vi.fn<SendRequest>(async () => left.shift() ?? json({}, 500))
  const heard: JsonObject[] = []
  const refused = vi.fn()
  const calling = callBarely({
    ...{ send, url: new URL('http://up.example/mcp'), id: ID, revision, refused },
    headers: { authorization: 'Bearer t', 'mcp-session-id': 's' },
    paramHeaders: { 'Mcp-Param-Region': 'eu' },
    params: { name: 'añadir', arguments: { a: 2 }, _meta: { traceparent: 'x' } },
    signal: new AbortController().signal,
    hear: (message) => heard.push(message),
  })
  return { calling, send, heard, refused }
}

describe('a call of ours over HTTP', () => {
  it('says everything with itself in the new era, and its progress token in both', async () => {
    const { calling, send } = await call([json(done({ resultType: 'complete', ...RESULT }))], '2026-07-28')
    expect(await calling).toEqual(RESULT)
    const [request] = send.mock.lastCall ?? []
    expect(request?.headers).toMatchObject({
      authorization: 'Bearer t',
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

  it('finds its answer in a list and among events, and hears what comes before', async () => {
    const news = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' }
    const other = { jsonrpc: '2.0', id: 1, result: {} }
    const listed = await call([json([news, other, done(RESULT)])])
    expect(await listed.calling).toEqual(RESULT)
    expect(listed.heard).toEqual([news, other])
    const text = `: hello\r\n\r\ndata: {"not json\n\n${event(news)}event: other\ndata: {}\n\ndata: {"jsonrpc":"2.0",\ndata: "id":7,"result":{"a":1}}\n\n`
    const streamed = await call([stream(text)])
    expect(await streamed.calling).toEqual({ a: 1 })
    expect(streamed.heard).toEqual([news])
  })

  it('MCP-27: asks for the rest of a stream that broke off, if its events have numbers', async () => {
    const { calling, send } = await call([
      stream('id: e1\nretry: 1000\ndata:\n\n'),
      stream(event(done(RESULT))),
    ])
    await expect(calling).resolves.toEqual(RESULT)
    expect(send.mock.lastCall?.[0]).toMatchObject({ method: 'GET', headers: { 'last-event-id': 'e1' } })
    const unnumbered = await call([stream('data:\n\n')])
    await expect(unnumbered.calling).rejects.toMatchObject({ code: -31_999 })
    expect(unnumbered.send).toHaveBeenCalledTimes(1)
  })

  it('gives a redirect back, and says what else was no answer', async () => {
    expect(await (await call([answer(307, '', '', { location: '/mcp/' })])).calling).toBeUndefined()
    await expect((await call([answer(202, '', '')])).calling).rejects.toMatchObject({ code: -31_999 })
    await expect((await call([answer(200, 'text/html', '<p>')])).calling).rejects.toThrow('text/html')
    await expect((await call([json({ id: ID, result: {} })])).calling).rejects.toThrow('JSON-RPC')
    await expect((await call([json([])])).calling).rejects.toMatchObject({ code: -31_999 })
  })

  it('tells a refusal by its status, and by its message where it has one', async () => {
    const error = { jsonrpc: '2.0', id: ID, error: { code: -32_022, message: 'no' } }
    await expect((await call([json(error)])).calling).rejects.toMatchObject({ code: -32_022 })
    await expect((await call([json(error, 400)], '2026-07-28')).calling).rejects.toMatchObject({
      code: -32_022,
    })
    await expect((await call([json(error, 400)])).calling).rejects.toMatchObject({ status: 400 })
    const busy = await call([answer(503, '', 'later', { 'retry-after': '3' })])
    await expect(busy.calling).rejects.toMatchObject({ status: 503 })
    expect(busy.refused).toHaveBeenCalledWith(3_000)
    const challenge = { 'www-authenticate': 'Bearer error="insufficient_scope", scope="files:read"' }
    await expect((await call([answer(403, '', '', challenge)])).calling).rejects.toMatchObject({
      name: 'InsufficientScopeError',
      requiredScope: 'files:read',
    })
  })

  it.each([
    ['no kind', {}],
    ['a kind nobody knows', { resultType: 'partly' }],
    ['a question without one', { resultType: 'input_required', inputRequests: {} }],
  ])('does not take a result of the new era with %s', async (_, result) => {
    await expect((await call([json(done(result))], '2026-07-28')).calling).rejects.toThrow('Invalid result')
  })

  it('stops reading an answer that is too deep to be parsed', async () => {
    const deep = await call([answer(200, 'application/json', '['.repeat(5_000))])
    await expect(deep.calling).rejects.toMatchObject({ code: 'upstream_failed' })
  })
})
