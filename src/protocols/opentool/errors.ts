import {
  describeIssue,
  type ErrorCode,
  type InputIssue,
  isRefusal,
  type ToolError,
} from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import type { CallError } from '#kernel/call/call'
import {
  ERROR_CODE_HEADER,
  toChallenges,
  toMissing,
  toParameterErrors,
  unreadCallHeaders,
} from '#protocols/call-wire'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { encodeError } from './codec-call.ts'
import {
  BASE_PATH,
  CALL_PATH,
  JSON_TYPE,
  LOAD_PATH,
  STOP_PATH,
  STREAM_PATH,
  VERSION_PATH,
  type WireError,
  type WireErrorData,
} from './wire.ts'

/*
 * How OpenTool reports failures: HTTP refusals, and `error` inside HTTP 200 with its code and message. Used by the routes of this folder.
 * Invariant: `OPENTOOL_CODES` is total, and messages contain no stack and no path.
 */

const METHODS: Readonly<Record<string, string>> = {
  [BASE_PATH]: 'GET',
  [VERSION_PATH]: 'GET',
  [LOAD_PATH]: 'GET',
  [CALL_PATH]: 'POST',
  [STREAM_PATH]: 'POST',
  [STOP_PATH]: 'POST',
}

const KEY_HEADERS = ['authorization', 'oxp-api-key', 'otc-api-key', 'x-api-key'] as const

type RefusedRequest = Omit<HttpRequest, 'body' | 'principal'>

/** Refusals of routes without an envelope, and of unknown paths below `/opentool`. */
export const refusePlainly: HttpRoute['refuse'] = (request, error, status) =>
  refuseBeforeRoute(request, error, status) ??
  errorReply(error.code === 'internal' ? 500 : status, error.message, { [ERROR_CODE_HEADER]: error.code })

/** Refusals of `/call` before a call exists (OTS-41, OTS-42). */
export const refuseCall: HttpRoute['refuse'] = (request, error, status) => {
  const early = refuseBeforeRoute(request, error, status)
  if (early !== undefined) return early
  const isHttpLevel = error.code === 'request_invalid' && (status === 400 || status === 413)
  const code = isHttpLevel ? requestCode(request, status) : OPENTOOL_CODES[error.code]
  const body = encodeError(null, { code, message: error.message })
  // SDK clients would report any other status as "server not running" (OTS-39).
  return jsonReply(isHttpLevel ? status : 200, body, {
    ...unreadCallHeaders(request.headers, error.code),
    ...retryHeader(error),
  })
}

/** Refusals of `/streamCall`. They differ from those of `/call` in one answer that clients expect: 500 with plain text (OTS-50). */
export const refuseStream: HttpRoute['refuse'] = (request, error, status) => {
  const isUnreadable = error.code === 'request_invalid' && status === 400 && isJsonType(request)
  if (!isUnreadable) return refuseCall(request, error, status)
  return { status: 500, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: error.message }
}

function refuseBeforeRoute(request: RefusedRequest, error: ToolError, status: number): HttpReply | undefined {
  if (error.code === 'unauthenticated') return refuseUnauthenticated(request)
  if (status === 405) return errorReply(405, error.message, { allow: METHODS[request.path] ?? '' })
  return status === 403 || status === 404 ? errorReply(status, error.message) : undefined
}

/** Refuses a request without a valid key (OTS-48), with the texts of the TypeScript SDK. */
function refuseUnauthenticated({ headers }: RefusedRequest): HttpReply {
  const hasKey = KEY_HEADERS.some((name) => headers[name] !== undefined)
  return errorReply(401, hasKey ? 'Invalid API key' : 'Authorization header missing', {
    'www-authenticate': 'Bearer',
  })
}

/** A body that does not parse is unreadable; a wrong media type or size is a bad request. */
function requestCode(request: RefusedRequest, status: number): number {
  const isUnreadable = status === 400 && isJsonType(request) && request.headers.host !== undefined
  return isUnreadable ? JSON_RPC_CODES.unreadable : JSON_RPC_CODES.badRequest
}

function isJsonType({ headers }: RefusedRequest): boolean {
  return headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json'
}

/** Tells when a call that did not run may be retried. SDK clients show only the message; others may read this header. */
export function retryHeader({
  code,
  retryAfterMs,
}: Pick<CallError, 'code' | 'retryAfterMs'> | ToolError): Record<string, string> {
  if (retryAfterMs === undefined || !isRefusal(code)) return {}
  return { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1_000))) }
}

export function jsonReply(
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return { status, headers: { 'content-type': JSON_TYPE, ...headers }, body }
}

/** Body of every refusal outside of an envelope (OTS-46, OTS-48). */
function errorReply(
  status: number,
  error: string,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return jsonReply(status, JSON.stringify({ error }), headers)
}

const MAX_ISSUES = 5

/** A failed call as `error` (OTS-39, OTS-40): plain text, no stack, no paths, no developer message. */
export function toWireError(
  error: CallError,
  call: { readonly method: string; readonly callId: string },
): WireError {
  return {
    // A tool may set its own number; refusals use the table.
    code: error.code === 'tool_failed' ? (error.errorNumber ?? 500) : OPENTOOL_CODES[error.code],
    message: messageOf(error, call.method),
    data: toData(error, call.callId),
  }
}

function messageOf({ code, message, details = {} }: CallError, method: string): string {
  switch (code) {
    case 'tool_not_found':
      return [`Function Not Supported: ${method}`, details.nextStep ?? []].flat().join('. ')
    case 'input_invalid':
      return `Invalid Arguments: ${details.issues === undefined ? message : listIssues(details.issues)}`
    case 'key_conflict':
      return 'This Idempotency-Key was already used for a different request. Use a new key for a new call.'
    default: {
      // SDK clients show only the message, so the URL has to be in it.
      const { authorization = [], approval } = details.missing ?? {}
      const urls = [...authorization, ...(approval === undefined ? [] : [approval])].map(({ url }) => url)
      if (urls.length === 0) return message
      // The message already tells the caller to repeat an approved call.
      return `${message} Open ${urls.join(' and ')}${approval === undefined ? ' and then call again' : ''}.`
    }
  }
}

function listIssues(issues: readonly InputIssue[]): string {
  const texts = issues
    .slice(0, MAX_ISSUES)
    .map((issue) => [issue.parameter ?? [], describeIssue(issue)].flat().join(': '))
  const more = issues.length - texts.length
  return `${texts.join('; ')}${more > 0 ? ` (and ${more} more)` : ''}`
}

function toData(error: CallError, callId: string): WireErrorData {
  const { retryAfterMs } = error
  const { issues = [], missing } = error.details ?? {}
  return defined({
    code: error.code,
    call_id: callId,
    missing_requirements: missing && toMissing(missing),
    challenges: missing && toChallenges(missing),
    parameter_errors: toParameterErrors(issues),
    can_retry: error.canRetry || undefined,
    retry_after_ms: retryAfterMs === undefined ? undefined : Math.max(0, Math.ceil(retryAfterMs)),
    additional_prompt_content: error.additionalPromptContent,
    effect: error.effect,
  })
}

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
