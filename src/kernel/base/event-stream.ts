/**
 * Server-sent events: a parser that takes pieces of text as they arrive. The client, the MCP source, the command line
 * and the console use it, so it depends on nothing but the language. Invariant: an event longer than the limit ends the
 * stream, so that a server cannot exhaust the client's memory.
 */

/** One event of a `text/event-stream`. */
export interface StreamEvent {
  /** Name of the event; `message` if the server gives no name. */
  readonly event: string
  readonly data: string
  /** Absent if this event has no id. The parser's `lastEventId` is the most recent id of the stream. */
  readonly id?: string
}

/** Thrown if an event is longer than the limit. */
export class EventTooLong extends Error {
  override readonly name = 'EventTooLong'
}

const LINE_END = /[\r\n]/g
const BYTE_ORDER_MARK = '\ufeff'

/**
 * Parses a stream as it arrives, by the WHATWG rules. It accepts any line break (even one split between pieces), comments,
 * data of several lines, and an optional space after the colon.
 */
export class EventParser {
  readonly #maxCharacters: number
  /** Pieces of the unfinished line. */
  #line: string[] = []
  #event = ''
  #data: string[] = []
  #id: string | undefined
  #lastEventId: string | undefined
  #retryMs: number | undefined
  /** Number of characters in the unfinished line and the data. */
  #buffered = 0
  #isFirst = true
  /** The last piece ended in CR; an LF at the start of the next piece belongs to the same line break. */
  #endedInCr = false

  constructor(maxCharacters: number) {
    this.#maxCharacters = maxCharacters
  }

  /** The id from which an interrupted stream can be resumed. */
  get lastEventId(): string | undefined {
    return this.#lastEventId
  }

  /** How long the server asks clients to wait before they reconnect. */
  get retryMs(): number | undefined {
    return this.#retryMs
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
    this.#buffered += piece.length
    if (this.#buffered > this.#maxCharacters) {
      throw new EventTooLong(`an event has more than ${this.#maxCharacters} characters`)
    }
  }

  /** Handles one complete line; a blank line completes an event. */
  #endLine(): StreamEvent | undefined {
    const line = this.#line.join('')
    this.#line = []
    if (line === '') return this.#dispatch()
    const colon = line.indexOf(':')
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'event') this.#event = value
    if (field === 'id' && !value.includes('\0')) this.#id = value
    if (field === 'retry' && /^\d+$/.test(value)) this.#retryMs = Number(value)
    if (field === 'data') this.#data.push(value)
    else this.#buffered -= line.length
    return undefined
  }

  #dispatch(): StreamEvent | undefined {
    const event = this.#event === '' ? 'message' : this.#event
    const data = this.#data
    const id = this.#id
    if (id !== undefined) this.#lastEventId = id
    this.#event = ''
    this.#data = []
    this.#id = undefined
    this.#buffered = 0
    if (data.length === 0) return undefined
    return id === undefined ? { event, data: data.join('\n') } : { event, data: data.join('\n'), id }
  }
}
