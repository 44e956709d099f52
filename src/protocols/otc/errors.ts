import type { ErrorCode } from '#core/errors'

/** How one error code looks on this wire. */
interface OtcAnswer {
  readonly status: 200 | 400 | 401 | 404 | 422
  /** Nothing ran and waiting helps: `Retry-After` and `x-should-retry` are sent (C-24). */
  readonly retry: boolean
}

const REFUSED: OtcAnswer = { status: 400, retry: false }
const LATER: OtcAnswer = { status: 400, retry: true }
/** The tool ran or may have run: always 200 with `success: false` (OTC-11, OTC-83). */
const FAILED: OtcAnswer = { status: 200, retry: false }

/** Every code has an answer; the standard knows 400 before the call, 422 for input and 200 after (OTC-63). */
export const OTC_ANSWERS = {
  unauthenticated: { status: 401, retry: false },
  request_invalid: REFUSED,
  version_unsupported: REFUSED,
  key_conflict: REFUSED,
  call_not_found: { status: 404, retry: false },
  tool_not_found: REFUSED,
  session_not_found: REFUSED,
  run_not_found: REFUSED,
  not_authorized: REFUSED,
  input_invalid: { status: 422, retry: false },
  requirement_missing: REFUSED,
  approval_required: REFUSED,
  approval_rejected: REFUSED,
  rate_limited: LATER,
  budget_exceeded: LATER,
  overloaded: LATER,
  not_ready: LATER,
  internal: REFUSED,
  tool_failed: FAILED,
  tool_timeout: FAILED,
  cancelled: FAILED,
  upstream_failed: FAILED,
  egress_denied: FAILED,
  output_invalid: FAILED,
  result_too_large: FAILED,
  ambiguous: FAILED,
  outcome_unknown: FAILED,
  result_expired: FAILED,
  session_lost: FAILED,
  workflow_diverged: FAILED,
} satisfies Record<ErrorCode, OtcAnswer>
