import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Store } from '#store/collet-store'
import type { RateStore } from '#store/limits'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { ALICE, FakeClock } from '#testing/test-gateway'
import { sampleTool } from '../../../test/contracts/samples.ts'
import { CallLimits } from './limits.ts'
import { SharedBuckets, sliceOf } from './rates.ts'
import { NO_LIMITS, type TokenRate } from './settings.ts'

const PROCESSES = 4

let store: Store

beforeEach(() => {
  store = openMemoryStore()
})
afterEach(() => store.close())

/** Takes a token like a call; returns whether there was one. */
async function take(buckets: SharedBuckets, key: string, rate: TokenRate): Promise<boolean> {
  const tokens = buckets.find(key, rate)
  while (tokens.mustAsk) await tokens.ask()
  if (tokens.waitMs > 0) return false
  tokens.take()
  return true
}

/** Counts the requests to the store. */
function counted(rates: RateStore): RateStore & { asked: number } {
  return {
    asked: 0,
    take(...wanted) {
      this.asked += 1
      return rates.take(...wanted)
    },
  }
}

describe('SharedBuckets', () => {
  it('lease one slice again after a burst', async () => {
    const rate: TokenRate = { perMs: 1 / 10, burst: 1_000 }
    const wanted: number[] = []
    const watched: RateStore = {
      take(bucket, tokens, at) {
        wanted.push(tokens)
        return store.rates.take(bucket, tokens, at)
      },
    }
    const buckets = new SharedBuckets({ store: watched, clock: new FakeClock(), kind: 'burst' })
    const burst = 3 * sliceOf(rate)
    await Promise.all(Array.from({ length: burst }, () => take(buckets, 'all', rate)))
    expect(Math.max(...wanted)).toBe(burst)
    wanted.length = 0
    while (wanted.length < 3) await take(buckets, 'all', rate)
    expect(new Set(wanted)).toEqual(new Set([sliceOf(rate)]))
  })

  type Step =
    | { readonly do: 'call'; readonly process: number; readonly times: number }
    | { readonly do: 'kill'; readonly process: number }
    | { readonly do: 'wait'; readonly ms: number }

  const process = fc.nat({ max: PROCESSES - 1 })
  const step: fc.Arbitrary<Step> = fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({ do: fc.constant('call'), process, times: fc.integer({ min: 1, max: 12 }) }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('kill'), process }) },
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant('wait'), ms: fc.integer({ min: 1, max: 700 }) }),
    },
  )

  it('never exceed, in any period, the rate and the slices that processes held before it', async () => {
    const rate: TokenRate = { perMs: 1 / 50, burst: 30 }
    let run = 0
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        run += 1
        const clock = new FakeClock()
        const open = () => new SharedBuckets({ store: store.rates, clock, kind: `run ${run}` })
        const processes = Array.from({ length: PROCESSES }, open)
        const spentAt: number[] = []
        for (const taken of steps) {
          if (taken.do === 'wait') clock.advance(taken.ms)
          else if (taken.do === 'kill') processes[taken.process] = open()
          else {
            const buckets = processes[taken.process] ?? open()
            const calls = Array.from({ length: taken.times }, () => take(buckets, 'all', rate))
            for (const isTaken of await Promise.all(calls)) if (isTaken) spentAt.push(clock.nowMs())
          }
        }
        for (const [from, fromMs] of spentAt.entries()) {
          for (const [to, toMs] of spentAt.entries()) {
            const most = rate.burst + (toMs - fromMs) * rate.perMs + PROCESSES * sliceOf(rate)
            if (to >= from) expect(to - from + 1).toBeLessThanOrEqual(most)
          }
        }
        // Tokens that were lost with a process are refilled by time.
        clock.advance(rate.burst / rate.perMs)
        const fresh = open()
        const all = await Promise.all(Array.from({ length: 40 }, () => take(fresh, 'all', rate)))
        expect(all.filter((isTaken) => isTaken)).toHaveLength(rate.burst)
      }),
      { numRuns: 60 },
    )
  })

  it('ask the store once per slice, once for many simultaneous calls, and not again before there can be more tokens', async () => {
    const rate: TokenRate = { perMs: 1 / 1_000, burst: 40 }
    const clock = new FakeClock()
    const rates = counted(store.rates)
    const buckets = new SharedBuckets({ store: rates, clock, kind: 'principal' })
    for (const nth of [1, 2, 3, 4]) expect(await take(buckets, 'a', rate), `token ${nth}`).toBe(true)
    expect(rates.asked).toBe(1)
    await Promise.all(Array.from({ length: 36 }, () => take(buckets, 'a', rate)))
    expect(rates.asked).toBe(2)
    expect(await take(buckets, 'a', rate)).toBe(false)
    expect(await take(buckets, 'a', rate)).toBe(false)
    expect(rates.asked).toBe(3)
    expect(buckets.find('a', rate).waitMs).toBe(1_000)
    clock.advance(1_000)
    expect(await take(buckets, 'a', rate)).toBe(true)
    expect(rates.asked).toBe(4)
  })

  it('keep keys and kinds apart', async () => {
    const rate: TokenRate = { perMs: 1e-6, burst: 1 }
    const clock = new FakeClock()
    const [one, other] = ['principal', 'tool'].map(
      (kind) => new SharedBuckets({ store: store.rates, clock, kind }),
    )
    if (one === undefined || other === undefined) throw new Error('two kinds were opened')
    expect(await take(one, 'a', rate)).toBe(true)
    expect(await take(one, 'a', rate)).toBe(false)
    expect(await take(one, 'b', rate)).toBe(true)
    expect(await take(other, 'a', rate)).toBe(true)
  })
})

describe('CallLimits of processes that share their rates', () => {
  const RATE: TokenRate = { perMs: 1e-6, burst: 3 }
  const TOOL = sampleTool('Doorbell.Ring@1.0.0', () => 1)

  function openLimits(clock: FakeClock, refused: string[]): CallLimits {
    return new CallLimits({
      settings: {
        ...NO_LIMITS,
        perPrincipal: { rate: { ...RATE, burst: 5 }, concurrent: undefined },
        perTool: {
          rate: RATE,
          concurrent: undefined,
          perPrincipal: { rate: RATE, concurrent: undefined },
        },
        total: { ...NO_LIMITS.total, rate: { ...RATE, burst: 100 } },
      },
      clock,
      running: { slots: 0 },
      store: { pendingWrites: 0 },
      delayMs: () => 0,
      budgets: { rules: [], reserve: () => undefined, close: async () => undefined },
      refusals: { add: async () => undefined },
      sharedRates: store.rates,
      onRefused: (name) => refused.push(name),
    })
  }

  it('refuse together the calls that a single process would refuse, and report when to retry', async () => {
    const clock = new FakeClock()
    const refused: string[] = []
    const processes = Array.from({ length: PROCESSES }, () => openLimits(clock, refused))
    const ends = await Promise.allSettled(
      processes.map(async (limits) => await limits.checkTool(ALICE, TOOL)),
    )
    expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(3)
    expect(refused).toEqual(['tool_rate'])
    expect(ends.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { code: 'rate_limited', retryAfterMs: 1_000_000, details: { scope: 'tool' } },
    })
    const callers = [...processes, ...processes].map(async (limits) => await limits.checkCaller(ALICE))
    const admitted = await Promise.allSettled(callers)
    expect(admitted.filter(({ status }) => status === 'fulfilled')).toHaveLength(5)
  })
})
