import type { Outcome } from '#core/call'
import { shownBytes } from '#core/tool'

/** Rough heap cost of one call with its events, without its result. */
export const BYTES_PER_CALL = 2_048
/** The same of a session with its two events. */
export const BYTES_PER_SESSION = 2_048

/** What a call costs, roughly: enough to refuse before the heap is full. */
export function bytesOf(outcome: Outcome | undefined): number {
  return BYTES_PER_CALL + outcomeBytes(outcome)
}

export function outcomeBytes(outcome: Outcome | undefined): number {
  if (outcome === undefined) return 0
  const shown = 2 * shownBytes(outcome.ok ? outcome.shown : outcome.error.shown)
  return outcome.ok ? 2 * outcome.valueJson.length + shown : shown
}
