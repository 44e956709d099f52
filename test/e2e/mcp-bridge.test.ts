import { rmSync } from 'node:fs'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RunningServer, startServer } from '#server/start-server'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { EVERYTHING } from '../sources/everything-server.ts'
import { type ModernServer, startModernServer } from '../sources/modern-mcp-server.ts'
import { testSettings } from '../test-settings.ts'

const LIMIT_MS = 30_000
const ERAS = [
  ['2026-07-28', { pin: '2026-07-28' }],
  ['the old era', 'legacy'],
] as const

/** Collet between clients of one era and servers of the other. */
describe('MCP bridge: clients and servers of both eras', () => {
  let modern: ModernServer
  let collet: RunningServer
  const settings = testSettings()

  beforeAll(async () => {
    modern = await startModernServer()
    collet = await startServer(
      {
        ...settings,
        sources: new Map([
          ['Old', MCP_OPTIONS.parse({ type: 'mcp', command: process.execPath, args: [EVERYTHING, 'stdio'] })],
          ['New', MCP_OPTIONS.parse({ type: 'mcp', url: modern.url })],
        ]),
      },
      { graceMs: 0 },
    )
  }, LIMIT_MS)

  afterAll(async () => {
    await collet.close()
    await modern.close()
    rmSync(settings.dataFolder, { recursive: true })
  })

  async function connect(mode: (typeof ERAS)[number][1], questions: string[] = []): Promise<Client> {
    const client = new Client(
      { name: 'test', version: '1.0.0' },
      { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
    )
    client.setRequestHandler('elicitation/create', async ({ params }) => {
      questions.push(`${params.message} ${params._meta?.['collet/contentTrust']}`)
      return { action: 'accept', content: { name: 'Ann' } }
    })
    await client.connect(new StreamableHTTPClientTransport(new URL(`${collet.url}/mcp`)))
    return client
  }

  it.each(ERAS)('a client of %s calls tools of both', { timeout: LIMIT_MS }, async (_era, mode) => {
    const client = await connect(mode)
    try {
      const { tools } = await client.listTools()
      const names = tools.map(({ name }) => name)
      expect(names).toEqual(expect.arrayContaining(['Old_echo', 'New_add']))
      const echo = await client.callTool({ name: 'Old_echo', arguments: { message: 'hi' } })
      expect(echo.content).toEqual([{ type: 'text', text: 'Echo: hi' }])
      const image = await client.callTool({ name: 'Old_get_tiny_image', arguments: {} })
      expect(image.content).toEqual(expect.arrayContaining([expect.objectContaining({ type: 'image' })]))
      const sum = await client.callTool({ name: 'New_add', arguments: { a: 1, b: 2 } })
      expect([3, { result: 3 }]).toContainEqual(sum.structuredContent)
    } finally {
      await client.close()
    }
  })

  it.each(ERAS)(
    'MCP-73, MCP-79: a client of %s is asked by servers of both',
    { timeout: LIMIT_MS },
    async (_era, mode) => {
      const questions: string[] = []
      const client = await connect(mode, questions)
      try {
        const old = await client.callTool({ name: 'Old_trigger_elicitation_request', arguments: {} })
        expect(JSON.stringify(old.content)).toContain('Ann')
        const modernAnswer = await client.callTool({ name: 'New_greet', arguments: {} })
        expect(modernAnswer.content).toEqual([{ type: 'text', text: 'Hello, Ann!' }])
        expect(questions).toEqual([
          'The MCP server "Old" asks: Please provide inputs for the following fields: untrusted',
          'The MCP server "New" asks: Name? untrusted',
        ])
      } finally {
        await client.close()
      }
    },
  )

  it.each(ERAS)('a client of %s sees progress of both', { timeout: LIMIT_MS }, async (_era, mode) => {
    const client = await connect(mode)
    const seen: number[] = []
    try {
      const call = { name: 'Old_trigger_long_running_operation', arguments: { duration: 1, steps: 2 } }
      await client.callTool(call, { onprogress: ({ progress }) => seen.push(progress) })
      expect(seen.length).toBeGreaterThan(0)
    } finally {
      await client.close()
    }
  })
})
