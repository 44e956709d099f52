import type { Clock } from '#kernel/base/clock'
import type { RateStore } from '#store/ports/protocol-store'
import type { TokenRate } from './settings.ts'

/** Buckets of tokens by key, whoever keeps them. */
export interface RateBook {
  /** The bucket with what it holds now; `nowMs` is monotonic. */
  find(key: string, rate: TokenRate, nowMs: number): Tokens
}

/** What a call takes a token from. Between a look and `take` nothing waits, so that what was seen is there. */
export interface Tokens {
  /** Whether only somebody else can tell if there is a token; `waitMs` and `take` mean nothing until `ask` has settled. */
  readonly mustAsk: boolean
  /** Until there is a token; 0 = there is one. */
  readonly waitMs: number
  take(): void
  ask(): Promise<void>
}

const MAX_BUCKETS = 100_000
/** Looked at with every new one, so that those nobody uses go before there are many. */
const LOOKED_AT = 4
/** Looked at when there is no room. */
const LOOKED_AT_WHEN_FULL = 64
/** No key is empty. */
const OVERFLOW = ''

/** Tokens of one caller, all of them here; each call takes one. */
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

  /** Until there is a token; 0 = there is one. */
  get waitMs(): number {
    return this.#tokens >= 1 ? 0 : (1 - this.#tokens) / this.#rate.perMs
  }

  take(): void {
    this.#tokens -= 1
  }

  ask(): Promise<void> {
    return Promise.resolve()
  }

  /** A full one is worth as much as none. */
  isFull(nowMs: number): boolean {
    return this.#tokensAt(nowMs) >= this.#rate.burst
  }

  #tokensAt(nowMs: number): number {
    return Math.min(this.#rate.burst, this.#tokens + (nowMs - this.#atMs) * this.#rate.perMs)
  }
}

/**
 * Token buckets by key; times are monotonic. There are never more than `maxBuckets`, and only full ones are
 * forgotten, so nobody empties its bucket by making others come: once there is no room, newcomers share one.
 */
export class TokenBuckets implements RateBook {
  readonly #maxBuckets: number
  readonly #byKey = new Map<string, Bucket>()
  #hand = this.#byKey.entries()

  constructor(maxBuckets = MAX_BUCKETS) {
    this.#maxBuckets = maxBuckets
  }

  get size(): number {
    return this.#byKey.size
  }

  /** The bucket with what it holds now. */
  find(key: string, rate: TokenRate, nowMs: number): Bucket {
    const known = this.#byKey.get(key)
    if (known !== undefined) {
      known.refill(rate, nowMs)
      return known
    }
    const isFull = this.#byKey.size >= this.#maxBuckets
    this.#forgetFullOnes(isFull ? LOOKED_AT_WHEN_FULL : LOOKED_AT, nowMs)
    if (key !== OVERFLOW && this.#byKey.size >= this.#maxBuckets) return this.find(OVERFLOW, rate, nowMs)
    const bucket = new Bucket(rate, nowMs)
    this.#byKey.set(key, bucket)
    return bucket
  }

  #forgetFullOnes(most: number, nowMs: number): void {
    for (let looked = 0; looked < most; looked += 1) {
      const next = this.#hand.next()
      if (next.done === true) {
        this.#hand = this.#byKey.entries()
        return
      }
      const [key, bucket] = next.value
      if (bucket.isFull(nowMs)) this.#byKey.delete(key)
    }
  }
}

/** The part of a full bucket that a process fetches at a time. */
const SLICES = 10
/** As many as one process remembers. */
const MAX_SLICES = 100_000

/** How many tokens one process holds of a shared bucket at most, while nobody waits for them. */
export function sliceOf({ burst }: TokenRate): number {
  return Math.max(1, Math.floor(burst / SLICES))
}

interface SharedBucketsOptions {
  readonly store: RateStore
  readonly clock: Clock
  /** What the keys are of: the same key of another kind is another bucket. */
  readonly kind: string
}

/**
 * Buckets that several processes take from. The store has the bucket; a process takes a slice out of it before anything
 * is spent, so all of them together never spend more than the rate allows and, in any stretch of time, what they held when it
 * began: a slice each. A slice that dies with its process is made up for by time, as every token is.
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
    // A slice that is forgotten is only asked for again: nobody gets more by it.
    const [oldest] = this.#byKey.size >= MAX_SLICES ? this.#byKey.keys() : []
    if (oldest !== undefined) this.#byKey.delete(oldest)
    const slice = new Slice(this.#options, key, rate)
    this.#byKey.set(key, slice)
    return slice
  }
}

/** What this process has in its hand of one shared bucket. */
class Slice implements Tokens {
  readonly #options: SharedBucketsOptions
  readonly #bucket: string
  rate: TokenRate
  #tokens = 0
  #emptyUntilMs = 0
  /** How many wait for the next lease. */
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

  /** Those who come meanwhile wait for the same lease, and then look again. */
  ask(): Promise<void> {
    this.#waiting += 1
    this.#asking ??= this.#lease().finally(() => {
      this.#asking = undefined
    })
    return this.#asking
  }

  async #lease(): Promise<void> {
    // All who ask in the same turn share one lease.
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
