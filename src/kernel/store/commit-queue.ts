import { StoreError } from '#kernel/base/errors'
import type { MaybePromise } from '#kernel/base/waiting'
import type { CommitGroup, Engine, PendingChange, Steps } from './engine.ts'

/**
 * Groups changes into commits (rule 19). The store submits every change here, and the engine commits one group at a time.
 * All changes that arrive in one turn of the event loop, or during a commit, are committed together, so that one fsync pays for
 * all of them. No caller is answered before its change is durable.
 */

const BUSY_RETRY_MS = 2
const MAX_BUSY_MS = 10_000
const MAX_GROUP_SIZE = 512

interface SubmittedChange extends PendingChange {
  /** Passes the result of the change's steps to the caller. */
  resolve(): void
  reject(error: unknown): void
}

export class CommitQueue {
  readonly #engine: Pick<Engine, 'commit'>
  /** Not used with asynchronous engines: changes that arrive during a commit already form the next group. */
  #window: BatchWindow | undefined = new BatchWindow()
  #waiting: SubmittedChange[] = []
  #scheduled = false
  #busySinceMs: number | undefined
  #isClosed = false

  constructor(engine: Pick<Engine, 'commit'>) {
    this.#engine = engine
  }

  get size(): number {
    return this.#waiting.length
  }

  submit<T>(key: string, begin: (group: CommitGroup) => Steps<T>, lane?: string): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#isClosed) {
        reject(new StoreError('not_written', 'the store is closed'))
        return
      }
      let result: T
      const keep = (value: T) => {
        result = value
      }
      this.#waiting.push({ key, lane, begin, keep, resolve: () => resolve(result), reject })
      this.#schedule()
    })
  }

  /** Waiting changes are still committed; new changes are refused. */
  close(): void {
    this.#isClosed = true
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => this.#flush())
  }

  #flush(): void {
    if (
      this.#waiting.length < MAX_GROUP_SIZE &&
      this.#window?.shouldWait(this.#waiting.length, performance.now()) === true
    ) {
      setImmediate(() => this.#flush())
      return
    }
    const changes = this.#waiting.splice(0, MAX_GROUP_SIZE)
    this.#window?.leave(changes.length)
    if (changes.length > 1) changes.sort(byKey)
    const committing = this.#commit(changes)
    if (committing instanceof Promise) {
      this.#window = undefined
      void committing.then(() => this.#continue())
      return
    }
    this.#window?.noteCommitted(performance.now())
    this.#continue()
  }

  #continue(): void {
    if (this.#busySinceMs !== undefined) {
      setTimeout(() => this.#flush(), BUSY_RETRY_MS * (1 + Math.random()))
      return
    }
    this.#scheduled = false
    if (this.#waiting.length > 0) this.#schedule()
  }

  #commit(changes: readonly SubmittedChange[]): MaybePromise<void> {
    try {
      const committed = this.#engine.commit(changes)
      if (committed instanceof Promise) {
        return committed.then(
          (end) => this.#settle(changes, end),
          (error: unknown) => this.#fail(changes, error),
        )
      }
      return this.#settle(changes, committed)
    } catch (error) {
      return this.#fail(changes, error)
    }
  }

  #settle(changes: readonly SubmittedChange[], end: 'committed' | 'busy'): void {
    if (end === 'busy') {
      this.#putBack(changes)
      return
    }
    this.#busySinceMs = undefined
    for (const change of changes) change.resolve()
  }

  /** The changes of a failed group are tried again one by one, so that only the bad change fails. */
  #fail(changes: readonly SubmittedChange[], error: unknown): MaybePromise<void> {
    const isFinal = changes.length === 1 || (error instanceof StoreError && error.code !== 'not_written')
    if (!isFinal) return this.#commitEach(changes)
    // A TypeError is a bug in this package, so it is passed on unchanged.
    const reason = error instanceof StoreError || error instanceof TypeError ? error : inconsistent(error)
    for (const change of changes) change.reject(reason)
  }

  #commitEach(changes: readonly SubmittedChange[]): MaybePromise<void> {
    for (const [index, change] of changes.entries()) {
      const committing = this.#commit([change])
      if (committing instanceof Promise)
        return committing.then(() => this.#commitEach(changes.slice(index + 1)))
    }
  }

  #putBack(changes: readonly SubmittedChange[]): void {
    const nowMs = performance.now()
    this.#busySinceMs ??= nowMs
    if (nowMs - this.#busySinceMs > MAX_BUSY_MS) {
      this.#busySinceMs = undefined
      const error = new StoreError('not_written', 'another process kept the database locked for too long')
      for (const change of changes) change.reject(error)
      return
    }
    this.#waiting.unshift(...changes)
  }
}

/** The database works, but this change fails even alone, so the stored data must be inconsistent (rule 14). */
function inconsistent(error: unknown): StoreError {
  const why = error instanceof Error ? error.message : String(error)
  return new StoreError('unreadable', `this change does not match the stored data: ${why}`, { cause: error })
}

function byKey(left: PendingChange, right: PendingChange): number {
  return left.key < right.key ? -1 : left.key > right.key ? 1 : 0
}

/** After this long without a new change, no more changes are expected. */
const QUIET_MS = 0.15
/** Maximum time that a change waits for other changes. */
const MAX_MS = 2
/** One group out of this many waits without a target size, to find out whether there are more callers now. */
const PROBE_EVERY = 64

/**
 * Decides how long a group waits for more changes before its commit. Callers that just got a reply tend to send another request
 * within a moment, and a commit without those changes would need a second, expensive commit for them. So a group waits for as
 * many changes as recently arrived together; the change of a single caller does not wait. A change that arrives alone, long
 * after the last commit, is that of a single caller.
 */
export class BatchWindow {
  #targetSize = 1
  #groups = 0
  #isProbe = false
  #firstMs = 0
  #lastMs = 0
  #previous = 0
  #committedMs = Number.NEGATIVE_INFINITY

  /** Whether to look once more for changes before committing the `waiting` ones. */
  shouldWait(waiting: number, nowMs: number): boolean {
    if (this.#previous === 0) {
      this.#firstMs = nowMs
      this.#lastMs = nowMs
      if (waiting === 1 && nowMs - this.#committedMs > QUIET_MS) this.#isProbe = false
    }
    if (waiting > this.#previous) {
      this.#previous = waiting
      this.#lastMs = nowMs
    }
    if (!this.#isProbe && waiting >= this.#targetSize) return false
    return nowMs - this.#lastMs < QUIET_MS && nowMs - this.#firstMs < MAX_MS
  }

  /** Called when a group of this size is committed. */
  leave(size: number): void {
    // A target that was not reached was too high; a probe sets the next target.
    this.#targetSize = this.#isProbe || size < this.#targetSize ? Math.max(1, size) : this.#targetSize
    this.#previous = 0
    this.#groups += 1
    this.#isProbe = this.#groups % PROBE_EVERY === 0
  }

  /** Called when that commit is over. */
  noteCommitted(nowMs: number): void {
    this.#committedMs = nowMs
  }
}
