import type { Clock } from '#kernel/base/clock'
import type { RateStore } from '#store/limits'
import type { TokenRate } from './settings.ts'

/**
 * Token buckets, in this process alone or shared by several through the store. `CallLimits` takes a token per call; events of
 * refused calls are limited the same way.
 * All processes together never spend more than the rate allows plus one slice each, and memory is bounded.
 */

export interface RateBook {
  /** The bucket with its current tokens; `nowMs` is monotonic. */
  find(key: string, rate: TokenRate, nowMs: number): Tokens
}

/** A call checks and takes without an `await` in between, so that the token that it saw is still there. */
export interface Tokens {
  /** Whether the store must be asked first; `waitMs` and `take` are meaningless until `ask` has settled. */
  readonly mustAsk: boolean
  /** Time until there is a token; 0 if there is one now. */
  readonly waitMs: number
  take(): void
  ask(): Promise<void>
}

const MAX_BUCKETS = 100_000
/** Number of buckets checked with every new bucket, so that unused buckets are removed early. */
const CHECKED = 4
/** Number of buckets checked when the limit is reached. */
const CHECKED_WHEN_FULL = 64
/** Key of the shared bucket for keys beyond the limit; no other key is empty. */
const OVERFLOW = ''

class Bucket implements Tokens {
  readonly mustAsk = false
  #rate: TokenRate
  #tokens: number
  #atMs: number

  constructor(rate: TokenRate, nowMs: number) {
    this.#rate = rate
    this.#tokens = rate.burst
    this.#atMs = nowMs
  }

  refill(rate: TokenRate, nowMs: number): void {
    this.#rate = rate
    this.#tokens = this.#tokensAt(nowMs)
    this.#atMs = nowMs
  }

  get waitMs(): number {
    return this.#tokens >= 1 ? 0 : (1 - this.#tokens) / this.#rate.perMs
  }

  take(): void {
    this.#tokens -= 1
  }

  ask(): Promise<void> {
    return Promise.resolve()
  }

  /** A full bucket need not be kept, because it equals a new bucket. */
  isFull(nowMs: number): boolean {
    return this.#tokensAt(nowMs) >= this.#rate.burst
  }

  #tokensAt(nowMs: number): number {
    return Math.min(this.#rate.burst, this.#tokens + (nowMs - this.#atMs) * this.#rate.perMs)
  }
}

/**
 * Token buckets by key; times are monotonic. There are never more than `maxBuckets`, and only full buckets are dropped, so that a
 * caller cannot reset its bucket by flooding with other keys: at the limit, new keys share one bucket.
 */
export class TokenBuckets implements RateBook {
  readonly #maxBuckets: number
  readonly #byKey = new Map<string, Bucket>()
  #cursor = this.#byKey.entries()

  constructor(maxBuckets = MAX_BUCKETS) {
    this.#maxBuckets = maxBuckets
  }

  get size(): number {
    return this.#byKey.size
  }

  find(key: string, rate: TokenRate, nowMs: number): Bucket {
    const known = this.#byKey.get(key)
    if (known !== undefined) {
      known.refill(rate, nowMs)
      return known
    }
    const isFull = this.#byKey.size >= this.#maxBuckets
    this.#dropFull(isFull ? CHECKED_WHEN_FULL : CHECKED, nowMs)
    if (key !== OVERFLOW && this.#byKey.size >= this.#maxBuckets) return this.find(OVERFLOW, rate, nowMs)
    const bucket = new Bucket(rate, nowMs)
    this.#byKey.set(key, bucket)
    return bucket
  }

  #dropFull(max: number, nowMs: number): void {
    for (let checked = 0; checked < max; checked += 1) {
      const next = this.#cursor.next()
      if (next.done === true) {
        this.#cursor = this.#byKey.entries()
        return
      }
      const [key, bucket] = next.value
      if (bucket.isFull(nowMs)) this.#byKey.delete(key)
    }
  }
}

/** A process takes this fraction (1/10) of a full bucket at a time. */
const SLICES = 10
const MAX_SLICES = 100_000

/** The maximum number of tokens of a shared bucket that one process holds while no call waits for them. */
export function sliceOf({ burst }: TokenRate): number {
  return Math.max(1, Math.floor(burst / SLICES))
}

interface SharedBucketsOptions {
  readonly store: RateStore
  readonly clock: Clock
  /** Equal keys of different kinds are different buckets. */
  readonly kind: string
}

/**
 * Buckets that several processes take from. The store has the bucket; a process takes a slice out of it before it spends any,
 * so that together they never spend more than the rate allows plus, in any period, the slices they held when it began. A slice
 * that is lost with its process is replaced by time, like every token.
 */
export class SharedBuckets implements RateBook {
  readonly #options: SharedBucketsOptions
  readonly #byKey = new Map<string, Slice>()

  constructor(options: SharedBucketsOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#byKey.size
  }

  find(key: string, rate: TokenRate): Slice {
    const known = this.#byKey.get(key)
    if (known !== undefined) {
      known.rate = rate
      return known
    }
    // If a slice is dropped, a new one is requested from the store, so the caller gains nothing.
    const [oldest] = this.#byKey.size >= MAX_SLICES ? this.#byKey.keys() : []
    if (oldest !== undefined) this.#byKey.delete(oldest)
    const slice = new Slice(this.#options, key, rate)
    this.#byKey.set(key, slice)
    return slice
  }
}

/** The tokens of one shared bucket that this process holds. */
class Slice implements Tokens {
  readonly #options: SharedBucketsOptions
  readonly #bucket: string
  rate: TokenRate
  #tokens = 0
  #emptyUntilMs = 0
  /** Calls that wait for the next lease. */
  #waiting = 0
  #asking: Promise<void> | undefined

  constructor(options: SharedBucketsOptions, key: string, rate: TokenRate) {
    this.#options = options
    this.#bucket = `${options.kind} ${key}`
    this.rate = rate
  }

  get mustAsk(): boolean {
    return this.#tokens < 1 && this.#options.clock.monotonicMs() >= this.#emptyUntilMs
  }

  get waitMs(): number {
    return this.#tokens >= 1 ? 0 : Math.max(1, this.#emptyUntilMs - this.#options.clock.monotonicMs())
  }

  take(): void {
    this.#tokens -= 1
  }

  /** Calls that arrive in the meantime wait for the same lease, and then check again. */
  ask(): Promise<void> {
    this.#waiting += 1
    this.#asking ??= this.#lease().finally(() => {
      this.#asking = undefined
    })
    return this.#asking
  }

  async #lease(): Promise<void> {
    // All calls of the same turn share one lease.
    await Promise.resolve()
    const { store, clock } = this.#options
    const { rate } = this
    const wanted = Math.min(Math.max(sliceOf(rate), this.#waiting), Math.max(1, Math.floor(rate.burst)))
    this.#waiting = 0
    const { tokens, waitMs } = await store.take(this.#bucket, wanted, { ...rate, nowMs: clock.nowMs() })
    this.#tokens += tokens
    if (tokens === 0) this.#emptyUntilMs = clock.monotonicMs() + waitMs
  }
}
