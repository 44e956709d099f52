import type { CallReply, CallRequest } from '#core/call'
import type { Gateway } from '#core/calls/gateway'
import { isToolError } from '#core/errors'
import { checkCallKey, LATEST, parseToolName } from '#core/ids'
import { readCallPlace, readKeyHeader, readWait, unreadCallHeaders } from '#protocols/call-headers'
import { decodeRequirements } from '#protocols/call-requirements'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { JSON_RPC_CODES, type JsonRpcId } from '#protocols/json-rpc'
import { encodeError, encodeValue, openAnswer } from './codec-answer.ts'
import { type BadRequest, decodeRequest, type FunctionRequest } from './codec-call.ts'
import { dropNullArguments } from './drop-null-arguments.ts'
import { toWireError } from './function-error.ts'
import type { FunctionTables, ServedFunction } from './function-table.ts'
import type { OpenToolOptions } from './options.ts'
import { jsonReply } from './reply.ts'

export interface CallParts {
  readonly gateway: Gateway
  readonly tables: FunctionTables
  readonly options: OpenToolOptions
}

/** A request that can be handed to the gateway. */
export interface FunctionCall {
  readonly request: FunctionRequest
  /** `undefined` for a name that is no function of this principal. */
  readonly served: ServedFunction | undefined
  readonly call: CallRequest
}

/** No tool has such a name: what cannot be one walks the same way as unknown functions and hidden ones (rule 2). */
const NO_TOOL = '/'
const UNNAMED = openAnswer('result')

/** Everything between the body and the gateway; a reply when there is nothing to hand over. */
export function readFunctionCall(
  request: HttpRequest,
  { gateway, tables, options }: CallParts,
): FunctionCall | HttpReply {
  const decoded = decodeRequest(request.body)
  if (!decoded.ok) return badRequestReply(request, decoded.bad)
  const asked = decoded.request
  const served = tables.find(gateway.catalogFor(request.principal), asked.method)
  try {
    const call: CallRequest = {
      tool: served?.ref ?? parseToolName(asked.method) ?? { base: NO_TOOL + asked.method, version: LATEST },
      input: asked.params,
      adapt: dropNullArguments,
      key: readKey(request, asked.id, options),
      traceId: request.traceId,
      protocol: 'opentool',
      ...(request.traceparent === undefined ? undefined : { traceparent: request.traceparent }),
      ...decodeRequirements(request.headers),
      ...readCallPlace(request.headers),
      ...readWait(request),
    }
    return { request: asked, served, call }
  } catch (error) {
    if (!isToolError(error)) throw error
    return badRequestReply(request, { id: asked.id, code: JSON_RPC_CODES.badRequest, message: error.message })
  }
}

/** The answer's four keys (OTS-37). */
export function encodeReply({ request, served }: FunctionCall, { callId, outcome }: CallReply): string {
  const { id, method } = request
  if (outcome.ok) return encodeValue(id, served?.opening ?? UNNAMED, outcome.valueJson)
  return encodeError(id, toWireError(outcome.error, { method, callId }))
}

function badRequestReply({ headers }: HttpRequest, { id, code, message }: BadRequest): HttpReply {
  return jsonReply(400, encodeError(id, { code, message }), unreadCallHeaders(headers, 'request_invalid'))
}

/** Rule 4: the header says it; an id only where the operator vouches that ids are unique. */
function readKey({ headers }: HttpRequest, id: JsonRpcId, options: OpenToolOptions): string | undefined {
  const key =
    readKeyHeader(headers) ?? (options.stringIdsAreKeys === true && typeof id === 'string' ? id : undefined)
  return key === undefined ? undefined : checkCallKey(key)
}
