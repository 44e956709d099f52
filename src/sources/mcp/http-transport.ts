import {
  isJSONRPCRequest,
  type JSONRPCMessage,
  StreamableHTTPClientTransport,
  type Transport,
  type TransportSendOptions,
} from '@modelcontextprotocol/client'
import type { Secret } from '#core/secret'
import { boundedAnswer, CALL_BOUNDS, NoticeGate, PAGE_BOUNDS } from './answer-bounds.ts'
import { CALL_SCOPE } from './connection.ts'

/** Code of the error that a request gets whose stream ended without an answer. */
export const STREAM_ENDED = -31_999

interface HttpTransportOptions {
  readonly url: string
  readonly headers: Readonly<Record<string, Secret>>
  /** Of the caller the connection belongs to, for what is sent outside of calls. */
  readonly credentials: Readonly<Record<string, string>>
  readonly fetch: typeof fetch
}

const RECONNECTION = {
  initialReconnectionDelay: 1000,
  maxReconnectionDelay: 30_000,
  reconnectionDelayGrowFactor: 1.5,
  maxRetries: 5,
}

/** Streamable HTTP by the official transport, with the credentials of the call at hand. */
export class HttpTransport extends StreamableHTTPClientTransport {
  constructor({ url, headers, credentials, fetch: send }: HttpTransportOptions) {
    const own = Object.entries(headers).map(([name, value]): [string, string] => [name, value.reveal()])
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
        if (scope !== undefined && !response.ok) scope.retryAfterMs = retryAfterMs(response)
        return boundedAnswer(response, scope === undefined ? PAGE_BOUNDS : CALL_BOUNDS)
      },
    })
    this.#hear()
  }

  /** The client puts its own function here; notices reach it through the gate. */
  #hear(): void {
    const gate = new NoticeGate()
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

const LONGEST_WAIT_MS = 3_600_000

function retryAfterMs({ headers }: Response): number | undefined {
  const seconds = Number(headers.get('retry-after') ?? Number.NaN)
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds * 1000, LONGEST_WAIT_MS) : undefined
}
