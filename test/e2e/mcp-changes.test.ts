import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RunningServer, startServer } from '#server/start-server'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { startLegacyReference } from '../interop/reference-legacy.ts'
import { startModernReference } from '../interop/reference-modern.ts'
import type { ReferenceServer } from '../interop/reference-server.ts'
import { testSettings } from '../test-settings.ts'

const LIMIT_MS = 60_000
const ERAS = [
  ['2026-07-28', { pin: '2026-07-28' }],
  ['the old era', 'legacy'],
] as const
/** A program of 2026-07-28. Each caller has a process of it, so its reports come from that process. */
const PROGRAM = `
import { McpServer } from '${import.meta.resolve('@modelcontextprotocol/server')}'
import { serveStdio } from '${import.meta.resolve('@modelcontextprotocol/server/stdio')}'
serveStdio(() => {
  const server = new McpServer({ name: 'program', version: '1.0.0' })
  const text = async () => ({ contents: [] })
  server.registerPrompt('p', { description: 'P.' }, async () => ({ messages: [] }))
  server.registerResource('r', 'test://r', {}, text)
  const changes = { tool: () => server.sendToolListChanged(), prompt: () => server.sendPromptListChanged(), resource: () => server.sendResourceListChanged() }
  for (const [noun, report] of Object.entries(changes))
    server.registerTool('test_trigger_' + noun + '_change', { description: 'Reports.' }, async () => {
      await report()
      return { content: [{ type: 'text', text: 'reported' }] }
    })
  return server
})
`
const SERVERS = [
  ['New', '2026-07-28'],
  ['Old', 'the old era'],
] as const
const READ_ONLY = { type: 'mcp', policy: { approval: 'never', safetyTier: 'read' } } as const
const PROGRAM_SERVER = ['Program', '2026-07-28'] as const
const CHANGES = [
  ['tool', 'tools'],
  ['prompt', 'prompts'],
  ['resource', 'resources'],
] as const

describe('what an MCP server sends on its own initiative', () => {
  let collet: RunningServer
  let references: readonly ReferenceServer[]
  const settings = testSettings()

  beforeAll(async () => {
    const [old, recent] = await Promise.all([startLegacyReference(), startModernReference()])
    references = [old, recent]
    const source = (url: string) => MCP_OPTIONS.parse({ ...READ_ONLY, url })
    const program = join(settings.dataFolder, 'program.mjs')
    writeFileSync(program, PROGRAM)
    collet = await startServer(
      {
        ...settings,
        sources: new Map([
          ['Old', source(old.url)],
          ['New', source(recent.url)],
          ['Program', MCP_OPTIONS.parse({ ...READ_ONLY, command: process.execPath, args: [program] })],
        ]),
      },
      { graceMs: 0 },
    )
    await Promise.all([collet.sourceRead('Old'), collet.sourceRead('New'), collet.sourceRead('Program')])
  }, LIMIT_MS)

  afterAll(async () => {
    await collet.close()
    await Promise.all(references.map((reference) => reference.close()))
    rmSync(settings.dataFolder, { recursive: true })
  })

  async function connect(mode: (typeof ERAS)[number][1], capabilities = {}): Promise<Client> {
    const client = new Client(
      { name: 'test', version: '1.0.0' },
      { versionNegotiation: { mode }, capabilities },
    )
    await client.connect(new StreamableHTTPClientTransport(new URL(`${collet.url}/mcp`)))
    return client
  }

  describe.each(ERAS)('to a client of %s', (_era, mode) => {
    describe.each([...SERVERS, PROGRAM_SERVER])('from the server %s of %s', (key) => {
      it.each(CHANGES)(
        'MCP-135: a changed list is reported: %s',
        async (noun, list) => {
          const client = await connect(mode)
          let isReceived = false
          client.setNotificationHandler(`notifications/${list}/list_changed`, () => {
            isReceived = true
          })
          if (mode !== 'legacy')
            await client.listen({
              toolsListChanged: true,
              promptsListChanged: true,
              resourcesListChanged: true,
            })
          // A change right after the connection was opened counts as the first list (MCP/T-25), so it is made again.
          const change = async (): Promise<boolean> => {
            await client.callTool({ name: `${key}_test_trigger_${noun}_change`, arguments: {} })
            return isReceived
          }
          await expect.poll(change, { timeout: LIMIT_MS / 2, interval: 500 }).toBe(true)
          await client.close()
        },
        LIMIT_MS,
      )
    })

    describe.each(SERVERS)('from the server %s of %s', (key) => {
      it(
        'MCP-137: the model and the folders of the client answer its server',
        async () => {
          const client = await connect(mode, { sampling: {}, roots: {} })
          client.setRequestHandler('sampling/createMessage', ({ params }) => ({
            role: 'assistant',
            model: 'm',
            content: { type: 'text', text: `${params.maxTokens} tokens` },
          }))
          client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///home/ada' }] }))
          const call = async (name: string) => JSON.stringify(await client.callTool({ name, arguments: {} }))
          expect(await call(`${key}_test_input_required_result_sampling`)).toContain('100 tokens')
          expect(await call(`${key}_test_input_required_result_list_roots`)).toContain('file:///home/ada')
          await client.close()
        },
        LIMIT_MS,
      )

      it(
        'MCP-137: a client without a model gets an error that says so',
        async () => {
          const client = await connect(mode)
          const message = await client
            .callTool({ name: `${key}_test_input_required_result_sampling`, arguments: {} })
            .then(JSON.stringify, String)
          expect(message).toMatch(/sampling|Missing client capability/)
          await client.close()
        },
        LIMIT_MS,
      )
    })
  })
})
