import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ToolError } from '#kernel/base/errors'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import { openMemoryStore, openSqliteStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, errorOf, FakeClock, gist, openTestGateway } from '#testing/test-gateway'
import { sampleTool } from '../../../test/contracts/samples.ts'
import { UnsavedOutcomes } from './gateway.ts'

describe('an error that cannot be serialised', () => {
  it('rule 11: a started call ends with the valid members of its error, and is recorded', async () => {
    const circular: Record<string, unknown> = {}
    circular.self = circular
    const tool = sampleTool(
      'Odd.Fail@1.0.0',
      () => {
        throw Object.assign(new ToolError('no'), {
          developerMessage: circular,
          retryAfterMs: Number.NaN,
          canRetry: 'yes',
        })
      },
      { requirements: { secrets: [{ id: 'K' }] } },
    )
    const gateway = openTestGateway([tool])
    const request = callRequest('Odd.Fail', { key: 'k', secrets: new Map([['K', new Secret('value')]]) })
    expect(errorOf(await gateway.call(ALICE, request))).toEqual({
      code: 'tool_failed',
      message: 'no',
      canRetry: false,
    })
    expect((await gateway.readCall(ALICE, 'k'))?.state).toBe('failed')
    expect(gateway.running.size).toBe(0)
  })
})

describe('unsaved outcomes', () => {
  it('rule 11: overlapping flushes write each outcome once', async () => {
    const kept = new UnsavedOutcomes(SILENT_LOGGER, () => {})
    let writes = 0
    kept.keep(async () => {
      writes += 1
      await new Promise(setImmediate)
    })
    expect(await Promise.all([kept.flush(), kept.flush(), kept.flush()])).toEqual([0, 0, 0])
    expect(writes).toBe(1)
  })

  it('rule 11: an outcome that cannot be written does not delay the others', async () => {
    const kept = new UnsavedOutcomes(SILENT_LOGGER, () => {})
    let written = false
    kept.keep(() => Promise.reject(new Error('never')))
    kept.keep(async () => {
      written = true
    })
    expect(await kept.flush()).toBe(1)
    expect(written).toBe(true)
  })
})

describe('a released call', () => {
  it('rule 13: whose result has expired returns `result_expired` and does not run again', async () => {
    const clock = new FakeClock()
    const store = openMemoryStore()
    const state = { runs: 0 }
    const tool = sampleTool('Odd.Busy@1.0.0', () => {
      state.runs += 1
      throw new ToolError('busy', { canRetry: true })
    })
    const gateway = openTestGateway([tool], { store, clock })
    await gateway.call(ALICE, callRequest('Odd.Busy', { key: 'k' }))
    clock.advance(2 * 86_400_000)
    store.purge(clock.nowMs(), { resultsMs: 86_400_000, journalMs: 90 * 86_400_000 })
    expect(gist(await gateway.call(ALICE, callRequest('Odd.Busy', { key: 'k' })))).toBe('result_expired')
    expect(state.runs).toBe(1)
  })
})

describe('two processes on one store', () => {
  it('T-02: every request that joined the losing claim gets the winner’s outcome', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'collet-two-'))
    const masterKey = randomBytes(32)
    const state = { runs: 0 }
    const tool = sampleTool('Odd.Once@1.0.0', async () => {
      state.runs += 1
      await new Promise((resolve) => setTimeout(resolve, 20))
      return state.runs
    })
    const stores = [1, 2].map(() => openSqliteStore({ path: join(folder, 'collet.db'), masterKey }))
    const gateways = stores.map((store) => openTestGateway([tool], { store }))
    for (let round = 0; round < 5; round += 1) {
      state.runs = 0
      const replies = await Promise.all(
        Array.from({ length: 12 }, (_, index) =>
          gateways[index % 2]?.call(ALICE, callRequest('Odd.Once', { key: `k${round}` })),
        ),
      )
      expect(new Set(replies.map((reply) => (reply === undefined ? '' : gist(reply))))).toEqual(
        new Set(['ok 1']),
      )
      expect(state.runs).toBe(1)
    }
    for (const gateway of gateways) await gateway.drain(100)
    for (const store of stores) await store.close()
    rmSync(folder, { recursive: true })
  })
})
