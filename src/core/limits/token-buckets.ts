import type { TokenRate } from './limit-settings.ts'

const MOST_BUCKETS = 100_000
/** Looked at with every new one, so that those nobody uses go before there are many. */
const LOOKED_AT = 4
/** Looked at when there is no room. */
const LOOKED_AT_WHEN_FULL = 64
/** No key is empty. */
const OVERFLOW = ''

/** Tokens of one caller; each call takes one. */
class Bucket {
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

  /** A full one is worth as much as none. */
  isFull(nowMs: number): boolean {
    return this.#tokensAt(nowMs) >= this.#rate.burst
  }

  #tokensAt(nowMs: number): number {
    return Math.min(this.#rate.burst, this.#tokens + (nowMs - this.#atMs) * this.#rate.perMs)
  }
}

export type { Bucket }

/**
 * Token buckets by key; times are monotonic. There are never more than `mostBuckets`, and only full ones are
 * forgotten, so nobody empties its bucket by making others come: once there is no room, newcomers share one.
 */
export class TokenBuckets {
  readonly #mostBuckets: number
  readonly #byKey = new Map<string, Bucket>()
  #hand = this.#byKey.entries()

  constructor(mostBuckets = MOST_BUCKETS) {
    this.#mostBuckets = mostBuckets
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
    const isFull = this.#byKey.size >= this.#mostBuckets
    this.#forgetFullOnes(isFull ? LOOKED_AT_WHEN_FULL : LOOKED_AT, nowMs)
    if (key !== OVERFLOW && this.#byKey.size >= this.#mostBuckets) return this.find(OVERFLOW, rate, nowMs)
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
