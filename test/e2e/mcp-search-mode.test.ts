import { rmSync } from 'node:fs'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { connect as connectCollet } from '#client/index'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { ToolContext } from '#kernel/tool/tool'
import type { Toolset } from '#kernel/tool/toolsets'
import { type RunningServer, startServer } from '#server/start-server'
import { testSettings } from '../test-settings.ts'

const KEY = 'key-of-all'
const KEYS = [
  { id: 'all', key: new Secret(KEY), tenant: 'default', scopes: ['*'] },
  { id: 'small', key: new Secret('key-small'), tenant: 'default', scopes: ['notes'] },
]
const LIMIT_MS = 30_000
const COST = z.object({ tools: z.number(), bytes: z.number() })

const TOOLS = requireTools([
  {
    id: 'Mail.Send@1.0.0',
    description: 'Sends a message to a person.',
    input: z.object({ to: z.string().describe('Address.'), text: z.string().describe('Text.') }),
    output: z.object({ sent: z.string() }),
    policy: { safetyTier: 'write', scopes: ['mail:send'] },
    run: ({ to }: { to: string }, context: ToolContext) => {
      context.progress(1, 2, 'half')
      return { sent: to }
    },
  },
  {
    id: 'Mail.Ask@1.0.0',
    description: 'Asks the user for a colour.',
    input: z.object({}),
    output: z.string(),
    policy: { scopes: ['mail:send'] },
    run: async (_: object, context: ToolContext) => {
      const answer = await context.elicit({
        message: 'Which colour?',
        mode: 'form',
        schema: { type: 'object', properties: { colour: { type: 'string' } } },
      })
      return JSON.stringify(answer)
    },
  },
  {
    id: 'Mail.Purge@1.0.0',
    description: 'Deletes every message.',
    input: z.object({}),
    output: z.string(),
    policy: { safetyTier: 'write', approval: 'always', scopes: ['mail:send'] },
    run: () => 'gone',
  },
  {
    id: 'Notes.Keep@1.0.0',
    description: 'Writes a note.',
    input: z.object({ text: z.string().describe('Text.') }),
    output: z.string(),
    run: ({ text }: { text: string }) => text,
  },
])

describe('search mode of MCP', () => {
  let collet: RunningServer
  const settings = testSettings()

  beforeAll(async () => {
    collet = await startServer(
      {
        ...settings,
        tools: TOOLS,
        auth: { apiKeys: KEYS, jwt: undefined },
        results: { modelBytes: 32_000 },
        mcp: { ...settings.mcp, discovery: 'search', favourites: ['Notes.*'] },
        toolsets: new Map<string, Toolset>([
          ['whole', { include: ['*'], exclude: [], discovery: 'list' }],
          ['mail', { include: ['Mail.*'], exclude: [], favourites: ['Mail.Send'] }],
        ]),
      },
      { graceMs: 0 },
    )
  }, LIMIT_MS)

  afterAll(async () => {
    await collet.close()
    rmSync(settings.dataFolder, { recursive: true })
  })

  async function withClient<Result>(
    path: string,
    use: (client: Client) => Promise<Result>,
    { pin = '2026-07-28', key = KEY }: { pin?: string; key?: string } = {},
  ): Promise<Result> {
    const client = new Client(
      { name: 'test', version: '1.0.0' },
      {
        capabilities: { elicitation: { form: {} } },
        ...(pin === '2026-07-28' ? { versionNegotiation: { mode: { pin } } } : {}),
      },
    )
    client.setRequestHandler('elicitation/create', async () => ({
      action: 'accept',
      content: { colour: 'red' },
    }))
    const requestInit = { headers: { 'x-api-key': key } }
    await client.connect(new StreamableHTTPClientTransport(new URL(collet.url + path), { requestInit }))
    try {
      return await use(client)
    } finally {
      await client.close()
    }
  }

  const namesAt = (path: string) =>
    withClient(path, async (client) => (await client.listTools()).tools.map(({ name }) => name))
  const META = ['call_tool', 'describe_tools', 'read_result', 'search_tools']
  const textOf = (result: { content?: unknown }): string => {
    const [block] = z.array(z.object({ text: z.string() })).parse(result.content)
    return block?.text ?? ''
  }

  it('lists three tools and the favourites; a toolset may decide otherwise', async () => {
    expect(await namesAt('/mcp')).toEqual(['Notes_Keep', ...META])
    expect(await namesAt('/mcp/mail')).toEqual(['Mail_Send', ...META])
    expect(await namesAt('/mcp/whole')).toEqual([
      'Mail_Ask',
      'Mail_Purge',
      'Mail_Send',
      'Notes_Keep',
      'read_result',
    ])
  })

  it('makes the description of the search from the tools that the caller sees', async () => {
    const describe = (key: string) =>
      withClient(
        '/mcp',
        async (client) =>
          (await client.listTools()).tools.find(({ name }) => name === 'search_tools')?.description,
        { key },
      )
    expect(await describe(KEY)).toContain('There are tools of: Mail (3), Notes (1).')
    expect(await describe('key-small')).toContain('There are tools of: Notes (1).')
  })

  it('finds, describes and calls a tool', async () => {
    await withClient('/mcp', async (client) => {
      const found = await client.callTool({ name: 'search_tools', arguments: { query: 'send an email' } })
      expect(textOf(found)).toContain('\nMail_Send(to: string, text: string): Sends a message to a person.')
      const described = await client.callTool({ name: 'describe_tools', arguments: { names: ['Mail_Send'] } })
      expect(JSON.parse(textOf(described))).toMatchObject({
        name: 'Mail_Send',
        inputSchema: { required: ['to', 'text'] },
      })
      const progress: unknown[] = []
      const called = await client.callTool(
        { name: 'call_tool', arguments: { name: 'Mail_Send', arguments: { to: 'ann', text: 'hi' } } },
        { onprogress: (news) => void progress.push(news.message) },
      )
      expect(called.structuredContent).toEqual({ sent: 'ann' })
      expect(progress).toEqual(['half'])
      const recorded = connectCollet(collet.url, { apiKey: KEY }).calls.list()
      expect((await recorded.next()).value).toMatchObject({ toolId: 'Mail.Send@1.0.0', state: 'succeeded' })
    })
  })

  it.each(['2026-07-28', '2025-11-25'])('passes on questions of a tool in %s', async (pin) => {
    await withClient(
      '/mcp',
      async (client) => {
        const called = await client.callTool({ name: 'call_tool', arguments: { name: 'Mail.Ask' } })
        expect(textOf(called)).toContain('red')
      },
      { pin },
    )
  })

  it('answers like a direct call: approvals, invalid input, idempotency, hidden tools', async () => {
    await withClient('/mcp', async (client) => {
      const both = async (name: string, input: Record<string, unknown>, key = {}) => {
        const direct = await client.callTool({ name, arguments: input, ...key }).catch(String)
        const through = await client
          .callTool({ name: 'call_tool', arguments: { name, arguments: input }, ...key })
          .catch(String)
        return [direct, through].map((each) =>
          JSON.stringify(each).replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}|[A-Za-z0-9_-]{32,}/g, 'ID'),
        )
      }
      const [bad, badThrough] = await both('Mail_Send', { to: 1 })
      expect(badThrough).toBe(bad)
      const [waits, waitsThrough] = await both('Mail_Purge', {})
      expect(waits).toContain('approv')
      expect(waitsThrough).toBe(waits)
      const key = { _meta: { 'collet/idempotency-key': 'one-key-for-both' } }
      const [first, second] = await both('Mail_Send', { to: 'bob', text: 'x' }, key)
      expect(second).toContain('bob')
      expect(first).toContain('bob')
    })
    await withClient(
      '/mcp',
      async (client) => {
        const hidden = await client.callTool({ name: 'search_tools', arguments: { query: 'Mail.Send' } })
        expect(textOf(hidden)).toBe(
          'No tool fits "Mail.Send". There are tools of: Notes (1). Search again with other words.',
        )
        const input = { name: 'Mail_Send', arguments: {} }
        const called = await client.callTool(input).catch(String)
        expect(JSON.stringify(called)).toContain('Unknown tool: Mail_Send')
        // A model reads results and no errors of the protocol, so it can search again.
        for (const name of ['Mail_Send', 'Mail.Send@1.0.0', 'Mail_Nothing', 'call_tool']) {
          const through = await client.callTool({ name: 'call_tool', arguments: { name } })
          expect(through).toMatchObject({ isError: true, _meta: { 'collet/errorCode': 'tool_not_found' } })
          expect(textOf(through)).toBe(`There is no tool "${name}". Find tools with search_tools.`)
        }
      },
      { key: 'key-small' },
    )
  })

  it('counts the list as it is sent, with the tool that reads results', async () => {
    const headers = { 'x-api-key': KEY }
    for (const [path, toolset] of [
      ['/mcp', ''],
      ['/mcp/whole', 'whole'],
      ['/mcp/mail', 'mail'],
    ] as const) {
      const sent = await withClient(path, async (client) => (await client.listTools()).tools, {
        pin: '2025-11-25',
      })
      const counted = await fetch(`${collet.url}/admin/tool-cost?toolset=${toolset}`, { headers })
      const { discovery, ...cost } = z
        .object({ discovery: z.enum(['list', 'search']), list: COST, search: COST })
        .parse(await counted.json())
      expect(cost[discovery]).toMatchObject({
        tools: sent.length,
        bytes: sent.reduce((sum, tool) => sum + Buffer.byteLength(JSON.stringify(tool)), 0),
      })
    }
  })

  it('refuses unusable arguments with a text for the model', async () => {
    await withClient('/mcp', async (client) => {
      for (const [name, input] of [
        ['search_tools', {}],
        ['search_tools', { query: 'x', limit: 0 }],
        ['describe_tools', { names: [] }],
        ['call_tool', { arguments: {} }],
        ['call_tool', { name: 'Mail_Send', arguments: [] }],
      ] as const) {
        const result = await client.callTool({ name, arguments: input })
        expect(result.isError).toBe(true)
        expect(textOf(result)).toMatch(/must be/)
      }
    })
  })

  it('answers the client library and both lists with the same tools', async () => {
    const client = connectCollet(collet.url, { apiKey: KEY })
    const { found, families } = await client.search('send an email')
    expect(found[0]?.id).toBe('Mail.Send@1.0.0')
    expect(families).toEqual([])
    expect((await client.search('zzzz qqqq')).families.map(({ name }) => name)).toEqual(['Mail', 'Notes'])
    const headers = { 'x-api-key': KEY }
    const listed = await fetch(`${collet.url}/v1/tools?q=send+an+email&limit=1`, { headers })
    expect(await listed.json()).toMatchObject([{ toolId: 'openwop:Mail.Send' }])
    const refused = await fetch(`${collet.url}/tools?q=mail&limit=51`, { headers })
    expect(refused.status).toBe(400)
  })
})
