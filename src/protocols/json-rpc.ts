import type { JsonValue } from '#kernel/base/json'

/** The codes of JSON-RPC 2.0 §5.1. */
export const JSON_RPC_CODES = {
  unreadable: -32_700,
  badRequest: -32_600,
  unknownMethod: -32_601,
  badParams: -32_602,
  internal: -32_603,
} as const

/** Matches an answer to its request and means nothing else: clients use the same id again (rule 4). */
export type JsonRpcId = string | number

export function isJsonRpcId(value: JsonValue | undefined): value is JsonRpcId {
  return typeof value === 'string' || typeof value === 'number'
}
