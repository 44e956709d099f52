import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { Settings } from '#config/settings'
import { fault } from '#kernel/base/errors'
import { type RunningServer, startServer } from '#server/start-server'
import type { OfferedTool, Source } from '#sources/kit/source'
import { createOpenapiSource } from '#sources/openapi/index'
import { OPENAPI_OPTIONS } from '#sources/openapi/options'
import { SOURCE_OPTIONS } from '#sources/source-types'
import { longestTurn, MEASURED, RETRIES } from '../longest-turn.ts'
import { sqliteSettings } from '../test-settings.ts'
import { largeService } from './large-service.ts'
import { openSource } from './openapi/imported-api.ts'

/** Limit of processor time of the serving thread. */
const MAX_MS = 50

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

/** A source that is unreachable until the test opens it, so that reading is measured and not the start. */
function laterSource(open: (...reported: Parameters<typeof createOpenapiSource>) => Source) {
  const state = { isUp: false }
  const options: Settings['sources'] extends ReadonlyMap<string, infer Options> ? Options : never = {
    type: 'custom',
    kind: 'connector',
    open: (key, services) => {
      const source = open(key, OPENAPI_OPTIONS.parse({ type: 'openapi', file: 'api.json' }), services)
      const discover = source.discover.bind(source)
      source.discover = async (signal) => {
        if (!state.isUp) throw fault('upstream_failed', 'It is down.')
        return discover(signal)
      }
      return source
    },
  }
  return { state, options }
}

async function start(sources: Settings['sources'], folder: string): Promise<RunningServer> {
  const settings = sqliteSettings({ sources, folder })
  const server = await startServer(settings)
  closing.push(() => rmSync(settings.dataFolder, { recursive: true }))
  closing.push(() => server.close())
  return server
}

async function refresh({ url, startTokenFile }: RunningServer, key: string): Promise<void> {
  const authorization = `Bearer ${readFileSync(startTokenFile, 'utf8').trim()}`
  const response = await fetch(`${url}/admin/sources/${key}/refresh`, {
    method: 'POST',
    headers: { authorization },
  })
  expect(response.status).toBe(200)
  await response.body?.cancel()
}

/** Reads a source while another client polls the health of the server. */
async function readWhileAsked(server: RunningServer, key: string) {
  let isDone = false
  let answers = 0
  const ask = async (): Promise<void> => {
    while (!isDone) {
      const response = await fetch(`${server.url}/health`)
      expect(response.status).toBe(200)
      await response.body?.cancel()
      answers += 1
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  const asking = ask()
  const stallMs = await longestTurn(() => refresh(server, key))
  isDone = true
  await asking
  return { stallMs, answers }
}

const LIST = z.object({ tools: z.array(z.object({ id: z.string() })) })

async function listed({ url }: RunningServer): Promise<{ tools: number; bytes: number }> {
  const text = await (await fetch(`${url}/tools`)).text()
  return { tools: LIST.parse(JSON.parse(text)).tools.length, bytes: text.length }
}

describe('reading a source never blocks the server', RETRIES, () => {
  it('a document whose answers all refer to half a megabyte of objects', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'collet-large-'))
    closing.push(() => rmSync(folder, { recursive: true }))
    writeFileSync(join(folder, 'api.json'), JSON.stringify(largeService()))
    const { state, options } = laterSource(createOpenapiSource)
    const server = await start(new Map([['Large', options]]), folder)
    state.isUp = true
    const { stallMs, answers } = await readWhileAsked(server, 'Large')
    expect(answers).toBeGreaterThan(5)
    expect(stallMs, MEASURED).toBeLessThan(MAX_MS)
    const { tools, bytes } = await listed(server)
    expect(tools).toBe(452)
    // With all references written out: 130 kB per tool.
    expect(bytes / tools).toBeLessThan(20_000)
    // Nothing has changed, so the text is read but not parsed into tools.
    const again = await readWhileAsked(server, 'Large')
    expect(again.stallMs, MEASURED).toBeLessThan(MAX_MS)
  })

  it('a document that is slow to read ends at its time limit', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'collet-long-'))
    closing.push(() => rmSync(folder, { recursive: true }))
    const lines = Array.from({ length: 200_000 }, (_unused, at) => `key${at}: { a: [1, 2, 3] }`)
    writeFileSync(join(folder, 'api.yaml'), lines.join('\n'))
    const { source, close } = openSource({ file: 'api.yaml' }, { folder })
    closing.push(close)
    const patience = new AbortController()
    const stallMs = await longestTurn(async () => {
      const reading = source.discover(patience.signal)
      setTimeout(() => patience.abort(new Error('enough')), 50)
      await expect(reading).rejects.toThrow('enough')
    })
    expect(stallMs, MEASURED).toBeLessThan(MAX_MS)
  })

  it('ten thousand tools', async () => {
    const offered = Array.from({ length: 10_000 }, (_unused, at) => tool(at))
    const { state, options } = laterSource((key) => ({
      ...{ key, type: 'custom', kind: 'connector' },
      discover: async () => ({ identity: { origin: 'https://a.example' }, tools: offered, warnings: [] }),
      invoke: async () => null,
      health: () => ({ state: 'ready' }),
      close: async () => undefined,
    }))
    const server = await start(new Map([['Many', options]]), tmpdir())
    state.isUp = true
    const { stallMs, answers } = await readWhileAsked(server, 'Many')
    expect(answers).toBeGreaterThan(5)
    expect(stallMs, MEASURED).toBeLessThan(MAX_MS)
    expect((await listed(server)).tools).toBe(10_000)
  })
})

/** An MCP server that lists this many definitions of this shape, with different ones each time. */
async function mcpListing(inputSchema: (look: number, at: number) => object): Promise<string> {
  let look = 0
  const upstream = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    const { id, method } = JSON.parse(body === '' ? '{}' : body)
    if (id === undefined) return response.writeHead(request.method === 'POST' ? 202 : 405).end()
    const serverInfo = { name: 'large', version: '1' }
    const page = pages[look % 2] ?? ''
    if (method === 'tools/list') look += 1
    const result =
      method === 'initialize'
        ? JSON.stringify({ protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo })
        : page
    response.writeHead(200, { 'content-type': 'application/json' })
    return response.end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`)
  })
  const pages = [0, 1].map((each) =>
    JSON.stringify({
      tools: Array.from({ length: 8 }, (_unused, at) => ({
        name: `t${at}`,
        description: `Version ${each}.`,
        inputSchema: inputSchema(each, at),
      })),
    }),
  )
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  closing.push(() => {
    upstream.closeAllConnections()
    upstream.close()
  })
  const address = upstream.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/mcp`
}

function members(count: number, make: (at: number) => object) {
  const properties = Object.fromEntries(Array.from({ length: count }, (_unused, at) => [`m${at}`, make(at)]))
  return { type: 'object', properties }
}

describe('the largest definitions of an MCP server', RETRIES, () => {
  it.each([
    ['members', (look: number, at: number) => members(2_400, () => ({ title: `${look}${at}` }))],
    [
      'patterns',
      (look: number, at: number) =>
        members(2_400, (n) => ({ pattern: `^[a-z]{1,${n % 50}}(x|y)*${look}${at}$` })),
    ],
  ])('are read, compared and pinned in pieces: %s', async (_what, inputSchema) => {
    const options = SOURCE_OPTIONS.parse({
      type: 'mcp',
      url: await mcpListing(inputSchema),
      revision: 'legacy',
    })
    const server = await start(new Map([['Up', options]]), tmpdir())
    const stalls: number[] = []
    for (let look = 0; look < 5; look += 1) stalls.push((await readWhileAsked(server, 'Up')).stallMs)
    // The median, because a slow moment of the machine or a garbage collection says nothing about the pieces.
    expect(stalls.toSorted((a, b) => a - b)[2], MEASURED).toBeLessThan(MAX_MS)
    expect((await listed(server)).tools).toBe(8)
  })
})

function tool(at: number): OfferedTool {
  const properties = Object.fromEntries(
    ['alpha', 'beta', 'gamma'].map((name) => [
      name,
      { type: 'string', description: `The ${name} of ${at}.` },
    ]),
  )
  return {
    nativeName: `tool_number_${at}`,
    description: `Does the thing of number ${at}.`,
    inputSchema: { type: 'object', properties, required: ['alpha'] },
    outputSchema: { type: 'object', properties: { done: { type: 'boolean' } } },
    policy: { safetyTier: 'write', egress: 'safe-fetch' },
    binding: { path: `/things/${at}` },
  }
}
