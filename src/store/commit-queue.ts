import { StoreError } from '#core/errors'
import type { CommitGroup } from './engine.ts'

/** One change waiting for its commit. `apply` may run twice: once in a group that failed, once alone. */
export interface PendingChange {
  readonly key: string
  apply(group: CommitGroup): void
  resolve(): void
  reject(error: unknown): void
}

export interface Committer {
  /**
   * Applies all changes in one transaction and makes them durable, or throws and leaves nothing. `busy` when
   * another process holds the write lock: waiting for it here would block the event loop.
   */
  commit(changes: readonly PendingChange[]): 'committed' | 'busy'
}

const BUSY_RETRY_MS = 2
const LONGEST_BUSY_MS = 10_000
const LARGEST_GROUP = 512

/**
 * Rule 19: everything that arrives in one turn of the event loop is committed together, so that one fsync pays
 * for all of it. Nobody hears of a change before its commit.
 */
export class CommitQueue {
  readonly #committer: Committer
  readonly #patience = new GroupPatience()
  #waiting: PendingChange[] = []
  #scheduled = false
  #busySinceMs: number | undefined
  #isClosed = false

  constructor(committer: Committer) {
    this.#committer = committer
  }

  /** How many changes wait. */
  get size(): number {
    return this.#waiting.length
  }

  submit<T>(key: string, apply: (group: CommitGroup) => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#isClosed) {
        reject(new StoreError('not_written', 'the store is closed'))
        return
      }
      let result: T
      this.#waiting.push({
        key,
        apply: (group) => {
          result = apply(group)
        },
        resolve: () => resolve(result),
        reject,
      })
      this.#schedule()
    })
  }

  /** What is waiting is still committed; nothing new is taken. */
  close(): void {
    this.#isClosed = true
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => this.#flush())
  }

  #flush(): void {
    this.#scheduled = false
    if (
      this.#waiting.length < LARGEST_GROUP &&
      this.#patience.shouldWait(this.#waiting.length, performance.now())
    ) {
      this.#schedule()
      return
    }
    const changes = this.#waiting.splice(0, LARGEST_GROUP)
    this.#patience.leave(changes.length)
    if (changes.length > 1) changes.sort(byKey)
    this.#commit(changes)
    if (this.#waiting.length > 0) this.#schedule()
  }

  #commit(changes: readonly PendingChange[]): void {
    try {
      if (this.#committer.commit(changes) === 'busy') {
        this.#retryLater(changes)
        return
      }
      this.#busySinceMs = undefined
      for (const change of changes) change.resolve()
    } catch (error) {
      const alone = changes.length === 1 || (error instanceof StoreError && error.code !== 'not_written')
      if (alone) for (const change of changes) change.reject(error)
      else for (const change of changes) this.#commit([change])
    }
  }

  #retryLater(changes: readonly PendingChange[]): void {
    const nowMs = performance.now()
    this.#busySinceMs ??= nowMs
    if (nowMs - this.#busySinceMs > LONGEST_BUSY_MS) {
      this.#busySinceMs = undefined
      const error = new StoreError('not_written', 'another process kept the database locked for too long')
      for (const change of changes) change.reject(error)
      return
    }
    this.#waiting.unshift(...changes)
    this.#scheduled = true
    setTimeout(() => this.#flush(), BUSY_RETRY_MS * (1 + Math.random()))
  }
}

function byKey(left: PendingChange, right: PendingChange): number {
  return left.key < right.key ? -1 : left.key > right.key ? 1 : 0
}

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
