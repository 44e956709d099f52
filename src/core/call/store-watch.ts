import type { Logger } from '#core/ports/logger'
import type { Store } from '#core/ports/store'
import type { OutcomeKeeper } from './outcome-keeper.ts'
import type { Readiness } from './readiness.ts'

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
