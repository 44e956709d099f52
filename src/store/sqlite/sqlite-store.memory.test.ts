import { existsSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  DAY_MS,
  POLICY,
  sampleCall,
  sampleSession,
  scopeAt,
  success,
} from '../../../test/contracts/samples.ts'
import { STORE_CONTRACT } from '../../../test/contracts/store-contract.ts'
import { openMemoryStore } from './sqlite-store.ts'

/** Space for the empty tables and a few hundred calls. */
const SMALL_BYTES = 800_000
const MORE_THAN_FIT = 5_000

/** Claims calls until one is refused; returns their number and the reason for the refusal. */
async function fill(store: ReturnType<typeof openMemoryStore>) {
  for (let taken = 0; taken < MORE_THAN_FIT; taken += 1) {
    try {
      await store.claim(sampleCall({ record: `record-${taken}` }))
    } catch (error) {
      return { taken, error }
    }
  }
  return expect.fail('no call was refused')
}

describe('the store in memory', () => {
  for (const { name, run } of STORE_CONTRACT) it(name, () => run(async () => openMemoryStore()))

  it('creates no file, and is separate from every other store', async () => {
    const [one, other] = [openMemoryStore(), openMemoryStore()]
    await one.claim(sampleCall())
    expect(await other.find(sampleCall())).toBeUndefined()
    expect(one.isWriterAlive(one.writer)).toBe(true)
    expect(await other.recover(1_000)).toEqual({ deadWriters: 0, ambiguous: 0 })
    expect(one.digest('x')).not.toBe(other.digest('x'))
    await Promise.all([one.close(), other.close()])
    expect([':memory:', ':memory:-writers'].filter(existsSync)).toEqual([])
  })

  it('rule 13: refuses new calls and sessions when full, and evicts nothing', async () => {
    const store = openMemoryStore({ maxBytes: SMALL_BYTES })
    const { taken, error } = await fill(store)
    expect(taken).toBeGreaterThan(10)
    expect(error).toMatchObject({ code: 'full', message: expect.stringContaining('is full') })
    expect((await store.list({ states: ['running'], limit: MORE_THAN_FIT })).calls).toHaveLength(taken)
    const scope = scopeAt('run-b')
    await expect(async () => store.claim(sampleCall({ record: 'one-more', scope }))).rejects.toThrow(
      /is full/,
    )
    expect(await store.findRun(scope)).toBeUndefined()
    await store.close()
  })

  it('rule 13: has space again after calls and sessions are deleted', async () => {
    const store = openMemoryStore({ maxBytes: SMALL_BYTES })
    await store.openSession(sampleSession('ses_1'))
    expect(await store.closeSession(sampleSession('ses_1'), 'completed', 2_000)).toBe(true)
    const atMs = 3_000
    let isFull = false
    for (let taken = 0; taken < MORE_THAN_FIT && !isFull; taken += 1) {
      const call = sampleCall({ record: `record-${taken}`, tier: 'pure' })
      const end = { state: 'succeeded', outcome: success('1'), atMs } as const
      try {
        await store.insertFinished(call, end)
      } catch {
        isFull = true
      }
    }
    expect(isFull).toBe(true)
    for (let round = 1; round < 20; round += 1) await store.purge(atMs + round * 200 * DAY_MS, POLICY)
    expect(await store.openSession(sampleSession('ses_2'))).toBe('opened')
    await store.close()
  })
})
