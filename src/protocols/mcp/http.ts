import { unreadCallHeaders } from '#protocols/call-wire'
import { FrameQueue } from '#protocols/frame-queue'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import type { ServedProtocol } from '#protocols/protocol'
import {
  type Answer,
  checkStandardHeaders,
  decodeMessage,
  encodeEvent,
  errorAnswer,
  headerOf,
  isNewVersionHeader,
  META_MISSING,
  metaOf,
  NO_ANSWER,
  type RequestHeaders,
  type RequestMeta,
  readMeta,
  unsupportedVersion,
} from './codec-message.ts'
import type { Channel, McpExchange } from './exchange.ts'
import { type Methods, unknownMethod } from './methods.ts'
import { observeRequest } from './operations.ts'
import {
  HEADERS,
  JSON_TYPE,
  MCP_CODES,
  MCP_PATH,
  type Message,
  NEW_REVISION,
  type RequestMessage,
  STREAM_TYPE,
  type WireError,
} from './wire.ts'

/*
 * MCP over Streamable HTTP: reads a POST, finds its revision, runs the method and answers with JSON or a stream.
 * `protocol.ts` opens it; `revision-2025/http.ts` handles the messages of revisions with sessions.
 * Invariant: the body decides the revision, and headers only repeat it (MCP §1.1); every refusal is a JSON-RPC error.
 */

export interface PostedMessage<Kind extends Message = Message> {
  readonly request: HttpRequest
  readonly message: Kind
  /** `MCP-Protocol-Version`, if it was sent. */
  readonly version: string | undefined
}

/** The handler of the revisions with sessions. */
export interface SessionRevisions {
  /** `GET` and `DELETE` exist in these revisions only (MCP row 2, MCP-24 to MCP-26). */
  routes(path: string): readonly HttpRoute[]
  answer(posted: PostedMessage<RequestMessage>, accepted: Accepted): Promise<HttpReply>
  /** Takes a notification, or the client's response to a question from this server. */
  accept(posted: PostedMessage<Exclude<Message, RequestMessage>>): Promise<HttpReply>
  close(): void
}

/** Closing ends the open streams, so that clients do not wait for a stopped server (MCP-49). */
export function serveMcp(methods: Methods, sessions: SessionRevisions): Required<ServedProtocol> {
  return {
    // With `:toolset` in the path the server limits the caller to that toolset.
    routes: [MCP_PATH, `${MCP_PATH}/:toolset`].flatMap((path): HttpRoute[] => [
      {
        method: 'POST',
        path,
        access: 'authenticated',
        body: 'json',
        handle: (request) => handlePost(request, methods, sessions),
        refuse: refuseMessage,
      },
      ...sessions.routes(path),
    ]),
    close() {
      methods.close()
      sessions.close()
    },
  }
}

export const ACCEPTED: HttpReply = { status: 202, headers: {}, body: undefined }

/** Decides the revision of a message (MCP §1.1, MCP rows 7 to 18). */
function handlePost(
  request: HttpRequest,
  methods: Methods,
  sessions: SessionRevisions,
): HttpReply | Promise<HttpReply> {
  if (request.body === undefined)
    return refusal({
      code: JSON_RPC_CODES.unreadable,
      message: 'The body is empty; send a JSON-RPC message.',
    })
  const decoded = decodeMessage(request.body)
  if (!decoded.ok) return refusal(decoded.error, decoded.id)
  const { message } = decoded
  const version = headerOf(request.headers, HEADERS.version)
  const isNew = isNewVersionHeader(version)
  if (message.kind === 'notification') {
    // In the newest revision clients send no notifications over HTTP (MCP row 15).
    if (isNew || readMeta(message.params).kind !== 'none') return ACCEPTED
    return sessions.accept({ request, message, version })
  }
  if (message.kind === 'response') {
    if (!isNew) return sessions.accept({ request, message, version })
    const text = 'In this revision clients do not send responses.'
    return refusal({ code: JSON_RPC_CODES.badRequest, message: text })
  }
  const accepted = readAccept(request.headers)
  if (!accepted.json && !accepted.stream) {
    const text = 'Accept application/json or text/event-stream.'
    return refusal({ code: JSON_RPC_CODES.badRequest, message: text }, message.id, 406)
  }
  const read = readMeta(message.params)
  if (read.kind === 'bad') return refusal(read.error, message.id)
  if (read.kind === 'meta')
    return answerStateless({ request, message, version }, read.meta, accepted, methods)
  if (isNew) return refusal(META_MISSING, message.id)
  return sessions
    .answer({ request, message, version }, accepted)
    .catch((error: unknown) => toReply(methods.failed(error, message.id, message.method)))
}

/** The newest revision: version and capabilities are in the body (MCP rows 10 to 14). */
function answerStateless(
  { request, message, version }: PostedMessage<RequestMessage>,
  { version: claimed, capabilities, logLevel }: RequestMeta,
  accepted: Accepted,
  methods: Methods,
): HttpReply | Promise<HttpReply> {
  const { id, method, params } = message
  const mismatch = (text: string) => refusal({ code: MCP_CODES.headerMismatch, message: text }, id)
  if (version !== undefined && version !== claimed)
    return mismatch('MCP-Protocol-Version does not match params._meta')
  if (claimed !== NEW_REVISION) return refusal(unsupportedVersion(claimed), id)
  const problem = checkStandardHeaders(request.headers, { method, params })
  if (problem !== undefined) return mismatch(problem)
  const channel = new HttpChannel(accepted)
  const exchange: McpExchange = {
    ...exchangeOf(request, message),
    revision: NEW_REVISION,
    capabilities,
    logLevel,
    channel,
    leaving: request,
  }
  return channel.reply(runMethod(methods, message, exchange))
}

/** A trace in `_meta` takes precedence over that of the HTTP request, because the MCP client itself sent it. */
export function exchangeOf(request: HttpRequest, { id, params }: RequestMessage) {
  request.continueTrace?.(metaOf(params))
  const { principal, headers, traceId, traceparent, traceExtras, trace } = request
  return { id, principal, headers, traceId, traceparent, traceExtras, trace }
}

export async function runMethod(
  methods: Methods,
  message: RequestMessage,
  exchange: McpExchange,
): Promise<Answer> {
  const { operations } = methods.services
  const { trace } = exchange
  if (operations === undefined || trace === undefined) return await answerMethod(methods, message, exchange)
  const isKnown = methods.byRevision[exchange.revision].has(message.method)
  return await observeRequest(operations, { ...exchange, ...message, trace, isKnown }, (onFound) =>
    answerMethod(methods, message, { ...exchange, onFound }),
  )
}

async function answerMethod(
  methods: Methods,
  { id, method, params }: RequestMessage,
  exchange: McpExchange,
): Promise<Answer> {
  const run = methods.byRevision[exchange.revision].get(method)
  if (run === undefined) return unknownMethod(exchange)
  try {
    return await run(params, exchange)
  } catch (error) {
    return methods.failed(error, id, method)
  }
}

export function refusal(error: WireError, id?: RequestMessage['id'], status = 400): HttpReply {
  return toReply(errorAnswer(id, error, { status }))
}

const UNSUPPORTED_TYPE = 415

/** Renders an error that occurred before the message was read, as JSON-RPC without an id (MCP rows 1 and 3 to 6, MCP-04). */
export const refuseMessage: HttpRoute['refuse'] = ({ headers, method }, error, suggested) => {
  const isTyped = headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() === JSON_TYPE
  const isUnread = suggested === 400 && error.code === 'request_invalid'
  const status = isUnread && !isTyped ? UNSUPPORTED_TYPE : error.code === 'internal' ? 500 : suggested
  const wireError = { code: codeOf(status, error.code), message: error.message }
  return toReply(
    errorAnswer(undefined, wireError, {
      status,
      headers: {
        ...(method === 'POST' ? unreadCallHeaders(headers, error.code) : {}),
        ...(status === 405 ? { allow: 'POST' } : {}),
        ...(error.retryAfterMs === undefined
          ? {}
          : { 'retry-after': String(Math.max(1, Math.ceil(error.retryAfterMs / 1_000))) }),
      },
    }),
  )
}

/** Where JSON-RPC has no code, the HTTP status is used (MCP §1.5). */
function codeOf(status: number, code: string): number {
  if (code === 'internal') return JSON_RPC_CODES.internal
  if (status === 400) return JSON_RPC_CODES.unreadable
  return status === 413 || status === UNSUPPORTED_TYPE ? JSON_RPC_CODES.badRequest : status
}

/** Media types that the client accepts for the answer. */
export interface Accepted {
  readonly json: boolean
  readonly stream: boolean
}

/** The value that the standard asks for; compared first, since almost every request has it. */
const USUAL = 'application/json, text/event-stream'
const BOTH: Accepted = { json: true, stream: true }

/** Lenient where the standard is silent; without the header both are accepted (MCP-14, MCP/T-5). */
export function readAccept({ accept }: RequestHeaders): Accepted {
  if (accept === undefined || accept === USUAL || accept.trim() === '') return BOTH
  const types = accept.split(',').map((type) => type.split(';', 1)[0]?.trim().toLowerCase())
  if (types.includes('*/*')) return BOTH
  return {
    json: types.includes(JSON_TYPE) || types.includes('application/*'),
    stream: types.includes(STREAM_TYPE) || types.includes('text/*'),
  }
}

const CHECK_MS = 1_000

interface WaitingReply {
  /** Begins a stream, so that a keep-alive can be sent. */
  stream(): void
}

/** A node of the linked list of waiting replies. A node that is not in the list links to itself. */
class WaitingNode {
  readonly reply: WaitingReply | undefined
  readonly sinceMs: number
  before: WaitingNode = this
  after: WaitingNode = this

  constructor(reply: WaitingReply | undefined, sinceMs: number) {
    this.reply = reply
    this.sinceMs = sinceMs
  }

  insertBefore(next: WaitingNode): void {
    this.before = next.before
    this.after = next
    this.before.after = this
    next.before = this
  }

  remove(): void {
    this.before.after = this.after
    this.after.before = this.before
    this.before = this
    this.after = this
  }
}

/**
 * Replies that wait for their answer, oldest first; a reply that waits too long begins to stream (MCP-15).
 * This is a linked list and not a `Map`, because V8 rebuilds a map whose entries come and go, and the old tables keep
 * references to their entries. Nearly every request would survive until a full garbage collection.
 */
export class StreamUpgrade {
  readonly #maxWaitMs: number
  /** Sentinel: its `after` is the oldest node, its `before` the newest. */
  readonly #ends = new WaitingNode(undefined, Number.POSITIVE_INFINITY)
  #timer: NodeJS.Timeout | undefined

  constructor(maxWaitMs: number) {
    this.#maxWaitMs = maxWaitMs
  }

  /** The caller removes the node when its reply no longer waits. */
  add(reply: WaitingReply): WaitingNode {
    const node = new WaitingNode(reply, performance.now())
    node.insertBefore(this.#ends)
    this.#timer ??= setInterval(() => this.#check(), CHECK_MS).unref()
    return node
  }

  #check(): void {
    const dueMs = performance.now() - this.#maxWaitMs
    for (let first = this.#ends.after; first !== this.#ends; first = this.#ends.after) {
      if (first.sinceMs > dueMs) return
      first.remove()
      first.reply?.stream()
    }
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

/** After this time without an answer a stream begins, so that proxies keep the connection open (MCP-15). */
const QUIET_MS = 10_000
const KEEP_ALIVE_MS = 15_000
const KEEP_ALIVE = ':\n\n'

/** One timer for all replies that wait costs less than one for each. */
const WAITING = new StreamUpgrade(QUIET_MS)

/** Headers of an event stream (MCP-16). */
export const STREAM_HEADERS: Readonly<Record<string, string>> = {
  'content-type': STREAM_TYPE,
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

/** One POST: answered with JSON, unless a message has to be sent before the answer (MCP-13, MCP-15). */
export class HttpChannel implements Channel {
  readonly #accepted: Accepted
  #beginStream: (() => void) | undefined
  #mustStream = false
  #frames: FrameQueue | undefined

  constructor(accepted: Accepted) {
    this.#accepted = accepted
  }

  get canSend(): boolean {
    return this.#accepted.stream
  }

  send(json: string, what: 'notification' | 'question'): void {
    if (!this.canSend) return
    this.#queue().add(encodeEvent(json), what === 'notification')
    this.stream()
  }

  /** Makes the answer a stream, if it is not one already. */
  stream(): void {
    this.#mustStream = true
    this.#beginStream?.()
  }

  /** The reply, once the answer is known or a stream begins. Refusals with a status are known before any stream. */
  reply(answer: Promise<Answer>): Promise<HttpReply> {
    const node = this.canSend ? WAITING.add(this) : undefined
    return new Promise((resolve, reject) => {
      this.#beginStream = () => {
        node?.remove()
        resolve(this.#stream(answer))
      }
      if (this.#mustStream) this.#beginStream()
      answer.then(
        (made) => {
          node?.remove()
          resolve(this.#accepted.json || made.status !== 200 ? toReply(made) : this.#stream(answer))
        },
        (error: unknown) => {
          node?.remove()
          reject(error)
        },
      )
    })
  }

  /** Created on first use, because most calls are answered with one JSON body. */
  #queue(): FrameQueue {
    this.#frames ??= new FrameQueue(0)
    return this.#frames
  }

  #stream(answer: Promise<Answer>): HttpReply {
    return { status: 200, headers: STREAM_HEADERS, body: (ended) => this.#pieces(answer, ended) }
  }

  async *#pieces(answer: Promise<Answer>, ended: AbortSignal): AsyncGenerator<string> {
    const frames = this.#queue()
    ended.addEventListener('abort', () => frames.end(), { once: true })
    const last = answer.catch(() => NO_ANSWER)
    void last.finally(() => frames.end())
    for (;;) {
      const frame = await frames.next(KEEP_ALIVE_MS)
      if (frame === undefined) break
      yield frame === 'late' ? KEEP_ALIVE : frame
    }
    if (ended.aborted) return
    const { json } = await last
    if (json !== undefined) yield encodeEvent(json)
  }
}

/** A cancelled request gets an empty stream, the only way to send no message (MCP-85). */
export function toReply({ status, headers, json }: Answer): HttpReply {
  if (json === undefined) return { status: 200, headers: { ...STREAM_HEADERS, ...headers }, body: '' }
  return { status, headers: { 'content-type': JSON_TYPE, ...headers }, body: json }
}
