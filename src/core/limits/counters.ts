import type { TokenRate } from './settings.ts'

const MOST_BUCKETS = 100_000
/** Looked at with every new one, so that those nobody uses go before there are many. */
const LOOKED_AT = 4
/** Looked at when there is no room. */
const LOOKED_AT_WHEN_FULL = 64
/** No key is empty. */
const OVERFLOW = ''

/** Tokens of one caller; each call takes one. */
export class Bucket {
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

/** Gives back what was taken; again does nothing. */
export type Release = () => void

/** Counts by key what is in use. A key at zero is forgotten, so the counter is as small as what is in use. */
export class KeyedCounter {
  readonly #counts = new Map<string, number>()
  #total = 0

  /** Of all keys together. */
  get total(): number {
    return this.#total
  }

  /** Nothing is ever counted under `undefined`. */
  count(key: string | undefined): number {
    return key === undefined ? 0 : (this.#counts.get(key) ?? 0)
  }

  add(key: string, amount = 1): void {
    const now = this.count(key) + amount
    if (now > 0) this.#counts.set(key, now)
    else this.#counts.delete(key)
    this.#total += amount
  }

  /** Counts one until it is released. */
  take(key: string): Release {
    this.add(key)
    let isTaken = true
    return () => {
      if (isTaken) this.add(key, -1)
      isTaken = false
    }
  }
}

/** Lets only so many in at a time; the others wait in line. The limit may change while they do. */
export class Semaphore {
  readonly #limit: () => number
  readonly #waiting = new Set<() => void>()
  #taken = 0

  constructor(limit: () => number) {
    this.#limit = limit
  }

  get taken(): number {
    return this.#taken
  }

  /** Enters if there is room now. Each entry is given back by `leave`. */
  tryEnter(): boolean {
    if (this.#taken >= this.#limit()) return false
    this.#taken += 1
    return true
  }

  /** Resolves once there is room; rejects with the signal's reason. Each entry is given back by `leave`. */
  async enter(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.tryEnter()) return
    await new Promise<void>((resolve, reject) => {
      const abandon = (): void => {
        this.#waiting.delete(go)
        reject(signal.reason)
      }
      const go = (): void => {
        signal.removeEventListener('abort', abandon)
        this.#taken += 1
        resolve()
      }
      signal.addEventListener('abort', abandon, { once: true })
      this.#waiting.add(go)
    })
  }

  leave(): void {
    this.#taken -= 1
    for (const go of this.#waiting) {
      if (this.#taken >= this.#limit()) return
      this.#waiting.delete(go)
      go()
    }
  }
}
