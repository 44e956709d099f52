import type { ErrorCode } from '#core/errors'

type OpentoolCode = 400 | 405 | 500

/** `error.code` of every failure, inside HTTP 200 so that SDK clients show the message (OTS-39, OTS-40). */
export const OPENTOOL_CODES = {
  unauthenticated: 500,
  request_invalid: 400,
  version_unsupported: 400,
  key_conflict: 400,
  call_not_found: 500,
  tool_not_found: 405,
  session_not_found: 400,
  run_not_found: 500,
  not_authorized: 500,
  input_invalid: 400,
  requirement_missing: 500,
  approval_required: 500,
  approval_rejected: 500,
  rate_limited: 500,
  budget_exceeded: 500,
  overloaded: 500,
  not_ready: 500,
  internal: 500,
  tool_failed: 500,
  tool_timeout: 500,
  cancelled: 500,
  upstream_failed: 500,
  egress_denied: 500,
  output_invalid: 500,
  result_too_large: 500,
  ambiguous: 500,
  outcome_unknown: 500,
  result_expired: 500,
  session_lost: 500,
  workflow_diverged: 500,
} as const satisfies Record<ErrorCode, OpentoolCode>
