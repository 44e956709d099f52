import { isToolError } from '#kernel/base/errors'
import { checkCallKey, LATEST, newCallId, parseToolName, type ToolRef } from '#kernel/base/ids'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { CallReply, CallRequest, Progress } from '#kernel/call/call'
import type { Gateway } from '#kernel/call/gateway'
import type { MaybePromise } from '#kernel/ports/store'
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

const PROGRESS = openAnswer('progress')

/** `POST /streamCall`: the same call, with what the tool reports on its way (OTS-50 to OTS-52). */
export function streamRoute(parts: CallParts): HttpRoute {
  return {
    method: 'POST',
    path: STREAM_PATH,
    access: 'authenticated',
    body: 'json',
    handle: (request) => handleStream(request, parts),
    refuse: refuseStream,
  }
}

function handleStream(request: HttpRequest, parts: CallParts): HttpReply {
  const read = readFunctionCall(request, parts)
  if ('status' in read) return read
  // The head leaves before the call is recorded, and it names the call (rule 6).
  const freshId = newCallId()
  const key = read.call.key ?? freshId
  const waiting = new FrameQueue(1)
  const { id } = read.request
  const onProgress = (progress: Progress): void => {
    if (waiting.isEnded) return
    waiting.add(encodeEvent('data', encodeValue(id, PROGRESS, JSON.stringify(progress))), true)
  }
  // A reader that leaves detaches; the call goes on (rule 10).
  const answer = parts.gateway
    .call(request.principal, { ...read.call, freshId, onProgress })
    .finally(() => waiting.end())
  answer.catch(() => undefined)
  return {
    status: 200,
    headers: {
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache',
      [CALL_ID_HEADER]: callIdToHeader(key),
      ...(read.call.runId === undefined ? undefined : { [RUN_HEADER]: callIdToHeader(read.call.runId) }),
    },
    body: (ended) => frames(read, { waiting, answer, ended }),
  }
}

interface Streamed {
  readonly waiting: FrameQueue
  readonly answer: Promise<CallReply>
  readonly ended: AbortSignal
}

/** OTS-52: start, what the tool reports, its value, done; or an error and nothing after it. */
async function* frames(call: FunctionCall, { waiting, answer, ended }: Streamed): AsyncGenerator<string> {
  const { method } = call.request
  ended.addEventListener('abort', () => waiting.end(), { once: true })
  yield encodeEvent('start', JSON.stringify({ start: method }))
  for (let frame = await waiting.next(); frame !== undefined; frame = await waiting.next()) yield frame
  if (ended.aborted) return
  const reply = await answer
  const json = encodeReply(call, reply)
  if (!reply.outcome.ok) {
    yield encodeEvent('error', json)
    return
  }
  yield encodeEvent('data', json)
  yield encodeEvent('done', JSON.stringify({ done: method }))
}

/** `POST /call`: one function, one answer, HTTP 200 whatever the function did (OTS-33 to OTS-43). */
export function callRoute(parts: CallParts): HttpRoute {
  return {
    method: 'POST',
    path: CALL_PATH,
    access: 'authenticated',
    body: 'json',
    handle: (request) => handleCall(request, parts),
    refuse: refuseCall,
  }
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
  readonly tables: FunctionTables
  readonly options: OpenToolOptions
}

/** A request that can be handed to the gateway. */
interface FunctionCall {
  readonly request: FunctionRequest
  /** `undefined` for a name that is no function of this principal. */
  readonly served: ServedFunction | undefined
  readonly call: CallRequest
}

/** No tool has such a name: what cannot be one walks the same way as unknown functions and hidden ones (rule 2). */
const NO_TOOL = '/'
const UNNAMED = openAnswer('result')

/** Everything between the body and the gateway; a reply when there is nothing to hand over. */
function readFunctionCall(
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
      ...readCallScope(request.headers),
      ...readWait(request),
    }
    return { request: asked, served, call }
  } catch (error) {
    if (!isToolError(error)) throw error
    return badRequestReply(request, { id: asked.id, code: JSON_RPC_CODES.badRequest, message: error.message })
  }
}

/** The answer's four keys (OTS-37). */
function encodeReply({ request, served }: FunctionCall, { callId, outcome }: CallReply): string {
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

/** What `collet opentool start` serves besides tools. */
export type OpenToolServing = Pick<OpenToolOptions, 'document' | 'stop'>

/** What an operator may choose about this protocol. */
export interface OpenToolOptions {
  /** What `/version` answers: the server's own version, not the protocol's (OTS-32). */
  readonly version: string
  /** The document that `/load` serves, without `$ref` (OTS-45); nothing = `{}` (OTS-44). Asked once per catalog. */
  readonly document?: ((catalog: Catalog) => MaybePromise<string | undefined>) | undefined
  /** Takes a string `id` as the idempotency key of a request that has no `Idempotency-Key` header (rule 4). */
  readonly stringIdsAreKeys?: boolean | undefined
  /** Serves `/streamCall`, an extension of one SDK (OTS-50). */
  readonly streaming?: boolean | undefined
  /** Serves `/stop`, and is called when a client asks for it (OTS-53). */
  readonly stop?: (() => void) | undefined
}

/** A tool as a function: its newest version, under its name for models. */
interface ServedFunction {
  readonly tool: Tool
  readonly ref: ToolRef
  /** How its answers begin. */
  readonly opening: string
}

/** The functions each principal can call, by name. Made once per catalog. */
export class FunctionTables {
  readonly #byCatalog = new WeakMap<Catalog, ReadonlyMap<string, ServedFunction>>()

  /** By its name in the document, or by any other of its names. */
  find(catalog: Catalog, name: string): ServedFunction | undefined {
    return this.#tableOf(catalog).get(name) ?? this.#byOtherName(catalog, name)
  }

  #byOtherName(catalog: Catalog, name: string): ServedFunction | undefined {
    const ref = parseToolName(name)
    const tool = ref === undefined ? undefined : catalog.resolve(ref)
    if (ref === undefined || tool === undefined) return undefined
    return { ...toFunction(tool), ref: { base: tool.parts.base, version: ref.version } }
  }

  #tableOf(catalog: Catalog): ReadonlyMap<string, ServedFunction> {
    const known = this.#byCatalog.get(catalog)
    if (known !== undefined) return known
    const tools = catalog.latest()
    // The same names as in the document of these tools (OTS-84).
    const { nameOf } = assignNames(tools.map(({ parts, name }) => ({ key: parts.base, name })))
    const table = new Map(tools.map((tool) => [nameOf.get(tool.parts.base) ?? tool.name, toFunction(tool)]))
    this.#byCatalog.set(catalog, table)
    return table
  }
}

function toFunction(tool: Tool): ServedFunction {
  return {
    tool,
    ref: { base: tool.parts.base, version: LATEST },
    opening: openAnswer(returnNameOf(tool)),
  }
}

const acceptance = new WeakMap<JsonObject, boolean>()

/**
 * OTS-43: null for an optional parameter means that it is absent, unless the parameter's own schema takes null.
 * Required parameters keep their null, so that the answer says what is wrong with it.
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
  if (!isJsonObject(schema)) return schema !== false
  const known = acceptance.get(schema)
  if (known !== undefined) return known
  const accepts = createSchemaValidator(schema, { untrusted: true })(null).length === 0
  acceptance.set(schema, accepts)
  return accepts
}
