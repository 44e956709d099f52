import { fault, StoreError } from '#kernel/base/errors'
import { type Logger, OutageLog } from '#kernel/base/logger'
import type { KernelStore } from '#kernel/store/store'

/**
 * Whether new calls are taken, and outcomes that the store refused (rule 11). Every call asks `checkReady`; the health endpoint
 * shows the reason.
 * While the store fails, one loop probes it and writes the kept outcomes; recorded outcomes are answered all the time.
 */

const FIRST_TRY_MS = 250
const SLOWEST_TRY_MS = 2_000

/**
 * Why no new call is taken, in a word that is safe to show to anyone: the process is stopping, its store refused a
 * write, or its lease on a shared store is in doubt. Details are in the log.
 */
export type UnavailableReason = 'stopping' | 'store_unavailable' | 'lease_in_doubt'

interface StoreHealthNeeds {
  readonly store: Pick<KernelStore, 'probe' | 'obstacle'>
  readonly log: Logger
}

export class StoreHealth {
  readonly unsaved: UnsavedOutcomes
  readonly #store: Pick<KernelStore, 'probe' | 'obstacle'>
  readonly #log: Logger
  readonly #outage: OutageLog
  #isStopAnnounced = false
  #isDraining = false
  #hasFailed = false
  #timer: NodeJS.Timeout | undefined
  #delayMs = FIRST_TRY_MS
  #isClosed = false

  constructor({ store, log }: StoreHealthNeeds) {
    this.#store = store
    this.#log = log
    this.#outage = new OutageLog(log)
    this.unsaved = new UnsavedOutcomes(log, () => this.#watch())
  }

  isReady(): boolean {
    return this.unavailableReason() === undefined
  }

  unavailableReason(): UnavailableReason | undefined {
    return this.#isStopAnnounced || this.#isDraining ? 'stopping' : this.#storeReason()
  }

  #storeReason(): UnavailableReason | undefined {
    if (this.#hasFailed) return 'store_unavailable'
    const obstacle = this.#store.obstacle()
    if (obstacle === undefined) return undefined
    this.#outage.report({ obstacle }, 'the server takes no new calls')
    return 'lease_in_doubt'
  }

  /**
   * OTC-68: no new run while draining, or after a store write error (rule 11). An announced stop refuses nothing yet.
   */
  checkReady(): void {
    if (!this.#isDraining && this.#storeReason() === undefined) return
    throw fault(
      'not_ready',
      'The tool server cannot take new calls right now. Nothing was run; try again shortly.',
      { retryAfterMs: 2_000 },
    )
  }

  /** From now on load balancers see that this server stops; calls that still reach it are taken until `drain`. */
  announceStop(): void {
    this.#isStopAnnounced = true
  }

  drain(): void {
    this.#isDraining = true
  }

  /** After a store write error no new run starts until a probe succeeds (rule 11). */
  noteFailure(error: unknown): void {
    if (!(error instanceof StoreError) || error.code === 'unreadable' || this.#hasFailed) return
    this.#hasFailed = true
    this.#watch()
  }

  /** Stops probing; unsaved outcomes are tried one last time. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.unsaved.flush()
  }

  #watch(): void {
    if (this.#timer !== undefined || this.#isClosed) return
    this.#timer = setTimeout(() => void this.#look(), this.#delayMs).unref()
  }

  async #look(): Promise<void> {
    try {
      await this.#store.probe()
      const left = await this.unsaved.flush()
      this.#hasFailed = false
      if (left === 0) {
        this.#delayMs = FIRST_TRY_MS
        this.#timer = undefined
        this.#log.info({}, 'the store accepts writes again')
        return
      }
      this.#outage.report({ left }, 'outcomes still cannot be committed')
    } catch (error) {
      this.#outage.report({ err: error }, 'the store does not accept writes')
    }
    this.#timer = undefined
    this.#delayMs = Math.min(this.#delayMs * 2, SLOWEST_TRY_MS)
    this.#watch()
  }
}

/** Outcomes the store refused, held until it works again (rule 11). */
export class UnsavedOutcomes {
  readonly #log: Logger
  readonly #onKept: () => void
  readonly #writes = new Set<() => Promise<void>>()
  #flushing: Promise<number> | undefined

  constructor(log: Logger, onKept: () => void) {
    this.#log = log
    this.#onKept = onKept
  }

  keep(write: () => Promise<void>): void {
    this.#writes.add(write)
    this.#onKept()
  }

  /** One pass over everything kept, one at a time; returns how many are left. */
  flush(): Promise<number> {
    this.#flushing ??= this.#writeAll().finally(() => {
      this.#flushing = undefined
    })
    return this.#flushing
  }

  /** One outcome that cannot be written must not delay the others. */
  async #writeAll(): Promise<number> {
    for (const write of [...this.#writes]) {
      try {
        await write()
        this.#writes.delete(write)
      } catch (error) {
        this.#log.debug({ err: error }, 'an outcome still cannot be committed')
      }
    }
    return this.#writes.size
  }
}
