import type { JsonValue } from '#kernel/base/json'

/*
 * JSON-RPC 2.0 facts that MCP and OpenTool share: the error codes and the id type.
 * Both protocols and their clients import it.
 * Invariant: a JSON-RPC id only matches an answer to its request, and is not an idempotency key by itself (rule 4).
 */

/** Codes of JSON-RPC 2.0 §5.1. */
export const JSON_RPC_CODES = {
  unreadable: -32_700,
  badRequest: -32_600,
  unknownMethod: -32_601,
  badParams: -32_602,
  internal: -32_603,
} as const

/** An id that only matches an answer to its request; clients reuse ids (rule 4). */
export type JsonRpcId = string | number

export function isJsonRpcId(value: JsonValue | undefined): value is JsonRpcId {
  return typeof value === 'string' || typeof value === 'number'
}
