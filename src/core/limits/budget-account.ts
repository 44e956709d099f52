import type { BudgetStore, BudgetWindow, Spending } from '#core/ports/budget-store'
import type { Budget } from './budget-rule.ts'
import { isNothing, NO_LIMIT, NOTHING, perUnit, UNITS, type Unit } from './spending.ts'

/** The part of a budget that is fetched at a time: a fiftieth, so that few calls wait for the store. */
const CHUNKS = 50
/** A store that had nothing left is not asked again for this long, or refused calls would cost more than others. */
const ASK_AGAIN_MS = 1_000

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** What this process has in its hand of one window of one budget. */
export class BudgetAccount {
  readonly window: BudgetWindow
  readonly budget: Budget
  readonly #store: BudgetStore
  /** Those the budget limits. */
  readonly #units: readonly Unit[]
  /** Leased, and neither spent nor set aside; endless in units the budget does not limit. */
  readonly #free: Mutable<Spending>
  /** Set aside for calls that run. */
  readonly #held: Mutable<Spending> = { ...NOTHING }
  readonly #emptyUntilMs: Mutable<Spending> = { ...NOTHING }
  /** What those who wait for the next lease need. */
  readonly #asked: Mutable<Spending> = { ...NOTHING }
  #leasing: Promise<void> | undefined
  #isSent = false
  #isUsed = true
  #isClosed = false

  constructor(store: BudgetStore, budget: Budget, window: BudgetWindow) {
    this.#store = store
    this.budget = budget
    this.window = window
    this.#units = UNITS.filter((unit) => budget.limit[unit] < NO_LIMIT)
    this.#free = perUnit((unit) => (this.#units.includes(unit) ? 0 : Number.POSITIVE_INFINITY))
  }

  get endsAtMs(): number {
    return this.window.startMs + this.window.lengthMs
  }

  /** Whether calls at this time are of its window, and it is not given up. */
  isFor(nowMs: number): boolean {
    const { startMs, lengthMs } = this.window
    return !this.#isClosed && nowMs >= startMs && nowMs < startMs + lengthMs
  }

  covers(need: Spending): boolean {
    const free = this.#free
    return free.calls >= need.calls && free.milliseconds >= need.milliseconds && free.cost >= need.cost
  }

  /** Only what `covers`. */
  take(need: Spending): void {
    this.#isUsed = true
    this.#hold(need, 1)
    this.#release(need, -1)
  }

  /** Its call ended so much earlier than it might have. */
  settle(need: Spending, unspentMs: number): void {
    this.#hold(need, -1)
    this.#free.milliseconds += unspentMs
  }

  /** Its call did not run. */
  cancel(need: Spending): void {
    this.#hold(need, -1)
    this.#release(need, 1)
  }

  /** The unit that the store has no more of, as far as we know. */
  exhausted(need: Spending, monotonicMs: number): Unit | undefined {
    return this.#units.find((unit) => this.#free[unit] < need[unit] && monotonicMs < this.#emptyUntilMs[unit])
  }

  /** Whether calls that run may still give back what is lacking. */
  mayRecover(unit: Unit): boolean {
    return unit === 'milliseconds' && this.#held[unit] > 0
  }

  /** Fetches another part; those who come meanwhile wait for the same one, and then look again. */
  lease(need: Spending, monotonicMs: () => number): Promise<void> {
    if (!this.#isSent) {
      for (const unit of this.#units) if (this.#free[unit] < need[unit]) this.#asked[unit] += need[unit]
    }
    this.#leasing ??= this.#lease(monotonicMs).finally(() => {
      this.#isSent = false
      this.#leasing = undefined
    })
    return this.#leasing
  }

  /** Whether nobody has used it since this was last asked, nor uses it now. */
  rest(): boolean {
    const isIdle = !this.#isUsed && this.#leasing === undefined && isNothing(this.#held)
    this.#isUsed = false
    return isIdle
  }

  /**
   * Gives back what nothing is set aside for, once: what the store does not get is lost until the window ends, and
   * never spent twice.
   */
  async close(): Promise<void> {
    const unspent = perUnit((unit) => (this.#units.includes(unit) ? this.#free[unit] : 0))
    this.#isClosed = true
    for (const unit of this.#units) this.#free[unit] = 0
    if (!isNothing(unspent)) await this.#store.giveBack(this.window, unspent)
  }

  #hold({ calls, milliseconds, cost }: Spending, sign: 1 | -1): void {
    this.#held.calls += sign * calls
    this.#held.milliseconds += sign * milliseconds
    this.#held.cost += sign * cost
  }

  #release({ calls, milliseconds, cost }: Spending, sign: 1 | -1): void {
    this.#free.calls += sign * calls
    this.#free.milliseconds += sign * milliseconds
    this.#free.cost += sign * cost
  }

  async #lease(monotonicMs: () => number): Promise<void> {
    // Whoever asks in the same turn is in the same lease.
    await Promise.resolve()
    const { limit } = this.budget
    const wanted = perUnit((unit) =>
      this.#asked[unit] === 0 ? 0 : Math.max(this.#asked[unit], Math.floor(limit[unit] / CHUNKS)),
    )
    Object.assign(this.#asked, NOTHING)
    this.#isSent = true
    const granted = await this.#store.lease(this.window, wanted, limit)
    this.#isUsed = true
    for (const unit of this.#units) {
      this.#free[unit] += granted[unit]
      if (granted[unit] < wanted[unit]) this.#emptyUntilMs[unit] = monotonicMs() + ASK_AGAIN_MS
    }
  }
}
