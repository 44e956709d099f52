import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { describe, it } from 'vitest'
import { createGuardedFetch } from '#egress/guarded-fetch'
import { startServer } from '#server/start-server'
import { createCommandSource } from '#sources/command/index'
import { COMMAND_OPTIONS } from '#sources/command/options'
import { createOpenToolSource } from '#sources/opentool/index'
import { OPENTOOL_OPTIONS } from '#sources/opentool/options'
import { createOtcSource } from '#sources/otc/index'
import { OTC_OPTIONS } from '#sources/otc/options'
import { sampleTool } from '../contracts/samples.ts'
import { SOURCE_CONTRACT, type SourceUnderTest } from '../contracts/source-contract.ts'
import { ADD, prepared } from '../samples/definitions.ts'
import { testSettings } from '../test-settings.ts'
import { servicesOf } from './sample-invocation.ts'

/** A real server of this package behind a source. */
async function upstream() {
  const slow = sampleTool('Clock.Wait@1.0.0', () => new Promise(() => {}))
  const settings = testSettings({ tools: [prepared(ADD), slow] })
  const server = await startServer(settings, { graceMs: 0 })
  const guarded = createGuardedFetch({ allow: [new URL(server.url).host] })
  return {
    url: server.url,
    services: servicesOf({ fetch: guarded }),
    stop: () => server.close(),
    async close() {
      await guarded.close()
      await server.close()
      rmSync(settings.dataFolder, { recursive: true, force: true })
    },
  }
}

const sum = { input: { a: 2, b: 3 }, check: (value: unknown) => assert.equal(value, 5) }

const SUBJECTS: Readonly<Record<string, () => Promise<SourceUnderTest>>> = {
  async otc() {
    const { url, services, stop, close } = await upstream()
    const source = createOtcSource('Up', OTC_OPTIONS.parse({ type: 'otc', url }), services)
    const good = { nativeName: 'Calculator.Add', ...sum }
    return { source, good, slow: { nativeName: 'Clock.Wait', input: {} }, stop, close }
  },
  async opentool() {
    const { url, services, stop, close } = await upstream()
    const source = createOpenToolSource('Up', OPENTOOL_OPTIONS.parse({ type: 'opentool', url }), services)
    const good = { nativeName: 'Calculator_Add', ...sum }
    return { source, good, slow: { nativeName: 'Clock_Wait', input: {} }, stop, close }
  },
  async command() {
    const options = COMMAND_OPTIONS.parse({
      type: 'command',
      isolation: 'none',
      commands: {
        copy: {
          argv: ['cat'],
          description: 'Returns its input.',
          input: { type: 'object', properties: { word: { type: 'string' } } },
          stdin: 'json',
          output: 'json',
        },
        wait: { argv: ['sleep', '60'], description: 'Waits.' },
      },
    })
    const services = servicesOf({ folder: tmpdir(), environment: process.env })
    return {
      source: createCommandSource('Ops', options, services),
      good: {
        nativeName: 'copy',
        input: { word: 'hi' },
        check: (value) => assert.deepEqual(value, { word: 'hi' }),
      },
      slow: { nativeName: 'wait', input: {} },
      async close() {},
    }
  },
}

describe.each(Object.entries(SUBJECTS))('the source %s', (_type, open) => {
  it.each(SOURCE_CONTRACT.map((each) => [each.name, each] as const))(
    '%s',
    async (_name, each) => {
      await each.run(open)
    },
    30_000,
  )
})
