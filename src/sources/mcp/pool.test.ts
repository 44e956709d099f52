import { describe, expect, it } from 'vitest'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { Backoff, ProcessLimit } from './pool.ts'

describe('Backoff', () => {
  it('doubles the wait after each failure, up to a minute, and does not wait after a long-lived process', () => {
    let nowMs = 0
    const backoff = new Backoff({ ...SYSTEM_CLOCK, monotonicMs: () => nowMs })
    const waits = Array.from({ length: 10 }, () => {
      backoff.failed()
      return backoff.waitMs
    })
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000])
    nowMs += 60_000
    expect(backoff.waitMs).toBe(0)
    backoff.died(31_000)
    expect(backoff.waitMs).toBe(0)
    backoff.died(10)
    expect(backoff.waitMs).toBe(500)
  })
})

describe('ProcessLimit', () => {
  it('grants a process beyond the limit only if it can close an idle one', async () => {
    const processes = new ProcessLimit(1)
    expect([await processes.take(), await processes.take()]).toEqual([true, false])
    processes.join({
      async closeIdle() {
        processes.give()
        return true
      },
    })
    expect(await processes.take()).toBe(true)
    expect(processes.taken).toBe(1)
  })
})
