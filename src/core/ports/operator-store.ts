import type { CallState } from '#core/call'
import type { MaybePromise } from '#core/runtime'
import type { BudgetWindow, Spending } from './protocol-store.ts'
import type { CallRecord } from './store.ts'

/** Which calls an operator looks for. A member that is absent leaves nothing out. */
export interface CallFilter {
  readonly state?: CallState
  readonly tenant?: string
  readonly principal?: string
  /** In any spelling, dots or underscores; every version of it where none is named. */
  readonly tool?: string
  /** Asked for at this time or later. */
  readonly sinceMs?: number
  /** Asked for before this time. */
  readonly untilMs?: number
  /** Took at least so long from being asked for to its end, or to now where it has none. */
  readonly slow?: { readonly leastMs: number; readonly nowMs: number }
  /** Only those before this place; absent: from the newest on. */
  readonly before?: number
  readonly limit: number
}

export interface CallPage {
  readonly calls: readonly CallRecord[]
  /** Where to go on; absent when there is nothing more. A page with fewer than asked, or with none, may have one. */
  readonly next?: number
}

export type UsageQuery = Pick<CallFilter, 'tenant' | 'sinceMs' | 'untilMs' | 'before'>

/** Who looks into a call, and when. */
export interface CallLook {
  readonly record: string
  readonly by: string
  readonly atMs: number
}

/** What operators see of calls; not for protocols. */
export interface OperatorStore {
  /**
   * Newest first. Looks at so many calls and no more, so that a filter which matches few of them holds nobody up: the
   * next page goes on where this one stopped.
   */
  list(filter: CallFilter): MaybePromise<CallPage>
  findByRecord(record: string): MaybePromise<CallRecord | undefined>
  /** Those whose record begins like this. */
  findByPrefix(prefix: string, limit: number): MaybePromise<readonly CallRecord[]>
  /** Calls of a time, counted; looks at so many and no more, like `list`. */
  usage(of: UsageQuery): MaybePromise<UsagePage>
  /** What is handed out of every budget whose window is open at this time, of one tenant or of all. */
  openBudgets(nowMs: number, tenant: string | undefined, limit: number): MaybePromise<readonly OpenBudget[]>
  /** Calls that a workflow's call made, in order. */
  stepsOf(record: string, limit: number): MaybePromise<readonly CallRecord[]>
  /** The input of a call. That somebody looked is in the journal before it is given out. */
  readInput(look: CallLook): Promise<CallInput>
}

/** Calls that are alike but for who they are, counted. */
export interface UsageRow {
  readonly tenant: string
  readonly principal: string
  readonly tool: string
  readonly state: CallState
  /** From being asked for to the end; `undefined` of those that have none. */
  readonly tookMs: number | undefined
  readonly calls: number
}

export interface OpenBudget {
  readonly window: BudgetWindow
  readonly used: Spending
}

export interface UsagePage {
  readonly rows: readonly UsageRow[]
  /** Where to go on, towards older calls; absent when there is nothing more. */
  readonly next?: number
}

/** `gone`: retention removed it. */
export type CallInput = { readonly json: string } | 'gone' | 'unreadable' | 'not_found'
