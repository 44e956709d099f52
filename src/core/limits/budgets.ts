import type { BudgetStore, Spending } from '#core/ports/budget-store'
import type { Clock } from '#core/ports/clock'
import type { MaybePromise } from '#core/ports/maybe-promise'
import type { Principal } from '#core/principal'
import type { Tool } from '#core/tool'
import { BudgetAccount } from './budget-account.ts'
import { type Budget, type BudgetRule, budgetsFor } from './budget-rule.ts'
import { type LimitName, limitRefusal } from './limit-refusal.ts'
import { NOTHING } from './spending.ts'
import { subjectKey } from './subject-key.ts'

/** How long what nobody uses is kept before others may have it. */
const IDLE_MS = 10_000
/** When a call that others' reservations keep out may look again. */
const RESERVED_RETRY_MS = 1_000
const COST_PARTS = 1_000
const USUAL_COST = 1

export interface BudgetsOptions {
  readonly store: BudgetStore
  readonly rules: readonly BudgetRule[]
  readonly clock: Clock
  onRefused(name: LimitName): void
}

/** What one run may spend, set aside before it begins. */
export class Reservation {
  readonly #accounts: readonly BudgetAccount[]
  readonly #need: Spending
  #isOpen = true

  constructor(accounts: readonly BudgetAccount[], need: Spending) {
    this.#accounts = accounts
    this.#need = need
  }

  /** It ran this long. Time beyond its timeout is not counted: no more was set aside. */
  settle(durationMs: number): void {
    const left = this.#need.milliseconds - Math.ceil(durationMs)
    this.#close({ ...NOTHING, milliseconds: Math.max(0, left) })
  }

  /** Nothing ran, unless it was settled. */
  cancel(): void {
    this.#close(this.#need)
  }

  #close(unspent: Spending): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    for (const account of this.#accounts) account.settle(this.#need, unspent)
  }
}

const UNBUDGETED = new Reservation([], NOTHING)

/**
 * Budgets across restarts and processes. The store hands out parts of each window; calls spend from the part their
 * process has, so most of them ask nobody. The worst case is set aside first and settled after the run.
 */
export class Budgets {
  readonly #options: BudgetsOptions
  readonly #accounts = new Map<string, BudgetAccount>()
  readonly #byPrincipal = new WeakMap<Principal, readonly Budget[]>()

  constructor(options: BudgetsOptions) {
    this.#options = options
  }

  /** Throws `budget_exceeded`, or rejects with it after asking the store. */
  reserve(principal: Principal, tool: Tool): MaybePromise<Reservation> {
    const { rules } = this.#options
    if (rules.length === 0) return UNBUDGETED
    const budgets = this.#budgetsOf(principal, rules)
    if (budgets.length === 0) return UNBUDGETED
    const need = needOf(tool)
    return this.#take(principal, budgets, need) ?? this.#leaseAndTake(principal, budgets, need)
  }

  /** Gives back what was leased and is not used. */
  async tidy(): Promise<void> {
    const sinceMs = this.#options.clock.monotonicMs() - IDLE_MS
    await this.#closeAll((account) => account.isIdle(sinceMs))
  }

  async close(): Promise<void> {
    await this.#closeAll(() => true)
  }

  /** How many windows this process has a part of. */
  get size(): number {
    return this.#accounts.size
  }

  /** Once per principal object, which is the same for all calls with one credential. */
  #budgetsOf(principal: Principal, rules: readonly BudgetRule[]): readonly Budget[] {
    const known = this.#byPrincipal.get(principal)
    if (known !== undefined) return known
    const budgets = budgetsFor(principal, rules)
    this.#byPrincipal.set(principal, budgets)
    return budgets
  }

  #take(principal: Principal, budgets: readonly Budget[], need: Spending): Reservation | undefined {
    const accounts = budgets.map((budget) => this.#accountOf(principal, budget))
    if (!accounts.every((account) => account.covers(need))) return undefined
    const nowMs = this.#options.clock.monotonicMs()
    for (const account of accounts) account.take(need, nowMs)
    return new Reservation(accounts, need)
  }

  /** Each round either takes, or fetches, or learns that there is nothing left, so it ends with the budget. */
  async #leaseAndTake(
    principal: Principal,
    budgets: readonly Budget[],
    need: Spending,
  ): Promise<Reservation> {
    const { clock } = this.#options
    const monotonicMs = () => clock.monotonicMs()
    for (;;) {
      const reservation = this.#take(principal, budgets, need)
      if (reservation !== undefined) return reservation
      const short = budgets
        .map((budget) => this.#accountOf(principal, budget))
        .filter((account) => !account.covers(need))
      for (const account of short) this.#checkNotEmpty(account, need)
      await Promise.all(short.map((account) => account.lease(need, monotonicMs)))
    }
  }

  #checkNotEmpty(account: BudgetAccount, need: Spending): void {
    const { clock, onRefused } = this.#options
    const unit = account.exhausted(need, clock.monotonicMs())
    if (unit === undefined) return
    const name = account.budget.for === 'principal' ? 'principal_budget' : 'tenant_budget'
    onRefused(name)
    throw limitRefusal(name, account.mayRecover(unit) ? RESERVED_RETRY_MS : account.endsAtMs - clock.nowMs())
  }

  #accountOf(principal: Principal, budget: Budget): BudgetAccount {
    const { tenant, id } = principal
    const { windowMs: lengthMs } = budget
    const ofPrincipal = budget.for === 'principal'
    const key = ofPrincipal ? `p ${lengthMs} ${subjectKey(principal)}` : `t ${lengthMs} ${tenant}`
    const startMs = Math.floor(this.#options.clock.nowMs() / lengthMs) * lengthMs
    const known = this.#accounts.get(key)
    if (known?.window.startMs === startMs) return known
    // What is left of an earlier window is worth nothing any more.
    const window = { tenant, principal: ofPrincipal ? id : undefined, lengthMs, startMs }
    const account = new BudgetAccount(this.#options.store, budget, window)
    this.#accounts.set(key, account)
    return account
  }

  async #closeAll(isOver: (account: BudgetAccount) => boolean): Promise<void> {
    const closing = [...this.#accounts].filter(([, account]) => isOver(account))
    for (const [key] of closing) this.#accounts.delete(key)
    await Promise.all(closing.map(([, account]) => account.close()))
  }
}

/** The worst case: the whole of its timeout. */
function needOf({ policy: { timeoutMs, cost = USUAL_COST } }: Tool): Spending {
  return {
    calls: 1,
    milliseconds: timeoutMs,
    cost: cost === 0 ? 0 : Math.max(1, Math.round(cost * COST_PARTS)),
  }
}
