import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { isJsonRpcId, JSON_RPC_CODES, type JsonRpcId } from '#protocols/json-rpc'
import type { Message, WireError } from './wire.ts'

export type DecodedMessage =
  | { readonly ok: true; readonly message: Message }
  /** `id` is the request's, if it is a legal one. */
  | { readonly ok: false; readonly id: JsonRpcId | undefined; readonly error: WireError }

/** Row 7 of the ladder: one JSON-RPC 2.0 message, never a batch (MCP-01, MCP-02, T-6). */
export function decodeMessage(body: JsonValue | undefined): DecodedMessage {
  if (!isJsonObject(body)) {
    const came = Array.isArray(body) ? 'Batches are not taken; send one message.' : 'Send one object.'
    return bad(undefined, `The body must be one JSON-RPC message. ${came}`)
  }
  const id = isLegalId(body.id) ? body.id : undefined
  if (body.jsonrpc !== '2.0') return bad(id, '"jsonrpc" must be "2.0".')
  if ('id' in body && id === undefined) return bad(undefined, '"id" must be a string or a whole number.')
  const { method, params } = body
  if (typeof method === 'string') {
    if (id === undefined) return { ok: true, message: { kind: 'notification', method, params } }
    return { ok: true, message: { kind: 'request', id, method, params } }
  }
  if (method !== undefined) return bad(id, '"method" must be a string.')
  if (id !== undefined && ('result' in body || 'error' in body))
    return { ok: true, message: { kind: 'response', id, result: body.result } }
  return bad(id, 'A message needs "method", or "id" with "result" or "error".')
}

function isLegalId(value: JsonValue | undefined): value is JsonRpcId {
  return isJsonRpcId(value) && (typeof value === 'string' || Number.isSafeInteger(value))
}

function bad(id: JsonRpcId | undefined, message: string): DecodedMessage {
  return { ok: false, id, error: { code: JSON_RPC_CODES.badRequest, message } }
}

/** `params` as an object; absent means empty. */
export function paramsOf(params: JsonValue | undefined): JsonObject | undefined {
  if (params === undefined) return {}
  return isJsonObject(params) ? params : undefined
}

export function metaOf(params: JsonValue | undefined): JsonObject {
  const meta = isJsonObject(params) ? params._meta : undefined
  return isJsonObject(meta) ? meta : {}
}
