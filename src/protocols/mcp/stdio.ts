import { BadLine, checkLength, LineReader } from '#kernel/base/bytes'
import { isToolError } from '#kernel/base/errors'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import type { MessageLevel } from '#kernel/tool/tool'
import { isJsonRpcId, JSON_RPC_CODES, type JsonRpcId } from '#protocols/json-rpc'
import { formatTraceparent, openTrace, parseTraceparent, readTraceExtras } from '#protocols/trace-context'
import {
  type Answer,
  decodeMessage,
  encodeNotification,
  errorAnswer,
  metaOf,
  NO_ANSWER,
  readMeta,
  resultAnswer,
  unsupportedVersion,
} from './codec-message.ts'
import type { Channel, McpExchange, McpServices } from './exchange.ts'
import { LISTS, type ListChange, listIsAffected } from './list-changes.ts'
import { type Methods, openMethods, unknownMethod } from './methods.ts'
import { observeRequest } from './operations.ts'
import { readInitialize } from './revision-2025/sessions.ts'
import {
  type ClientCapabilities,
  type LegacyRevision,
  type Message,
  NEW_REVISION,
  type RequestMessage,
  type WireError,
} from './wire.ts'

/*
 * MCP on a pair of streams: one message per line, all revisions in one process (MCP §1.2, MCP-97 to MCP-100).
 * `collet mcp` starts it.
 * Invariant: only messages are written to the stream; an input line that is not a message is logged.
 */

interface StdioOptions {
  /** The client's principal; resolved for every message, because keys can be revoked. */
  principal(): MaybePromise<Principal>
  /** Throws if the line is not valid JSON. */
  parse(line: Buffer): JsonValue
  readonly maxLineBytes: number
  /** Writes one message and a line break. */
  write(line: string): void
}

interface RunningRequest {
  isCancelled: boolean
  cancel: (() => void) | undefined
}

/** The stream has at most one session, and messages can always be sent to the client. */
const STDIO_SESSION = { id: 'stdio', hasStream: true } as const

export class StdioServer {
  readonly #methods: Methods
  readonly #services: McpServices
  readonly #options: StdioOptions
  readonly #running = new Map<string, RunningRequest>()
  readonly #answering = new Set<Promise<void>>()
  readonly #channel: Channel
  /** The session, if the client sent `initialize`. */
  #session:
    | {
        readonly revision: LegacyRevision
        readonly capabilities: ClientCapabilities
        readonly logLevel: MessageLevel | undefined
      }
    | undefined

  constructor(services: McpServices, options: StdioOptions) {
    this.#services = services
    this.#methods = openMethods(services)
    this.#options = options
    this.#channel = { canSend: true, send: (json) => options.write(json) }
    this.#methods.subscriptions.deliver = (_session, json) => options.write(json)
  }

  /** Serves until the client closes the stream or sends a line that is too long. */
  async serve(chunks: AsyncIterable<string | Uint8Array>): Promise<void> {
    const stop = this.#services.gateway.catalogChanges.listen(
      (isAffected) => void this.#notifyChange(isAffected),
    )
    const { maxLineBytes } = this.#options
    const lines = new LineReader(() => checkLength(maxLineBytes))
    try {
      for await (const chunk of chunks) {
        for (const line of lines.read(Buffer.from(chunk))) this.#takeLine(line)
      }
      this.#takeLine(lines.end())
    } catch (error) {
      if (!(error instanceof BadLine)) throw error
      // The next line may be the rest of this one, so reading stops (MCP-99).
      this.#services.log.error({ maxBytes: maxLineBytes }, 'a line from the client is too long')
    } finally {
      stop()
    }
  }

  /** Ends subscriptions; resolves when every running request is answered. */
  async close(): Promise<void> {
    this.#methods.close()
    await Promise.all(this.#answering)
  }

  #takeLine(line: Buffer): void {
    if (line.every((byte) => byte === 0x20 || byte === 0x0d || byte === 0x09)) return
    const message = this.#read(line)
    if (message === undefined) return
    const answering = this.#take(message).catch((err: unknown) =>
      this.#services.log.error({ err }, 'cannot answer an MCP message'),
    )
    this.#answering.add(answering)
    void answering.finally(() => this.#answering.delete(answering))
  }

  /** Logs an unreadable line and does not answer it, because an answer without an id confuses clients (MCP-99). */
  #read(line: Buffer): Message | undefined {
    let body: JsonValue
    try {
      body = this.#options.parse(line)
    } catch (error) {
      if (!isToolError(error)) throw error
      this.#services.log.warn({ problem: error.message }, 'a line from the client is not JSON')
      return undefined
    }
    const decoded = decodeMessage(body)
    if (decoded.ok) return decoded.message
    if (decoded.id === undefined)
      this.#services.log.warn(
        { problem: decoded.error.message },
        'a line from the client is not an MCP message',
      )
    else this.#write(errorAnswer(decoded.id, decoded.error))
    return undefined
  }

  async #take(message: Message): Promise<void> {
    if (message.kind === 'notification') {
      this.#takeNotification(message)
    } else if (message.kind === 'response') {
      const principal = await this.#options.principal()
      await this.#methods.calls.questions.deliverResponse(principal, message)
    } else {
      this.#write(await this.#answer(message))
    }
  }

  async #answer(message: RequestMessage): Promise<Answer> {
    const { id, method, params } = message
    const read = this.#readRevision(message)
    if ('error' in read) return errorAnswer(id, read.error)
    if ('result' in read) return resultAnswer(id, read.result)
    const running = this.#begin(id)
    try {
      const exchange: McpExchange = {
        id,
        principal: await this.#options.principal(),
        ...read,
        channel: this.#channel,
        session: STDIO_SESSION,
        setLogLevel: async (logLevel) => {
          if (this.#session !== undefined) this.#session = { ...this.#session, logLevel }
        },
        headers: undefined,
        ...this.#traceOf(params),
        leaving: undefined,
        onBegun: (cancel) => {
          running.cancel = cancel
          if (running.isCancelled) cancel()
        },
      }
      const answer = await this.#observe(message, exchange)
      return running.isCancelled ? NO_ANSWER : answer
    } catch (error) {
      if (isToolError(error) && error.code === 'unauthenticated')
        return errorAnswer(id, { code: 401, message: error.message })
      return running.isCancelled ? NO_ANSWER : this.#methods.failed(error, id, method)
    } finally {
      this.#running.delete(JSON.stringify(id))
    }
  }

  /** The trace of the client, if it sent one. Without telemetry this server has no span, so it passes on the client's. */
  #traceOf(
    params: JsonValue | undefined,
  ): Pick<McpExchange, 'traceId' | 'traceparent' | 'traceExtras' | 'trace'> {
    const meta = metaOf(params)
    const named = parseTraceparent(meta.traceparent)
    const { operations } = this.#services
    if (operations === undefined && named === undefined) return { traceId: undefined, traceparent: undefined }
    const trace = openTrace(meta.traceparent, operations !== undefined)
    const traceExtras = readTraceExtras(meta, trace)
    const passedOn = operations === undefined && named !== undefined ? named : trace
    return { traceId: trace.traceId, traceparent: formatTraceparent(passedOn), traceExtras, trace }
  }

  async #observe(message: RequestMessage, exchange: McpExchange): Promise<Answer> {
    const { method, params } = message
    const run = this.#methods.byRevision[exchange.revision].get(method)
    const answer = async (asked: McpExchange): Promise<Answer> =>
      run === undefined ? unknownMethod(asked) : await run(params, asked)
    const { operations } = this.#services
    const { trace } = exchange
    if (operations === undefined || trace === undefined) return await answer(exchange)
    const observed = { ...exchange, method, trace, isKnown: run !== undefined }
    return await observeRequest(operations, observed, (onFound) => answer({ ...exchange, onFound }))
  }

  /** The body alone decides the revision (MCP §1.2). */
  #readRevision({
    method,
    params,
  }: RequestMessage):
    | Pick<McpExchange, 'revision' | 'capabilities' | 'logLevel'>
    | { readonly error: WireError }
    | { readonly result: string } {
    const read = readMeta(params)
    if (read.kind === 'bad') return { error: read.error }
    if (read.kind === 'meta') {
      const { version, capabilities, logLevel } = read.meta
      if (version !== NEW_REVISION) return { error: unsupportedVersion(version) }
      return { revision: NEW_REVISION, capabilities, logLevel }
    }
    if (method === 'initialize') return this.#initialize(params)
    if (this.#session !== undefined) return this.#session
    if (method === 'ping') return { result: '{}' }
    const message = 'Send initialize, or per-request _meta.'
    return { error: { code: JSON_RPC_CODES.badRequest, message } }
  }

  #initialize(params: JsonValue | undefined): { readonly error: WireError } | { readonly result: string } {
    if (this.#session !== undefined)
      return { error: { code: JSON_RPC_CODES.badRequest, message: 'This session is already initialized.' } }
    const read = readInitialize(params)
    if (!read.ok) return read
    this.#session = { revision: read.revision, capabilities: read.capabilities, logLevel: undefined }
    return { result: this.#methods.initializeResult(read.revision) }
  }

  #begin(id: JsonRpcId): RunningRequest {
    const running: RunningRequest = { isCancelled: false, cancel: undefined }
    this.#running.set(JSON.stringify(id), running)
    return running
  }

  /** Cancels a request, in every revision; unknown and finished requests are ignored (MCP-85). */
  #takeNotification({ method, params }: Message & { readonly kind: 'notification' }): void {
    const requestId = isJsonObject(params) ? params.requestId : undefined
    if (method !== 'notifications/cancelled' || !isJsonRpcId(requestId)) return
    const running = this.#running.get(JSON.stringify(requestId))
    if (running === undefined) return
    running.isCancelled = true
    running.cancel?.()
  }

  /** Revisions with sessions get the notification without a subscription (MCP-100). */
  async #notifyChange(isAffected: ListChange): Promise<void> {
    if (this.#session === undefined) return
    const principal = await Promise.resolve(this.#options.principal()).catch(() => undefined)
    if (principal === undefined) return
    for (const list of LISTS)
      if (listIsAffected(list, principal, isAffected)) this.#options.write(encodeNotification(list.method))
  }

  #write({ json }: Answer): void {
    if (json !== undefined) this.#options.write(json)
  }
}
