import type { Outcome } from '#core/outcome'
import type { CallRecord, RetentionPolicy } from '#core/ports/store'

/** Rough heap cost of one call with its events, without its result. */
export const BYTES_PER_CALL = 2_048

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** A call as the memory store keeps it. */
export interface Row extends Mutable<CallRecord> {
  cancelRequested: boolean
}

export function isForgettable(row: Row, nowMs: number, policy: RetentionPolicy): boolean {
  if (row.finishedAtMs === undefined) return false
  return row.finishedAtMs < nowMs - (row.expired ? policy.journalMs : policy.resultsMs)
}

/** What a call costs, roughly: enough to refuse before the heap is full. */
export function bytesOf(outcome: Outcome | undefined): number {
  return BYTES_PER_CALL + outcomeBytes(outcome)
}

export function outcomeBytes(outcome: Outcome | undefined): number {
  return outcome?.ok === true ? 2 * outcome.valueJson.length : 0
}
