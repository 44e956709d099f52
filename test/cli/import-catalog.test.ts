import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { Secret } from '#kernel/base/secret'
import { type RunningServer, startServer } from '#server/start-server'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { testSettings } from '../test-settings.ts'
import { FakeIo } from './fake-io.ts'

const masterKey = Buffer.alloc(32, 9)
const environment = readEnvironment({ COLLET_KEY: masterKey.toString('base64') })
const CARD_TYPE = 'application/mcp-server-card+json'

/** A host with two MCP servers, their cards, and a catalog that also names a server on another local port. */
async function startHost() {
  const handlerOf = (name: string) =>
    toNodeHandler(
      createMcpHandler(() => {
        const server = new McpServer({ name, version: '1.0.0' })
        server.registerTool('ping', { description: 'Answers.', inputSchema: z.object({}) }, () => ({
          content: [],
        }))
        return server
      }),
    )
  const handlers = new Map([
    ['/weather/mcp', handlerOf('weather')],
    ['/maps/mcp', handlerOf('maps')],
  ])
  const asked: (string | undefined)[] = []
  const other = createServer((request, response) => {
    asked.push(request.url)
    response.end('{}')
  })
  let base = ''
  let elsewhere = ''
  const card = (name: string, url: string) => ({
    $schema: 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json',
    ...{ name: `com.example/${name}`, version: '1.0.0', description: name, title: name },
    remotes: [
      { type: 'sse', url: `${base}/old` },
      { type: 'streamable-http', url },
    ],
  })
  const entry = (url: string) => ({
    identifier: 'urn:air:example.com:x',
    displayName: 'X',
    type: CARD_TYPE,
    url,
  })
  const documents: Readonly<Record<string, () => object>> = {
    '/.well-known/ai-catalog.json': () => ({
      specVersion: '1.0',
      entries: [
        {
          identifier: 'urn:air:example.com:agent',
          displayName: 'A',
          type: 'application/a2a-agent-card+json',
          url: `${base}/a2a`,
        },
        entry(`${base}/weather/server-card`),
        entry('/maps/server-card'),
        entry(`${elsewhere}/server-card`),
      ],
    }),
    '/weather/server-card': () => card('weather', `${base}/weather/mcp`),
    '/maps/server-card': () => card('maps', `${base}/maps/mcp`),
    '/stray/server-card': () => card('stray', `${elsewhere}/mcp`),
  }
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    const { method = 'GET', url = '/' } = request
    const handler = handlers.get(url)
    if (handler !== undefined) void handler(Object.assign(request, { method, url }), response)
    else if (documents[url] === undefined) response.writeHead(404).end()
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(documents[url]()))
  }
  const server = createServer(handle)
  const listen = async (one: typeof server): Promise<string> => {
    await new Promise<void>((resolve) => one.listen(0, '127.0.0.1', resolve))
    const address = one.address()
    if (address === null || typeof address === 'string') throw new Error('no TCP address')
    return `http://127.0.0.1:${address.port}`
  }
  base = await listen(server)
  elsewhere = await listen(other)
  return {
    base,
    asked,
    async close() {
      for (const one of [server, other]) {
        one.closeAllConnections()
        await new Promise((resolve) => one.close(resolve))
      }
    },
  }
}

describe('collet import of an AI catalog', () => {
  let folder: string
  let host: Awaited<ReturnType<typeof startHost>>
  const openStore = () => openSqliteStore({ path: join(folder, 'collet.db'), masterKey })

  beforeAll(async () => {
    host = await startHost()
  })
  afterAll(() => host.close())
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'collet-catalog-'))
    const store = openStore()
    await store.probe()
    await store.close()
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  async function run(...argv: readonly string[]) {
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment })
    const code = await io.run('import', ...argv, '--yes', '--store', 'sqlite:collet.db')
    const store = openStore()
    const sources = (await store.sources.list()).map(({ key, options }) => [key, options.url])
    await store.close()
    return { code, stderr: io.stderr, sources }
  }

  it('MCP-212: adds every MCP server of a catalog, and asks no other local address', async () => {
    const { code, stderr, sources } = await run(`${host.base}/.well-known/ai-catalog.json`)
    expect(stderr).toContain('The catalog lists 2 MCP servers:')
    expect(sources).toEqual([
      ['Maps', `${host.base}/maps/mcp`],
      ['Weather', `${host.base}/weather/mcp`],
    ])
    expect([code, host.asked]).toEqual([0, []])
  })

  it('MCP-212: the card of a server is imported as the server', async () => {
    const { sources } = await run(`${host.base}/maps/server-card`, '--key', 'Places')
    expect(sources).toEqual([['Places', `${host.base}/maps/mcp`]])
  })

  it('MCP-212: a card that leads to another local address adds nothing', async () => {
    const { code, sources } = await run(`${host.base}/stray/server-card`)
    expect(code).not.toBe(0)
    expect([sources, host.asked]).toEqual([[], []])
  })

  it('MCP-212: a host that lists several servers is not taken for one of them', async () => {
    const { code, stderr } = await run(host.base)
    expect(code).not.toBe(0)
    expect(stderr).toContain(`or all with: collet import ${host.base}/.well-known/ai-catalog.json`)
  })

  describe('of a Collet server', () => {
    let collet: RunningServer
    const settings = testSettings()
    beforeAll(async () => {
      const apiKeys = [{ id: 'all', key: new Secret('key-of-all'), tenant: 'default', scopes: ['*'] }]
      const mcp = { ...settings.mcp, name: 'Team tools' }
      collet = await startServer({ ...settings, mcp, auth: { apiKeys, jwt: undefined } }, { graceMs: 0 })
    })
    afterAll(async () => {
      await collet.close()
      rmSync(settings.dataFolder, { recursive: true })
    })

    it('MCP-210, MCP-211: the catalog and the card need no credential and name only the endpoint', async () => {
      const catalog = await fetch(`${collet.url}/.well-known/ai-catalog.json`)
      expect(catalog.headers.get('content-type')).toContain('application/ai-catalog+json')
      expect(catalog.headers.get('access-control-allow-origin')).toBe('*')
      expect(await catalog.json()).toEqual({
        specVersion: '1.0',
        entries: [
          {
            identifier: 'urn:air:127.0.0.1:Team-tools',
            displayName: 'Team tools',
            type: CARD_TYPE,
            url: `${collet.url}/mcp/server-card`,
          },
        ],
      })
      const card = await fetch(`${collet.url}/mcp/server-card`, { headers: { accept: CARD_TYPE } })
      expect(card.headers.get('content-type')).toContain(CARD_TYPE)
      expect(await card.json()).toEqual({
        $schema: 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json',
        name: '127.0.0.1/Team-tools',
        version: expect.any(String),
        description: expect.any(String),
        title: 'Team tools',
        remotes: [
          {
            type: 'streamable-http',
            url: `${collet.url}/mcp`,
            supportedProtocolVersions: ['2025-06-18', '2025-11-25', '2026-07-28'],
          },
        ],
      })
    })
  })
})
