import { afterEach, describe, expect, it, vi } from 'vitest'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { FakeClock } from '#testing/test-gateway'
import { startLoadWatch } from './services.ts'

afterEach(() => {
  vi.useRealTimers()
})

describe('the load watch', () => {
  it('tells of delays that last, not of one', () => {
    vi.useFakeTimers()
    const clock = new FakeClock()
    const watch = startLoadWatch(clock)
    const look = (lateMs: number) => {
      clock.advance(100 + lateMs)
      vi.advanceTimersByTime(100)
      return watch.delayMs()
    }
    expect([look(900), look(0), look(700), look(800)]).toEqual([0, 0, 0, 0])
    expect([look(600), look(650), look(0)]).toEqual([600, 600, 0])
    watch.stop()
  })

  it('says nothing while the loop is on time', async () => {
    const watch = startLoadWatch(SYSTEM_CLOCK)
    expect(watch.delayMs()).toBe(0)
    watch.stop()
  })
})
