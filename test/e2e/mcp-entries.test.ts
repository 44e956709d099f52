import { rmSync } from 'node:fs'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { type RunningServer, startServer } from '#server/start-server'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { EVERYTHING } from '../sources/everything-server.ts'
import { testSettings } from '../test-settings.ts'

const LIMIT_MS = 30_000
const ERAS = [
  ['2026-07-28', { pin: '2026-07-28' }],
  ['the old era', 'legacy'],
] as const

const everything = (changes: object = {}) =>
  MCP_OPTIONS.parse({ type: 'mcp', command: process.execPath, args: [EVERYTHING, 'stdio'], ...changes })

describe('prompts, resources and completion of an MCP server', () => {
  let collet: RunningServer
  const settings = testSettings()

  beforeAll(async () => {
    const apiKeys = [
      { id: 'all', key: new Secret('key-of-all'), tenant: 'default', scopes: ['*'] },
      { id: 'few', key: new Secret('key-of-few'), tenant: 'default', scopes: [] },
    ]
    collet = await startServer(
      {
        ...settings,
        auth: { apiKeys, jwt: undefined },
        sources: new Map([
          ['Every', everything({ policy: { scopes: ['docs:read'] } })],
          ['Gone', MCP_OPTIONS.parse({ type: 'mcp', url: 'http://127.0.0.1:9/mcp' })],
          ['Narrow', everything({ include: ['echo'] })],
        ]),
      },
      { graceMs: 0 },
    )
    await collet.sourceRead('Every')
    await collet.sourceRead('Narrow')
  }, LIMIT_MS)

  afterAll(async () => {
    await collet.close()
    rmSync(settings.dataFolder, { recursive: true })
  })

  async function connect(mode: (typeof ERAS)[number][1], key = 'key-of-all'): Promise<Client> {
    const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
    const requestInit = { headers: { 'x-api-key': key } }
    await client.connect(new StreamableHTTPClientTransport(new URL(`${collet.url}/mcp`), { requestInit }))
    return client
  }

  describe.each(ERAS)('for a client of %s', (_era, mode) => {
    let client: Client

    beforeAll(async () => {
      client = await connect(mode)
    })
    afterAll(() => client.close())

    it('MCP-110, MCP-111: prompts are listed and got as their server wrote them', async () => {
      const { prompts } = await client.listPrompts()
      const names = prompts.map(({ name }) => name)
      expect(names).toEqual([
        'Every_args_prompt',
        'Every_completable_prompt',
        'Every_resource_prompt',
        'Every_simple_prompt',
      ])
      expect(prompts[0]).toMatchObject({
        title: 'Arguments Prompt',
        arguments: [{ name: 'city', required: true }, { name: 'state' }],
      })
      const { messages } = await client.getPrompt({
        name: 'Every_args_prompt',
        arguments: { city: 'Berlin' },
      })
      expect(messages).toEqual([
        { role: 'user', content: { type: 'text', text: "What's weather in Berlin?" } },
      ])
    })

    it('MCP-111: a missing argument and an unknown prompt are errors, not results', async () => {
      await expect(client.getPrompt({ name: 'Every_args_prompt' })).rejects.toMatchObject({ code: -32_602 })
      await expect(client.getPrompt({ name: 'Every_nothing' })).rejects.toMatchObject({ code: -32_602 })
    })

    it('MCP-113, MCP-115: resources of the sources that answer are listed and read', async () => {
      const { resources } = await client.listResources()
      expect(resources).toContainEqual(
        expect.objectContaining({
          uri: 'demo://resource/static/document/architecture.md',
          mimeType: 'text/markdown',
        }),
      )
      const { contents } = await client.readResource({
        uri: 'demo://resource/static/document/architecture.md',
      })
      expect(contents).toEqual([
        expect.objectContaining({ uri: 'demo://resource/static/document/architecture.md' }),
      ])
      await expect(client.readResource({ uri: 'demo://nothing' })).rejects.toMatchObject({
        message: expect.stringContaining('Unknown resource: demo://nothing'),
      })
    })

    it('MCP-114, MCP-116: an address of a template is read, as text and as bytes', async () => {
      const { resourceTemplates } = await client.listResourceTemplates()
      expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toContain(
        'demo://resource/dynamic/text/{resourceId}',
      )
      const text = await client.readResource({ uri: 'demo://resource/dynamic/text/1' })
      expect(text.contents[0]).toMatchObject({
        uri: 'demo://resource/dynamic/text/1',
        mimeType: 'text/plain',
      })
      const blob = await client.readResource({ uri: 'demo://resource/dynamic/blob/1' })
      expect(blob.contents[0]).toMatchObject({ blob: expect.any(String) })
      expect('ttlMs' in text).toBe(mode !== 'legacy')
    })

    it('MCP-117: arguments are completed by the server of the prompt', async () => {
      const department = { name: 'department', value: 'E' }
      const complete = (name: string) =>
        client.complete({ ref: { type: 'ref/prompt', name }, argument: department })
      expect((await complete('Every_completable_prompt')).completion.values).toEqual(['Engineering'])
      await expect(complete('Every_nothing')).rejects.toMatchObject({ code: -32_602 })
    })

    it('MCP-110: entries of a source that the caller may not see do not exist for it', async () => {
      const limited = await connect(mode, 'key-of-few')
      try {
        expect((await limited.listPrompts()).prompts).toEqual([])
        expect((await limited.listResources()).resources).toEqual([])
        expect((await limited.listResourceTemplates()).resourceTemplates).toEqual([])
        const hidden = await limited.getPrompt({ name: 'Every_simple_prompt' }).catch(String)
        const unknown = await limited.getPrompt({ name: 'Every_simple_prompts' }).catch(String)
        expect(hidden).toBe(String(unknown).replace('prompts', 'prompt'))
      } finally {
        await limited.close()
      }
    })
  })

  it('MCP-112: a list of entries is read page by page, with cursors of its own principal', async () => {
    const headers = {
      'content-type': 'application/json',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'prompts/list',
    }
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    }
    const params = { cursor: 'Every_args_prompt.forged', _meta: meta }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'prompts/list', params })
    const reply = await fetch(`${collet.url}/mcp`, {
      method: 'POST',
      headers: { ...headers, 'x-api-key': 'key-of-all' },
      body,
    })
    expect(await reply.json()).toMatchObject({ error: { code: -32_602 } })
  })
})
