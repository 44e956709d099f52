import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { longestTurn, MEASURED, RETRIES } from '../longest-turn.ts'
import { type OpenedMcp, openMcp } from './open-mcp.ts'

const MIB = 1_048_576
/** Limits in processor time of the serving thread: reading a source, and reading an answer of a call. */
const [MAX_LISTING_MS, MAX_CALL_MS] = [50, 100]

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

type Send = (response: ServerResponse, id: unknown) => void

/** A server on HTTP with prepared answers; `initialize` succeeds. */
async function hostile(sends: { readonly list?: Send; readonly call?: Send; readonly listen?: Send }) {
  const listenedAtMs: number[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    const { id, method } = JSON.parse(body === '' ? '{}' : body)
    if (request.method === 'GET' && sends.listen !== undefined) {
      listenedAtMs.push(performance.now())
      return sends.listen(response, undefined)
    }
    if (id === undefined) return response.writeHead(request.method === 'POST' ? 202 : 405).end()
    const serverInfo = { name: 'hostile', version: '1' }
    if (method === 'initialize')
      return send(response, 'application/json', [
        rpc(id, { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo }),
      ])
    if (method === 'tools/list' && sends.list !== undefined) return sends.list(response, id)
    if (method === 'tools/list')
      return send(response, 'application/json', [
        rpc(id, { tools: [{ name: 'act', inputSchema: { type: 'object' } }] }),
      ])
    if (method === 'tools/call' && sends.call !== undefined) return sends.call(response, id)
    return response.writeHead(400).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closing.push(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no TCP address')
  return { ...open({ url: `http://127.0.0.1:${address.port}/mcp`, revision: 'legacy' }), listenedAtMs }
}

function open(options: Record<string, unknown>): OpenedMcp {
  const upstream = openMcp(options)
  closing.push(() => upstream.source.close())
  return upstream
}

function rpc(id: unknown, result: object): string {
  return JSON.stringify({ jsonrpc: '2.0', id, result })
}

/** In pieces, as they arrive from a network. */
function send(response: ServerResponse, type: string, parts: readonly string[]): void {
  response.writeHead(200, { 'content-type': type })
  for (const part of parts) response.write(part)
  response.end()
}

const BRACKETS = `[${'[],'.repeat(3 * MIB - 100)}[]]`
const DEEP = `${'['.repeat(60_000)}${']'.repeat(60_000)}`
const SHAPES = `[${Array.from({ length: 60_000 }, (_, at) => `{"k${at}${'x'.repeat(40)}":${at}}`).join(',')}]`
/** About 9 MiB of ordinary content. */
const TOOLS = Array.from({ length: 3_000 }, (_, at) => ({
  name: `t${at}`,
  description: 'x'.repeat(1_000),
  inputSchema: {
    type: 'object',
    properties: Object.fromEntries(
      Array.from({ length: 8 }, (_unused, n) => [`p${n}`, { type: 'string', description: 'y'.repeat(200) }]),
    ),
  },
}))

function resultWith(id: unknown, value: string): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"tools":[],"content":[],"more":${value}}}`
}

const WAYS: readonly (readonly [string, string, (text: string) => readonly string[]])[] = [
  ['JSON', 'application/json', (text) => [text]],
  ['JSON in capitals', 'Application/JSON;charset=utf-8', (text) => [text]],
  ['an event', 'text/event-stream', (text) => [`data: ${text}\n\n`]],
  [
    'an event of many lines, some of which look like the inside of a string',
    'text/event-stream',
    (text) => [`id: "\ndata: ${text.replace(/"more":/, '"more":\nid: "\ndata: ')}\n\n`],
  ],
]

describe('an MCP server that sends content that is slow to read', RETRIES, () => {
  describe.each(WAYS)('as %s', (_way, type, written) => {
    it.each([
      ['brackets', BRACKETS],
      ['levels', DEEP],
      ['shapes', SHAPES],
    ])('as a list: %s', async (_what, value) => {
      const { discover } = await hostile({
        list: (response, id) => send(response, type, written(resultWith(id, value))),
      })
      const stallMs = await longestTurn(async () => {
        await expect(discover()).rejects.toMatchObject({ code: 'upstream_failed' })
      })
      expect(stallMs, MEASURED).toBeLessThan(MAX_LISTING_MS)
    })

    it.each([
      ['brackets', BRACKETS],
      ['levels', DEEP],
    ])('as an answer: %s', async (_what, value) => {
      const { discover, call } = await hostile({
        call: (response, id) => send(response, type, written(resultWith(id, value))),
      })
      await discover()
      const stallMs = await longestTurn(async () => {
        await expect(call('act')).rejects.toMatchObject({ code: 'upstream_failed' })
      })
      expect(stallMs, MEASURED).toBeLessThan(MAX_CALL_MS)
    })

    it('pages of an ordinary list delay no other request', async () => {
      const pages = [TOOLS.slice(0, 1_000), TOOLS.slice(1_000, 2_000), TOOLS.slice(2_000)]
      let page = 0
      const { discover } = await hostile({
        list: (response, id) => {
          const tools = pages[page]
          page += 1
          send(response, type, written(rpc(id, { tools, ...(page < 3 ? { nextCursor: `${page}` } : {}) })))
        },
      })
      const stallMs = await longestTurn(async () => {
        expect((await discover()).tools).toHaveLength(3_000)
      })
      expect(stallMs, MEASURED).toBeLessThan(MAX_LISTING_MS)
    })
  })

  it('as very many messages at once', async () => {
    const notice = '{"jsonrpc":"2.0","method":"notifications/progress"}'
    const { discover } = await hostile({
      list: (response) =>
        send(response, 'application/json', [`[${Array.from({ length: 15_000 }, () => notice).join(',')}]`]),
    })
    const stallMs = await longestTurn(async () => {
      await expect(discover()).rejects.toMatchObject({ code: 'upstream_failed' })
    })
    expect(stallMs, MEASURED).toBeLessThan(MAX_LISTING_MS)
  })

  it('as very many small events', async () => {
    const notice = 'data: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n'
    const { discover } = await hostile({
      list: (response, id) =>
        send(response, 'text/event-stream', [
          notice.repeat(50_000),
          `data: ${rpc(id, { tools: TOOLS.slice(0, 3) })}\n\n`,
        ]),
    })
    const stallMs = await longestTurn(async () => {
      expect((await discover()).tools).toHaveLength(3)
    })
    expect(stallMs, MEASURED).toBeLessThan(MAX_LISTING_MS)
  })

  it('as a stream that ends at once and requests to be reopened at once', async () => {
    const { discover, listenedAtMs } = await hostile({
      listen: (response) => send(response, 'text/event-stream', ['id: 1\nretry: 0\ndata:\n\n']),
    })
    await discover()
    await vi.waitUntil(() => listenedAtMs.length > 1, { timeout: 20_000 })
    const [first = 0, second = 0] = listenedAtMs
    expect(second - first).toBeGreaterThan(990)
  })

  it('as one line that arrives byte by byte', async () => {
    const { discover } = await hostile({
      list: (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(`data: "${'x'.repeat(3 * MIB)}`)
        const timer = setInterval(() => response.write('x'), 1)
        setTimeout(() => {
          clearInterval(timer)
          response.destroy()
        }, 1_500)
      },
    })
    const before = process.threadCpuUsage()
    await expect(discover()).rejects.toMatchObject({ code: 'upstream_failed' })
    const { user, system } = process.threadCpuUsage(before)
    // Checking the whole line again for each byte would exceed the limit.
    expect((user + system) / 1_000, MEASURED).toBeLessThan(700)
  })

  it.each([
    ['brackets', BRACKETS],
    ['levels', DEEP],
    ['shapes', SHAPES],
  ])('as a program: %s', async (_what, value) => {
    const program = `
      process.stdin.on('data', (chunk) => {
        for (const line of String(chunk).split('\\n').filter(Boolean)) {
          const { id, method } = JSON.parse(line)
          const serverInfo = { name: 'hostile', version: '1' }
          const result = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo }
          if (method === 'initialize') console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
          if (method !== 'tools/list') continue
          process.stdout.write('{"jsonrpc":"2.0","id":' + id + ',"result":{"tools":[],"more":')
          process.stdout.write(require('node:fs').readFileSync(process.argv[1], 'utf8') + '}}\\n')
        }
      })`
    const folder = mkdtempSync(join(tmpdir(), 'collet-hostile-'))
    closing.push(async () => rmSync(folder, { recursive: true }))
    writeFileSync(`${folder}/value.json`, value)
    const { discover } = open({
      command: process.execPath,
      args: ['-e', program, `${folder}/value.json`],
      revision: 'legacy',
      discoverTimeoutMs: 5_000,
    })
    const stallMs = await longestTurn(async () => {
      await expect(discover()).rejects.toMatchObject({ code: 'upstream_failed' })
    })
    expect(stallMs, MEASURED).toBeLessThan(MAX_LISTING_MS)
  })
})
