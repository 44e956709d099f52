import type { JsonObject } from '#kernel/base/json'
import type { CallSubject, PinChanged } from './events.ts'

/**
 * Notices for operators, which webhooks deliver: their kinds and their contents. Changes to the store write them with
 * `CommitGroup.notify`; `store/notices.ts` keeps them and `server/webhooks` delivers them.
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
  'alert.started',
  'alert.ended',
] as const

export type NoticeKind = (typeof NOTICE_KINDS)[number]

/** Percentages of a budget at which a notice is written. */
export const BUDGET_MARKS = [80, 100] as const

/** Amounts that budgets count, as whole numbers: `cost` in thousandths of a unit. */
export interface Spending {
  readonly calls: number
  readonly milliseconds: number
  readonly cost: number
}

/** One window of one budget. Windows start at multiples of their length since 1970, so they are the same in all processes. */
export interface BudgetWindow {
  readonly tenant: string
  /** `undefined` for the budget of the whole tenant. */
  readonly principal: string | undefined
  readonly lengthMs: number
  readonly startMs: number
}

/** The condition of an alert, with the figures at the time of the notice. */
export type AlertCondition =
  | {
      readonly kind: 'error-rate'
      /** Absent for all tools together. */
      readonly tool?: string
      /** Absent for all tenants together. */
      readonly tenant?: string
      readonly windowMs: number
      readonly abovePercent: number
      readonly calls: number
      readonly errors: number
    }
  | {
      readonly kind: 'budget'
      readonly tenant: string
      /** Absent for the budget of the whole tenant. */
      readonly principal?: string
      readonly unit: string
      readonly used: number
      readonly limit: number
      readonly abovePercent: number
    }
  | { readonly kind: 'source-down'; readonly source: string; readonly sinceMs: number }

/** An alert that has started. */
export interface AlertFacts {
  readonly name: string
  readonly condition: AlertCondition
}

/**
 * The subject of a notice. It is stored in plain text, so it contains no caller's text; details of an approval are read when
 * the notice is sent.
 */
export type NoticeSubject =
  | { readonly kind: 'approval.requested' | 'approval.expired'; readonly approval: string }
  | {
      readonly kind: 'approval.decided'
      readonly approval: string
      readonly as: 'granted' | 'rejected'
      readonly by: string
    }
  /** `changes` are the changed rules for the source's tools. */
  | {
      readonly kind: 'source.added'
      readonly source: string
      readonly sourceType: string | null
      readonly target: string | null
      readonly replaced: boolean
      readonly changes: JsonObject
      readonly by: string
    }
  /** `count` tools are held; `tools` lists the first of them. */
  | {
      readonly kind: 'pin.held'
      readonly source: string
      readonly count: number
      readonly tools: readonly Required<Pick<PinChanged, 'tool' | 'class' | 'hash'>>[]
    }
  /** Calls whose effect is unknown. */
  | { readonly kind: 'call.ambiguous'; readonly calls: readonly CallSubject[] }
  | {
      readonly kind: `budget.${(typeof BUDGET_MARKS)[number]}`
      readonly window: BudgetWindow
      readonly unit: keyof Spending
      readonly used: number
      readonly limit: number
    }
  | { readonly kind: 'alert.started'; readonly alert: AlertFacts }
  /** `why`: the condition no longer holds, or the rule is no longer in the config. */
  | {
      readonly kind: 'alert.ended'
      readonly alert: AlertFacts
      readonly startedAtMs: number
      readonly why: 'recovered' | 'removed'
    }
