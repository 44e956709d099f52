import { expect, it } from 'vitest'
import { readHandle, readResult } from '#results/recorded'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, FakeClock, openTestGateway } from '#testing/test-gateway'
import { sampleTool } from '../contracts/samples.ts'

const DAY_MS = 86_400_000

it('a result that is no longer kept gives an error that says so, and nothing to other callers', async () => {
  const clock = new FakeClock()
  const store = openMemoryStore()
  const gateway = openTestGateway([sampleTool('Odd.List@1.0.0', () => [1, 2])], { store, clock })
  const { callId } = await gateway.call(ALICE, callRequest('Odd.List', { key: 'k' }))
  const read = (principal = ALICE) =>
    readResult(gateway, principal, { ...readHandle(`collet://calls/${callId}`), maxBytes: 1_000 })
  expect((await read()).value).toEqual([1, 2])
  clock.advance(2 * DAY_MS)
  await store.purge(clock.nowMs(), { resultsMs: DAY_MS, journalMs: 90 * DAY_MS })
  await expect(read()).rejects.toMatchObject({ code: 'result_expired' })
  await expect(read({ ...ALICE, id: 'key:other' })).rejects.toMatchObject({ code: 'call_not_found' })
  clock.advance(100 * DAY_MS)
  await store.purge(clock.nowMs(), { resultsMs: DAY_MS, journalMs: 90 * DAY_MS })
  await expect(read()).rejects.toMatchObject({ code: 'call_not_found' })
})
