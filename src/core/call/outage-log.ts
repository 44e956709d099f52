import type { Clock } from '#core/ports/clock'
import type { Logger } from '#core/ports/logger'

const REPEAT_MS = 60_000

/** Tells a failure that comes again and again: the first time with its stack, then at most once a minute with a count. */
export class OutageLog {
  readonly #log: Logger
  readonly #clock: Clock
  readonly #message: string
  #failures = 0
  #toldAtMs = 0

  constructor(message: string, world: { readonly clock: Clock; readonly log: Logger }) {
    this.#message = message
    this.#clock = world.clock
    this.#log = world.log
  }

  failed(error: unknown, fields: object = {}): void {
    this.#failures += 1
    const nowMs = this.#clock.monotonicMs()
    if (this.#failures === 1) this.#log.error({ ...fields, err: error }, this.#message)
    else if (nowMs - this.#toldAtMs < REPEAT_MS) return
    else {
      const reason = error instanceof Error ? error.message : String(error)
      this.#log.error({ ...fields, failures: this.#failures, reason }, `still: ${this.#message}`)
    }
    this.#toldAtMs = nowMs
  }

  /** The next failure is a new one. Gives how many there were. */
  worked(): number {
    const failures = this.#failures
    this.#failures = 0
    return failures
  }
}
