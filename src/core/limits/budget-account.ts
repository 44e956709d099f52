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
  /** Leased and not spent. */
  readonly #free: Mutable<Spending> = { ...NOTHING }
  /** Set aside for calls that run. */
  readonly #held: Mutable<Spending> = { ...NOTHING }
  readonly #emptyUntilMs: Mutable<Spending> = { ...NOTHING }
  /** What those who wait for the next lease need. */
  readonly #asked: Mutable<Spending> = { ...NOTHING }
  #leasing: Promise<void> | undefined
  #isSent = false
  #touchedMs = 0

  constructor(store: BudgetStore, budget: Budget, window: BudgetWindow) {
    this.#store = store
    this.budget = budget
    this.window = window
  }

  get endsAtMs(): number {
    return this.window.startMs + this.window.lengthMs
  }

  covers(need: Spending): boolean {
    return this.#lacking(need) === undefined
  }

  /** Only what `covers`. */
  take(need: Spending, monotonicMs: number): void {
    this.#touchedMs = monotonicMs
    this.#move(need, 1)
  }

  /** A call ended: what was set aside and not spent can be used again. */
  settle(need: Spending, unspent: Spending): void {
    this.#move(need, -1)
    for (const unit of UNITS) if (this.#counts(unit)) this.#free[unit] -= need[unit] - unspent[unit]
  }

  /** The unit that the store has no more of, as far as we know. */
  exhausted(need: Spending, monotonicMs: number): Unit | undefined {
    return UNITS.find((unit) => this.#lacks(unit, need) && monotonicMs < this.#emptyUntilMs[unit])
  }

  /** Whether calls that run may still give back what is lacking. */
  mayRecover(unit: Unit): boolean {
    return unit === 'milliseconds' && this.#held[unit] > 0
  }

  /** Fetches another part; those who come meanwhile wait for the same one, and then look again. */
  lease(need: Spending, monotonicMs: () => number): Promise<void> {
    if (!this.#isSent) {
      for (const unit of UNITS) if (this.#lacks(unit, need)) this.#asked[unit] += need[unit]
    }
    this.#leasing ??= this.#lease(monotonicMs).finally(() => {
      this.#isSent = false
      this.#leasing = undefined
    })
    return this.#leasing
  }

  /** Nobody uses it: nothing is set aside, and nothing was taken since. */
  isIdle(sinceMs: number): boolean {
    return this.#leasing === undefined && isNothing(this.#held) && this.#touchedMs <= sinceMs
  }

  /**
   * What nothing is set aside for, once: what the store does not get back is lost until the window ends, and never
   * spent twice.
   */
  async close(): Promise<void> {
    const unspent = perUnit((unit) => this.#free[unit] - this.#held[unit])
    Object.assign(this.#free, this.#held)
    if (!isNothing(unspent)) await this.#store.giveBack(this.window, unspent)
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
    const nowMs = monotonicMs()
    this.#touchedMs = nowMs
    for (const unit of UNITS) {
      this.#free[unit] += granted[unit]
      if (granted[unit] < wanted[unit]) this.#emptyUntilMs[unit] = nowMs + ASK_AGAIN_MS
    }
  }

  #move(need: Spending, sign: 1 | -1): void {
    for (const unit of UNITS) if (this.#counts(unit)) this.#held[unit] += sign * need[unit]
  }

  #lacking(need: Spending): Unit | undefined {
    return UNITS.find((unit) => this.#lacks(unit, need))
  }

  #lacks(unit: Unit, need: Spending): boolean {
    return this.#counts(unit) && this.#free[unit] - this.#held[unit] < need[unit]
  }

  #counts(unit: Unit): boolean {
    return this.budget.limit[unit] < NO_LIMIT
  }
}
