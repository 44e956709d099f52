import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { describe, expect, it, vi } from 'vitest'
import { openTestMcp } from './test-mcp.ts'

type Answer = (request: IncomingMessage, response: ServerResponse, message: Record<string, unknown>) => void

/** An old server whose answer to a call is the tested fault. */
async function startFaulty(
  onCall: Answer,
  traits: { readonly isDeaf?: true; readonly isModern?: true; readonly onListen?: Answer } = {},
) {
  const received: unknown[] = []
  const server = createServer((request, response) => {
    if (request.method !== 'POST') {
      response.writeHead(405).end()
      return
    }
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      const message = JSON.parse(body)
      received.push(message)
      const json = (result: object): void => {
        response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's1' })
        response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }))
      }
      if (message.method === 'server/discover' && traits.isModern)
        json({
          resultType: 'complete',
          supportedVersions: ['2026-07-28'],
          capabilities: { tools: { listChanged: traits.onListen !== undefined } },
          ttlMs: 60_000,
          cacheScope: 'private',
        })
      else if (message.method === 'initialize')
        json({
          protocolVersion: '2025-06-18',
          capabilities: { tools: {} },
          serverInfo: { name: 'f', version: '1' },
        })
      else if (message.method === 'tools/list')
        json({
          tools: [{ name: 't', inputSchema: { type: 'object' } }],
          ...(traits.isModern && { resultType: 'complete', ttlMs: 5000, cacheScope: 'private' }),
        })
      else if (message.method === 'subscriptions/listen') traits.onListen?.(request, response, message)
      else if (message.method === 'tools/call') onCall(request, response, message)
      else if (message.id === undefined) response.writeHead(202).end()
      else if (traits.isDeaf) return
      else response.writeHead(400).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no TCP address')
  return {
    url: `http://127.0.0.1:${address.port}/mcp`,
    received,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

describe('an old server', () => {
  it('MCP/T-24: that does not answer the era probe is still connected to', async () => {
    const server = await startFaulty((_request, response) => response.writeHead(500).end(), { isDeaf: true })
    // Half of the time is for the unanswered probe, half for the handshake after it.
    const upstream = openTestMcp({ url: server.url, connectTimeoutMs: 10_000 })
    expect((await upstream.discover()).tools.length).toBe(1)
    await server.close()
  }, 60_000)
})

describe('a server of 2026-07-28', () => {
  it('MCP-47: is subscribed to again when its stream ends, and read again because of missed changes', async () => {
    let streams = 0
    const server = await startFaulty((_request, response) => response.writeHead(500).end(), {
      isModern: true,
      onListen: (_request, response, { id }) => {
        streams += 1
        const params = { notifications: {}, _meta: { 'io.modelcontextprotocol/subscriptionId': id } }
        const method = 'notifications/subscriptions/acknowledged'
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', method, params })}\n\n`)
        if (streams === 1) response.end()
      },
    })
    const upstream = openTestMcp({ url: server.url })
    const onChange = vi.fn()
    upstream.source.watch?.(onChange)
    await upstream.discover()
    await vi.waitFor(() => expect(onChange).toHaveBeenCalledTimes(1), { timeout: 5000 })
    expect(streams).toBe(2)
    await server.close()
  }, 20_000)
})

describe('rule 9: the retry advice of a failed call', () => {
  const rows: readonly (readonly [string, Answer, object])[] = [
    [
      'refused with 429',
      (_request, response) => response.writeHead(429, { 'retry-after': '7' }).end(),
      { code: 'upstream_failed', canRetry: true, retryAfterMs: 7000 },
    ],
    ['refused with 503', (_request, response) => response.writeHead(503).end(), { canRetry: true }],
    ['an error of the server', (_request, response) => response.writeHead(500).end(), { canRetry: false }],
    ['a refused credential', (_request, response) => response.writeHead(401).end(), { canRetry: false }],
    ['a reset', (request) => request.socket.destroy(), { code: 'upstream_failed', canRetry: false }],
    [
      'a stream without an answer',
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.end(': nothing\n\n')
      },
      { code: 'upstream_failed', canRetry: false },
    ],
    [
      'a broken stream',
      (request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(': begun\n\n', () => request.socket.destroy())
      },
      { code: 'upstream_failed', canRetry: false },
    ],
    [
      'an answer that is not JSON',
      (_request, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('oops'),
      { code: 'upstream_failed', canRetry: false },
    ],
    [
      'a JSON-RPC error',
      (_request, response, { id }) => {
        const error = { code: -32_603, message: 'broken' }
        response.writeHead(200, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ jsonrpc: '2.0', id, error }))
      },
      { code: 'upstream_failed', canRetry: false, errorNumber: -32_603 },
    ],
  ]
  it.each(rows)('%s', async (_name, onCall, expected) => {
    const server = await startFaulty(onCall)
    const upstream = openTestMcp({ url: server.url })
    await expect(upstream.call('t')).rejects.toMatchObject(expected)
    await server.close()
  })

  it('MCP-85: a cancelled call is cancelled there too, and its exchange ends', async () => {
    let hasEnded = false
    const server = await startFaulty((request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(': begun\n\n')
      request.socket.once('close', () => {
        hasEnded = true
      })
    })
    const upstream = openTestMcp({ url: server.url })
    await upstream.discover()
    const stop = new AbortController()
    const waiting = upstream.call('t', {}, { signal: stop.signal })
    await vi.waitUntil(() =>
      server.received.some((message) => JSON.stringify(message).includes('tools/call')),
    )
    stop.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    await vi.waitUntil(() => JSON.stringify(server.received).includes('notifications/cancelled'))
    await vi.waitUntil(() => hasEnded)
    await server.close()
  })

  it('§7.3: a refused call does not end other calls on the same connection', async () => {
    let answer: (() => void) | undefined
    const server = await startFaulty((_request, response, { id }) => {
      if (answer !== undefined) {
        response.writeHead(404).end()
        return
      }
      answer = () => {
        response.writeHead(200, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ jsonrpc: '2.0', id, result: { content: [] } }))
      }
    })
    const upstream = openTestMcp({ url: server.url })
    await upstream.discover()
    const slow = upstream.call('t')
    await vi.waitUntil(() => answer !== undefined)
    await expect(upstream.call('t')).rejects.toMatchObject({ code: 'upstream_failed' })
    answer?.()
    expect(await slow).toEqual({ content: [] })
    await server.close()
  })

  it('§7.3: an ended session is reopened, and the call is made once', async () => {
    let calls = 0
    const server = await startFaulty((_request, response, { id }) => {
      calls += 1
      if (calls === 1) {
        response.writeHead(404).end()
        return
      }
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result: { content: [] } }))
    })
    const upstream = openTestMcp({ url: server.url })
    expect(await upstream.call('t')).toEqual({ content: [] })
    expect(calls).toBe(2)
    await server.close()
  })

  it.each([404, 400, 405, 503, 429])(
    'a call with a processed round ends when the next round is refused with %i: it is neither sent again nor repeatable',
    async (status) => {
      let calls = 0
      const server = await startFaulty(
        (_request, response, { id }) => {
          calls += 1
          if (calls > 1) {
            response.writeHead(status).end()
            return
          }
          const result = { resultType: 'input_required', requestState: 'half done' }
          response.writeHead(200, { 'content-type': 'application/json' })
          response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
        },
        { isModern: true },
      )
      const upstream = openTestMcp({ url: server.url })
      const failure = await upstream.call('t').catch((error: unknown) => error)
      expect(failure).toMatchObject({ code: 'upstream_failed', canRetry: false })
      expect(calls).toBe(2)
      await server.close()
    },
  )
})
