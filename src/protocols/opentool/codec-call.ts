import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { isJsonRpcId, JSON_RPC_CODES, type JsonRpcId } from '#protocols/json-rpc'
import type { WireError } from './wire.ts'

/*
 * The JSON-RPC envelopes and stream events of OpenTool calls. Used by the call routes and by the error renderer.
 * Invariant: event frames match the SDK clients' pattern exactly (OTS-51), and a value's JSON text is never
 * parsed again.
 */

/** Start of every successful answer from one function; the value's JSON text follows (OTS-38). */
export function openAnswer(returnName: string): string {
  return `{"jsonrpc":"2.0","result":{${JSON.stringify(returnName)}:`
}

/** Encodes the value under the function's return name, and null as `{}` (OTS-37, OTS-38). */
export function encodeValue(id: JsonRpcId, opening: string, valueJson: string): string {
  return valueJson === 'null'
    ? `{"jsonrpc":"2.0","result":{},"error":null,"id":${JSON.stringify(id)}}`
    : `${opening}${valueJson}},"error":null,"id":${JSON.stringify(id)}}`
}

/** Encodes an error; `result` is then `{}` (OTS-39). */
export function encodeError(id: JsonRpcId | null, error: WireError): string {
  return `{"jsonrpc":"2.0","result":{},"error":${JSON.stringify(error)},"id":${JSON.stringify(id)}}`
}

/** Characters that regular expressions treat as line ends, though JSON does not. */
const LINE_SEPARATORS = /[\u2028\u2029]/g

/**
 * Writes no space after the colons, LF only, and JSON on one line (OTS-51). Clients match each received chunk with a pattern and
 * lose chunks that do not match.
 */
export function encodeEvent(name: 'start' | 'data' | 'error' | 'done', json: string): string {
  const line = json.replace(LINE_SEPARATORS, (mark) => (mark === '\u2028' ? '\\u2028' : '\\u2029'))
  return `event:${name}\ndata:${line}\n\n`
}

export interface FunctionRequest {
  readonly id: JsonRpcId
  readonly method: string
  readonly params: JsonObject
}

/** A body that is not a call (OTS-41); `id` is that of the request, if it is valid. */
export interface BadRequest {
  readonly id: JsonRpcId | null
  readonly code: number
  readonly message: string
}

type DecodedRequest =
  | { readonly ok: true; readonly request: FunctionRequest }
  | { readonly ok: false; readonly bad: BadRequest }

const NO_PARAMS: JsonObject = Object.freeze({})

/** Reads the envelope (OTS-33 to OTS-36). */
export function decodeRequest(body: JsonValue | undefined): DecodedRequest {
  if (body === undefined) {
    return bad(null, 'The body is empty; send a JSON-RPC request.', JSON_RPC_CODES.unreadable)
  }
  if (!isJsonObject(body)) {
    return bad(null, 'The body must be one JSON-RPC request object; batches are not supported.')
  }
  const { jsonrpc, method, params } = body
  const id = isJsonRpcId(body.id) ? body.id : null
  // The official TypeScript client sends "2.0.0" (OTS-34).
  if (jsonrpc !== '2.0' && jsonrpc !== '2.0.0') return bad(id, '"jsonrpc" must be "2.0".')
  if (typeof method !== 'string' || method === '') {
    return bad(id, '"method" must be the name of a function.')
  }
  if (id === null) return bad(id, '"id" must be a string or a number; there are no notifications.')
  if (params === undefined || params === null) return { ok: true, request: { id, method, params: NO_PARAMS } }
  if (!isJsonObject(params)) {
    return bad(id, '"params" must be an object of arguments by name.', JSON_RPC_CODES.badParams)
  }
  return { ok: true, request: { id, method, params } }
}

function bad(
  id: JsonRpcId | null,
  message: string,
  code: number = JSON_RPC_CODES.badRequest,
): DecodedRequest {
  return { ok: false, bad: { id, code, message } }
}
