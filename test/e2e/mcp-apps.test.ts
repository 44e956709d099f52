import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RunningServer, startServer } from '#server/start-server'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { testSettings } from '../test-settings.ts'

const LIMIT_MS = 30_000
const ERAS = [
  ['2026-07-28', { pin: '2026-07-28' }],
  ['the old era', 'legacy'],
] as const

/** A server with a page for one of its tools, and a tool that only the page may call. */
const APP_SERVER = `
import { McpServer, ResourceTemplate } from '${import.meta.resolve('@modelcontextprotocol/sdk/server/mcp.js')}'
import { StdioServerTransport } from '${import.meta.resolve('@modelcontextprotocol/sdk/server/stdio.js')}'
const server = new McpServer({ name: 'app', version: '1.0.0' })
const csp = { connectDomains: ['https://tiles.example'] }
server.registerResource('page', 'ui://chart/page.html', { mimeType: 'text/html;profile=mcp-app' }, async (uri) => ({
  contents: [{ uri: uri.href, mimeType: 'text/html;profile=mcp-app', text: '<p>chart</p>', _meta: { ui: { csp } } }],
}))
server.registerResource('about', 'info://about', {}, async (uri) => ({ contents: [{ uri: uri.href, text: 'about' }] }))
server.registerResource('by-id', new ResourceTemplate('info://{id}', { list: undefined }), {}, async (uri) => ({ contents: [{ uri: uri.href, text: uri.href }] }))
server.registerTool('chart', { description: 'Draws.', _meta: { ui: { resourceUri: 'ui://chart/page.html' }, 'vendor.example/tag': 1, 'collet/forged': true } },
  async () => ({ content: [{ type: 'text', text: 'drawn' }] }))
server.registerTool('save', { description: 'Saves.', _meta: { ui: { resourceUri: 'ui://chart/page.html', visibility: ['app'] } } },
  async () => ({ content: [{ type: 'text', text: 'saved' }] }))
server.registerTool('model-only', { description: 'Thinks.', _meta: { ui: { visibility: ['model'] } } },
  async () => ({ content: [{ type: 'text', text: 'thought' }] }))
await server.connect(new StdioServerTransport())
`

function options(file: string) {
  return MCP_OPTIONS.parse({
    type: 'mcp',
    command: process.execPath,
    args: [pathToFileURL(file).pathname],
  })
}

describe('MCP Apps through Collet', () => {
  let collet: RunningServer
  const settings = testSettings()

  beforeAll(async () => {
    const file = join(settings.dataFolder, 'app-server.mjs')
    writeFileSync(file, APP_SERVER)
    const sources = new Map([
      ['Maps', options(file)],
      ['Other', options(file)],
    ])
    const toolsets = new Map([['maps', { include: ['source:Maps'], exclude: [] }]])
    collet = await startServer({ ...settings, sources, toolsets }, { graceMs: 0 })
    await collet.sourceRead('Maps')
    await collet.sourceRead('Other')
  }, LIMIT_MS)

  afterAll(async () => {
    await collet.close()
    rmSync(settings.dataFolder, { recursive: true })
  })

  async function connect(
    mode: (typeof ERAS)[number][1],
    capabilities: object,
    url = `${collet.url}/mcp`,
  ): Promise<Client> {
    const client = new Client({ name: 't', version: '1' }, { capabilities, versionNegotiation: { mode } })
    await client.connect(new StreamableHTTPClientTransport(new URL(url)))
    return client
  }

  it.each([['modern'], ['legacy']])(
    'MCP-147: a %s server that offers such tools only to clients that show apps offers them to Collet',
    { timeout: LIMIT_MS },
    async (revision) => {
      const behind = MCP_OPTIONS.parse({ type: 'mcp', url: `${collet.url}/mcp`, revision })
      const outer = testSettings({ sources: new Map([['Behind', behind]]) })
      const server = await startServer(outer, { graceMs: 0 })
      await server.sourceRead('Behind')
      const capabilities = { extensions: { 'io.modelcontextprotocol/ui': {} } }
      const client = await connect('legacy', capabilities, `${server.url}/mcp`)
      try {
        const { content } = await client.callTool({ name: 'Behind_Maps_save', arguments: {} })
        expect(content).toEqual([{ type: 'text', text: 'saved' }])
      } finally {
        await client.close()
        await server.close()
        rmSync(outer.dataFolder, { recursive: true })
      }
    },
  )

  it.each(ERAS)(
    'MCP-145, MCP-146: a client of %s gets the _meta of tools, and reads the page at the address they name',
    { timeout: LIMIT_MS },
    async (_era, mode) => {
      const client = await connect(mode, {})
      try {
        const { tools } = await client.listTools()
        const chart = tools.find(({ name }) => name === 'Maps_chart')
        expect(chart?._meta).toMatchObject({
          ui: { resourceUri: 'ui://Maps/chart/page.html' },
          'vendor.example/tag': 1,
        })
        expect(chart?._meta).not.toHaveProperty('collet/forged')
        const { resources } = await client.listResources()
        // Both servers have the address of the second one; the first server answers it (MCP-115).
        expect(resources.map(({ uri }) => uri)).toEqual([
          'ui://Maps/chart/page.html',
          'info://about',
          'ui://Other/chart/page.html',
        ])
        const { resourceTemplates } = await client.listResourceTemplates()
        const templates = resourceTemplates.filter(({ uriTemplate }) => uriTemplate.startsWith('info:'))
        expect(templates).toHaveLength(1)
        const { contents } = await client.readResource({ uri: 'ui://Other/chart/page.html' })
        expect(contents).toEqual([
          {
            uri: 'ui://Other/chart/page.html',
            mimeType: 'text/html;profile=mcp-app',
            text: '<p>chart</p>',
            _meta: { ui: { csp: { connectDomains: ['https://tiles.example'] } } },
          },
        ])
      } finally {
        await client.close()
      }
    },
  )

  it.each(ERAS)(
    'MCP-147: a tool for apps only is listed to clients of %s that show apps, to no other list, and can be called',
    { timeout: LIMIT_MS },
    async (_era, mode) => {
      const plain = await connect(mode, {})
      const app = await connect(mode, { extensions: { 'io.modelcontextprotocol/ui': {} } })
      try {
        const namesOf = async (client: Client) => (await client.listTools()).tools.map(({ name }) => name)
        expect(await namesOf(plain)).toEqual([
          'Maps_chart',
          'Maps_model_only',
          'Other_chart',
          'Other_model_only',
        ])
        expect(await namesOf(app)).toEqual([
          'Maps_chart',
          'Maps_model_only',
          'Maps_save',
          'Other_chart',
          'Other_model_only',
          'Other_save',
        ])
        const { content } = await app.callTool({ name: 'Maps_save', arguments: {} })
        expect(content).toEqual([{ type: 'text', text: 'saved' }])
      } finally {
        await plain.close()
        await app.close()
      }
      const listed = await fetch(`${collet.url}/tools`)
      expect(await listed.text()).not.toContain('Maps.save')
    },
  )

  it.each(ERAS)(
    'MCP-148: a page shown by a client of %s calls the tools of its server by the names that it knows',
    { timeout: LIMIT_MS },
    async (_era, mode) => {
      const showsApps = { extensions: { 'io.modelcontextprotocol/ui': {} } }
      const maps = await connect(mode, showsApps, `${collet.url}/mcp/maps`)
      const plain = await connect(mode, {}, `${collet.url}/mcp/maps`)
      const both = await connect(mode, showsApps)
      try {
        for (const [name, said] of [
          ['save', 'saved'],
          ['chart', 'drawn'],
        ] as const)
          expect((await maps.callTool({ name, arguments: {} })).content).toEqual([
            { type: 'text', text: said },
          ])
        const unknown = { code: -32602, message: 'Unknown tool: save' }
        for (const client of [plain, both])
          await expect(client.callTool({ name: 'save', arguments: {} })).rejects.toMatchObject(unknown)
        for (const name of ['model-only', 'nothing'])
          await expect(maps.callTool({ name, arguments: {} })).rejects.toMatchObject({ code: -32602 })
      } finally {
        for (const client of [maps, plain, both]) await client.close()
      }
    },
  )

  it('MCP-147, MCP-148: in search mode a page calls its tools, and a model does not', {
    timeout: LIMIT_MS,
  }, async () => {
    const outer = testSettings({
      sources: new Map([['Maps', options(join(settings.dataFolder, 'app-server.mjs'))]]),
    })
    const mcp = { ...outer.mcp, discovery: 'search' as const }
    const server = await startServer({ ...outer, mcp }, { graceMs: 0 })
    await server.sourceRead('Maps')
    const capabilities = { extensions: { 'io.modelcontextprotocol/ui': {} } }
    const client = await connect({ pin: '2026-07-28' }, capabilities, `${server.url}/mcp`)
    try {
      const { content } = await client.callTool({ name: 'save', arguments: {} })
      expect(content).toEqual([{ type: 'text', text: 'saved' }])
      for (const name of ['save', 'Maps_save'])
        expect(
          await client.callTool({ name: 'call_tool', arguments: { name, arguments: {} } }),
        ).toMatchObject({ isError: true, _meta: { 'collet/errorCode': 'tool_not_found' } })
    } finally {
      await client.close()
      await server.close()
      rmSync(outer.dataFolder, { recursive: true })
    }
  })
})
