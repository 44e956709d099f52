import type { Failure } from '#core/outcome'
import type { CallRecord } from '#core/ports/store'

/** At most this many attempts per call (rule 9); a crash loop must not repeat even an idempotent write for ever. */
export const MOST_ATTEMPTS = 3

/** Whether a run cut by a crash may simply run again (rule 8); a workflow repeats nothing, however often (rule 31). */
export function mayRunAgain(
  cut: Pick<CallRecord, 'rerunUntilMs' | 'attempt' | 'resumable'>,
  nowMs: number,
): boolean {
  return nowMs < cut.rerunUntilMs && (cut.resumable || cut.attempt < MOST_ATTEMPTS)
}

const NO_MORE = 'It cannot be tried again under this call id; use a new call id to try again.'

/** The failure of a last attempt: nothing took effect, but no repeat can run under this id any more (rule 9). */
export function lastFailure(failure: Failure): Failure {
  const { retryAfterMs: _no, message, ...error } = failure.error
  const said = /[.!?]$/.test(message) ? message : `${message}.`
  return { ...failure, error: { ...error, message: `${said} ${NO_MORE}`, canRetry: false } }
}
