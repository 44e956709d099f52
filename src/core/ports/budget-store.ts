import type { MaybePromise } from './maybe-promise.ts'

/** What a budget counts, each a whole number: `cost` in thousandths of a unit. */
export interface Spending {
  readonly calls: number
  readonly milliseconds: number
  readonly cost: number
}

/** One window of one budget. Windows are whole multiples of their length since 1970, so every process means the same. */
export interface BudgetWindow {
  readonly tenant: string
  /** `undefined` = the tenant as a whole. */
  readonly principal: string | undefined
  readonly lengthMs: number
  readonly startMs: number
}

/**
 * How much of each window is handed out. A process takes a part before anything is spent from it, so whatever dies or
 * interleaves, no more than the limit is spent; what a crash leaves unspent is lost until the window ends.
 */
export interface BudgetStore {
  /** Takes as much of `wanted` as `limit` still leaves, each unit for itself, in one step; gives what it took. */
  lease(window: BudgetWindow, wanted: Spending, limit: Spending): MaybePromise<Spending>
  /** Puts back what was leased and not spent. Never repeat one whose outcome is unknown: it may have counted. */
  giveBack(window: BudgetWindow, unspent: Spending): MaybePromise<void>
  /** What is handed out. */
  read(window: BudgetWindow): MaybePromise<Spending>
}
