import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { isJsonRpcId, JSON_RPC_CODES, type JsonRpcId } from '#protocols/json-rpc'

/** One request of `/call` or `/streamCall`. */
export interface FunctionRequest {
  readonly id: JsonRpcId
  readonly method: string
  readonly params: JsonObject
}

/** A body that is no call (OTS-41); `id` is the request's, if it is a legal one. */
export interface BadRequest {
  readonly id: JsonRpcId | null
  readonly code: number
  readonly message: string
}

export type DecodedRequest =
  | { readonly ok: true; readonly request: FunctionRequest }
  | { readonly ok: false; readonly bad: BadRequest }

const NO_PARAMS: JsonObject = Object.freeze({})

/** Reads the envelope (OTS-33 to OTS-36). */
export function decodeRequest(body: JsonValue | undefined): DecodedRequest {
  if (body === undefined)
    return bad(null, JSON_RPC_CODES.unreadable, 'The body is empty; send a JSON-RPC request.')
  if (!isJsonObject(body)) {
    return bad(
      null,
      JSON_RPC_CODES.badRequest,
      'The body must be one JSON-RPC request object; batches are not taken.',
    )
  }
  const { jsonrpc, method, params } = body
  const id = isJsonRpcId(body.id) ? body.id : null
  // The official TypeScript client sends "2.0.0" (OTS-34).
  if (jsonrpc !== '2.0' && jsonrpc !== '2.0.0')
    return bad(id, JSON_RPC_CODES.badRequest, '"jsonrpc" must be "2.0".')
  if (typeof method !== 'string' || method === '') {
    return bad(id, JSON_RPC_CODES.badRequest, '"method" must be the name of a function.')
  }
  if (id === null) {
    return bad(
      id,
      JSON_RPC_CODES.badRequest,
      '"id" must be a string or a number; there are no notifications.',
    )
  }
  if (params === undefined || params === null) return { ok: true, request: { id, method, params: NO_PARAMS } }
  if (!isJsonObject(params)) {
    return bad(id, JSON_RPC_CODES.badParams, '"params" must be an object of arguments by name.')
  }
  return { ok: true, request: { id, method, params } }
}

function bad(id: JsonRpcId | null, code: number, message: string): DecodedRequest {
  return { ok: false, bad: { id, code, message } }
}
