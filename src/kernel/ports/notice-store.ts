import type { JsonObject } from '#kernel/base/json'
import type { MaybePromise } from '#kernel/base/waiting'
import type { ChangeClass } from '#store/ports/import-store'
import type { BudgetWindow, Spending } from '#store/ports/protocol-store'

/**
 * Notices for operators, which webhooks deliver: their kinds, their contents and the port that stores them. Kernel changes write
 * them; the webhook sender takes and settles them. A notice is written in the transaction of the event it reports, once per
 * listener, and is kept for a while after its delivery, so that no event is reported twice.
 */

/** Kinds of notices, by the names that configurations use. */
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

/** Percentages of a budget at which a notice is written. */
export const BUDGET_MARKS = [80, 100] as const

/** A call whose effect is unknown. */
export interface AmbiguousCall {
  readonly record: string
  readonly tenant: string
  readonly principal: string
  readonly tool: string
  readonly attempt: number
}

interface HeldPin {
  readonly tool: string
  readonly class: ChangeClass
  readonly hash: string
}

/**
 * The subject of a notice. It contains no text of a caller, because it is stored in plain text; what an approval is about is
 * read when the notice is sent.
 */
export type NoticeSubject =
  | { readonly kind: 'approval.requested' | 'approval.expired'; readonly approval: string }
  | {
      readonly kind: 'approval.decided'
      readonly approval: string
      readonly as: 'granted' | 'rejected'
      readonly by: string
    }
  /** `changes` are the changed rules for its tools. */
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

/** A webhook. */
export interface NoticeListener {
  /** Its name in the store. */
  readonly target: string
  readonly kinds: ReadonlySet<NoticeKind>
}

/** A notice that is not delivered yet, for one listener. */
export interface DueNotice {
  readonly id: string
  readonly target: string
  readonly subject: NoticeSubject
  /** Including this one. */
  readonly tries: number
  readonly createdAtMs: number
}

/** The result of a delivery attempt. `moot`: there is nothing left to report. */
export type NoticeResult = { readonly atMs: number } & (
  | { readonly kind: 'delivered' | 'moot' }
  | { readonly kind: 'failed'; readonly failure: string; readonly nextAtMs: number }
  | { readonly kind: 'given_up'; readonly failure: string }
)

/** Recent deliveries of one listener. */
export interface ListenerState {
  readonly target: string
  /** Undelivered notices, and the time of the oldest. */
  readonly waiting: number
  readonly waitingSinceMs: number | undefined
  readonly delivered: number
  readonly givenUp: number
  readonly deliveredAtMs: number | undefined
  readonly failedAtMs: number | undefined
  /** The last failure. */
  readonly failure: string | undefined
}

export interface NoticeStore {
  /** Sets the listeners notified of this process's changes. None until it is first called. */
  listen(listeners: readonly NoticeListener[]): void
  /** Listeners with due notices. */
  due(nowMs: number): MaybePromise<readonly string[]>
  /** Takes the due notices of one listener and postpones their next attempt, so that one process at a time tries each. */
  take(target: string, nowMs: number, leaseMs: number, limit: number): MaybePromise<readonly DueNotice[]>
  /** Changes nothing when another process has taken it since. */
  settle(notice: Pick<DueNotice, 'id' | 'tries'>, result: NoticeResult): MaybePromise<void>
  /** Every listener that a notice was recently written for, still configured or not. */
  listeners(): MaybePromise<readonly ListenerState[]>
}
