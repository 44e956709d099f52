import type { ErrorCode } from '#core/errors'
import { JSON_RPC_CODES } from '#protocols/json-rpc'

/** How one error code looks on this wire (MCP-69). */
export type McpAnswer =
  /** A JSON-RPC error inside HTTP 200, unless told (T-3). */
  | { readonly kind: 'error'; readonly code: number; readonly status: 200 | 500 }
  /** A result the model reads (MCP-62, MCP-63). */
  | { readonly kind: 'tool error' }
  /** Nothing ran and waiting helps: the HTTP status, which is the code too (MCP-20). */
  | { readonly kind: 'later'; readonly status: 429 | 503 }
  /** A person has to do something first (T-11). */
  | { readonly kind: 'ask' }
  /** 403 with a challenge for tokens, a result for everybody else (MCP-93). */
  | { readonly kind: 'forbidden' }

const BAD_PARAMS: McpAnswer = { kind: 'error', code: JSON_RPC_CODES.badParams, status: 200 }
const TOOL_ERROR: McpAnswer = { kind: 'tool error' }

/** Every code has an answer. */
export const MCP_ANSWERS = {
  unauthenticated: { kind: 'forbidden' },
  request_invalid: BAD_PARAMS,
  version_unsupported: BAD_PARAMS,
  key_conflict: BAD_PARAMS,
  call_not_found: BAD_PARAMS,
  tool_not_found: BAD_PARAMS,
  session_not_found: BAD_PARAMS,
  run_not_found: BAD_PARAMS,
  not_authorized: { kind: 'forbidden' },
  input_invalid: TOOL_ERROR,
  requirement_missing: { kind: 'ask' },
  approval_required: { kind: 'ask' },
  approval_rejected: TOOL_ERROR,
  rate_limited: { kind: 'later', status: 429 },
  budget_exceeded: { kind: 'later', status: 429 },
  overloaded: { kind: 'later', status: 503 },
  not_ready: { kind: 'later', status: 503 },
  internal: { kind: 'error', code: JSON_RPC_CODES.internal, status: 500 },
  tool_failed: TOOL_ERROR,
  tool_timeout: TOOL_ERROR,
  cancelled: TOOL_ERROR,
  upstream_failed: TOOL_ERROR,
  egress_denied: TOOL_ERROR,
  output_invalid: TOOL_ERROR,
  result_too_large: TOOL_ERROR,
  ambiguous: TOOL_ERROR,
  outcome_unknown: TOOL_ERROR,
  result_expired: TOOL_ERROR,
  session_lost: TOOL_ERROR,
  workflow_diverged: TOOL_ERROR,
} satisfies Record<ErrorCode, McpAnswer>
