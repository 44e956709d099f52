import { denialEvent } from '#core/journal/append'
import type { JournalEvent } from '#core/journal/events'
import type { AuditStore, Denial, DenialFilter, RecordedDenial } from '#core/ports/key-store'

/** The memory store's audit stream. */
export class MemoryAudit implements AuditStore {
  #denials: RecordedDenial[] = []
  readonly #append: (event: JournalEvent) => void
  #last = 0

  constructor(append: (event: JournalEvent) => void) {
    this.#append = append
  }

  recordDenials(denials: readonly Denial[]): void {
    for (const denial of denials) {
      this.#last += 1
      this.#denials.push({ ...denial, no: this.#last })
      this.#append(denialEvent(denial))
    }
  }

  readDenials({ tenant, after, limit }: DenialFilter): readonly RecordedDenial[] {
    return this.#denials
      .filter((denial) => denial.no > after && (tenant === undefined || denial.tenant === tenant))
      .slice(0, limit)
  }

  forget(beforeMs: number): void {
    this.#denials = this.#denials.filter(({ atMs }) => atMs >= beforeMs)
  }
}
