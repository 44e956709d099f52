import type { Failure, Outcome } from '#core/outcome'
import type { CallRecord } from '#core/ports/store'
import { lastFailure } from './may-run-again.ts'

/** What a recorded call answers to whoever asks again. */
export function answerRecorded(record: CallRecord): Outcome {
  const { outcome } = record
  // Records of before: a last failure that still says so.
  if (outcome?.ok === false && outcome.error.canRetry && record.state === 'failed')
    return lastFailure(outcome)
  if (outcome !== undefined) return outcome
  if (record.state === 'ambiguous') return ambiguous(record)
  if (record.expired) return expired(record)
  return tookEffect(record)
}

/** Rule 11: never `can_retry`; the text says what to check. */
function ambiguous(record: CallRecord): Failure {
  return failure('ambiguous', {
    message: `The server stopped while ${record.tool} was running, so it may or may not have taken effect. Check for its effect before repeating it; an operator can settle this call.`,
    developerMessage: `Record ${record.record}. Settle it with: collet calls settle ${record.record} --as succeeded|failed|not-run --why TEXT`,
  })
}

/** Rule 13: the key outlives its result. */
function expired(record: CallRecord): Failure {
  const at = new Date(record.finishedAtMs ?? record.createdAtMs).toISOString()
  // One that failed may never have begun: somebody said no.
  const how = record.state === 'succeeded' ? 'ran and succeeded' : 'failed'
  return failure('result_expired', {
    message: `This call already ${how} at ${at}; its result has expired. It was not run again.`,
  })
}

/** Rule 12: settled as succeeded by an operator who did not know the value. */
function tookEffect(record: CallRecord): Failure {
  return failure('outcome_unknown', {
    message: `${record.tool} took effect, but its result is unknown. Do not repeat it.`,
  })
}

function failure(
  code: 'ambiguous' | 'result_expired' | 'outcome_unknown',
  texts: { readonly message: string; readonly developerMessage?: string },
): Failure {
  return { ok: false, error: { code, ...texts, canRetry: false } }
}
