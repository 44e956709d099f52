import type { Outcome } from '#core/outcome'
import type { Clock } from '#core/ports/clock'
import type { Logger } from '#core/ports/logger'
import type { Attempt, Store } from '#core/ports/store'
import { OutageLog } from './outage-log.ts'

const FIRST_RETRY_MS = 100
const SLOWEST_RETRY_MS = 5_000

/** Holds outcomes the store refused and writes them as soon as it works again (rule 11). */
export class OutcomeKeeper {
  readonly #store: Store
  readonly #clock: Clock
  readonly #log: Logger
  readonly #kept = new Set<() => Promise<void>>()
  readonly #outage: OutageLog
  #timer: NodeJS.Timeout | undefined
  #delayMs = FIRST_RETRY_MS
  #closed = false

  constructor(services: { readonly store: Store; readonly clock: Clock; readonly log: Logger }) {
    this.#store = services.store
    this.#clock = services.clock
    this.#log = services.log
    this.#outage = new OutageLog('an outcome cannot be committed', services)
  }

  get size(): number {
    return this.#kept.size
  }

  keep(write: () => Promise<void>): void {
    this.#kept.add(write)
    this.#schedule()
  }

  async recordLate(run: Attempt, outcome: Outcome): Promise<void> {
    try {
      await this.#store.recordLate(run, outcome, this.#clock.nowMs())
    } catch (error) {
      this.#log.error({ err: error, record: run.record }, 'a late result could not be stored')
    }
  }

  /** One round over everything kept; what fails stays. */
  async flush(): Promise<void> {
    for (const write of [...this.#kept]) {
      try {
        await write()
        this.#kept.delete(write)
        this.#outage.worked()
      } catch (error) {
        this.#outage.failed(error, { kept: this.#kept.size })
        this.#delayMs = Math.min(this.#delayMs * 2, SLOWEST_RETRY_MS)
        return
      }
    }
    this.#delayMs = FIRST_RETRY_MS
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    if (this.#timer !== undefined || this.#closed) return
    this.#timer = setTimeout(async () => {
      await this.flush()
      this.#timer = undefined
      if (this.#kept.size > 0) this.#schedule()
    }, this.#delayMs)
    this.#timer.unref()
  }
}
