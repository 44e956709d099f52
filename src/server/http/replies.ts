import { type ErrorCode, type FaultOptions, fault, type ToolError } from '#core/errors'
import type { HttpReply } from '#protocols/http-exchange'

/**
 * The HTTP status the server suggests for a failure outside a call; the protocol may know better. Failures of
 * a tool are answers, and after a run has begun no reply is a 5xx (rule 11).
 */
const SUGGESTED_STATUS = {
  unauthenticated: 401,
  request_invalid: 400,
  version_unsupported: 400,
  key_conflict: 400,
  call_not_found: 404,
  tool_not_found: 404,
  session_not_found: 404,
  run_not_found: 404,
  not_authorized: 403,
  input_invalid: 422,
  requirement_missing: 400,
  approval_required: 400,
  approval_rejected: 400,
  rate_limited: 429,
  budget_exceeded: 429,
  overloaded: 503,
  not_ready: 503,
  // An unexpected fault before the run (OTC/T-26, OTC-64).
  internal: 400,
  tool_failed: 200,
  tool_timeout: 200,
  cancelled: 200,
  upstream_failed: 200,
  egress_denied: 200,
  output_invalid: 200,
  result_too_large: 200,
  ambiguous: 200,
  outcome_unknown: 200,
  result_expired: 200,
  session_lost: 200,
  workflow_diverged: 200,
} as const satisfies Record<ErrorCode, number>

/** A fault whose HTTP status is more exact than its code: 404, 405, 413. */
export function httpFault(status: number, message: string, options: FaultOptions = {}): ToolError {
  return Object.assign(fault('request_invalid', message, options), { status })
}

export function statusOf(error: ToolError): number {
  return 'status' in error && typeof error.status === 'number' ? error.status : SUGGESTED_STATUS[error.code]
}

/** How the server's own routes refuse. */
export function refuseWithMessage(_request: unknown, error: ToolError, status: number): HttpReply {
  return messageReply(status, error.message)
}

/** The plain `{ "message": … }` body of everything that belongs to no protocol (OTC/T-26). */
export function messageReply(
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return jsonReply(status, { message }, headers)
}

export function jsonReply(
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    body: JSON.stringify(body),
  }
}
