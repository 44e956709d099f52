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
    if (!this.#isOpen) return
    this.#isOpen = false
    const unspentMs = Math.max(0, this.#need.milliseconds - Math.ceil(durationMs))
    for (const account of this.#accounts) account.settle(this.#need, unspentMs)
  }

  /** Nothing ran, unless it was settled. */
  cancel(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    for (const account of this.#accounts) account.cancel(this.#need)
  }
}

/** For calls that no budget counts. */
export const UNBUDGETED = new Reservation([], NOTHING)

/** A budget that counts for a principal, and the account it was last spent from. */
interface Purse {
  readonly budget: Budget
  readonly key: string
  account: BudgetAccount | undefined
}

/**
 * Budgets across restarts and processes. The store hands out parts of each window; calls spend from the part their
 * process has, so most of them ask nobody. The worst case is set aside first and settled after the run.
 */
export class Budgets {
  readonly #options: BudgetsOptions
  readonly #accounts = new Map<string, BudgetAccount>()
  /** By principal object, which is the same for all calls with one credential. */
  readonly #purses = new WeakMap<Principal, readonly Purse[]>()

  constructor(options: BudgetsOptions) {
    this.#options = options
  }

  /** How many windows this process has a part of. */
  get size(): number {
    return this.#accounts.size
  }

  /** Throws `budget_exceeded`, or rejects with it after asking the store. */
  reserve(principal: Principal, tool: Tool): MaybePromise<Reservation> {
    if (this.#options.rules.length === 0) return UNBUDGETED
    const purses = this.#pursesOf(principal)
    if (purses.length === 0) return UNBUDGETED
    const need = needOf(tool)
    return this.#take(principal, purses, need) ?? this.#leaseAndTake(principal, purses, need)
  }

  /** Gives back what was leased and not used since the last time. */
  async tidy(): Promise<void> {
    await this.#closeAll((account) => account.rest())
  }

  async close(): Promise<void> {
    await this.#closeAll(() => true)
  }

  #pursesOf(principal: Principal): readonly Purse[] {
    const known = this.#purses.get(principal)
    if (known !== undefined) return known
    const purses = budgetsFor(principal, this.#options.rules).map((budget) => {
      const whose = budget.for === 'principal' ? subjectKey(principal) : principal.tenant
      return { budget, key: `${budget.for} ${budget.windowMs} ${whose}`, account: undefined }
    })
    this.#purses.set(principal, purses)
    return purses
  }

  #take(principal: Principal, purses: readonly Purse[], need: Spending): Reservation | undefined {
    const accounts = purses.map((purse) => this.#accountOf(principal, purse))
    for (const account of accounts) if (!account.covers(need)) return undefined
    for (const account of accounts) account.take(need)
    return new Reservation(accounts, need)
  }

  /** Each round either takes, or fetches, or learns that there is nothing left, so it ends with the budget. */
  async #leaseAndTake(principal: Principal, purses: readonly Purse[], need: Spending): Promise<Reservation> {
    const { clock } = this.#options
    const monotonicMs = () => clock.monotonicMs()
    for (;;) {
      const reservation = this.#take(principal, purses, need)
      if (reservation !== undefined) return reservation
      const short = purses
        .map((purse) => this.#accountOf(principal, purse))
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
    const retryAfterMs = account.mayRecover(unit) ? RESERVED_RETRY_MS : account.endsAtMs - clock.nowMs()
    throw limitRefusal(name, retryAfterMs)
  }

  #accountOf({ tenant, id }: Principal, purse: Purse): BudgetAccount {
    const nowMs = this.#options.clock.nowMs()
    if (purse.account?.isFor(nowMs) === true) return purse.account
    const { budget, key } = purse
    const shared = this.#accounts.get(key)
    // What is left of an earlier window is worth nothing any more.
    const account = shared?.isFor(nowMs) === true ? shared : this.#openAccount({ tenant, id }, budget, nowMs)
    this.#accounts.set(key, account)
    purse.account = account
    return account
  }

  #openAccount(
    { tenant, id }: Pick<Principal, 'tenant' | 'id'>,
    budget: Budget,
    nowMs: number,
  ): BudgetAccount {
    const { windowMs: lengthMs } = budget
    const startMs = Math.floor(nowMs / lengthMs) * lengthMs
    const principal = budget.for === 'principal' ? id : undefined
    return new BudgetAccount(this.#options.store, budget, { tenant, principal, lengthMs, startMs })
  }

  async #closeAll(isOver: (account: BudgetAccount) => boolean): Promise<void> {
    const closing = [...this.#accounts].filter(([, account]) => isOver(account))
    for (const [key] of closing) this.#accounts.delete(key)
    await Promise.all(closing.map(([, account]) => account.close()))
  }
}

/** The worst case: the whole of its timeout. Made once per tool. */
const needs = new WeakMap<Tool, Spending>()

function needOf(tool: Tool): Spending {
  const known = needs.get(tool)
  if (known !== undefined) return known
  const { timeoutMs, cost = USUAL_COST } = tool.policy
  const parts = cost === 0 ? 0 : Math.max(1, Math.round(cost * COST_PARTS))
  const need = { calls: 1, milliseconds: timeoutMs, cost: parts }
  needs.set(tool, need)
  return need
}
