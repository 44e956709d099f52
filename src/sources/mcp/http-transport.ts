import {
  isJSONRPCNotification,
  isJSONRPCRequest,
  type JSONRPCMessage,
  SdkError,
  SdkErrorCode,
  StreamableHTTPClientTransport,
  type Transport,
  type TransportSendOptions,
} from '@modelcontextprotocol/client'
import type { JsonObject } from '#kernel/base/json'
import type { Secret } from '#kernel/base/secret'
import { HEADERS } from '#protocols/mcp/wire'
import type { SendRequest } from '#sources/kit/source'
import { boundedAnswer, CALL_BOUNDS, NoticeGate, PAGE_BOUNDS } from './answer-bounds.ts'
import { callBarely, retryAfterMs } from './bare-call.ts'
import { CALL_SCOPE, isWireObject, type PlainCall, STREAM_ENDED } from './connection.ts'

interface HttpTransportOptions {
  readonly url: string
  readonly headers: Readonly<Record<string, Secret>>
  /** Of the caller the connection belongs to, for what is sent outside of calls. */
  readonly credentials: Readonly<Record<string, string>>
  readonly fetch: typeof fetch
  readonly send: SendRequest | undefined
}

/** Ids of calls; those of the official client begin at 0. */
const FIRST_CALL = 1_000_000_000

const RECONNECTION = {
  initialReconnectionDelay: 1000,
  maxReconnectionDelay: 30_000,
  reconnectionDelayGrowFactor: 1.5,
  maxRetries: 5,
}

/** Streamable HTTP by the official transport, with the credentials of the call at hand; calls take a shorter way. */
export class HttpTransport extends StreamableHTTPClientTransport {
  readonly #target: URL
  readonly #own: Readonly<Record<string, string>>
  readonly #send: SendRequest | undefined
  readonly #gate = new NoticeGate()
  /** Of the calls on their way. */
  readonly #exchanges = new Set<AbortController>()
  #calls = 0
  #isElsewhere = false
  #isClosed = false

  constructor({ url, headers, credentials, fetch: send, send: sendPlain }: HttpTransportOptions) {
    const own = Object.entries(headers).map(([name, value]): [string, string] => [
      name.toLowerCase(),
      value.reveal(),
    ])
    super(new URL(url), {
      requestInit: { headers: Object.fromEntries(own) },
      reconnectionOptions: RECONNECTION,
      fetch: async (resource, init) => {
        const scope = CALL_SCOPE.getStore()
        const given = Object.entries(scope?.credentials ?? credentials)
        if (given.length > 0) {
          const all = new Headers(init?.headers)
          for (const [name, value] of given) all.set(name, value)
          init = { ...init, headers: all }
        }
        const response = await send(resource, init)
        if (scope !== undefined && !response.ok)
          scope.retryAfterMs = retryAfterMs(response.headers.get('retry-after'))
        return boundedAnswer(response, scope === undefined ? PAGE_BOUNDS : CALL_BOUNDS)
      },
    })
    this.#target = new URL(url)
    this.#own = Object.fromEntries(own)
    this.#send = sendPlain
    this.#listen()
  }

  /** One call by an exchange of ours; `undefined` = it was not taken, and the official client has to make it. */
  async call({ scope, params, headers, revision, report }: PlainCall): Promise<JsonObject | undefined> {
    if (this.#send === undefined || this.#isElsewhere) return undefined
    if (this.#isClosed) throw new SdkError(SdkErrorCode.NotConnected, 'Not connected')
    const { signal } = scope.context
    signal.throwIfAborted()
    const id = FIRST_CALL + this.#calls
    this.#calls += 1
    const exchange = new AbortController()
    const leave = (): void => exchange.abort(signal.reason)
    signal.addEventListener('abort', leave, { once: true })
    this.#exchanges.add(exchange)
    try {
      const result = await callBarely({
        ...{ send: this.#send, url: this.#target, id, params, revision, signal: exchange.signal },
        headers: { ...this.#own, ...this.#sessionHeaders, ...scope.credentials },
        paramHeaders: headers,
        hear: (message) => {
          if (isProgressOf(message, id)) this.#pass(message, () => report(message.params))
          else CALL_SCOPE.run(scope, () => this.#hand(message))
        },
        refused: (waitMs) => {
          scope.retryAfterMs = waitMs
        },
      })
      this.#isElsewhere ||= result === undefined
      return result
    } catch (error) {
      if (signal.aborted && revision === undefined) this.#cancel(id, signal.reason)
      throw error
    } finally {
      signal.removeEventListener('abort', leave)
      this.#exchanges.delete(exchange)
    }
  }

  override async close(): Promise<void> {
    this.#isClosed = true
    const gone = new SdkError(SdkErrorCode.ConnectionClosed, 'Connection closed')
    for (const exchange of this.#exchanges) exchange.abort(gone)
    await super.close()
  }

  get #sessionHeaders(): Readonly<Record<string, string>> {
    const { sessionId, protocolVersion } = this
    return {
      ...(sessionId === undefined ? {} : { [HEADERS.session]: sessionId }),
      ...(protocolVersion === undefined ? {} : { [HEADERS.version]: protocolVersion }),
    }
  }

  /** The upstream may go on or not; nobody waits for it any more. */
  #cancel(requestId: number, reason: unknown): void {
    const params = { requestId, reason: String(reason) }
    this.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params }).catch(() => undefined)
  }

  /** Questions and news are for the official client. */
  #hand(message: JsonObject): void {
    if (isJSONRPCRequest(message) || isJSONRPCNotification(message)) this.onmessage?.(message)
  }

  #pass(message: JsonObject, report: () => void): void {
    if (this.#gate.lets({ jsonrpc: '2.0', method: String(message.method) })) report()
  }

  /** The client puts its own function here; notices reach it through the gate. */
  #listen(): void {
    const gate = this.#gate
    let hears: Transport['onmessage']
    Object.defineProperty(this, 'onmessage', {
      get: () => hears,
      set: (listener: Transport['onmessage']) => {
        hears = (message, extra) => {
          if (gate.lets(message)) listener?.(message, extra)
        }
      },
    })
  }

  /** A stream that ends early would leave its request waiting for ever. */
  override send(
    message: JSONRPCMessage | JSONRPCMessage[],
    options: TransportSendOptions = {},
  ): Promise<void> {
    const scope = CALL_SCOPE.getStore()
    const requestSignal = options.requestSignal ?? scope?.over
    const { onRequestStreamEnd, resumptionToken, onresumptiontoken, headers } = options
    const end =
      onRequestStreamEnd ??
      (!Array.isArray(message) && isJSONRPCRequest(message) ? () => this.#fail(message.id) : undefined)
    return super.send(message, {
      ...(requestSignal === undefined ? {} : { requestSignal }),
      ...(end === undefined ? {} : { onRequestStreamEnd: end }),
      ...(resumptionToken === undefined ? {} : { resumptionToken }),
      ...(onresumptiontoken === undefined ? {} : { onresumptiontoken }),
      ...(headers === undefined ? {} : { headers }),
    })
  }

  #fail(id: string | number): void {
    const error = { code: STREAM_ENDED, message: 'the stream ended without an answer' }
    this.onmessage?.({ jsonrpc: '2.0', id, error })
  }
}

function isProgressOf({ method, params }: JsonObject, id: number): boolean {
  return method === 'notifications/progress' && isWireObject(params) && params.progressToken === id
}
