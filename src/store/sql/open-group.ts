import type { JournalEvent } from '#core/journal/events'

/** Where a text lies inside one group's sealed bytes. */
export interface Slice {
  readonly group: number
  readonly at: number
  readonly length: number
}

/** The commit being put together: its events, and the texts that are sealed as one (rule 14). */
export class OpenGroup {
  readonly id: number
  readonly #events: string[] = []
  readonly #callers = new Segment()
  readonly #payload = new Segment()
  #live = 0

  constructor(id: number) {
    this.id = id
  }

  get isEmpty(): boolean {
    return this.#events.length === 0
  }

  get eventsJson(): string {
    return `[${this.#events.join(',')}]`
  }

  get callers(): string {
    return this.#callers.text
  }

  get payload(): string {
    return this.#payload.text
  }

  /** How many calls keep this group's payload alive. */
  get live(): number {
    return this.#live
  }

  append(event: JournalEvent): void {
    this.#events.push(JSON.stringify(event))
  }

  /** Text a caller chose: call id, trace id, user id. Kept as long as the journal. */
  addCaller(text: string): Slice {
    return this.#callers.add(this.id, text)
  }

  /** An input or an outcome. Kept as long as results. */
  addPayload(text: string): Slice {
    return this.#payload.add(this.id, text)
  }

  /** Once per call that points into this group's payload. */
  addReference(): void {
    this.#live += 1
  }
}

class Segment {
  readonly #parts: string[] = []
  #bytes = 0

  get text(): string {
    return this.#parts.join('')
  }

  add(group: number, text: string): Slice {
    const length = Buffer.byteLength(text)
    const slice = { group, at: this.#bytes, length }
    this.#parts.push(text)
    this.#bytes += length
    return slice
  }
}
