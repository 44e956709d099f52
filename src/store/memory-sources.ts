import { sourcePutEvent, sourceRemovedEvent } from '#core/journal/append'
import type { JournalEvent } from '#core/journal/events'
import type { NewSource, SourceRemoval, SourceStore, StoredSource } from '#core/ports/import-store'

/** The memory store's sources: nothing is written anywhere, so nothing is sealed. */
export class MemorySources implements SourceStore {
  readonly #sources = new Map<string, StoredSource>()
  readonly #append: (event: JournalEvent) => void
  #epoch = 0

  constructor(append: (event: JournalEvent) => void) {
    this.#append = append
  }

  list(): readonly StoredSource[] {
    return [...this.#sources.values()].sort((left, right) => (left.key < right.key ? -1 : 1))
  }

  put(source: NewSource): 'added' | 'replaced' | 'exists' {
    const { replace, ...stored } = source
    const isThere = this.#sources.has(source.key)
    if (isThere && !replace) return 'exists'
    this.#sources.set(source.key, { ...stored, options: structuredClone(stored.options) })
    const result = isThere ? 'replaced' : 'added'
    this.#change(sourcePutEvent(source, result))
    return result
  }

  remove(removal: SourceRemoval): boolean {
    if (!this.#sources.delete(removal.key)) return false
    this.#change(sourceRemovedEvent(removal))
    return true
  }

  epoch(): number {
    return this.#epoch
  }

  #change(event: JournalEvent): void {
    this.#epoch += 1
    this.#append(event)
  }
}
