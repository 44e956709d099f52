import type { JournalEvent } from '#core/journal/events'
import {
  nextRevision,
  type PinnedSource,
  type PinRecord,
  type PinStore,
  type PinWrite,
} from '#core/ports/import-store'

interface KeptSource {
  revision: number
  readonly pins: Map<string, PinRecord>
}

/** The memory store's pins, with the same rules as any other's. */
export class MemoryPins implements PinStore {
  readonly #sources = new Map<string, KeptSource>()
  readonly #append: (event: JournalEvent) => void
  #epoch = 0

  constructor(append: (event: JournalEvent) => void) {
    this.#append = append
  }

  read(source: string): PinnedSource {
    const kept = this.#sources.get(source)
    const pins = [...(kept?.pins.values() ?? [])].sort((left, right) =>
      left.nativeName < right.nativeName ? -1 : 1,
    )
    return { source, revision: kept?.revision ?? 0, pins }
  }

  revision(source: string): number {
    return this.#sources.get(source)?.revision ?? 0
  }

  write(change: PinWrite): 'written' | 'stale' {
    const { source, seen, pins, changesServed, events } = change
    if (this.revision(source) !== seen) return 'stale'
    const kept = this.#sources.get(source) ?? { revision: 0, pins: new Map<string, PinRecord>() }
    this.#sources.set(source, kept)
    kept.revision = nextRevision(change)
    for (const pin of pins) kept.pins.set(pin.nativeName, pin)
    if (changesServed) this.#epoch += 1
    for (const event of events) this.#append(event)
    return 'written'
  }

  sources(): readonly string[] {
    return [...this.#sources.keys()].sort()
  }

  epoch(): number {
    return this.#epoch
  }
}
