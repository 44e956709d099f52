import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { FakeClock } from '#testing/test-gateway'
import { startRetention } from './services.ts'

const KEPT = { calls: { retentionHours: 1 }, journal: { retentionDays: 2 } }
const POLICY = { resultsMs: 3_600_000, journalMs: 172_800_000 }
const MINUTE_MS = 60_000

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
})
afterEach(() => {
  vi.useRealTimers()
})

/** The result of each purge step; the last result repeats. */
function start(...answers: readonly (boolean | Error)[]) {
  const store = openMemoryStore()
  const asked: { readonly nowMs: number; readonly policy: unknown }[] = []
  vi.spyOn(store, 'purge').mockImplementation(async (nowMs, policy) => {
    const answer = answers[Math.min(asked.length, answers.length - 1)]
    asked.push({ nowMs, policy })
    if (answer instanceof Error) throw answer
    return answer ?? false
  })
  const clock = new FakeClock()
  const errors: string[] = []
  const log = { ...SILENT_LOGGER, error: (_facts: object | string, text = '') => void errors.push(text) }
  return { retention: startRetention(store, KEPT, { clock, log }), asked, errors, clock }
}

describe('the purge in the background', () => {
  it('rule 13: runs once a minute with the current time, and continues at once while rows remain', async () => {
    const { asked, clock } = start(true, true, false)
    expect(asked).toEqual([])
    clock.advance(MINUTE_MS)
    await vi.advanceTimersByTimeAsync(MINUTE_MS)
    await vi.advanceTimersByTimeAsync(100)
    expect(asked).toEqual(Array(3).fill({ nowMs: clock.nowMs(), policy: POLICY }))
    await vi.advanceTimersByTimeAsync(MINUTE_MS)
    expect(asked).toHaveLength(4)
  })

  it('continues after a failure, which it logs', async () => {
    const { asked, errors } = start(new Error('disk'), false)
    await vi.advanceTimersByTimeAsync(2 * MINUTE_MS + 10)
    expect([asked.length, errors]).toEqual([2, ['retention failed and is retried in a minute']])
  })

  it('ends when stopped', async () => {
    const { retention, asked } = start(true)
    retention.close()
    await vi.advanceTimersByTimeAsync(10 * MINUTE_MS)
    expect(asked).toEqual([])
  })
})
