import { rmSync } from 'node:fs'
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
const SERVERS = [
  ['New', '2026-07-28'],
  ['Old', 'the old era'],
] as const
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
    const source = (url: string) =>
      MCP_OPTIONS.parse({ type: 'mcp', url, policy: { approval: 'never', safetyTier: 'read' } })
    collet = await startServer(
      {
        ...settings,
        sources: new Map([
          ['Old', source(old.url)],
          ['New', source(recent.url)],
        ]),
      },
      { graceMs: 0 },
    )
    await Promise.all([collet.sourceRead('Old'), collet.sourceRead('New')])
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
    describe.each(SERVERS)('from the server %s of %s', (key) => {
      it.each(CHANGES)(
        'MCP-135: a changed list is reported: %s',
        async (noun, list) => {
          const client = await connect(mode)
          let isHeard = false
          client.setNotificationHandler(`notifications/${list}/list_changed`, () => {
            isHeard = true
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
            return isHeard
          }
          await expect.poll(change, { timeout: LIMIT_MS / 2, interval: 500 }).toBe(true)
          await client.close()
        },
        LIMIT_MS,
      )

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
          const said = await client
            .callTool({ name: `${key}_test_input_required_result_sampling`, arguments: {} })
            .then(JSON.stringify, String)
          expect(said).toMatch(/sampling|Missing client capability/)
          await client.close()
        },
        LIMIT_MS,
      )
    })
  })
})
