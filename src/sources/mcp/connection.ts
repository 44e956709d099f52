import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import { MESSAGE_LEVELS, type MessageLevel, type ToolContext } from '#kernel/tool/tool'
import { APPS_EXTENSION, META, TASKS_EXTENSION } from '#protocols/mcp/wire'
import type { UpstreamList } from '#sources/kit/source'
import { Semaphore } from '#stages/limits/limits'
import { ConnectionClosed, InvalidResult, NotConnected, RpcError, StreamEnded } from './errors.ts'
import type { StartRequest } from './operations.ts'
import {
  CALL_BOUNDS,
  type Credentials,
  type Delivery,
  type HeaderFields,
  MAX_BATCH,
  type MessageBounds,
  PAGE_BOUNDS,
  type Receipt,
  type Receiver,
  type Transport,
} from './transport.ts'

/**
 * A connection to an MCP server: requests with their answers and progress, notifications in both directions, and requests from
 * the server. It supports all revisions and transports; `handshake.ts` opens it and chooses the revision.
 * Invariant: every request settles, by its answer, its signal, the end of its exchange or the end of the connection.
 */

/** The identity and capabilities that this client sends to servers. */
export const CLIENT = {
  info: { name: 'collet', version: '1' },
  capabilities: {
    elicitation: { form: { applyDefaults: true }, url: {} },
    ...{ sampling: {}, roots: {} },
    // The pages of tools are shown by the clients behind this one.
    extensions: { [APPS_EXTENSION]: { mimeTypes: ['text/html;profile=mcp-app'] } },
  },
} as const

export const UPSTREAM_LISTS = ['tools', 'prompts', 'resources'] as const satisfies readonly UpstreamList[]

export interface RequestOptions {
  readonly signal: AbortSignal
  /** Default: the credentials of the connection. */
  readonly credentials?: Credentials | undefined
  readonly headers?: HeaderFields | undefined
  readonly bounds?: MessageBounds
  /** The call behind the request, which gets the server's questions. */
  readonly caller?: ToolContext
  /** The task that the request is about. Questions that name this task go to `caller`. */
  readonly taskId?: string
  /** `traceparent` of the call behind the request. Default: that of `caller`. */
  readonly parentSpan?: string | undefined
  /** Receives the parameters of each progress notification. */
  onProgress?(params: JsonObject): void
  /** Called when the server grants the subscription (2026-07-28). */
  onAcknowledged?(params: JsonObject): void
}

/** Handlers of the requests and notifications that a server sends. */
export interface Handlers {
  /** `caller`: the call that the request belongs to, if that is known. */
  readonly requests: ReadonlyMap<
    string,
    (params: JsonValue | undefined, caller: ToolContext | undefined) => Promise<JsonObject>
  >
  readonly notifications: ReadonlyMap<string, (params: JsonObject) => void>
}

/** The server, as its handshake describes it. */
interface ServerFacts {
  readonly capabilities: JsonObject
  readonly info: JsonObject
}

interface ConnectionOptions {
  readonly transport: Transport
  readonly handlers: Handlers
  readonly openedMs: number
  readonly log: Logger
  readonly callsAtOnce: number
  /** `asks`: true once the server has asked a question. */
  readonly traits: { readonly asks: boolean }
  onLost(): void
  /** Records a request; absent if no telemetry is exported. */
  startRequest?: StartRequest | undefined
}

interface PendingRequest extends Delivery {
  readonly method: string
  readonly options: RequestOptions
  resolve(result: JsonObject): void
  reject(error: unknown): void
  /** Ends the exchange. */
  end(reason: unknown): void
  isAnswered: boolean
}

/** Notifications that a server may send in one burst. More are dropped, because they would keep the process busy. */
const MAX_NOTIFICATIONS = 100
/** Rate at which further notifications are admitted. */
const NOTIFICATIONS_PER_SECOND = 50
const OWN_NOTIFICATIONS: ReadonlySet<string> = new Set([
  'notifications/progress',
  'notifications/cancelled',
  'notifications/message',
  'notifications/subscriptions/acknowledged',
])
/** Requests for which no cancellation is sent. */
const NOT_CANCELLED: ReadonlySet<string> = new Set(['initialize', 'server/discover'])
const RPC_CODES = { methodNotFound: -32_601, internalError: -32_603 }

export class McpConnection implements Receiver {
  readonly openedMs: number
  /** True once tools were listed over this connection. */
  hasListed = false
  /** How often the server reported that one of its lists changed. */
  listChanges = 0
  /** The minimum level of log messages that was set in the session (2025-11-25 and earlier). */
  messageLevel: MessageLevel | undefined
  server: ServerFacts = { capabilities: {}, info: {} }
  /** The revision that the handshake agreed on. */
  revision: string | undefined
  readonly #options: ConnectionOptions
  readonly #transport: Transport
  readonly #pending = new Map<number, PendingRequest>()
  /** Requests of the server that are not answered yet. */
  readonly #asked = new Set<JsonValue | undefined>()
  readonly #running: Semaphore
  readonly #closing = new AbortController()
  readonly #ended = new AbortController()
  #envelope: JsonObject | undefined
  #lastId = 0
  #isOpen = true
  #hadOneCall = false
  #admissible = MAX_NOTIFICATIONS
  #refilledMs = performance.now()

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.#transport = options.transport
    this.openedMs = options.openedMs
    const { transport, traits, callsAtOnce } = options
    // Ledger §3: a question on stdio does not name its call, so a server that asks questions gets one call at a time.
    const isOrdered = (): boolean => transport.kind === 'stdio' && traits.asks && !this.isModern
    this.#running = new Semaphore(() => (isOrdered() ? 1 : callsAtOnce))
  }

  get isModern(): boolean {
    return this.#envelope !== undefined
  }

  get hasSession(): boolean {
    return this.#transport.sessionId !== undefined
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Passes what the server's program writes to its stderr until the returned function is called. */
  onStderr(listener: (text: string) => void): () => void {
    return this.#transport.onStderr?.(listener) ?? (() => undefined)
  }

  /** Aborted when the connection was closed or lost. */
  get ended(): AbortSignal {
    return this.#ended.signal
  }

  /** True while calls run over this connection. */
  get hasCalls(): boolean {
    return this.#callers().length > 0
  }

  /** The lists whose changes the server reports. */
  get changingLists(): readonly UpstreamList[] {
    const { capabilities } = this.server
    return UPSTREAM_LISTS.filter((list) => {
      const declared = capabilities[list]
      return isWireObject(declared) && declared.listChanged === true
    })
  }

  /** Describes the message that exceeded the bounds and so ended the connection. `isOfOneCall`: only one call was running. */
  get excess(): { readonly message: string; readonly isOfOneCall: boolean } | undefined {
    const message = this.#transport.excess
    return message === undefined ? undefined : { message, isOfOneCall: this.#hadOneCall }
  }

  /** Adds the revision and the client's capabilities to every later request (2026-07-28); `undefined` stops that. */
  describeRequests(revision: string | undefined): void {
    this.revision = revision
    this.#envelope =
      revision === undefined
        ? undefined
        : {
            [META.protocolVersion]: revision,
            [META.clientInfo]: CLIENT.info,
            [META.clientCapabilities]: {
              ...CLIENT.capabilities,
              extensions: { ...CLIENT.capabilities.extensions, [TASKS_EXTENSION]: {} },
            },
          }
  }

  /** Sends one call once fewer than the allowed number run. Returns an `input_required` result unchanged. */
  async call(method: string, params: JsonObject, options: RequestOptions): Promise<JsonObject> {
    if (!this.#running.tryEnter()) await this.#running.enter(options.signal)
    try {
      return await this.request(method, params, { bounds: CALL_BOUNDS, ...options })
    } finally {
      this.#running.leave()
    }
  }

  async request(method: string, params: JsonObject, options: RequestOptions): Promise<JsonObject> {
    if (!this.#isOpen) throw new NotConnected()
    const { signal } = options
    signal.throwIfAborted()
    this.#lastId += 1
    const id = this.#lastId
    const answer = Promise.withResolvers<JsonObject>()
    const exchange = new AbortController()
    const pending: PendingRequest = {
      method,
      options,
      signal: exchange.signal,
      credentials: options.credentials,
      headers: options.headers,
      bounds: options.bounds ?? PAGE_BOUNDS,
      resolve: answer.resolve,
      reject: answer.reject,
      end: (reason) => exchange.abort(reason),
      isAnswered: false,
    }
    const abandon = (): void => this.#abandon(id, pending)
    signal.addEventListener('abort', abandon, { once: true })
    this.#pending.set(id, pending)
    const token = options.onProgress === undefined ? undefined : id
    const started = this.#options.startRequest?.({
      ...{ id, method, params, revision: this.revision, sessionId: this.#transport.sessionId },
      parent: options.parentSpan ?? options.caller?.traceparent,
    })
    const traced = started?.traceparent === undefined ? params : inTrace(params, started.traceparent)
    const message = { jsonrpc: '2.0', id, method, params: this.#described(traced, token) }
    this.#transport.send(message, pending).then(
      () => {
        if (this.#transport.kind === 'http' && !pending.isAnswered) answer.reject(new StreamEnded())
      },
      (error: unknown) => answer.reject(error),
    )
    try {
      const result = await answer.promise
      started?.answered(result)
      return result
    } catch (error) {
      started?.failed(error)
      throw error
    } finally {
      this.#pending.delete(id)
      signal.removeEventListener('abort', abandon)
    }
  }

  notify(method: string, params?: JsonObject, delivery?: Partial<Delivery>): Promise<void> {
    return this.#send({ jsonrpc: '2.0', method, ...(params === undefined ? {} : { params }) }, delivery)
  }

  receive(value: JsonValue | undefined, via: Delivery | undefined): Receipt {
    if (!isWireArray(value)) return this.#receiveOne(value, via)
    if (value.length > MAX_BATCH) return 'unreadable'
    const receipts = value.map((message) => this.#receiveOne(message, via))
    const isReadable = receipts.length === 0 || receipts.includes('accepted')
    return receipts.includes('answered') ? 'answered' : isReadable ? 'accepted' : 'unreadable'
  }

  bounds(): MessageBounds {
    for (const { bounds } of this.#pending.values()) if (bounds === PAGE_BOUNDS) return PAGE_BOUNDS
    return CALL_BOUNDS
  }

  lost(): void {
    const wasOpen = this.#isOpen
    this.#isOpen = false
    this.#ended.abort()
    this.#hadOneCall = this.#callers().length === 1
    if (wasOpen) this.#options.onLost()
    this.#settleAll()
  }

  async close(): Promise<void> {
    this.#isOpen = false
    this.#ended.abort()
    this.#closing.abort(new ConnectionClosed())
    const closing = this.#transport.close()
    this.#settleAll()
    await closing
  }

  #receiveOne(message: JsonValue | undefined, via: Delivery | undefined): Receipt {
    if (!isWireObject(message) || message.jsonrpc !== '2.0') return 'unreadable'
    const { method, id, params } = message
    if (typeof method === 'string') {
      if (id === undefined) this.#onNotification(method, isWireObject(params) ? params : {}, via)
      else this.#onRequest(message, method, via)
      return 'accepted'
    }
    if (!('result' in message || 'error' in message)) return 'unreadable'
    const pending = this.#pending.get(Number(id))
    if (pending === undefined) return 'accepted'
    this.#settle(pending, message)
    return pending === via ? 'answered' : 'accepted'
  }

  #settle(pending: PendingRequest, { result, error }: JsonObject): void {
    pending.isAnswered = true
    if (isWireObject(error)) {
      pending.reject(new RpcError(Number(error.code), textOf(error.message) ?? '', error.data))
      return
    }
    try {
      pending.resolve(checkedResult(result, pending.method, this.isModern))
    } catch (problem) {
      pending.reject(problem)
    }
  }

  /** Ignores notifications without a handler, and limits the rate of the others. */
  #onNotification(method: string, params: JsonObject, via: Delivery | undefined): void {
    const handle = this.#options.handlers.notifications.get(method)
    if ((handle === undefined && !OWN_NOTIFICATIONS.has(method)) || !this.#admits()) return
    const meta = isWireObject(params._meta) ? params._meta : {}
    try {
      if (method === 'notifications/progress')
        this.#pending.get(Number(params.progressToken))?.options.onProgress?.(params)
      else if (method === 'notifications/cancelled') this.#onCancelled(params.requestId)
      else if (method === 'notifications/message')
        passMessage(params, this.#callerOfTask(params) ?? this.#callerFor(via))
      else if (method === 'notifications/subscriptions/acknowledged')
        this.#pending.get(Number(meta[META.subscriptionId]))?.options.onAcknowledged?.(params)
      handle?.(params)
    } catch (err) {
      this.#options.log.debug({ err }, 'A notification from the MCP server could not be processed')
    }
  }

  #admits(): boolean {
    const nowMs = performance.now()
    const refill = ((nowMs - this.#refilledMs) * NOTIFICATIONS_PER_SECOND) / 1000
    this.#admissible = Math.min(MAX_NOTIFICATIONS, this.#admissible + refill)
    this.#refilledMs = nowMs
    if (this.#admissible < 1) return false
    this.#admissible -= 1
    return true
  }

  /** The server cancels its own request, or ends a subscription that it granted. */
  #onCancelled(requestId: JsonValue | undefined): void {
    if (this.#asked.delete(requestId)) return
    const pending = this.#pending.get(Number(requestId))
    if (pending?.method === 'subscriptions/listen') pending.reject(new StreamEnded())
  }

  /** In 2026-07-28 servers send no requests, and a client must not answer them. */
  #onRequest(message: JsonObject, method: string, via: Delivery | undefined): void {
    if (this.isModern) return
    const { id = null, params } = message
    this.#asked.add(id)
    this.#answer(method, params, via)
      .then((body) => {
        if (!this.#asked.delete(id)) return
        return this.#send({ jsonrpc: '2.0', id, ...body }, via)
      })
      .catch((err: unknown) =>
        this.#options.log.debug({ err }, 'An answer to the MCP server could not be sent'),
      )
  }

  async #answer(
    method: string,
    params: JsonValue | undefined,
    via: Delivery | undefined,
  ): Promise<JsonObject> {
    if (method === 'ping') return { result: {} }
    const handle = this.#options.handlers.requests.get(method)
    if (handle === undefined)
      return { error: { code: RPC_CODES.methodNotFound, message: 'Method not found' } }
    try {
      return { result: await handle(params, this.#callerOfTask(params) ?? this.#callerFor(via)) }
    } catch (error) {
      if (error instanceof RpcError) return { error: { code: error.code, message: error.message } }
      this.#options.log.debug({ err: error }, 'A request from the MCP server failed')
      return { error: { code: RPC_CODES.internalError, message: 'Internal error' } }
    }
  }

  /** In 2025-11-25 a question from a task names the task. */
  #callerOfTask(params: JsonValue | undefined): ToolContext | undefined {
    const meta = isWireObject(params) && isWireObject(params._meta) ? params._meta : {}
    const related = meta[META.relatedTask]
    if (!isWireObject(related) || typeof related.taskId !== 'string') return undefined
    const found = [...this.#pending.values()].find(({ options }) => options.taskId === related.taskId)
    return found?.options.caller
  }

  /** Over HTTP the exchange shows which call a question belongs to. Otherwise the call is known only if a single one runs. */
  #callerFor(via: Delivery | undefined): ToolContext | undefined {
    for (const pending of this.#pending.values())
      if (pending === via && pending.options.caller !== undefined) return pending.options.caller
    const callers = this.#callers()
    return callers.length === 1 ? callers[0] : undefined
  }

  #callers(): readonly ToolContext[] {
    return [...this.#pending.values()].flatMap(({ options: { caller } }) =>
      caller === undefined ? [] : [caller],
    )
  }

  #send(message: JsonObject, delivery: Partial<Delivery> = {}): Promise<void> {
    const { signal = this.#closing.signal, credentials } = delivery
    return this.#transport.send(message, { signal, credentials, headers: undefined, bounds: PAGE_BOUNDS })
  }

  #described(params: JsonObject, progressToken: number | undefined): JsonObject {
    if (this.#envelope === undefined && progressToken === undefined) return params
    const meta = isWireObject(params._meta) ? params._meta : undefined
    return {
      ...params,
      _meta: { ...this.#envelope, ...meta, ...(progressToken === undefined ? {} : { progressToken }) },
    }
  }

  /** In 2026-07-28 over HTTP, ending the exchange cancels the request (MCP-83); otherwise a notification does (MCP-85). */
  #abandon(requestId: number, pending: PendingRequest): void {
    const { signal, credentials } = pending.options
    pending.reject(signal.reason)
    pending.end(signal.reason)
    if ((this.isModern && this.#transport.kind === 'http') || NOT_CANCELLED.has(pending.method)) return
    const params = { requestId, reason: String(signal.reason) }
    this.notify('notifications/cancelled', params, { credentials }).catch(() => undefined)
  }

  #settleAll(): void {
    const error = new ConnectionClosed()
    for (const pending of this.#pending.values()) {
      pending.reject(error)
      pending.end(error)
    }
  }
}

/** Checks only the type of a result; the code of each method reads the other members. */
function checkedResult(result: JsonValue | undefined, method: string, isModern: boolean): JsonObject {
  if (!isWireObject(result)) throw new InvalidResult(method, 'not an object')
  const { resultType } = result
  if (!isModern) return resultType === undefined ? result : { ...result, resultType: 'complete' }
  if (resultType === 'complete' || (resultType === 'task' && method === 'tools/call')) return result
  if (resultType !== 'input_required')
    throw new InvalidResult(method, resultType === undefined ? 'no resultType' : 'an unknown resultType')
  const { inputRequests, requestState } = result
  const asksNothing = !isWireObject(inputRequests) || Object.keys(inputRequests).length === 0
  if (asksNothing && typeof requestState !== 'string')
    throw new InvalidResult(method, 'input_required without inputRequests and requestState')
  return result
}

/** Replaces the trace parent, so that the server continues the trace at the span of this request and not of the call. */
function inTrace(params: JsonObject, traceparent: string): JsonObject {
  const meta = isWireObject(params._meta) ? params._meta : undefined
  return { ...params, _meta: { ...meta, traceparent } }
}

const MAX_LOGGER_LENGTH = 256

/** Drops a log message whose call is not known, because it could be about another caller's call (MCP-191). */
function passMessage({ level, data, logger }: JsonObject, caller: ToolContext | undefined): void {
  const known = MESSAGE_LEVELS.find((name) => name === level)
  if (known === undefined || data === undefined) return
  caller?.message(known, data, typeof logger === 'string' ? logger.slice(0, MAX_LOGGER_LENGTH) : undefined)
}

/** Only for values that were parsed from JSON. */
export function isWireObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isWireArray(value: unknown): value is readonly JsonValue[] {
  return Array.isArray(value)
}

export function textOf(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined
}
