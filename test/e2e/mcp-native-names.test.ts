import { rmSync } from 'node:fs'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import type { Toolset } from '#kernel/tool/toolsets'
import { type RunningServer, startServer } from '#server/start-server'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { EVERYTHING } from '../sources/everything-server.ts'
import { testSettings } from '../test-settings.ts'

const KEY = 'key-of-all'
const requestInit = { headers: { 'x-api-key': KEY } }
const LIMIT_MS = 30_000
const everything = (changes: object = {}) =>
  MCP_OPTIONS.parse({ type: 'mcp', command: process.execPath, args: [EVERYTHING, 'stdio'], ...changes })
const native = (...include: readonly string[]): Toolset => ({ include, exclude: [], names: 'native' })

describe('a toolset with native names', () => {
  let collet: RunningServer
  const settings = testSettings()

  beforeAll(async () => {
    collet = await startServer(
      {
        ...settings,
        auth: {
          apiKeys: [{ id: 'all', key: new Secret(KEY), tenant: 'default', scopes: ['*'] }],
          jwt: undefined,
        },
        sources: new Map([
          ['Every', everything()],
          ['Twin', everything({ include: ['echo', 'get-sum'] })],
        ]),
        toolsets: new Map<string, Toolset>([
          ['ref', native('Every.*')],
          ['both', native('Every.*', 'Twin.echo')],
          ['prefixed', { include: ['Every.*'], exclude: [] }],
        ]),
      },
      { graceMs: 0 },
    )
    await collet.sourceRead('Every')
    await collet.sourceRead('Twin')
  }, LIMIT_MS)

  afterAll(async () => {
    await collet.close()
    rmSync(settings.dataFolder, { recursive: true })
  })

  async function connect(path: string): Promise<Client> {
    const client = new Client(
      { name: 'test', version: '1.0.0' },
      { versionNegotiation: { mode: { pin: '2026-07-28' } } },
    )
    await client.connect(new StreamableHTTPClientTransport(new URL(collet.url + path), { requestInit }))
    return client
  }

  async function namesOf(path: string): Promise<readonly string[]> {
    const client = await connect(path)
    try {
      return (await client.listTools()).tools.map(({ name }) => name)
    } finally {
      await client.close()
    }
  }

  it('MCP-170: lists tools, prompts, templates and resources under the names of the one source', async () => {
    const direct = new OldClient({ name: 'test', version: '1.0.0' })
    const through = await connect('/mcp/ref')
    await direct.connect(
      new StdioClientTransport({ command: process.execPath, args: [EVERYTHING, 'stdio'], stderr: 'ignore' }),
    )
    try {
      const names = (items: readonly { readonly name: string }[]) => items.map(({ name }) => name).sort()
      // The server has more tools for clients with more capabilities.
      const tools = names((await direct.listTools()).tools)
      expect(names((await through.listTools()).tools)).toEqual(expect.arrayContaining(tools))
      expect(names((await through.listPrompts()).prompts)).toEqual(
        names((await direct.listPrompts()).prompts),
      )
      expect((await through.listResources()).resources).toEqual((await direct.listResources()).resources)
      expect(new Set((await through.listResourceTemplates()).resourceTemplates)).toEqual(
        new Set((await direct.listResourceTemplates()).resourceTemplates),
      )
    } finally {
      await direct.close()
      await through.close()
    }
  })

  it('MCP-170: calls work by these names and by all others, and the call has its usual id', async () => {
    const client = await connect('/mcp/ref')
    try {
      for (const name of ['get-sum', 'Every_get_sum', 'Every.get_sum@1']) {
        const result = await client.callTool({ name, arguments: { a: 1, b: 2 } })
        expect(result.content).toEqual([{ type: 'text', text: 'The sum of 1 and 2 is 3.' }])
      }
      const { messages } = await client.getPrompt({ name: 'args-prompt', arguments: { city: 'Bonn' } })
      expect(messages).toHaveLength(1)
      const { completion } = await client.complete({
        ref: { type: 'ref/prompt', name: 'completable-prompt' },
        argument: { name: 'department', value: 'E' },
      })
      expect(completion.values).toEqual(['Engineering'])
      const answer = await fetch(`${collet.url}/admin/calls?tool=Every.get_sum`, requestInit)
      expect(JSON.stringify(await answer.json())).toContain('Every.get_sum@')
    } finally {
      await client.close()
    }
  })

  it('MCP-170: other addresses keep their names, for the same caller too', async () => {
    expect(await namesOf('/mcp/prefixed')).toContain('Every_get_sum')
    expect(await namesOf('/mcp')).toContain('Every_get_sum')
    expect(await namesOf('/mcp/ref')).toContain('get-sum')
  })

  it('MCP-171: a name of two sources keeps its prefixes', async () => {
    const names = await namesOf('/mcp/both')
    expect(names).toEqual(expect.arrayContaining(['Every_echo', 'Twin_echo', 'get-sum']))
    expect(names).not.toContain('echo')
  })
})
