import { BadLine, checkLength, LineReader } from '#kernel/base/bytes'
import { isToolError, storeFault } from '#kernel/base/errors'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/ports/store'
import { isJsonRpcId, JSON_RPC_CODES, type JsonRpcId } from '#protocols/json-rpc'
import {
  type Answer,
  decodeMessage,
  encodeNotification,
  errorAnswer,
  NO_ANSWER,
  readMeta,
  resultAnswer,
} from './codec-message.ts'
import {
  type Channel,
  laterAnswer,
  type McpExchange,
  type McpServices,
  readInitialize,
  unsupportedVersion,
} from './exchange.ts'
import { Methods } from './methods.ts'
import { LIST_CHANGED } from './streams.ts'
import {
  type ClientCapabilities,
  type LegacyRevision,
  type Message,
  NEW_REVISION,
  type WireError,
} from './wire.ts'

type RequestMessage = Message & { readonly kind: 'request' }

interface StdioOptions {
  /** Who the process at the other end is; asked for every message, since keys can be revoked. */
  principal(): MaybePromise<Principal>
  /** Throws for what is no JSON that can be used. */
  parse(line: Buffer): JsonValue
  readonly maxLineBytes: number
  /** One message, without its line end. */
  write(line: string): void
}

interface UnderWay {
  isCancelled: boolean
  cancel: (() => void) | undefined
}

/** MCP on a pair of streams: one message a line, both eras in one process (MCP §1.2, MCP-97 to MCP-100). */
export class StdioServer {
  readonly #methods: Methods
  readonly #services: McpServices
  readonly #options: StdioOptions
  readonly #underWay = new Map<string, UnderWay>()
  readonly #answering = new Set<Promise<void>>()
  readonly #channel: Channel
  /** The one session of an older revision. */
  #session: { readonly revision: LegacyRevision; readonly capabilities: ClientCapabilities } | undefined

  constructor(services: McpServices, options: StdioOptions) {
    this.#services = services
    this.#methods = new Methods(services)
    this.#options = options
    this.#channel = { canSend: true, send: (json) => options.write(json) }
  }

  /** Until the other side closes the stream, or sends a line that is too long. */
  async serve(chunks: AsyncIterable<string | Uint8Array>): Promise<void> {
    const stop = this.#services.gateway.catalogChanges.listen(
      (isAffected) => void this.#tellChange(isAffected),
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
      // Nothing after such a line can be trusted to be a message (MCP-99).
      this.#services.log.error({ maxBytes: maxLineBytes }, 'a line was too long')
    } finally {
      stop()
    }
  }

  /** Ends what listens; resolves when every request that is under way has its answer. */
  async close(): Promise<void> {
    this.#methods.listens.close()
    await Promise.all(this.#answering)
  }

  #takeLine(line: Buffer): void {
    if (line.every((byte) => byte === 0x20 || byte === 0x0d || byte === 0x09)) return
    const message = this.#read(line)
    if (message === undefined) return
    const answering = this.#take(message).catch((err: unknown) =>
      this.#services.log.error({ err }, 'a message could not be answered'),
    )
    this.#answering.add(answering)
    void answering.finally(() => this.#answering.delete(answering))
  }

  /** MCP-99: what cannot be read is logged, since an answer without an id confuses clients. */
  #read(line: Buffer): Message | undefined {
    let body: JsonValue
    try {
      body = this.#options.parse(line)
    } catch (error) {
      if (!isToolError(error)) throw error
      this.#services.log.warn({ problem: error.message }, 'a line is no JSON')
      return undefined
    }
    const decoded = decodeMessage(body)
    if (decoded.ok) return decoded.message
    if (decoded.id === undefined) this.#services.log.warn({ problem: decoded.error.message }, 'no message')
    else this.#write(errorAnswer(decoded.id, decoded.error))
    return undefined
  }

  async #take(message: Message): Promise<void> {
    if (message.kind === 'notification') {
      this.#takeNotification(message)
    } else if (message.kind === 'response') {
      const { id, result } = message
      if (typeof id !== 'string') return
      const principal = await this.#options.principal()
      const said = isJsonObject(result) ? result : { action: 'cancel' }
      await this.#methods.calls.questions.deliver(id, principal, said)
    } else {
      this.#write(await this.#answer(message))
    }
  }

  async #answer(message: RequestMessage): Promise<Answer> {
    const { id, method, params } = message
    const era = this.#eraOf(message)
    if ('error' in era) return errorAnswer(id, era.error)
    if ('result' in era) return resultAnswer(id, era.result)
    const underWay = this.#begin(id)
    try {
      const exchange: McpExchange = {
        id,
        principal: await this.#options.principal(),
        ...era,
        channel: this.#channel,
        headers: undefined,
        traceId: undefined,
        traceparent: undefined,
        leaving: undefined,
        onBegun: (cancel) => {
          underWay.cancel = cancel
          if (underWay.isCancelled) cancel()
        },
      }
      const answer = await this.#methods.run(method, params, exchange)
      return underWay.isCancelled ? NO_ANSWER : answer
    } catch (error) {
      const shown = isToolError(error) ? error : storeFault(error)
      if (shown === undefined) throw error
      return shown.code === 'unauthenticated'
        ? errorAnswer(id, { code: 401, message: shown.message })
        : laterAnswer(id, shown)
    } finally {
      this.#underWay.delete(JSON.stringify(id))
    }
  }

  /** Nothing but the body says the era (MCP §1.2). */
  #eraOf({
    method,
    params,
  }: RequestMessage):
    | Pick<McpExchange, 'revision' | 'capabilities'>
    | { readonly error: WireError }
    | { readonly result: string } {
    const read = readMeta(params)
    if (read.kind === 'bad') return { error: read.error }
    if (read.kind === 'meta') {
      const { version, capabilities } = read.meta
      if (version !== NEW_REVISION) return { error: unsupportedVersion(version) }
      return { revision: NEW_REVISION, capabilities }
    }
    if (method === 'initialize') return this.#initialize(params)
    if (this.#session !== undefined) return this.#session
    if (method === 'ping') return { result: '{}' }
    const message = 'Send initialize, or per-request _meta.'
    return { error: { code: JSON_RPC_CODES.badRequest, message } }
  }

  #initialize(params: JsonValue | undefined): { readonly error: WireError } | { readonly result: string } {
    if (this.#session !== undefined)
      return { error: { code: JSON_RPC_CODES.badRequest, message: 'This session is initialized already.' } }
    const read = readInitialize(params)
    if (!read.ok) return read
    this.#session = { revision: read.revision, capabilities: read.capabilities }
    return { result: this.#methods.initializeResult(read.revision) }
  }

  #begin(id: JsonRpcId): UnderWay {
    const underWay: UnderWay = { isCancelled: false, cancel: undefined }
    this.#underWay.set(JSON.stringify(id), underWay)
    return underWay
  }

  /** MCP-85: in both eras here; unknown and finished requests are ignored. */
  #takeNotification({ method, params }: Message & { readonly kind: 'notification' }): void {
    const requestId = isJsonObject(params) ? params.requestId : undefined
    if (method !== 'notifications/cancelled' || !isJsonRpcId(requestId)) return
    const underWay = this.#underWay.get(JSON.stringify(requestId))
    if (underWay === undefined) return
    underWay.isCancelled = true
    underWay.cancel?.()
  }

  /** MCP-100: unasked in the older era only. */
  async #tellChange(isAffected: (principal: Principal) => boolean): Promise<void> {
    if (this.#session === undefined) return
    const principal = await Promise.resolve(this.#options.principal()).catch(() => undefined)
    if (principal !== undefined && isAffected(principal))
      this.#options.write(encodeNotification(LIST_CHANGED))
  }

  #write({ json }: Answer): void {
    if (json !== undefined) this.#options.write(json)
  }
}
