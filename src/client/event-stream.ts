import { NoAnswer } from './http.ts'

/**
 * Server-sent events for clients: a parser that takes pieces of text, and a reader of a response. Streaming calls,
 * events of runs and `collet calls --follow` use it. Invariant: an event longer than the limit ends the stream, so a
 * server cannot fill the memory.
 */

/** One event of a `text/event-stream`. */
export interface StreamEvent {
  /** `message` unless the server names it. */
  readonly event: string
  readonly data: string
}

/** The limit was reached before one whole event arrived. */
export class EventTooLong extends Error {
  override readonly name = 'EventTooLong'
}

const LINE_END = /[\r\n]/g
const BYTE_ORDER_MARK = '\ufeff'

/**
 * Parses a stream as it arrives, by the WHATWG rules: any line break, also one split by the network, comments, data
 * of several lines, and an optional space after the colon.
 */
export class EventParser {
  readonly #maxCharacters: number
  /** Pieces of the unfinished line. */
  #line: string[] = []
  #event = ''
  #data: string[] = []
  /** Characters held in the line and the data. */
  #held = 0
  #isFirst = true
  /** The last piece ended in CR; an LF at the start of the next piece belongs to it. */
  #endedInCr = false

  constructor(maxCharacters: number) {
    this.#maxCharacters = maxCharacters
  }

  /** Returns the events that this piece completes. */
  read(text: string): readonly StreamEvent[] {
    if (text === '') return []
    const events: StreamEvent[] = []
    let from = this.#isFirst && text.startsWith(BYTE_ORDER_MARK) ? 1 : 0
    if (this.#endedInCr && text[from] === '\n') from += 1
    this.#isFirst = false
    this.#endedInCr = false
    for (;;) {
      LINE_END.lastIndex = from
      const end = LINE_END.exec(text)
      this.#hold(text.slice(from, end?.index))
      if (end === null) return events
      const event = this.#endLine()
      if (event !== undefined) events.push(event)
      const isCr = end[0] === '\r'
      from = end.index + (isCr && text[end.index + 1] === '\n' ? 2 : 1)
      this.#endedInCr = isCr && from === text.length && text.endsWith('\r')
    }
  }

  #hold(piece: string): void {
    if (piece === '') return
    this.#line.push(piece)
    this.#held += piece.length
    if (this.#held > this.#maxCharacters) {
      throw new EventTooLong(`an event has more than ${this.#maxCharacters} characters`)
    }
  }

  /** A blank line completes an event; an event cut off by the end of the stream is dropped. */
  #endLine(): StreamEvent | undefined {
    const line = this.#line.join('')
    this.#line = []
    if (line === '') return this.#dispatch()
    const colon = line.indexOf(':')
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'event') this.#event = value
    if (field === 'data') this.#data.push(value)
    else this.#held -= line.length
    return undefined
  }

  #dispatch(): StreamEvent | undefined {
    const event = this.#event === '' ? 'message' : this.#event
    const data = this.#data
    this.#event = ''
    this.#data = []
    this.#held = 0
    return data.length === 0 ? undefined : { event, data: data.join('\n') }
  }
}

export const EVENT_STREAM = /^text\/event-stream(?:;|$)/i

/** Yields the events of an answer; each piece restarts the timeout. */
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

/** Aborts the exchange if its caller leaves, or if nothing arrives in time. */
export class IdleTimeout {
  readonly #ending = new AbortController()
  readonly #callers: readonly AbortSignal[]
  readonly #patienceMs: number
  readonly signal: AbortSignal
  #timer: ReturnType<typeof setTimeout> | undefined
  #isLate = false

  constructor(patienceMs: number, callers: readonly (AbortSignal | undefined)[]) {
    this.#patienceMs = patienceMs
    this.#callers = callers.filter((caller) => caller !== undefined)
    this.signal = AbortSignal.any([this.#ending.signal, ...this.#callers])
    this.refresh()
  }

  refresh(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#isLate = true
      this.#ending.abort()
    }, this.#patienceMs)
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#ending.abort()
  }

  /** Why the stream ended; `undefined` if the error does not come from the exchange. */
  reasonFor(error: unknown): NoAnswer | undefined {
    const caller = this.#callers.find(({ aborted }) => aborted)
    if (caller !== undefined) return new NoAnswer('aborted', 'was aborted by its caller', caller.reason)
    if (this.#isLate) return new NoAnswer('timeout', `gave nothing for ${this.#patienceMs} ms`)
    if (error instanceof EventTooLong) return new NoAnswer('too_large', `broke off: ${error.message}`)
    return error instanceof TypeError
      ? new NoAnswer('network', 'could not be reached, or the connection broke', error)
      : undefined
  }
}
