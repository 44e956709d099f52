import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Reservation } from '#kernel/call/stages'
import type { BudgetWindow, Spending } from '#kernel/journal/notices'
import type { BudgetStore } from '#store/limits'
import { ALICE, FakeClock } from '#testing/test-gateway'
import { sampleTool } from '../../../test/contracts/samples.ts'
import { ReferenceBudgets } from '../../../test/store/reference-model/parts.ts'
import type { BudgetRule } from './budgets.ts'
import { Budgets, NOTHING, perUnit, UNITS } from './budgets.ts'

const WINDOW_MS = 60_000
const LIMIT: Spending = { calls: 12, milliseconds: 2_500, cost: 14_000 }
const RULES: readonly BudgetRule[] = [
  { for: 'principal', of: undefined, windowMs: WINDOW_MS, limit: LIMIT },
  { for: 'tenant', of: undefined, windowMs: WINDOW_MS, limit: LIMIT },
]
const TOOLS = [
  sampleTool('Quick.Run@1.0.0', () => 1, { policy: { timeoutMs: 50, cost: 0.5 } }),
  sampleTool('Slow.Run@1.0.0', () => 1, { policy: { timeoutMs: 700, cost: 2 } }),
]

/** What happens to one answer of the store: it arrives, it is lost, or the request never arrived. */
type Fate = 'answer' | 'lost' | 'failed'

/** A remote store: each request waits until the test lets it proceed. */
class FarStore implements BudgetStore {
  readonly #near: ReferenceBudgets
  readonly waiting: ((fate: Fate) => void)[] = []

  constructor(near: ReferenceBudgets) {
    this.#near = near
  }

  lease(window: BudgetWindow, wanted: Spending, limit: Spending): Promise<Spending> {
    return this.#later(() => this.#near.lease(window, wanted, limit))
  }

  returnUnspent(window: BudgetWindow, unspent: Spending): Promise<void> {
    return this.#later(() => this.#near.returnUnspent(window, unspent))
  }

  read(window: BudgetWindow): Spending {
    return this.#near.read(window)
  }

  #later<T>(act: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.waiting.push((fate) => {
        const done = fate === 'failed' ? undefined : { value: act() }
        if (fate === 'answer' && done !== undefined) resolve(done.value)
        else reject(new Error('no answer'))
      })
    })
  }
}

interface Run {
  readonly reservation: Reservation
  readonly need: Spending
  readonly window: number
}

interface Process {
  budgets: Budgets
  runs: Run[]
}

type Step =
  | { readonly do: 'call'; readonly process: number; readonly tool: number }
  | { readonly do: 'end'; readonly process: number; readonly tookMs: number }
  | { readonly do: 'refuse' | 'crash' | 'tidy' | 'close'; readonly process: number }
  | { readonly do: 'answer'; readonly fate: Fate }
  | { readonly do: 'wait'; readonly ms: number }

const process = fc.nat({ max: 2 })
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('call'), process, tool: fc.nat({ max: 1 }) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('answer'), fate: fate() }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('end'), process, tookMs: fc.nat({ max: 900 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('refuse', 'tidy', 'close', 'crash'), process }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('wait'), ms: fc.constantFrom(900, 11_000, WINDOW_MS) }),
  },
)

function fate(): fc.Arbitrary<Fate> {
  return fc.oneof(
    { weight: 8, arbitrary: fc.constant('answer') },
    { weight: 1, arbitrary: fc.constantFrom('lost', 'failed') },
  )
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

class Model {
  readonly clock = new FakeClock(1_000 * WINDOW_MS)
  readonly #store = new FarStore(new ReferenceBudgets())
  readonly #spent = new Map<number, Spending>()
  readonly #processes: Process[] = [0, 1, 2].map(() => ({ budgets: this.#open(), runs: [] }))

  async apply(taken: Step): Promise<void> {
    if (taken.do === 'answer') this.#store.waiting.shift()?.(taken.fate)
    else if (taken.do === 'wait') this.clock.advance(taken.ms)
    else this.#act(taken, this.#processes[taken.process])
    await settled()
    this.#check()
  }

  /** In the next window the whole budget is available again, whatever happened before. */
  async expectRenewal(): Promise<void> {
    for (let left = 0; left < 1_000 && this.#store.waiting.length > 0; left += 1) {
      await this.apply({ do: 'answer', fate: 'answer' })
    }
    this.clock.advance(WINDOW_MS)
    const [tool] = TOOLS
    const budgets = this.#open()
    let calls = 0
    for (let refused = false; !refused; ) {
      let isAnswered = false
      const ask = async () => {
        if (tool === undefined) throw new Error('no tool')
        const reservation = await budgets.reserve(ALICE, tool)
        reservation?.settle(1)
        calls += 1
      }
      ask()
        .catch(() => {
          refused = true
        })
        .finally(() => {
          isAnswered = true
        })
      while (!isAnswered) {
        await settled()
        this.#store.waiting.shift()?.('answer')
      }
    }
    expect(calls).toBe(LIMIT.calls)
  }

  #open(): Budgets {
    return new Budgets({ store: this.#store, rules: RULES, clock: this.clock, onRefused: () => undefined })
  }

  #act(taken: Exclude<Step, { do: 'answer' | 'wait' }>, at: Process | undefined): void {
    if (at === undefined) return
    const ignore = () => undefined
    switch (taken.do) {
      case 'call':
        this.#call(at, taken.tool)
        return
      case 'end': {
        const run = at.runs.shift()
        if (run === undefined) return
        run.reservation.settle(taken.tookMs)
        const { milliseconds } = run.need
        this.#count(run.window, { ...run.need, milliseconds: Math.min(taken.tookMs, milliseconds) })
        return
      }
      case 'refuse':
        at.runs.shift()?.reservation.cancel()
        return
      case 'tidy':
        at.budgets.tidy().catch(ignore)
        return
      case 'close':
        at.budgets.close().catch(ignore)
        return
      case 'crash':
        // The duration of these runs is unknown, so the maximum is assumed.
        for (const { window, need } of at.runs) this.#count(window, need)
        at.runs = []
        at.budgets = this.#open()
    }
  }

  #call(at: Process, which: number): void {
    const tool = TOOLS[which]
    if (tool === undefined) return
    const { budgets } = at
    const { timeoutMs, cost = 1 } = tool.policy
    const need = { calls: 1, milliseconds: timeoutMs, cost: cost * 1_000 }
    const begin = (reservation: Reservation | undefined) => {
      if (reservation === undefined) throw new Error('no budget applies')
      const run = { reservation, need, window: this.#window() }
      // A process that died in the meantime starts nothing.
      if (at.budgets === budgets) at.runs.push(run)
    }
    ;(async () => begin(await budgets.reserve(ALICE, tool)))().catch(() => undefined)
  }

  #window(): number {
    return Math.floor(this.clock.nowMs() / WINDOW_MS)
  }

  #count(window: number, spent: Spending): void {
    const before = this.#spent.get(window) ?? NOTHING
    this.#spent.set(
      window,
      perUnit((unit) => before[unit] + spent[unit]),
    )
  }

  /** The amount spent, and the maximum that running calls may still spend. */
  #check(): void {
    const sums = new Map(this.#spent)
    for (const { runs } of this.#processes) {
      for (const { window, need } of runs) {
        const before = sums.get(window) ?? NOTHING
        sums.set(
          window,
          perUnit((unit) => before[unit] + need[unit]),
        )
      }
    }
    for (const sum of sums.values()) {
      for (const unit of UNITS) expect(sum[unit]).toBeLessThanOrEqual(LIMIT[unit])
    }
  }
}

describe('budgets of several processes', () => {
  it('are never overspent, however requests interleave, fail or get lost; and an amount is lost for one window at most', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 40, maxLength: 150, size: 'max' }), async (steps) => {
        const model = new Model()
        for (const taken of steps) await model.apply(taken)
        await model.expectRenewal()
      }),
      { numRuns: 200 },
    )
  })
})
