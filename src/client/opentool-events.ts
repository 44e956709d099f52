/** One event of a stream of `text/event-stream`. */
export interface StreamEvent {
  /** `message` unless the server names it. */
  readonly event: string
  readonly data: string
}

/** Text as long as the limit without one whole event in it. */
export class EventTooLong extends Error {
  override readonly name = 'EventTooLong'
}

/**
 * Takes a stream apart as it comes, by the WHATWG rules: any line end, also one cut in two by the network, comments,
 * data of several lines, and with or without a space after the colon.
 */
export class EventParser {
  readonly #mostCharacters: number
  #rest = ''
  #event = ''
  #data: string[] = []
  #length = 0
  #isFirst = true

  constructor(mostCharacters: number) {
    this.#mostCharacters = mostCharacters
  }

  /** The events that this piece of text completes. */
  read(text: string): readonly StreamEvent[] {
    let pending = this.#rest + text
    if (this.#isFirst && pending !== '') {
      if (pending.startsWith('\ufeff')) pending = pending.slice(1)
      this.#isFirst = false
    }
    const events: StreamEvent[] = []
    let from = 0
    for (;;) {
      const end = lineEnd(pending, from)
      if (end === undefined) break
      const event = this.#line(pending.slice(from, end.at))
      if (event !== undefined) events.push(event)
      from = end.next
    }
    this.#rest = pending.slice(from)
    if (this.#rest.length + this.#length > this.#mostCharacters) {
      throw new EventTooLong(`an event has more than ${this.#mostCharacters} characters`)
    }
    return events
  }

  /** What a blank line ends; an event that the stream breaks off is none. */
  #line(line: string): StreamEvent | undefined {
    if (line === '') return this.#dispatch()
    const colon = line.indexOf(':')
    if (colon === 0) return undefined
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'event') this.#event = value
    if (field === 'data') {
      this.#data.push(value)
      this.#length += value.length + 1
    }
    return undefined
  }

  #dispatch(): StreamEvent | undefined {
    const event = this.#event === '' ? 'message' : this.#event
    const data = this.#data
    this.#event = ''
    this.#data = []
    this.#length = 0
    return data.length === 0 ? undefined : { event, data: data.join('\n') }
  }
}

/** Where the line ends and the next begins. A CR at the very end may be half of a CRLF: wait for more. */
function lineEnd(text: string, from: number): { readonly at: number; readonly next: number } | undefined {
  for (let at = from; at < text.length; at += 1) {
    const unit = text[at]
    if (unit === '\n') return { at, next: at + 1 }
    if (unit === '\r') {
      if (at + 1 === text.length) return undefined
      return { at, next: text[at + 1] === '\n' ? at + 2 : at + 1 }
    }
  }
  return undefined
}
