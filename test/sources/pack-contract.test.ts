import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseConfig } from '#config/load'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { tool, workflow } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { startServer } from '#server/start-server'
import { createPackSource } from '#sources/pack/index'
import { PACK_OPTIONS } from '#sources/pack/options'
import { SOURCE_CONTRACT, type SourceUnderTest } from '../contracts/source-contract.ts'
import { testSettings } from '../test-settings.ts'

const HERE = import.meta.dirname

describe.each(['none', 'process'] as const)('a pack with isolation %s', (isolation) => {
  const open = async (): Promise<SourceUnderTest> => {
    const options = PACK_OPTIONS.parse({ type: 'pack', path: 'packs/notes', isolation, sandbox: 'none' })
    const refuse = () => Promise.reject(new Error('a pack has no egress of its own'))
    const services = { fetch: refuse, clock: SYSTEM_CLOCK, log: SILENT_LOGGER, folder: HERE }
    return {
      source: createPackSource('Notes', options, services),
      good: { nativeName: 'Shout', input: { text: 'a' }, check: (value) => expect(value).toBe('A!') },
      slow: { nativeName: 'Wait', input: {} },
      close: async () => {},
    }
  }
  it.each(SOURCE_CONTRACT.map((each) => [each.name, each] as const))(
    '%s',
    { timeout: 40_000 },
    async (_name, each) => {
      await each.run(open)
    },
  )
})

describe('a workflow over a pack', () => {
  it('is served once the pack is loaded, and calls its tools', { timeout: 40_000 }, async () => {
    const count = tool({
      id: 'Text.Count@1.0.0',
      description: 'Counts.',
      input: {
        type: 'object',
        properties: { text: { type: 'string', description: 'T.' } },
        required: ['text'],
      },
      output: { type: 'number' },
      run: ({ text }) => text.length,
    })
    const flow = workflow({
      id: 'Text.Loud@1.0.0',
      description: 'Shouts and counts.',
      input: {
        type: 'object',
        properties: { text: { type: 'string', description: 'T.' } },
        required: ['text'],
      },
      output: { type: 'number' },
      uses: ['Notes.Shout', count],
      run: async ({ text }, { call }) => call(count, { text: String(await call('Notes.Shout', { text })) }),
    })
    const config = parseConfig(
      { sources: { Notes: { type: 'pack', path: 'packs/notes', isolation: 'process' } } },
      join(HERE, 'collet.config.ts'),
    )
    const settings = testSettings({
      tools: requireTools([count, flow], { mayComeLater: (name) => name.startsWith('Notes.') }),
      sources: new Map(Object.entries(config.sources)),
      folder: HERE,
    })
    const server = await startServer(settings, { graceMs: 0 })
    try {
      const call = async () => {
        const response = await fetch(`${server.url}/tools/call`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ request: { tool_id: 'Text.Loud', call_id: 'k', input: { text: 'abc' } } }),
        })
        const { result }: { result?: { value?: unknown } } = JSON.parse(await response.text())
        return result?.value
      }
      await expect.poll(call, { timeout: 20_000 }).toBe(4)
    } finally {
      await server.close()
      rmSync(settings.dataFolder, { recursive: true, force: true })
    }
  })
})
