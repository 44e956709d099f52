import type { JsonObject } from '#kernel/base/json'
import type { MaybePromise } from '#kernel/base/waiting'
import type { ChangeClass } from '#store/ports/import-store'
import type { BudgetWindow, Spending } from '#store/ports/protocol-store'

/** What operators may be told of, by the names that configurations use. */
export const NOTICE_KINDS = [
  'approval.requested',
  'approval.decided',
  'approval.expired',
  'source.added',
  'pin.held',
  'call.ambiguous',
  'budget.80',
  'budget.100',
] as const

export type NoticeKind = (typeof NOTICE_KINDS)[number]

/** How much of a budget is used up when it is told of, in hundredths. */
export const BUDGET_MARKS = [80, 100] as const

/** A call of which nobody knows whether it took effect. */
export interface AmbiguousCall {
  readonly record: string
  readonly tenant: string
  readonly principal: string
  readonly tool: string
  readonly attempt: number
}

/** A definition that waits for an operator. */
interface HeldPin {
  readonly tool: string
  readonly class: ChangeClass
  readonly hash: string
}

/**
 * What a notice tells of. Nothing in it is a caller's text: it lies in the store as it is, and what an approval is about is read
 * when it is told.
 */
export type NoticeSubject =
  | { readonly kind: 'approval.requested' | 'approval.expired'; readonly approval: string }
  | {
      readonly kind: 'approval.decided'
      readonly approval: string
      readonly as: 'granted' | 'rejected'
      readonly by: string
    }
  /** `changes` are the rules for its tools that are other than before. */
  | {
      readonly kind: 'source.added'
      readonly source: string
      readonly sourceType: string | null
      readonly target: string | null
      readonly replaced: boolean
      readonly changes: JsonObject
      readonly by: string
    }
  /** `tools` are the first of `count`. */
  | {
      readonly kind: 'pin.held'
      readonly source: string
      readonly count: number
      readonly tools: readonly HeldPin[]
    }
  | { readonly kind: 'call.ambiguous'; readonly calls: readonly AmbiguousCall[] }
  | {
      readonly kind: `budget.${(typeof BUDGET_MARKS)[number]}`
      readonly window: BudgetWindow
      readonly unit: keyof Spending
      readonly used: number
      readonly limit: number
    }

/** Somebody who is to be told. */
export interface NoticeListener {
  /** Names it in the store. */
  readonly target: string
  readonly kinds: ReadonlySet<NoticeKind>
}

/** A notice for one listener that has not been delivered yet. */
export interface DueNotice {
  readonly id: string
  readonly target: string
  readonly subject: NoticeSubject
  /** This one included. */
  readonly tries: number
  readonly createdAtMs: number
}

/** What came of a try. `moot`: there is nothing left to tell. */
export type NoticeResult = { readonly atMs: number } & (
  | { readonly kind: 'delivered' | 'moot' }
  | { readonly kind: 'failed'; readonly failure: string; readonly nextAtMs: number }
  | { readonly kind: 'given_up'; readonly failure: string }
)

/** How it went with one listener lately. */
export interface ListenerState {
  readonly target: string
  /** Notices that are still to be delivered, and since when the oldest of them is. */
  readonly waiting: number
  readonly waitingSinceMs: number | undefined
  readonly delivered: number
  readonly givenUp: number
  readonly deliveredAtMs: number | undefined
  readonly failedAtMs: number | undefined
  /** What went wrong last. */
  readonly failure: string | undefined
}

/**
 * What operators are to be told of. A notice is written in the transaction that makes what it tells of so, once for each
 * listener, and stays until it is delivered or given up, and a while longer: the same thing is never told twice.
 */
export interface NoticeStore {
  /** Who is told of what this process does, from now on. Before the first time nobody is. */
  listen(listeners: readonly NoticeListener[]): void
  /** Listeners that something is due for. */
  due(nowMs: number): MaybePromise<readonly string[]>
  /** Takes what is due for one listener and puts the next try off, so that one process at a time tries each. */
  take(target: string, nowMs: number, leaseMs: number, limit: number): MaybePromise<readonly DueNotice[]>
  /** Changes nothing when another process has taken it since. */
  settle(notice: Pick<DueNotice, 'id' | 'tries'>, result: NoticeResult): MaybePromise<void>
  /** Of every listener that something was written for lately, whether it is still configured or not. */
  listeners(): MaybePromise<readonly ListenerState[]>
}
