import type { Dispatcher } from 'undici'
import type { PlainResponse } from '#sources/kit/source'
import { tooLarge } from './bodies.ts'
import { type EgressRules, toFailure } from './policy.ts'

/**
 * One guarded request without `Request` and `Response` objects, from its dispatch to the last byte of its answer. `guarded-fetch.ts`
 * creates one for each request. It is both the handler that undici calls and the body that the reader of the answer iterates over.
 * It avoids the cost of streams for small answers, and needs only one timer and one abort listener.
 * Invariant: the exchange ends exactly once: with the last byte, a failure, an abort, the time limit, or a reader that stops early.
 */

/** Reading from the upstream pauses while more than this is unread. */
const MAX_UNREAD_BYTES = 65_536

type Controller = Dispatcher.DispatchController
type Headers = PlainResponse['headers']
type Piece = IteratorResult<Uint8Array, undefined>

/** The status and headers of an answer; its body is the exchange itself. */
interface AnswerStart {
  readonly status: number
  readonly headers: Headers
}

const END: Piece = { done: true, value: undefined }

export class PlainExchange
  implements Dispatcher.DispatchHandler, AsyncIterableIterator<Uint8Array, undefined, void>
{
  /** Settles with the headers of the answer. */
  readonly start: Promise<AnswerStart>
  readonly #rules: EgressRules
  readonly #caller: AbortSignal
  readonly #timer: NodeJS.Timeout
  readonly #settle: (start: AnswerStart) => void
  readonly #refuse: (error: unknown) => void
  readonly #leave: () => void
  #onConnected: (() => void) | undefined
  #controller: Controller | undefined
  #hasStarted = false
  #hasEnded = false
  #hasPassed = false
  #bytes = 0
  #unread: Buffer[] = []
  #unreadBytes = 0
  #failure: { readonly error: unknown } | undefined
  #reader: PromiseWithResolvers<Piece> | undefined

  constructor(rules: EgressRules, caller: AbortSignal) {
    const { promise, resolve, reject } = Promise.withResolvers<AnswerStart>()
    this.start = promise
    this.#settle = resolve
    this.#refuse = reject
    this.#rules = rules
    this.#caller = caller
    this.#leave = () => this.#cut(caller.reason)
    this.#timer = setTimeout(() => this.#timeOut(), rules.timeoutMs)
    this.#timer.unref()
    if (caller.aborted) this.#leave()
    else caller.addEventListener('abort', this.#leave, { once: true })
  }

  /** True once the exchange is over; its request must not be sent after that. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Calls `run` once, when the answer begins or the request fails. After that the request makes no new connection. */
  onConnected(run: () => void): void {
    this.#onConnected = run
  }

  /** Ends the exchange; the caller and the reader get `error` as `toFailure` converts it. */
  fail(error: unknown): void {
    if (this.#hasEnded) return
    const isFirst = !this.#hasStarted
    const facts = { caller: this.#caller, hasPassed: this.#hasPassed, isFirst, rules: this.#rules }
    this.#failure = { error: toFailure(error, facts) }
    this.#end()
    this.#refuse(this.#failure.error)
    this.#reader?.reject(this.#failure.error)
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller
    if (this.#hasEnded) controller.abort(new Error('the request was abandoned'))
  }

  onResponseStart(_controller: Controller, status: number, headers: Headers): void {
    if (status < 200 || this.#hasEnded) return
    this.#hasStarted = true
    this.#connected()
    this.#settle({ status, headers })
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (this.#hasEnded) return
    this.#bytes += chunk.length
    const { maxResponseBytes } = this.#rules
    if (this.#bytes > maxResponseBytes) {
      this.#cut(tooLarge(maxResponseBytes))
      return
    }
    if (this.#reader !== undefined) {
      this.#reader.resolve({ done: false, value: chunk })
      this.#reader = undefined
      return
    }
    this.#unread.push(chunk)
    this.#unreadBytes += chunk.length
    if (this.#unreadBytes > MAX_UNREAD_BYTES) controller.pause()
  }

  onResponseEnd(): void {
    if (this.#hasEnded) return
    this.#end()
    this.#reader?.resolve(END)
  }

  onResponseError(_controller: Controller | null, error: Error): void {
    this.fail(error)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<Piece> {
    const value = this.#unread.shift()
    if (value !== undefined) {
      this.#unreadBytes -= value.length
      if (this.#unread.length === 0 && !this.#hasEnded) this.#controller?.resume()
      return Promise.resolve({ done: false, value })
    }
    if (this.#failure !== undefined) return Promise.reject(this.#failure.error)
    if (this.#hasEnded) return Promise.resolve(END)
    this.#reader ??= Promise.withResolvers<Piece>()
    return this.#reader.promise
  }

  /** Called when the reader stops early. Closes the connection, because the rest of the answer would only be discarded. */
  return(): Promise<Piece> {
    this.#unread = []
    this.#cut(new Error('the reader stopped early'))
    return Promise.resolve(END)
  }

  #timeOut(): void {
    this.#hasPassed = true
    this.#cut(new Error('the time limit has passed'))
  }

  /** Ends the exchange before its last byte. */
  #cut(reason: Error): void {
    if (this.#hasEnded) return
    this.fail(reason)
    this.#controller?.abort(reason)
  }

  #end(): void {
    this.#hasEnded = true
    clearTimeout(this.#timer)
    this.#caller.removeEventListener('abort', this.#leave)
    this.#connected()
  }

  #connected(): void {
    const run = this.#onConnected
    this.#onConnected = undefined
    run?.()
  }
}
