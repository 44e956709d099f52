import { type ErrorCode, mayRepeat, type ToolError } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import type { HttpReply, HttpRoute } from '#protocols/http-exchange'
import type { WireError } from './wire.ts'

/*
 * The error envelope of openwop, and the status and name of every error code. All routes of this folder use it for refusals.
 * Invariant: `OPENWOP_ANSWERS` is total, and no error body reveals whether something exists (OWP-97).
 */

/** A reply that is never cached, because its body is current and private to the caller. */
export function jsonReply(
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store', ...headers },
    body: JSON.stringify(body),
  }
}

export function noContent(): HttpReply {
  return { status: 204, headers: { 'cache-control': 'no-store' }, body: undefined }
}

const DEFAULT_RETRY_AFTER_MS = 1_000

/**
 * Renders every error as the flat envelope, whether a route threw it or the server refused the request earlier (OWP-95). The text
 * does not reveal whether something exists (OWP-97).
 */
export const refuse: HttpRoute['refuse'] = ({ traceId }, error, suggested) => {
  const { status, error: name } = answerOf(error, suggested)
  const retryAfterMs =
    (status === 429 || status === 503) && mayRepeat(error)
      ? toWholeMs(error.retryAfterMs ?? DEFAULT_RETRY_AFTER_MS)
      : undefined
  const details = defined({
    // The exact delay; `Retry-After` carries whole seconds (OWP-96).
    retryAfterMs,
    // The limit that refused (OWP/C6).
    scope: error.details.scope,
    // An id that a caller can quote to the operator, on 5xx only (OWP-95).
    correlationId: status >= 500 ? traceId : undefined,
  })
  const body: WireError = {
    error: name,
    message: error.message,
    ...(Object.keys(details).length === 0 ? {} : { details }),
  }
  return jsonReply(status, body, {
    ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
    ...(retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(retryAfterMs / 1_000)) }),
  })
}

function answerOf(error: ToolError, suggested: number): { status: number; error: string } {
  const answer = OPENWOP_ANSWERS[error.code]
  if (error.code !== 'request_invalid') return answer
  const name = HTTP_ERRORS.get(suggested)
  return name === undefined ? answer : { status: suggested, error: name }
}

/** Rounds up to at least 1, so that `Retry-After` is never 0. */
function toWholeMs(ms: number): number {
  return Number.isFinite(ms) ? Math.max(1, Math.ceil(ms)) : DEFAULT_RETRY_AFTER_MS
}

/** Status and name of one error code (OWP §6.6). */
interface OpenwopAnswer {
  readonly status: 400 | 401 | 403 | 404 | 409 | 422 | 429 | 500 | 503
  readonly error: string
}

const INVALID: OpenwopAnswer = { status: 400, error: 'validation_error' }
const NOT_FOUND: OpenwopAnswer = { status: 404, error: 'not_found' }
const RATE_LIMITED: OpenwopAnswer = { status: 429, error: 'rate_limited' }
const UNAVAILABLE: OpenwopAnswer = { status: 503, error: 'service_unavailable' }

/** The tool started, so the status must not invite a retry (rule 11). */
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

/** HTTP-level failures that the server decides by status alone. */
const HTTP_ERRORS: ReadonlyMap<number, string> = new Map([
  [403, 'forbidden'],
  [404, 'not_found'],
  [405, 'method_not_allowed'],
  [413, 'payload_too_large'],
])
