import type { JournalEvent, JournalGroup, JournalHead } from '#core/journal/events'

/** The journal of the memory store: a group an event, without links. */
export class MemoryJournal {
  readonly #writer: string
  readonly #groups: JournalGroup[] = []
  #last = -1

  constructor(writer: string) {
    this.#writer = writer
  }

  readonly append = (event: JournalEvent): void => {
    this.#last += 1
    this.#groups.push({ writer: this.#writer, group: this.#last, link: '', atMs: event.at, events: [event] })
  }

  read(after: readonly JournalHead[], limit: number): readonly JournalGroup[] {
    const next = (after.find(({ writer }) => writer === this.#writer)?.group ?? -1) + 1
    const first = this.#groups[0]?.group ?? 0
    const start = Math.max(0, next - first)
    return this.#groups.slice(start, start + limit)
  }

  forget(beforeMs: number): void {
    const kept = this.#groups.findIndex(({ atMs }) => atMs >= beforeMs)
    this.#groups.splice(0, kept === -1 ? this.#groups.length : kept)
  }
}
