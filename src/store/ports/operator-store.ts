import type { MaybePromise } from '#kernel/base/waiting'
import type { CallState } from '#kernel/call/call'
import type { JournalGroup } from '#kernel/journal/events'
import type { CallPage, CallRecord } from '#kernel/ports/store'
import type { BudgetWindow, Spending } from './protocol-store.ts'

/** Which calls an operator looks for. A member that is absent leaves nothing out. */
export interface CallFilter {
  /** In one of these states. */
  readonly states?: readonly CallState[] | undefined
  readonly tenant?: string | undefined
  readonly principal?: string | undefined
  /** In any spelling, dots or underscores, large letters or small; every version of it where none is named. `*` is any text. */
  readonly tool?: string | undefined
  /** Asked for at this time or later. */
  readonly sinceMs?: number | undefined
  /** Asked for before this time. */
  readonly untilMs?: number | undefined
  /** Took so long from being asked for to its end, or to now where it has none: at least `leastMs`, less than `belowMs`. */
  readonly took?: TookFilter | undefined
  /** Only those before this place; absent: from the newest on. */
  readonly before?: number | undefined
  readonly limit: number
}

/** By how long tools ran. Calls that run now count from the request on; calls that did not run, and those settled by a person, never match. */
interface TookFilter {
  readonly leastMs?: number | undefined
  readonly belowMs?: number | undefined
  readonly nowMs: number
}

/** Calls to be counted by state and by when they were asked for, in parts of `bucketMs`. */
export interface TallyQuery extends Omit<CallFilter, 'limit' | 'sinceMs'> {
  readonly sinceMs: number
  readonly bucketMs: number
  /** Start of the first part, at or before `sinceMs`; absent: `sinceMs`. */
  readonly originMs?: number
}

export interface TallyPage {
  readonly rows: readonly { readonly state: CallState; readonly bucket: number; readonly calls: number }[]
  /** Where to go on, towards older calls; absent when there is nothing more. */
  readonly next?: number
}

/** What of a call is not sealed: enough for a line in a list, and cheap to read. */
export type CallGlance = Pick<
  CallRecord,
  | 'record'
  | 'tenant'
  | 'principal'
  | 'tool'
  | 'tier'
  | 'state'
  | 'attempt'
  | 'createdAtMs'
  | 'finishedAtMs'
  | 'ranMs'
  | 'parent'
>

export interface UsageQuery extends Pick<CallFilter, 'tenant' | 'tool' | 'sinceMs' | 'untilMs' | 'before'> {
  /** Counts apart what was asked for in each part of this length, from `sinceMs` on. */
  readonly bucketMs?: number
}

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
  /** Calls of a filter, counted; looks at so many and no more, like `list`. */
  tally(of: TallyQuery): MaybePromise<TallyPage>
  /** Those of these calls that are there, in no order. */
  glance(records: readonly string[]): MaybePromise<readonly CallGlance[]>
  /** The commits that a call's record and its run name, oldest first, each with its events about that call. */
  journalOf(record: string): MaybePromise<readonly JournalGroup[]>
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
  /** How long the tool ran. `undefined` of calls that have not ended, that did not run, and that a person settled. */
  readonly tookMs: number | undefined
  /** It was taken back while it waited for approval. */
  readonly isWithdrawn: boolean
  /** The part of the time, from 0 on; 0 where the question had no parts. */
  readonly bucket: number
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
