import { describe, expect, it } from 'vitest'
import { CallFailure, opentool } from '#client/index'
import type { ToolContext } from '#kernel/tool/tool'
import { opentoolFixtures } from '../conformance/opentool-fixtures.ts'
import { startOpentoolServer } from '../conformance/opentool-test-server.ts'
import { type RequestHandler, sendJson, startFakeToolServer } from './fake-tool-server.ts'

const CALL = { id: 'c1', name: 'f', arguments: {} }

async function collect(stream: AsyncIterable<opentool.StreamedResult>) {
  const results: opentool.StreamedResult[] = []
  try {
    for await (const result of stream) results.push(result)
    return { results, failure: undefined }
  } catch (failure) {
    if (!(failure instanceof CallFailure)) throw failure
    return { results, failure }
  }
}

function sending(...pieces: readonly string[]): RequestHandler {
  return async (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
    for (const piece of pieces) {
      response.write(piece)
      await new Promise((resolve) => setImmediate(resolve))
    }
    response.end()
  }
}

const data = (result: string) =>
  `event:data\ndata:{"jsonrpc":"2.0","result":${result},"error":null,"id":"c1"}\n\n`

describe('client.stream', () => {
  it('OTS-50, OTS-52: yields the stream of a Collet server', async () => {
    const slow = {
      id: 'Slow.F@1.0.0',
      name: 'f',
      description: 'Reports.',
      input: { type: 'object' },
      output: { title: 'out', type: 'string' },
      run: (_input: unknown, context: ToolContext) => {
        context.progress(1, 2, 'half')
        return 'ready'
      },
    }
    await using server = await startOpentoolServer({
      tools: [...opentoolFixtures(), slow],
      opentool: { streaming: true },
    })
    const client = opentool.connect(server.url)
    expect((await collect(client.stream(CALL))).results).toEqual([
      { event: 'data', id: 'c1', result: { progress: { done: 1, total: 2, message: 'half' } } },
      { event: 'data', id: 'c1', result: { out: 'ready' } },
    ])
    const { failure } = await collect(client.stream({ ...CALL, name: 'boom' }))
    expect(failure?.class).toBe('tool')
    expect(opentool.exceptionOf(failure)?.name).toBe('OpenToolServerCallException')
  })

  it('OTS-51, OTS-52: reads frames however they are split, without start and without done', async () => {
    const text = `: hello\r\n${data('{"n":1}')}${data('{"n":2}')}`
    await using server = await startFakeToolServer(
      sending(text.slice(0, 20), text.slice(20, 21), text.slice(21)),
    )
    const { results } = await collect(opentool.connect(server.url).stream(CALL))
    expect(results.map(({ result }) => result)).toEqual([{ n: 1 }, { n: 2 }])
  })

  it.each([
    ['an envelope', '{"jsonrpc":"2.0","result":{},"error":{"code":7,"message":"oh"},"id":"c1"}', 7],
    ['a bare error', '{"code":7,"message":"oh","id":"c1"}', 7],
    ['something unreadable', 'oh', 200],
  ])('OTS-52: an error event with %s ends the stream', async (_what, json, code) => {
    await using server = await startFakeToolServer(
      sending(
        'event:start\ndata:{"start":"f"}\n\n',
        data('{"n":1}'),
        `event:error\ndata:${json}\n\nevent:done\ndata:{}\n\n`,
      ),
    )
    const { results, failure } = await collect(opentool.connect(server.url).stream(CALL))
    expect([results.length, opentool.exceptionOf(failure)?.code]).toEqual([1, code])
  })

  it('OTS-50: distinguishes a server without streams from one that answers at once', async () => {
    await using none = await startOpentoolServer()
    const { failure } = await collect(opentool.connect(none.url).stream(CALL))
    expect(opentool.exceptionOf(failure)?.name).toBe('OpenToolServerNoAccessException')
    await using plain = await startFakeToolServer((_request, response) =>
      sendJson(response, 200, { id: 'c1', result: { n: 1 } }),
    )
    expect((await collect(opentool.connect(plain.url).stream(CALL))).results).toEqual([
      { event: 'data', id: 'c1', result: { n: 1 } },
    ])
  })

  it('refuses an event for another call', async () => {
    await using server = await startFakeToolServer(sending(data('{"n":1}').replace('"c1"', '"c2"')))
    expect((await collect(opentool.connect(server.url).stream(CALL))).failure?.class).toBe('transport')
  })

  it('ends when no data arrives in time, when too much arrives, and when the connection breaks', async () => {
    await using silent = await startFakeToolServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(data('{"n":1}'))
    })
    // Long enough for the first event to arrive on a busy machine.
    const late = await collect(opentool.connect(silent.url, { timeoutMs: 1_000 }).stream(CALL))
    expect([late.results.length, late.failure?.message]).toEqual([
      1,
      expect.stringContaining('sent nothing for 1000 ms'),
    ])
    await using endless = await startFakeToolServer(sending('data:', 'x'.repeat(5_000)))
    const large = await collect(opentool.connect(endless.url, { maxResponseBytes: 1_000 }).stream(CALL))
    expect(large.failure?.message).toContain('maxResponseBytes')
    await using broken = await startFakeToolServer((_request, response) => {
      response
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .write(data('{"n":1}'), () => response.socket?.destroy())
    })
    expect((await collect(opentool.connect(broken.url).stream(CALL))).failure?.class).toBe('transport')
  })

  it('closes the connection when its reader stops', async () => {
    const closed = Promise.withResolvers<void>()
    await using server = await startFakeToolServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(data('{"n":1}'))
      response.on('close', closed.resolve)
    })
    for await (const { result } of opentool.connect(server.url).stream(CALL)) {
      expect(result).toEqual({ n: 1 })
      break
    }
    await closed.promise
  })
})
