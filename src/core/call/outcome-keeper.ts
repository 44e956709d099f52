import type { Outcome } from '#core/outcome'
import type { Clock } from '#core/ports/clock'
import type { Logger } from '#core/ports/logger'
import type { Attempt, Store } from '#core/ports/store'

/** Holds outcomes the store refused, until somebody flushes them because it works again (rule 11). */
export class OutcomeKeeper {
  readonly #store: Store
  readonly #clock: Clock
  readonly #log: Logger
  readonly #onKept: () => void
  readonly #kept = new Set<() => Promise<void>>()
  #flushing: Promise<number> | undefined

  constructor(services: {
    readonly store: Store
    readonly clock: Clock
    readonly log: Logger
    readonly onKept: () => void
  }) {
    this.#store = services.store
    this.#clock = services.clock
    this.#log = services.log
    this.#onKept = services.onKept
  }

  keep(write: () => Promise<void>): void {
    this.#kept.add(write)
    this.#onKept()
  }

  async recordLate(run: Attempt, outcome: Outcome): Promise<void> {
    try {
      await this.#store.recordLate(run, outcome, this.#clock.nowMs())
    } catch (error) {
      this.#log.error({ err: error, record: run.record }, 'a late result could not be stored')
    }
  }

  /** One round over everything kept, one round at a time; gives how many are left. */
  flush(): Promise<number> {
    this.#flushing ??= this.#writeAll().finally(() => {
      this.#flushing = undefined
    })
    return this.#flushing
  }

  /** One that cannot be written must not hold up the others. */
  async #writeAll(): Promise<number> {
    for (const write of [...this.#kept]) {
      try {
        await write()
        this.#kept.delete(write)
      } catch (error) {
        this.#log.debug({ err: error }, 'an outcome still cannot be committed')
      }
    }
    return this.#kept.size
  }
}
