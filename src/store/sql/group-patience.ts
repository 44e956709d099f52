/** Nothing new for this long: whoever is coming is not on the way. */
const QUIET_MS = 0.15
/** The longest a change waits for company. */
const LONGEST_MS = 2
/** One group in so many waits without a goal, to see whether more callers have come. */
const PROBE_EVERY = 64

/**
 * How long a group waits for more changes before its commit. Callers that just got their answers tend to come back
 * within a moment; a commit that leaves without them is followed by another one for them alone, and commits are what
 * costs. So groups grow to as many changes as were seen to come together, and a lone caller waits for nobody.
 */
export class GroupPatience {
  #goal = 1
  #groups = 0
  #isProbe = false
  #firstMs = 0
  #lastMs = 0
  #seen = 0

  /** Whether to look once more for changes before committing the `waiting` ones. */
  shouldWait(waiting: number, nowMs: number): boolean {
    if (this.#seen === 0) this.#begin(nowMs)
    if (waiting > this.#seen) {
      this.#seen = waiting
      this.#lastMs = nowMs
    }
    if (!this.#isProbe && waiting >= this.#goal) return false
    return nowMs - this.#lastMs < QUIET_MS && nowMs - this.#firstMs < LONGEST_MS
  }

  /** The group is being committed with this many changes. */
  leave(size: number): void {
    // A goal that is missed was too high; what came in a probe can come again.
    this.#goal = this.#isProbe || size < this.#goal ? Math.max(1, size) : this.#goal
    this.#seen = 0
    this.#groups += 1
    this.#isProbe = this.#groups % PROBE_EVERY === 0
  }

  #begin(nowMs: number): void {
    this.#firstMs = nowMs
    this.#lastMs = nowMs
  }
}
