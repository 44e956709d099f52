import type { Clock } from '#core/runtime'

const FIRST_MS = 500
const LONGEST_MS = 60_000
/** What lived this long is not one of a series. */
const STEADY_MS = 30_000

/** How long an upstream that fails is left alone: longer each time, up to a minute. */
export class Backoff {
  readonly #clock: Clock
  #failures = 0
  #untilMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** What is left of the pause; 0 when it may be tried. */
  get waitMs(): number {
    return Math.max(0, Math.ceil(this.#untilMs - this.#clock.monotonicMs()))
  }

  get failures(): number {
    return this.#failures
  }

  failed(): void {
    const pauseMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(this.#failures, 16))
    this.#failures += 1
    this.#untilMs = this.#clock.monotonicMs() + pauseMs
  }

  /** A connection is gone without being closed by us; one that had just been made counts as a failure. */
  died(livedMs: number): void {
    if (livedMs < STEADY_MS) this.failed()
    else this.succeeded()
  }

  /** It works: the next failure is a first one. */
  succeeded(): void {
    this.#failures = 0
    this.#untilMs = 0
  }
}
