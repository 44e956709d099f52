import { once } from 'node:events'
import { createServer } from 'node:http'
import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it } from 'vitest'
import { contentOf, faulty } from './fault-mcp.ts'
import { type OpenedMcp, openMcp } from './open-mcp.ts'

const MIB = 1_048_576
const LIMIT_MS = 120_000

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

function open(options: Record<string, unknown>): OpenedMcp {
  const upstream = openMcp(options)
  closing.push(() => upstream.source.close())
  return upstream
}

/** A server on HTTP whose list never ends, with pages of this size that compress well. */
async function endlessList(pageBytes: number, toolBytes: number) {
  let pages = 0
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    const { id, method } = JSON.parse(body === '' ? '{}' : body)
    if (id === undefined) return response.writeHead(request.method === 'POST' ? 202 : 405).end()
    const answer = (result: object): void => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
      response.end(gzipSync(JSON.stringify({ jsonrpc: '2.0', id, result })))
    }
    const serverInfo = { name: 'endless', version: '1' }
    if (method === 'initialize')
      return answer({ protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo })
    if (method !== 'tools/list') return response.writeHead(400).end()
    pages += 1
    const tools = Array.from({ length: Math.ceil(pageBytes / toolBytes) }, (_, index) => ({
      name: `t${pages}_${index}`,
      description: 'x'.repeat(toolBytes),
      inputSchema: { type: 'object' },
    }))
    answer({ tools, nextCursor: `page ${pages}` })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closing.push(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no TCP address')
  return { url: `http://127.0.0.1:${address.port}/mcp`, pages: () => pages }
}

/** Processor time of this process during an action, and the longest block of the event loop. */
async function costOf(run: () => Promise<unknown>) {
  const before = process.cpuUsage()
  let turns = 0
  const timer = setInterval(() => {
    turns += 1
  }, 10)
  await run()
  clearInterval(timer)
  const { user, system } = process.cpuUsage(before)
  return { cpuMs: (user + system) / 1000, turns }
}

describe('an upstream that sends without end', () => {
  it(
    'MCP/T-12: a list is read up to 16 MiB, counted after decompression, and the tools read so far are served',
    async () => {
      const server = await endlessList(3 * MIB, 100_000)
      const { tools, warnings } = await open({ url: server.url, revision: 'legacy' }).discover()
      expect(warnings).toEqual(['only the first 16 MiB of tools/list are read'])
      expect(server.pages()).toBe(6)
      expect(tools.length).toBe(Math.floor((16 * MIB) / 100_060))
    },
    LIMIT_MS,
  )

  it(
    'MCP/T-12: a page of more than 4 MiB is not read, whatever its compressed size',
    async () => {
      const server = await endlessList(60 * MIB, 900_000)
      const failure = await open({ url: server.url, revision: 'legacy' })
        .discover()
        .catch((error: unknown) => error)
      expect(failure).toMatchObject({
        code: 'upstream_failed',
        developerMessage: expect.stringContaining('larger than 4194304 bytes'),
      })
      expect(server.pages()).toBeLessThanOrEqual(2)
    },
    LIMIT_MS,
  )

  it(
    'MCP/T-12: one definition of more than 1 MiB is left out, the others stay',
    async () => {
      const server = await endlessList(2 * MIB, 1_100_000)
      const { tools, warnings } = await open({ url: server.url, revision: 'legacy' }).discover()
      expect(tools).toEqual([])
      expect(warnings).toContain('"t1_0" is left out: its definition is larger than 1 MiB')
    },
    LIMIT_MS,
  )

  it(
    'MCP-82: a hundred thousand notifications cost little, and the answer after them arrives',
    async () => {
      const upstream = open(faulty('plain'))
      await upstream.call('count')
      const steps: number[] = []
      const { cpuMs } = await costOf(async () => {
        const progress = (done: number): void => void steps.push(done)
        expect(contentOf(await upstream.call('flood', { notices: 100_000 }, { progress }))).toBe('flooded')
      })
      expect(steps[0]).toBe(1)
      expect(steps.length).toBeLessThan(1000)
      // Read one by one they cost more than four seconds.
      expect(cpuMs).toBeLessThan(2500)
    },
    LIMIT_MS,
  )

  it(
    'a program that sends only notifications is not read faster than they are processed',
    async () => {
      const upstream = open(faulty('plain'))
      await upstream.call('count')
      const before = process.memoryUsage().rss
      const stop = new AbortController()
      const flooding = upstream
        .call('flood', { notices: 1e9 }, { signal: stop.signal })
        .catch(() => undefined)
      const { turns } = await costOf(async () => {
        for (let count = 0; count < 200; count += 1) await new Promise((resolve) => setTimeout(resolve, 10))
      })
      stop.abort(new Error('enough'))
      await flooding
      // The event loop was not blocked, and no queue grew.
      expect(turns).toBeGreaterThan(50)
      expect(process.memoryUsage().rss - before).toBeLessThan(300 * MIB)
    },
    LIMIT_MS,
  )
})
