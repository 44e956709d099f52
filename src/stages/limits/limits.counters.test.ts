import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FakeClock } from '#testing/test-gateway'
import { KeyedCounter, Semaphore } from './limits.ts'
import { TokenBuckets } from './rates.ts'

const RATE = { perMs: 1 / 100, burst: 3 }

/** Takes a token if there is one. */
function take(buckets: TokenBuckets, clock: FakeClock, key: string, rate = RATE): boolean {
  const bucket = buckets.find(key, rate, clock.monotonicMs())
  if (bucket.waitMs > 0) return false
  bucket.take()
  return true
}

describe('TokenBuckets', () => {
  it('allows a burst, then one call per interval, and reports how long to wait', () => {
    const clock = new FakeClock()
    const buckets = new TokenBuckets()
    expect([1, 2, 3, 4].map(() => take(buckets, clock, 'a'))).toEqual([true, true, true, false])
    expect(buckets.find('a', RATE, clock.monotonicMs()).waitMs).toBe(100)
    clock.advance(60)
    expect(buckets.find('a', RATE, clock.monotonicMs()).waitMs).toBeCloseTo(40)
    clock.advance(40)
    expect([1, 2].map(() => take(buckets, clock, 'a'))).toEqual([true, false])
    expect(take(buckets, clock, 'b')).toBe(true)
  })

  it('never allows more than the burst and the refilled tokens, at any times', () => {
    const waits = fc.array(fc.integer({ min: 0, max: 250 }), { maxLength: 80 })
    fc.assert(
      fc.property(
        waits,
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 50 }),
        (times, burst, every) => {
          const clock = new FakeClock()
          const buckets = new TokenBuckets()
          const rate = { perMs: 1 / every, burst }
          let given = 0
          let passedMs = 0
          for (const ms of times) {
            clock.advance(ms)
            passedMs += ms
            if (take(buckets, clock, 'a', rate)) given += 1
            expect(given).toBeLessThanOrEqual(burst + passedMs / every + 1e-6)
          }
        },
      ),
    )
  })

  it('drops only full buckets: a caller cannot refill its bucket by flooding with other keys', () => {
    const clock = new FakeClock()
    const buckets = new TokenBuckets(100)
    while (take(buckets, clock, 'greedy'));
    for (let other = 0; other < 5_000; other += 1) take(buckets, clock, `other ${other}`)
    expect(buckets.size).toBeLessThanOrEqual(101)
    expect(take(buckets, clock, 'greedy')).toBe(false)
  })

  it('lets new keys share one bucket at the limit, and gives them their own below it', () => {
    const clock = new FakeClock()
    const buckets = new TokenBuckets(10)
    for (let index = 0; index < 10; index += 1) take(buckets, clock, `early ${index}`)
    expect(['x', 'y', 'z', 'u'].map((key) => take(buckets, clock, key))).toEqual([true, true, true, false])
    clock.advance(10_000)
    expect(['x', 'y', 'z', 'u'].map((key) => take(buckets, clock, key))).toEqual([true, true, true, true])
  })

  it('stays small while callers change', () => {
    const clock = new FakeClock()
    const buckets = new TokenBuckets()
    for (let caller = 0; caller < 20_000; caller += 1) {
      clock.advance(1)
      take(buckets, clock, `caller ${caller}`)
    }
    expect(buckets.size).toBeLessThan(1_000)
  })
})

describe('KeyedCounter', () => {
  it('counts by key and in total, and releases each count once', () => {
    const counter = new KeyedCounter()
    const release = counter.take('a')
    counter.add('b', 2)
    expect([counter.count('a'), counter.count('b'), counter.count(undefined), counter.total]).toEqual([
      1, 2, 0, 3,
    ])
    release()
    release()
    expect([counter.count('a'), counter.total]).toEqual([0, 2])
  })
})

describe('Semaphore', () => {
  it('admits as many as allowed, in order, and removes aborted waiters', async () => {
    const forever = new AbortController().signal
    const semaphore = new Semaphore(() => 1)
    await semaphore.enter(forever)
    expect(semaphore.tryEnter()).toBe(false)
    const log: string[] = []
    const impatient = new AbortController()
    const second = semaphore.enter(impatient.signal).catch(() => log.push('left'))
    const third = semaphore.enter(forever).then(() => log.push('third'))
    impatient.abort()
    await second
    semaphore.leave()
    await third
    expect(log).toEqual(['left', 'third'])
    semaphore.leave()
    expect(semaphore.taken).toBe(0)
  })
})
