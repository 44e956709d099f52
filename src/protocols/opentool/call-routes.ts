import { isToolError } from '#kernel/base/errors'
import { checkCallKey, LATEST, newCallId, parseToolName, type ToolRef } from '#kernel/base/ids'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { MaybePromise } from '#kernel/base/waiting'
import type { CallReply, CallRequest, Progress } from '#kernel/call/call'
import type { Gateway } from '#kernel/call/gateway'
import type { Catalog } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import {
  CALL_ID_HEADER,
  callIdToHeader,
  callReplyHeaders,
  decodeRequirements,
  RUN_HEADER,
  readCallScope,
  readKeyHeader,
  readWait,
  unreadCallHeaders,
} from '#protocols/call-wire'
import { FrameQueue } from '#protocols/frame-queue'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { JSON_RPC_CODES, type JsonRpcId } from '#protocols/json-rpc'
import { oncePer } from '#protocols/prepared'
import { createSchemaValidator } from '#schema/validator'
import {
  type BadRequest,
  decodeRequest,
  encodeError,
  encodeEvent,
  encodeValue,
  type FunctionRequest,
  openAnswer,
} from './codec-call.ts'
import { assignNames, returnNameOf } from './codec-convert-tools.ts'
import { jsonReply, refuseCall, refuseStream, retryHeader, toWireError } from './errors.ts'
import { CALL_PATH, JSON_TYPE, STREAM_PATH } from './wire.ts'

/*
 * The OpenTool routes that run functions, `/call` and `/streamCall`, with the options of the protocol. `routes.ts` registers them.
 * Invariant: both routes decode a request and pass it to the gateway in the same way.
 */

const PROGRESS = openAnswer('progress')
const POST = { method: 'POST', access: 'authenticated', body: 'json' } as const

/** `POST /streamCall`: a call with the progress that the tool reports (OTS-50 to OTS-52). */
export function streamRoute(parts: CallParts): HttpRoute {
  return {
    ...POST,
    path: STREAM_PATH,
    handle: (request) => handleStream(request, parts),
    refuse: refuseStream,
  }
}

function handleStream(request: HttpRequest, parts: CallParts): HttpReply {
  const read = readFunctionCall(request, parts)
  if ('status' in read) return read
  // The response headers are sent before the call is recorded, and they name the call (rule 6).
  const freshId = newCallId()
  const key = read.call.key ?? freshId
  const queue = new FrameQueue(1)
  const { id } = read.request
  const onProgress = (progress: Progress): void => {
    if (queue.isEnded) return
    queue.add(encodeEvent('data', encodeValue(id, PROGRESS, JSON.stringify(progress))), true)
  }
  // A reader that disconnects does not cancel the call (rule 10).
  const answer = parts.gateway
    .call(request.principal, { ...read.call, freshId, onProgress })
    .finally(() => queue.end())
  answer.catch(() => undefined)
  return {
    status: 200,
    headers: {
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache',
      [CALL_ID_HEADER]: callIdToHeader(key),
      ...(read.call.runId === undefined ? undefined : { [RUN_HEADER]: callIdToHeader(read.call.runId) }),
    },
    body: (ended) => frames(read, queue, answer, ended),
  }
}

/** The events of a stream (OTS-52): start, progress, the value, done; or an error as the last event. */
async function* frames(
  call: FunctionCall,
  queue: FrameQueue,
  answer: Promise<CallReply>,
  ended: AbortSignal,
): AsyncGenerator<string> {
  const { method } = call.request
  ended.addEventListener('abort', () => queue.end(), { once: true })
  yield encodeEvent('start', JSON.stringify({ start: method }))
  for (let frame = await queue.next(); frame !== undefined; frame = await queue.next()) yield frame
  if (ended.aborted) return
  const reply = await answer
  const json = encodeReply(call, reply)
  yield encodeEvent(reply.outcome.ok ? 'data' : 'error', json)
  if (reply.outcome.ok) yield encodeEvent('done', JSON.stringify({ done: method }))
}

/** `POST /call`: calls one function and answers with HTTP 200, even if the function fails (OTS-33 to OTS-43). */
export function callRoute(parts: CallParts): HttpRoute {
  return { ...POST, path: CALL_PATH, handle: (request) => handleCall(request, parts), refuse: refuseCall }
}

async function handleCall(request: HttpRequest, parts: CallParts): Promise<HttpReply> {
  const read = readFunctionCall(request, parts)
  if ('status' in read) return read
  const reply = await parts.gateway.call(request.principal, read.call)
  const headers = callReplyHeaders(reply, JSON_HEADERS)
  return {
    status: 200,
    headers: reply.outcome.ok ? headers : { ...headers, ...retryHeader(reply.outcome.error) },
    body: encodeReply(read, reply),
  }
}

const JSON_HEADERS = { 'content-type': JSON_TYPE }

interface CallParts {
  readonly gateway: Gateway
  readonly options: OpenToolOptions
}

interface FunctionCall {
  readonly request: FunctionRequest
  /** `undefined` if this principal has no function with this name. */
  readonly served: ServedFunction | undefined
  readonly call: CallRequest
}

/** Placeholder for names that cannot be parsed, so that they fail exactly like unknown and hidden functions (rule 2). */
const NO_TOOL = '/'
const OPENING = openAnswer('result')

/** Decodes a body into a call for the gateway, or into the reply that refuses it. */
function readFunctionCall(request: HttpRequest, { gateway, options }: CallParts): FunctionCall | HttpReply {
  const decoded = decodeRequest(request.body)
  if (!decoded.ok) return badRequestReply(request, decoded.bad)
  const rpc = decoded.request
  const served = findFunction(gateway.catalogFor(request.principal), rpc.method)
  try {
    const call: CallRequest = {
      tool: served?.ref ?? parseToolName(rpc.method) ?? { base: NO_TOOL + rpc.method, version: LATEST },
      input: rpc.params,
      adapt: dropNullArguments,
      key: readKey(request, rpc.id, options),
      traceId: request.traceId,
      protocol: 'opentool',
      ...(request.traceparent === undefined
        ? undefined
        : { traceparent: request.traceparent, traceExtras: request.traceExtras }),
      ...decodeRequirements(request.headers),
      ...readCallScope(request.headers),
      ...readWait(request),
    }
    return { request: rpc, served, call }
  } catch (error) {
    if (!isToolError(error)) throw error
    return badRequestReply(request, {
      id: rpc.id,
      code: JSON_RPC_CODES.badRequest,
      message: error.message,
    })
  }
}

/** Encodes an answer with its four members (OTS-37). */
function encodeReply({ request, served }: FunctionCall, { callId, outcome }: CallReply): string {
  const { id, method } = request
  if (outcome.ok) return encodeValue(id, served?.opening ?? OPENING, outcome.valueJson)
  return encodeError(id, toWireError(outcome.error, { method, callId }))
}

function badRequestReply({ headers }: HttpRequest, { id, code, message }: BadRequest): HttpReply {
  return jsonReply(400, encodeError(id, { code, message }), unreadCallHeaders(headers, 'request_invalid'))
}

/** Reads the idempotency key from the header; a string id counts only if the operator declares ids unique (rule 4). */
function readKey({ headers }: HttpRequest, id: JsonRpcId, options: OpenToolOptions): string | undefined {
  const key =
    readKeyHeader(headers) ?? (options.stringIdsAreKeys === true && typeof id === 'string' ? id : undefined)
  return key === undefined ? undefined : checkCallKey(key)
}

/** Options that `collet opentool start` adds. */
export type OpenToolServing = Pick<OpenToolOptions, 'document' | 'stop'>

export interface OpenToolOptions {
  /** Answer of `/version`: the server's own version, not the protocol's (OTS-32). */
  readonly version: string
  /** The document that `/load` serves, without `$ref` (OTS-45); `{}` for `undefined` (OTS-44). Called once per catalog. */
  readonly document?: ((catalog: Catalog) => MaybePromise<string | undefined>) | undefined
  /** Uses a string `id` as the idempotency key of a request that has no `Idempotency-Key` header (rule 4). */
  readonly stringIdsAreKeys?: boolean | undefined
  /** Serves `/streamCall`, an extension of one SDK (OTS-50). */
  readonly streaming?: boolean | undefined
  /** Serves `/stop`; called when a client requests it (OTS-53). */
  readonly stop?: (() => void) | undefined
}

/** A tool as a function: its newest version, under its name for models. */
interface ServedFunction {
  readonly ref: ToolRef
  /** Start of the JSON text of its answers. */
  readonly opening: string
}

/** The functions of a catalog by their names in the document. */
const functionsOf = oncePer((catalog: Catalog): ReadonlyMap<string, ServedFunction> => {
  const tools = catalog.latest()
  // Assigns names as the document does, so that both agree (OTS-84).
  const { nameOf } = assignNames(tools.map(({ parts, name }) => ({ key: parts.base, name })))
  return new Map(tools.map((tool) => [nameOf.get(tool.parts.base) ?? tool.name, toFunction(tool)]))
})

/** Finds a function by its name in the document, or by any other of its names. */
function findFunction(catalog: Catalog, name: string): ServedFunction | undefined {
  const known = functionsOf(catalog).get(name)
  if (known !== undefined) return known
  const ref = parseToolName(name)
  const tool = ref === undefined ? undefined : catalog.resolve(ref)
  if (ref === undefined || tool === undefined) return undefined
  return { ...toFunction(tool), ref: { base: tool.parts.base, version: ref.version } }
}

function toFunction(tool: Tool): ServedFunction {
  const ref = { base: tool.parts.base, version: LATEST }
  return { ref, opening: openAnswer(returnNameOf(tool)) }
}

/**
 * Drops null for an optional parameter, which means absent unless the parameter's own schema accepts null (OTS-43).
 * Required parameters keep their null, so that validation reports it.
 */
function dropNullArguments(tool: Tool, params: JsonValue): JsonValue {
  if (!isJsonObject(params)) return params
  const nulls = Object.keys(params).filter((name) => params[name] === null)
  if (nulls.length === 0) return params
  const { properties, required } = tool.inputSchema
  const needed = new Set<JsonValue>(Array.isArray(required) ? required : [])
  const dropped = new Set(
    nulls.filter(
      (name) =>
        !needed.has(name) &&
        isJsonObject(properties) &&
        Object.hasOwn(properties, name) &&
        !acceptsNull(properties[name]),
    ),
  )
  if (dropped.size === 0) return params
  return Object.fromEntries(Object.entries(params).filter(([name]) => !dropped.has(name)))
}

function acceptsNull(schema: JsonValue | undefined): boolean {
  return isJsonObject(schema) ? schemaAcceptsNull(schema) : schema !== false
}

const schemaAcceptsNull = oncePer(
  (schema: JsonObject) => createSchemaValidator(schema, { untrusted: true })(null).length === 0,
)
