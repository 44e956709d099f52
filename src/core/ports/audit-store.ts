import type { MaybePromise } from './maybe-promise.ts'

/**
 * Why somebody was refused. `self_approval` and `second_vote` are refusals of approvers; `changed_row` is one of whoever
 * wrote into the database without the key.
 */
export const DENIAL_REASONS = [
  'scope',
  'allowlist',
  'tenant',
  'self_approval',
  'second_vote',
  'changed_row',
] as const

export type DenialReason = (typeof DENIAL_REASONS)[number]

/** A decision that went against somebody (rule 30a, OWP-62). */
export interface Denial {
  readonly atMs: number
  readonly tenant: string
  /** Opaque: `prn_` and a keyed digest. */
  readonly principal: string
  /** What was wanted: `tool.call`, `admin:keys` … */
  readonly action: string
  /** A catalog id, a scope or a table of the store, never a caller's text. */
  readonly resource: string
  readonly reason: DenialReason
  /** How often within the window that this stands for. */
  readonly count: number
}

/** What was refused, and why. */
export type DenialFacts = Pick<Denial, 'action' | 'resource' | 'reason'>

export interface RecordedDenial extends Denial {
  /** Counts up; where a reader goes on. */
  readonly no: number
}

export interface DenialFilter {
  /** Absent: those of every tenant, for operators. */
  readonly tenant?: string
  readonly after: number
  readonly limit: number
}

/** The audit stream, kept as long as the journal, which has every denial too. */
export interface AuditStore {
  /** Commits, also when there is nothing to write: what was asked for in vain must not show in the time it takes (OWP-22). */
  recordDenials(denials: readonly Denial[]): MaybePromise<void>
  /** Oldest first. */
  readDenials(filter: DenialFilter): MaybePromise<readonly RecordedDenial[]>
}
