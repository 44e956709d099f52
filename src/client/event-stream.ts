import { EventParser, EventTooLong, type StreamEvent } from '#kernel/base/event-stream'
import { NoAnswer } from './http.ts'

/**
 * Reads the events of a response. Streaming calls, events of runs and `collet calls --follow` use it. Invariant: the
 * size of an event and the time between two chunks are limited.
 */

export const EVENT_STREAM = /^text\/event-stream(?:;|$)/i

/** Yields the events of an answer; each chunk restarts the timeout. */
export async function* readEvents(
  response: Response,
  maxCharacters: number,
  wait: IdleTimeout,
): AsyncGenerator<StreamEvent> {
  if (response.body === null) return
  const parser = new EventParser(maxCharacters)
  const decoder = new TextDecoder()
  const reader = response.body.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    wait.refresh()
    if (done) return
    yield* parser.read(decoder.decode(value, { stream: true }))
  }
}

/** Aborts the exchange if its caller aborts, or if nothing arrives in time. */
export class IdleTimeout {
  readonly #ending = new AbortController()
  readonly #callers: readonly AbortSignal[]
  readonly #maxIdleMs: number
  readonly signal: AbortSignal
  #timer: ReturnType<typeof setTimeout> | undefined
  #isLate = false

  constructor(maxIdleMs: number, callers: readonly (AbortSignal | undefined)[]) {
    this.#maxIdleMs = maxIdleMs
    this.#callers = callers.filter((caller) => caller !== undefined)
    this.signal = AbortSignal.any([this.#ending.signal, ...this.#callers])
    this.refresh()
  }

  refresh(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#isLate = true
      this.#ending.abort()
    }, this.#maxIdleMs)
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#ending.abort()
  }

  /** Why the stream ended; `undefined` if the error does not come from the exchange. */
  reasonFor(error: unknown): NoAnswer | undefined {
    const caller = this.#callers.find(({ aborted }) => aborted)
    if (caller !== undefined) return new NoAnswer('aborted', 'was aborted by its caller', caller.reason)
    if (this.#isLate) return new NoAnswer('timeout', `sent nothing for ${this.#maxIdleMs} ms`)
    if (error instanceof EventTooLong) return new NoAnswer('too_large', `broke off: ${error.message}`)
    return error instanceof TypeError
      ? new NoAnswer('network', 'could not be reached, or the connection was lost', error)
      : undefined
  }
}
