import type { Outcome } from '#core/call'
import { fault, StoreError } from '#core/errors'
import type { Attempt, Store } from '#core/ports/store'
import type { Clock, Logger } from '#core/runtime'
import type { CallServices } from './gateway.ts'

/** OTC-68: no new run while draining, or after a store write error (rule 11). */
export function checkReady(services: CallServices): void {
  if (services.readiness.isReady()) return
  throw fault(
    'not_ready',
    'The tool server cannot take new calls right now. Nothing was run; try again shortly.',
    {
      retryAfterMs: 2_000,
    },
  )
}

const FIRST_TRY_MS = 250
const SLOWEST_TRY_MS = 2_000
const LOG_EVERY_MS = 60_000

interface Watched {
  readonly store: Store
  readonly keeper: () => OutcomeKeeper
  readonly readiness: () => Readiness
  readonly log: Logger
}

/** One loop while the store is in trouble: does a write work, are all kept outcomes stored, then we are ready again. */
export class StoreWatch {
  readonly #watched: Watched
  #timer: NodeJS.Timeout | undefined
  #delayMs = FIRST_TRY_MS
  #loggedAtMs = Number.NEGATIVE_INFINITY
  #isClosed = false

  constructor(watched: Watched) {
    this.#watched = watched
  }

  /** Something went wrong: look after the store until it works. */
  start(): void {
    if (this.#timer !== undefined || this.#isClosed) return
    this.#timer = setTimeout(() => void this.#look(), this.#delayMs).unref()
  }

  stop(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  async #look(): Promise<void> {
    const { store, keeper, readiness, log } = this.#watched
    try {
      await store.probe()
      const left = await keeper().flush()
      readiness().noteStoreWorks()
      if (left === 0) {
        this.#delayMs = FIRST_TRY_MS
        this.#timer = undefined
        log.info({}, 'the store takes writes')
        return
      }
      this.#complain({ left }, 'outcomes still cannot be committed')
    } catch (error) {
      this.#complain({ err: error }, 'the store does not take writes')
    }
    this.#timer = undefined
    this.#delayMs = Math.min(this.#delayMs * 2, SLOWEST_TRY_MS)
    this.start()
  }

  /** Once a minute: an outage must not fill the log, nor the disk that is full. */
  #complain(fields: object, message: string): void {
    const nowMs = performance.now()
    if (nowMs - this.#loggedAtMs < LOG_EVERY_MS) return
    this.#loggedAtMs = nowMs
    this.#watched.log.error(fields, message)
  }
}

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

/** Whether new calls are taken. Earlier outcomes are answered even when not. */
export class Readiness {
  #draining = false
  #storeFailed = false
  readonly #onStoreFailure: () => void

  /** `onStoreFailure` is told once per failure, to start probing. */
  constructor(onStoreFailure: () => void) {
    this.#onStoreFailure = onStoreFailure
  }

  isReady(): boolean {
    return !this.#draining && !this.#storeFailed
  }

  drain(): void {
    this.#draining = true
  }

  /** After a store write error health is 503 and no new write starts, until a probe succeeds (rule 11). */
  noteStoreFailure(error: unknown): void {
    if (!(error instanceof StoreError) || error.code === 'unreadable' || this.#storeFailed) return
    this.#storeFailed = true
    this.#onStoreFailure()
  }

  noteStoreWorks(): void {
    this.#storeFailed = false
  }
}
