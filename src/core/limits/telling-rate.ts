import type { Clock } from '#core/ports/clock'
import type { Principal } from '#core/principal'
import { subjectKey } from './subject-key.ts'
import { TokenBuckets } from './token-buckets.ts'

/** Twenty at once of one principal, and one a second after that. */
const TOLD = { burst: 20, perMs: 1 / 1_000 }
/** The same for all principals together. */
const TOLD_IN_ALL = { burst: 200, perMs: 10 / 1_000 }
const EVERYBODY = '*'

/** How often runs are told of calls that did not run: a flood of them must not fill the disk. */
export class TellingRate {
  readonly #clock: Clock
  readonly #buckets = new TokenBuckets()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  mayTell(principal: Principal): boolean {
    const nowMs = this.#clock.monotonicMs()
    const own = this.#buckets.find(subjectKey(principal), TOLD, nowMs)
    const all = this.#buckets.find(EVERYBODY, TOLD_IN_ALL, nowMs)
    if (own.waitMs > 0 || all.waitMs > 0) return false
    own.take()
    all.take()
    return true
  }
}
