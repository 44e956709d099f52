import { describe, expect, it } from 'vitest'
import { FakeClock } from '#testing/test-gateway'
import { watchLoad } from './limits.ts'

describe('the load watch', () => {
  it('reports repeated delays, but not a single one', async () => {
    const clock = new FakeClock()
    let poll = async (): Promise<void> => {}
    const delayMs = watchLoad(clock, (ms, _what, act) => {
      expect(ms).toBe(100)
      poll = act
    })
    const after = async (lateMs: number): Promise<number> => {
      clock.advance(100 + lateMs)
      await poll()
      return delayMs()
    }
    const measured: number[] = []
    for (const lateMs of [900, 0, 700, 800, 600, 650, 0]) measured.push(await after(lateMs))
    expect(measured).toEqual([0, 0, 0, 0, 600, 600, 0])
  })
})
