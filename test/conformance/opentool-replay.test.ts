import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { startServer } from '#server/start-server'
import { testSettings } from '../test-settings.ts'

let folder = ''
let runs = 0

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-replay-'))
  runs = 0
})
afterEach(() => rmSync(folder, { recursive: true }))

function writeTool(q: JsonObject | undefined) {
  return tool({
    id: 'T.X@1.0.0',
    description: 'Counts its runs.',
    input: { type: 'object', properties: q === undefined ? {} : { q: { description: 'Any.', ...q } } },
    output: { type: 'string' },
    policy: { safetyTier: 'write' },
    run: () => {
      runs += 1
      return `ran ${runs}`
    },
  })
}

/** One call of a server with this tool, on the same store each time. */
async function ask(served: ReturnType<typeof writeTool> | undefined, params: JsonObject, key: string) {
  const tools = requireTools(served === undefined ? [] : [served])
  const store = `sqlite:${join(folder, 'collet.db')}`
  const server = await startServer(testSettings({ tools, store, dataFolder: folder }), { graceMs: 0 })
  try {
    const reply = await fetch(`${server.url}/opentool/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify({ jsonrpc: '2.0', method: 'T_X', params, id: 1 }),
    })
    const { result, error }: { result: JsonObject | null; error: { data: JsonObject } | null } = JSON.parse(
      await reply.text(),
    )
    return result?.result ?? error?.data.code
  } finally {
    await server.close()
  }
}

describe('a repeated request after the tools have changed', () => {
  const before = writeTool({ type: 'string' })

  it.each([
    ['a parameter that now accepts null', writeTool({ type: ['string', 'null'] })],
    ['a removed parameter', writeTool(undefined)],
    ['a removed tool', undefined],
  ])('rule 1: is answered from the record: %s', async (_, after) => {
    expect(await ask(before, { q: null }, 'k')).toBe('ran 1')
    expect(await ask(after, { q: null }, 'k')).toBe('ran 1')
    expect(runs).toBe(1)
  })

  it('rules 1, 5: other arguments under the key are a conflict, reported only if the tool exists', async () => {
    await ask(before, { q: 'a' }, 'k')
    expect(await ask(before, { q: 'b' }, 'k')).toBe('key_conflict')
    expect(await ask(undefined, { q: 'b' }, 'k')).toBe('tool_not_found')
  })

  it('OTS-43: requests with and without an ignored null are equal', async () => {
    expect(await ask(before, {}, 'k')).toBe('ran 1')
    expect(await ask(before, { q: null }, 'k')).toBe('ran 1')
  })
})
