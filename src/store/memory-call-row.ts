import type { CallRecord, RetentionPolicy } from '#core/ports/store'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** A call as the memory store keeps it. */
export interface Row extends Mutable<CallRecord> {
  cancelRequested: boolean
}

export function isForgettable(row: Row, nowMs: number, policy: RetentionPolicy): boolean {
  if (row.finishedAtMs === undefined) return false
  return row.finishedAtMs < nowMs - (row.expired ? policy.journalMs : policy.resultsMs)
}
