import type { IncomingHttpHeaders, IncomingMessage as NodeRequest } from 'node:http'
import { Socket } from 'node:net'
import { IncomingMessage, ServerResponse } from './node-http.ts'

/**
 * Adapts a `Request` and its `Response` to Node's request and response, so that HTTP is implemented once.
 * Used by the embedded handler. There is no network socket: this module pulls the body of the request, and the reader of the
 * response pulls its body.
 */
export function openExchange(request: Request, path: string) {
  const { method, body } = request
  const headers = headersOf(request)
  const raw = new PulledRequest({ method, url: path, headers, body, socket: new Socket() })
  const response = new PulledResponse(raw)
  if (request.signal.aborted) response.destroy()
  else request.signal.addEventListener('abort', () => response.destroy(), { once: true })
  return { raw, response, answered: response.answered }
}

/** A request whose body was already read, with that body restored. */
export function withBody(request: NodeRequest, bytes: Uint8Array<ArrayBuffer>): NodeRequest {
  const { method = '', url = '/', socket } = request
  const { 'content-length': _length, 'content-encoding': _encoding, ...headers } = request.headers
  const sent = { ...headers, 'content-length': String(bytes.length) }
  return new PulledRequest({ method, url, headers: sent, body: new Response(bytes).body, socket })
}

interface PulledRequestParts {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: ReadableStream<Uint8Array> | null
  readonly socket: Socket
}

class PulledRequest extends IncomingMessage {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  #isPulling = false

  constructor({ method, url, headers, body, socket }: PulledRequestParts) {
    super(socket)
    this.#reader = body?.getReader()
    this.method = method
    this.url = url
    this.httpVersion = '1.1'
    this.headers = headers
  }

  /** Node calls `_read` once and then expects its parser to push, so this pushes everything until the buffer is full. */
  override _read(): void {
    if (this.#isPulling) return
    this.#isPulling = true
    this.#pull()
      .catch((error: unknown) => this.destroy(error instanceof Error ? error : new Error(String(error))))
      .finally(() => {
        this.#isPulling = false
      })
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#reader?.cancel(error ?? undefined).catch(() => undefined)
    done(error)
  }

  async #pull(): Promise<void> {
    let hasRoom = true
    while (hasRoom) {
      const { done, value } = (await this.#reader?.read()) ?? { done: true, value: undefined }
      if (done) this.complete = true
      hasRoom = this.push(done ? null : value)
    }
  }
}

/** A request that a program created may lack `host` and `content-length`. */
function headersOf(request: Request): Record<string, string> {
  const headers = Object.fromEntries(request.headers)
  headers.host ??= new URL(request.url).host
  if (request.body !== null && headers['content-length'] === undefined)
    headers['transfer-encoding'] = 'chunked'
  return headers
}

/** Headers of the connection, which a `Response` does not have. */
const CONNECTION_HEADERS: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'transfer-encoding'])
const STATUSES_WITHOUT_BODY: ReadonlySet<number> = new Set([101, 204, 205, 304])

class PulledResponse extends ServerResponse<PulledRequest> {
  readonly #answer = Promise.withResolvers<Response>()
  readonly answered = this.#answer.promise
  #body: ReadableStreamDefaultController<Uint8Array> | undefined
  #isEnded = false
  /** Callbacks to call when the reader has taken all data. */
  #taken: (() => void)[] = []

  constructor(request: PulledRequest) {
    super(request)
    this.answered.catch(() => undefined)
    // Node derives these from its socket.
    Object.defineProperties(this, {
      writableFinished: { get: () => this.#isEnded },
      closed: { get: () => this.destroyed },
    })
  }

  /** Takes headers as this server writes them: names and values alternate. */
  override writeHead(status: number, ...rest: unknown[]): this {
    const headers = new Headers()
    for (const [name, value] of Object.entries(this.getHeaders())) headers.set(name, String(value))
    const [written] = rest
    if (Array.isArray(written))
      for (let at = 0; at + 1 < written.length; at += 2)
        if (!CONNECTION_HEADERS.has(written[at])) headers.append(String(written[at]), String(written[at + 1]))
    this.statusCode = status
    const body = STATUSES_WITHOUT_BODY.has(status) ? null : this.#openBody()
    this.#answer.resolve(new Response(body, { status, headers }))
    return this
  }

  override flushHeaders(): void {}

  override write(chunk: unknown, ...rest: unknown[]): boolean {
    const done = rest.find((argument) => typeof argument === 'function')
    this.#body?.enqueue(bytesOf(chunk))
    if (typeof done !== 'function') return true
    if ((this.#body?.desiredSize ?? 1) > 0) queueMicrotask(() => done())
    else this.#taken.push(() => done())
    return true
  }

  override end(...rest: unknown[]): this {
    if (this.#isEnded || this.destroyed) return this
    const [chunk] = rest
    if (typeof chunk === 'string' || chunk instanceof Uint8Array) this.#body?.enqueue(bytesOf(chunk))
    this.#isEnded = true
    this.#body?.close()
    this.emit('finish')
    this.#close()
    return this
  }

  /** Fails the body, so that half an answer does not look complete. */
  override destroy(): this {
    if (this.destroyed) return this
    const error = new Error('The exchange was aborted.')
    this.#answer.reject(error)
    if (!this.#isEnded) this.#body?.error(error)
    this.req.destroy()
    this.#close()
    return this
  }

  #openBody(): ReadableStream<Uint8Array> {
    return new ReadableStream({
      start: (controller) => {
        this.#body = controller
      },
      pull: () => this.#notifyTaken(),
      cancel: () => void this.destroy(),
    })
  }

  #notifyTaken(): void {
    for (const notify of this.#taken.splice(0)) notify()
  }

  #close(): void {
    this.destroyed = true
    this.#body = undefined
    this.#notifyTaken()
    this.emit('close')
  }
}

function bytesOf(chunk: unknown): Uint8Array {
  return chunk instanceof Uint8Array ? chunk : Buffer.from(String(chunk))
}
