import { describe, expect, it } from 'vitest'
import { SYSTEM_CLOCK } from '#core/runtime'
import { Turns } from './connection.ts'
import { ProcessPlaces } from './pool.ts'
import { Backoff } from './upstream.ts'

const FOREVER = new AbortController().signal

describe('Turns', () => {
  it('lets in as many as allowed, in order, and forgets who left the line', async () => {
    const turns = new Turns(() => 1)
    await turns.enter(FOREVER)
    const log: string[] = []
    const impatient = new AbortController()
    const second = turns.enter(impatient.signal).catch(() => log.push('left'))
    const third = turns.enter(FOREVER).then(() => log.push('third'))
    impatient.abort()
    await second
    turns.leave()
    await third
    expect(log).toEqual(['left', 'third'])
    turns.leave()
    expect(turns.taken).toBe(0)
  })
})

describe('Backoff', () => {
  it('waits longer each time, up to a minute, and not after what lived long', () => {
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

describe('ProcessPlaces', () => {
  it('is full when nobody idles', async () => {
    const places = new ProcessPlaces(1)
    expect([await places.take(), await places.take()]).toEqual([true, false])
    places.join({
      async releaseIdle() {
        places.give()
        return true
      },
    })
    expect(await places.take()).toBe(true)
    expect(places.taken).toBe(1)
  })
})
