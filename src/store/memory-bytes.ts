import type { Outcome } from '#core/outcome'
import type { CallRecord, RetentionPolicy } from '#core/ports/store'

/** Rough heap cost of one call with its events, without its result. */
export const BYTES_PER_CALL = 2_048

/** Whether retention takes something of this call away (rule 13). */
export function isForgettable(row: CallRecord, nowMs: number, policy: RetentionPolicy): boolean {
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
