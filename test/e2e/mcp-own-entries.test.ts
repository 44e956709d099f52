import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { loadConfig } from '#config/load'
import { loadTools } from '#config/load-tools'
import { prompt } from '#entries/prompt'
import { resource } from '#entries/resource'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import { type RunningServer, startServer } from '#server/start-server'
import { sqliteSettings } from '../test-settings.ts'

const LIMIT_MS = 30_000
const ERAS = [
  ['2026-07-28', { pin: '2026-07-28' }],
  ['the old era', 'legacy'],
] as const

const PAGES = new Map([
  ['start', '# Start'],
  ['end', '# End'],
])

const ENTRIES = [
  prompt({
    id: 'Docs.Summary@1.0.0',
    title: 'Summary',
    description: 'Sums up a page.',
    input: {
      page: z.string().describe('Name of the page.'),
      tone: z.enum(['plain', 'formal']).describe('Tone.'),
    },
    complete: { page: (value) => [...PAGES.keys()].filter((name) => name.startsWith(value)) },
    icons: [{ src: 'https://example.com/icon.png' }],
    run: ({ page, tone }) => ({ description: `About ${page}`, messages: `Sum up ${page}, ${tone}.` }),
  }),
  prompt({
    id: 'Docs.Asks@1.0.0',
    description: 'Asks for the language.',
    async run(_args, context) {
      const answer = await context.elicit({
        mode: 'form',
        message: 'Which language?',
        schema: { type: 'object', properties: { language: { type: 'string' } }, required: ['language'] },
      })
      return answer.action === 'accept' ? `Write ${answer.content?.language}.` : 'Write English.'
    },
  }),
  prompt({
    id: 'Docs.Wrong@1.0.0',
    description: 'Returns what is no prompt.',
    run: () => JSON.parse('{"messages":[{"role":"nobody"}]}'),
  }),
  prompt({
    id: 'Docs.Slow@1.0.0',
    description: 'Cannot complete.',
    input: { word: z.string().describe('A word.') },
    complete: {
      word: () => {
        throw new Error('out of words')
      },
    },
    run: () => 'Never mind.',
  }),
  resource({
    id: 'Docs.Logo@1.0.0',
    uri: 'docs://logo',
    title: 'Logo',
    description: 'A picture.',
    mimeType: 'image/png',
    read: () => new Uint8Array([1, 2, 3]),
  }),
  resource({
    id: 'Docs.Page@1.0.0',
    uriTemplate: 'docs://pages/{page}',
    description: 'One page.',
    mimeType: 'text/markdown',
    complete: { page: (value) => [...PAGES.keys()].filter((name) => name.startsWith(value)) },
    read: ({ params }) => PAGES.get(params.page),
  }),
  resource({
    id: 'Docs.Hidden@1.0.0',
    uri: 'docs://hidden',
    description: 'For few.',
    policy: { scopes: ['docs:secret'] },
    read: () => ({ contents: [{ text: 'a' }, { uri: 'docs://b', text: 'b' }], ttlMs: 5 }),
  }),
]

describe('prompts and resources written as code', () => {
  let collet: RunningServer
  const settings = sqliteSettings()

  beforeAll(async () => {
    const apiKeys = [
      { id: 'all', key: new Secret('key-of-all'), tenant: 'default', scopes: ['*'] },
      { id: 'few', key: new Secret('key-of-few'), tenant: 'default', scopes: [] },
    ]
    const auth = { apiKeys, jwt: undefined }
    const toolsets = new Map([['pages', { include: ['Docs.Pa*'], exclude: [], description: undefined }]])
    const tools = requireTools(ENTRIES)
    collet = await startServer({ ...settings, auth, toolsets, tools }, { graceMs: 0 })
  }, LIMIT_MS)

  afterAll(async () => {
    await collet.close()
    rmSync(settings.dataFolder, { recursive: true })
  })

  async function connect(mode: (typeof ERAS)[number][1], key = 'key-of-all', path = '/mcp'): Promise<Client> {
    const client = new Client(
      { name: 'test', version: '1.0.0' },
      { versionNegotiation: { mode }, capabilities: { elicitation: { form: {} } } },
    )
    client.setRequestHandler('elicitation/create', async () => ({
      action: 'accept',
      content: { language: 'Norwegian' },
    }))
    const requestInit = { headers: { 'x-api-key': key } }
    await client.connect(new StreamableHTTPClientTransport(new URL(`${collet.url}${path}`), { requestInit }))
    return client
  }

  describe.each(ERAS)('for a client of %s', (_era, mode) => {
    let client: Client

    beforeAll(async () => {
      client = await connect(mode)
    })
    afterAll(() => client.close())

    it('MCP-130: a prompt is listed and got', async () => {
      const { prompts } = await client.listPrompts()
      expect(prompts.map(({ name }) => name)).toEqual([
        'Docs_Asks',
        'Docs_Slow',
        'Docs_Summary',
        'Docs_Wrong',
      ])
      expect(prompts[2]).toMatchObject({
        title: 'Summary',
        description: 'Sums up a page.',
        icons: [{ src: 'https://example.com/icon.png' }],
        arguments: [
          { name: 'page', description: 'Name of the page.', required: true },
          { name: 'tone', description: 'Tone.', required: true },
        ],
      })
      const got = await client.getPrompt({
        name: 'Docs_Summary',
        arguments: { page: 'start', tone: 'plain' },
      })
      expect(got).toMatchObject({
        description: 'About start',
        messages: [{ role: 'user', content: { type: 'text', text: 'Sum up start, plain.' } }],
      })
    })

    it('MCP-131: wrong arguments and wrong messages are errors', async () => {
      const get = (name: string, args = {}) => client.getPrompt({ name, arguments: args })
      await expect(get('Docs_Summary', { page: 'start' })).rejects.toMatchObject({ code: -32_602 })
      await expect(get('Docs_Summary', { page: 'start', tone: 'loud' })).rejects.toMatchObject({
        code: -32_602,
      })
      await expect(get('Docs_Wrong')).rejects.toMatchObject({ code: -32_603 })
    })

    it('MCP-134: a prompt asks the person behind the client', async () => {
      const { messages } = await client.getPrompt({ name: 'Docs_Asks' })
      expect(messages).toEqual([{ role: 'user', content: { type: 'text', text: 'Write Norwegian.' } }])
    })

    it('MCP-132: resources and templates are listed and read, as text and as bytes', async () => {
      const { resources } = await client.listResources()
      expect(resources.map(({ uri }) => uri)).toEqual(['docs://hidden', 'docs://logo'])
      expect(resources[1]).toMatchObject({ name: 'Docs_Logo', title: 'Logo', mimeType: 'image/png' })
      const { resourceTemplates } = await client.listResourceTemplates()
      expect(resourceTemplates).toMatchObject([
        { uriTemplate: 'docs://pages/{page}', name: 'Docs_Page', mimeType: 'text/markdown' },
      ])
      const read = async (uri: string) => (await client.readResource({ uri })).contents
      expect(await read('docs://logo')).toEqual([{ uri: 'docs://logo', mimeType: 'image/png', blob: 'AQID' }])
      expect(await read('docs://pages/end')).toEqual([
        { uri: 'docs://pages/end', mimeType: 'text/markdown', text: '# End' },
      ])
      expect(await read('docs://hidden')).toEqual([
        { uri: 'docs://hidden', mimeType: 'text/plain', text: 'a' },
        { uri: 'docs://b', mimeType: 'text/plain', text: 'b' },
      ])
      for (const uri of ['docs://pages/nowhere', 'docs://pages/a/b', 'docs://nothing'])
        await expect(client.readResource({ uri })).rejects.toMatchObject({
          message: expect.stringContaining(`Unknown resource: ${uri}`),
        })
    })

    it('MCP-133: arguments are completed without a call', async () => {
      const before = await countCalls()
      const complete = (ref: Parameters<Client['complete']>[0]['ref'], name: string, value: string) =>
        client.complete({ ref, argument: { name, value } })
      const summary = { type: 'ref/prompt', name: 'Docs_Summary' } as const
      const page = { type: 'ref/resource', uri: 'docs://pages/{page}' } as const
      expect((await complete(summary, 'page', 's')).completion).toEqual({
        values: ['start'],
        total: 1,
        hasMore: false,
      })
      expect((await complete(summary, 'tone', 'PL')).completion.values).toEqual(['plain'])
      expect((await complete(page, 'page', 'e')).completion.values).toEqual(['end'])
      await expect(complete(summary, 'other', '')).rejects.toMatchObject({ code: -32_602 })
      const failing = complete({ type: 'ref/prompt', name: 'Docs_Slow' }, 'word', '')
      await expect(failing).rejects.toMatchObject({ code: -32_603 })
      expect(await countCalls()).toBe(before)
    })

    it('MCP-132: an entry that the caller may not use does not exist for it', async () => {
      const limited = await connect(mode, 'key-of-few')
      try {
        expect((await limited.listResources()).resources.map(({ uri }) => uri)).toEqual(['docs://logo'])
        const hidden = await limited.readResource({ uri: 'docs://hidden' }).catch(String)
        const unknown = await limited.readResource({ uri: 'docs://hiddem' }).catch(String)
        expect(hidden).toBe(String(unknown).replaceAll('hiddem', 'hidden'))
      } finally {
        await limited.close()
      }
    })
  })

  it('MCP-132: a toolset that selects only entries serves them', async () => {
    const client = await connect('legacy', 'key-of-few', '/mcp/pages')
    try {
      expect((await client.listPrompts()).prompts).toEqual([])
      expect((await client.listResources()).resources).toEqual([])
      expect((await client.listResourceTemplates()).resourceTemplates).toHaveLength(1)
      const { contents } = await client.readResource({ uri: 'docs://pages/end' })
      expect(contents).toMatchObject([{ text: '# End' }])
    } finally {
      await client.close()
    }
  })

  it('MCP-130: a prompt is not a tool, and its call is in the journal', async () => {
    const client = await connect('legacy')
    try {
      expect((await client.listTools()).tools).toEqual([])
      await expect(client.callTool({ name: 'Docs_Summary', arguments: {} })).rejects.toMatchObject({
        code: -32_602,
      })
    } finally {
      await client.close()
    }
    const { calls } = await admin('calls?limit=200')
    const tools = calls.map(({ tool }) => tool)
    expect(tools).toContain('Docs.Summary@1.0.0')
    expect(tools).toContain('Docs.Page@1.0.0')
  })

  async function countCalls(): Promise<number> {
    return (await admin('calls?limit=200')).calls.length
  }

  async function admin(path: string) {
    const reply = await fetch(`${collet.url}/admin/${path}`, { headers: { 'x-api-key': 'key-of-all' } })
    return z.object({ calls: z.array(z.object({ tool: z.string() })) }).parse(await reply.json())
  }
})

describe('files with prompts and resources', () => {
  it('MCP-130: a loader finds them beside tools, and reports what is wrong with them', async () => {
    const folder = mkdtempSync(join(process.cwd(), 'node_modules/.collet-entries-'))
    try {
      const config = join(folder, 'collet.config.ts')
      writeFileSync(config, "export default { tools: ['*.entries.ts'] }\n")
      writeFileSync(
        join(folder, 'docs.entries.ts'),
        `import { prompt } from '#entries/prompt'
import { resource } from '#entries/resource'
export const hello = prompt({ id: 'Docs.Hello@1.0.0', description: 'Greets.', run: () => 'Hello.' })
export const guide = resource({ id: 'Docs.Guide@1.0.0', uri: 'docs://guide', description: 'Guide.', read: () => '' })
`,
      )
      const loaded = await loadTools(await loadConfig(config))
      expect(loaded.problems).toEqual([])
      expect(loaded.tools.map(({ id, entry }) => [id, entry?.kind])).toEqual([
        ['Docs.Guide@1.0.0', 'resource'],
        ['Docs.Hello@1.0.0', 'prompt'],
      ])
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
