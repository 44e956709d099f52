import type { Clock } from '#kernel/base/clock'
import type { Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import type { Reservation } from '#kernel/call/stages'
import type { BudgetWindow, Spending } from '#kernel/journal/notices'
import type { Tool } from '#kernel/tool/tool'
import type { BudgetStore } from '#store/limits'
import { subjectKey } from './limits.ts'
import { type LimitName, limitRefusal } from './settings.ts'

/**
 * Budgets of principals and tenants per window, across restarts and processes. The ladder reserves the maximum that a run may
 * spend before the run starts, and settles the difference after it.
 * The store leases parts of each window to processes; calls spend from their process's part, so that most of them need no round
 * trip, and nothing is spent twice.
 */

/** More than any window can use, and exact in a double and in SQLite. */
export const NO_LIMIT = Number.MAX_SAFE_INTEGER

export const UNITS = ['calls', 'milliseconds', 'cost'] as const satisfies readonly (keyof Spending)[]

type Unit = (typeof UNITS)[number]

export const NOTHING: Spending = { calls: 0, milliseconds: 0, cost: 0 }

export function perUnit(amount: (unit: Unit) => number): Spending {
  return { calls: amount('calls'), milliseconds: amount('milliseconds'), cost: amount('cost') }
}

export function isNothing({ calls, milliseconds, cost }: Spending): boolean {
  return calls === 0 && milliseconds === 0 && cost === 0
}

/** The part of a request that a window grants if `used` is already leased. */
export function grantOf(wanted: Spending, limit: Spending, used: Spending): Spending {
  return perUnit((unit) => Math.max(0, Math.min(wanted[unit], limit[unit] - used[unit])))
}

/** The amounts that each principal or tenant may spend in each window. */
export interface BudgetRule {
  readonly for: 'principal' | 'tenant'
  /** Ids of the principals, or names of the tenants, that the rule applies to; `undefined` = all. */
  readonly of: ReadonlySet<string> | undefined
  readonly windowMs: number
  /** `NO_LIMIT` for units that are not limited. */
  readonly limit: Spending
}

/** A budget that applies to one principal's calls. */
type Budget = Omit<BudgetRule, 'of'>

/** Rules with the same window are one budget: the tighter limit applies, and spending is counted once. */
export function budgetsFor(
  { tenant, id }: Pick<Principal, 'tenant' | 'id'>,
  rules: readonly BudgetRule[],
): readonly Budget[] {
  const found = new Map<string, Budget>()
  for (const rule of rules) {
    const applies = rule.of === undefined || rule.of.has(rule.for === 'principal' ? id : tenant)
    if (!applies) continue
    const key = `${rule.for} ${rule.windowMs}`
    const other = found.get(key)
    const limit = perUnit((unit) => Math.min(rule.limit[unit], other?.limit[unit] ?? NO_LIMIT))
    found.set(key, { for: rule.for, windowMs: rule.windowMs, limit })
  }
  return [...found.values()]
}

/** A process leases this fraction (1/50) of a budget at a time, so that few calls wait for the store. */
const CHUNKS = 50
/** A store that had nothing left is not asked again for this long; otherwise refused calls would cost more than others. */
const ASK_AGAIN_MS = 1_000

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** The part of one window of one budget that this process holds. */
class BudgetAccount {
  readonly window: BudgetWindow
  readonly budget: Budget
  readonly #store: BudgetStore
  /** The units that the budget limits. */
  readonly #units: readonly Unit[]
  /** Amounts that are leased and neither spent nor reserved; infinite for units that the budget does not limit. */
  readonly #free: Mutable<Spending>
  /** Amounts that running calls have reserved. */
  readonly #held: Mutable<Spending> = { ...NOTHING }
  readonly #emptyUntilMs: Mutable<Spending> = { ...NOTHING }
  /** Amounts that the calls waiting for the next lease need. */
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

  /** Whether the account is open and the time is inside its window. */
  isFor(nowMs: number): boolean {
    return !this.#isClosed && nowMs >= this.window.startMs && nowMs < this.endsAtMs
  }

  covers(need: Spending): boolean {
    const free = this.#free
    return free.calls >= need.calls && free.milliseconds >= need.milliseconds && free.cost >= need.cost
  }

  /** Reserves an amount; only after `covers` returned true. */
  take(need: Spending): void {
    this.#isUsed = true
    add(this.#held, need, 1)
    add(this.#free, need, -1)
  }

  /** Ends a reservation whose call ran `unspentMs` less than reserved. */
  settle(need: Spending, unspentMs: number): void {
    add(this.#held, need, -1)
    this.#free.milliseconds += unspentMs
  }

  /** Ends a reservation whose call did not run. */
  cancel(need: Spending): void {
    add(this.#held, need, -1)
    add(this.#free, need, 1)
  }

  /** The unit that was exhausted when this account last asked the store. */
  exhausted(need: Spending, monotonicMs: number): Unit | undefined {
    return this.#units.find((unit) => this.#free[unit] < need[unit] && monotonicMs < this.#emptyUntilMs[unit])
  }

  /** Whether running calls may still return the missing amount. */
  mayRecover(unit: Unit): boolean {
    return unit === 'milliseconds' && this.#held[unit] > 0
  }

  /** Leases another part; calls that arrive in the meantime wait for the same lease and then try again. */
  lease(need: Spending, clock: Clock): Promise<void> {
    if (!this.#isSent) {
      for (const unit of this.#units) if (this.#free[unit] < need[unit]) this.#asked[unit] += need[unit]
    }
    this.#leasing ??= this.#lease(clock).finally(() => {
      this.#isSent = false
      this.#leasing = undefined
    })
    return this.#leasing
  }

  /** True if no call is using the account, and none has used it since the last check. */
  checkIdle(): boolean {
    const isIdle = !this.#isUsed && this.#leasing === undefined && isNothing(this.#held)
    this.#isUsed = false
    return isIdle
  }

  /**
   * Returns unreserved amounts to the store, once: if that fails they are lost until the window ends, but never spent twice.
   */
  async close(): Promise<void> {
    const unspent = perUnit((unit) => (this.#units.includes(unit) ? this.#free[unit] : 0))
    this.#isClosed = true
    for (const unit of this.#units) this.#free[unit] = 0
    if (!isNothing(unspent)) await this.#store.returnUnspent(this.window, unspent)
  }

  async #lease(clock: Clock): Promise<void> {
    // All calls of the same turn share one lease.
    await Promise.resolve()
    const { limit } = this.budget
    const wanted = perUnit((unit) =>
      this.#asked[unit] === 0 ? 0 : Math.max(this.#asked[unit], Math.floor(limit[unit] / CHUNKS)),
    )
    Object.assign(this.#asked, NOTHING)
    this.#isSent = true
    const granted = await this.#store.lease(this.window, wanted, limit, clock.nowMs())
    this.#isUsed = true
    for (const unit of this.#units) {
      this.#free[unit] += granted[unit]
      if (granted[unit] < wanted[unit]) this.#emptyUntilMs[unit] = clock.monotonicMs() + ASK_AGAIN_MS
    }
  }
}

function add(to: Mutable<Spending>, { calls, milliseconds, cost }: Spending, sign: 1 | -1): void {
  to.calls += sign * calls
  to.milliseconds += sign * milliseconds
  to.cost += sign * cost
}

/** When a call may try again if other calls' reservations leave too little for it. */
const RESERVED_RETRY_MS = 1_000
/** Cost is counted in thousandths. */
export const COST_PARTS = 1_000
export const DEFAULT_COST = 1

interface BudgetsOptions {
  readonly store: BudgetStore
  readonly rules: readonly BudgetRule[]
  readonly clock: Clock
  onRefused(name: LimitName): void
}

class BudgetReservation implements Reservation {
  readonly #accounts: readonly BudgetAccount[]
  readonly #need: Spending
  #isOpen = true

  constructor(accounts: readonly BudgetAccount[], need: Spending) {
    this.#accounts = accounts
    this.#need = need
  }

  /** Time beyond the tool's timeout is not counted, because only the timeout was reserved. */
  settle(durationMs: number): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    const unspentMs = Math.max(0, this.#need.milliseconds - Math.ceil(durationMs))
    for (const account of this.#accounts) account.settle(this.#need, unspentMs)
  }

  /** Does nothing after `settle`. */
  cancel(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    for (const account of this.#accounts) account.cancel(this.#need)
  }
}

/** A budget that applies to a principal, and the account that was last used for it. */
interface BudgetRef {
  readonly budget: Budget
  readonly key: string
  account: BudgetAccount | undefined
}

export class Budgets {
  readonly #options: BudgetsOptions
  readonly #accounts = new Map<string, BudgetAccount>()
  /** Cached by principal object, which all calls with one credential share. */
  #refs = new WeakMap<Principal, readonly BudgetRef[]>()
  rules: BudgetsOptions['rules']

  constructor(options: BudgetsOptions) {
    this.#options = options
    this.rules = options.rules
  }

  /** Applies new rules to later calls; amounts that were spent stay spent. */
  change(rules: BudgetsOptions['rules']): void {
    this.rules = rules
    this.#refs = new WeakMap()
    // Accounts keep the limits that they were opened with, so they are closed. Amounts that cannot be returned are lost until the window ends.
    this.#closeAll(() => true).catch(() => undefined)
  }

  /** Number of windows of which this process has leased a part. */
  get size(): number {
    return this.#accounts.size
  }

  /** Throws `budget_exceeded`, or rejects with it after asking the store; `undefined` if no budget applies. */
  reserve(principal: Principal, tool: Tool): MaybePromise<Reservation> | undefined {
    const refs = this.#refsOf(principal)
    if (refs.length === 0) return undefined
    const need = needOf(tool)
    return this.#take(principal, refs, need) ?? this.#leaseAndTake(principal, refs, need)
  }

  /** Returns leased amounts of accounts that were not used since the last call of `tidy`. */
  async tidy(): Promise<void> {
    await this.#closeAll((account) => account.checkIdle())
  }

  async close(): Promise<void> {
    await this.#closeAll(() => true)
  }

  #refsOf(principal: Principal): readonly BudgetRef[] {
    const known = this.#refs.get(principal)
    if (known !== undefined) return known
    const refs = budgetsFor(principal, this.rules).map((budget) => {
      const whose = budget.for === 'principal' ? subjectKey(principal) : principal.tenant
      return { budget, key: `${budget.for} ${budget.windowMs} ${whose}`, account: undefined }
    })
    this.#refs.set(principal, refs)
    return refs
  }

  #take(principal: Principal, refs: readonly BudgetRef[], need: Spending): Reservation | undefined {
    const accounts = refs.map((ref) => this.#accountOf(principal, ref))
    for (const account of accounts) if (!account.covers(need)) return undefined
    for (const account of accounts) account.take(need)
    return new BudgetReservation(accounts, need)
  }

  /** Each round reserves, leases more, or finds that nothing is left, so the loop ends. */
  async #leaseAndTake(
    principal: Principal,
    refs: readonly BudgetRef[],
    need: Spending,
  ): Promise<Reservation> {
    const { clock } = this.#options
    for (;;) {
      const reservation = this.#take(principal, refs, need)
      if (reservation !== undefined) return reservation
      const short = refs
        .map((ref) => this.#accountOf(principal, ref))
        .filter((account) => !account.covers(need))
      for (const account of short) this.#checkNotEmpty(account, need)
      await Promise.all(short.map((account) => account.lease(need, clock)))
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

  #accountOf({ tenant, id }: Principal, ref: BudgetRef): BudgetAccount {
    const nowMs = this.#options.clock.nowMs()
    if (ref.account?.isFor(nowMs) === true) return ref.account
    const { budget, key } = ref
    const shared = this.#accounts.get(key)
    if (shared?.isFor(nowMs) === true) {
      ref.account = shared
      return shared
    }
    // The rest of an earlier window has expired.
    const { windowMs: lengthMs } = budget
    const startMs = Math.floor(nowMs / lengthMs) * lengthMs
    const principal = budget.for === 'principal' ? id : undefined
    const window = { tenant, principal, lengthMs, startMs }
    ref.account = new BudgetAccount(this.#options.store, budget, window)
    this.#accounts.set(key, ref.account)
    return ref.account
  }

  async #closeAll(isFinished: (account: BudgetAccount) => boolean): Promise<void> {
    const closing = [...this.#accounts].filter(([, account]) => isFinished(account))
    for (const [key] of closing) this.#accounts.delete(key)
    await Promise.all(closing.map(([, account]) => account.close()))
  }
}

/** The maximum that one run of a tool can spend, which includes its whole timeout. Computed once per tool. */
const needs = new WeakMap<Tool, Spending>()

function needOf(tool: Tool): Spending {
  const known = needs.get(tool)
  if (known !== undefined) return known
  const { timeoutMs, cost = DEFAULT_COST } = tool.policy
  const parts = cost === 0 ? 0 : Math.max(1, Math.round(cost * COST_PARTS))
  const need = { calls: 1, milliseconds: timeoutMs, cost: parts }
  needs.set(tool, need)
  return need
}
