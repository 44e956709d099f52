import type { ErrorCode } from '#core/errors'

/** How one error code looks on this wire (§6.6). */
interface OpenwopAnswer {
  readonly status: 400 | 401 | 403 | 404 | 409 | 422 | 429 | 500 | 503
  readonly error: string
}

const INVALID: OpenwopAnswer = { status: 400, error: 'validation_error' }
const NOT_FOUND: OpenwopAnswer = { status: 404, error: 'not_found' }
const RATE_LIMITED: OpenwopAnswer = { status: 429, error: 'rate_limited' }
const UNAVAILABLE: OpenwopAnswer = { status: 503, error: 'service_unavailable' }

/** A tool began: never a status that invites a repetition (rule 11). */
function failed(error: string): OpenwopAnswer {
  return { status: 422, error }
}

export const OPENWOP_ANSWERS = {
  unauthenticated: { status: 401, error: 'unauthenticated' },
  request_invalid: INVALID,
  version_unsupported: INVALID,
  key_conflict: { status: 409, error: 'idempotency_key_mismatch' },
  call_not_found: NOT_FOUND,
  tool_not_found: NOT_FOUND,
  session_not_found: NOT_FOUND,
  run_not_found: NOT_FOUND,
  not_authorized: { status: 403, error: 'forbidden' },
  input_invalid: INVALID,
  requirement_missing: { status: 400, error: 'credential_required' },
  approval_required: { status: 403, error: 'approval_required' },
  approval_rejected: { status: 403, error: 'approval_rejected' },
  rate_limited: RATE_LIMITED,
  budget_exceeded: RATE_LIMITED,
  overloaded: UNAVAILABLE,
  not_ready: UNAVAILABLE,
  internal: { status: 500, error: 'internal_error' },
  tool_failed: failed('tool_failed'),
  tool_timeout: failed('tool_timeout'),
  cancelled: failed('cancelled'),
  upstream_failed: failed('upstream_failed'),
  egress_denied: failed('egress_denied'),
  output_invalid: failed('output_invalid'),
  result_too_large: failed('result_too_large'),
  ambiguous: failed('ambiguous'),
  outcome_unknown: failed('outcome_unknown'),
  result_expired: failed('result_expired'),
  session_lost: failed('session_lost'),
  workflow_diverged: failed('workflow_diverged'),
} satisfies Record<ErrorCode, OpenwopAnswer>

/** What HTTP itself refuses, which the server decides by status alone. */
export const HTTP_ERRORS: ReadonlyMap<number, string> = new Map([
  [403, 'forbidden'],
  [404, 'not_found'],
  [405, 'method_not_allowed'],
  [413, 'payload_too_large'],
])
