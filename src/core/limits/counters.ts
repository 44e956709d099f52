import type { Principal } from '#core/principal'
import { type LimitName, limitRefusal, type TokenRate, type WaitLimit } from './settings.ts'

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

/** When somebody who found every place taken may look again: those who wait do so for long. */
const PLACE_RETRY_MS = 5_000

/** Gives the place back; again does nothing. */
export type LeavePlace = () => void

interface WaitingPlacesOptions {
  readonly limit: WaitLimit
  onRefused(name: LimitName): void
}

/** Requests that are held open: readers of runs, and callers that wait for a decision. Each costs a connection. */
export class WaitingPlaces {
  readonly #options: WaitingPlacesOptions
  readonly #principals = new Places()
  #total = 0

  constructor(options: WaitingPlacesOptions) {
    this.#options = options
  }

  /** Throws when there is no place. */
  enter(principal: Principal): LeavePlace {
    const full = this.#fullFor(principal)
    if (full === undefined) return this.#take(subjectKey(principal))
    this.#options.onRefused(full)
    throw limitRefusal(full, PLACE_RETRY_MS)
  }

  /** For those who can do without: a wish to wait is no demand (RFC 7240). */
  enterIfFree(principal: Principal): LeavePlace | undefined {
    return this.#fullFor(principal) === undefined ? this.#take(subjectKey(principal)) : undefined
  }

  /** What is left of a wish to wait. */
  shorten(waitMs: number): number {
    return Math.min(waitMs, this.#options.limit.longestMs ?? waitMs)
  }

  #fullFor(principal: Principal): 'principal_waiting' | 'total_waiting' | undefined {
    const { perPrincipal, total } = this.#options.limit
    if (perPrincipal !== undefined && this.#principals.taken(subjectKey(principal)) >= perPrincipal)
      return 'principal_waiting'
    return total !== undefined && this.#total >= total ? 'total_waiting' : undefined
  }

  #take(key: string): LeavePlace {
    this.#principals.take(key)
    this.#total += 1
    let isTaken = true
    return () => {
      if (!isTaken) return
      isTaken = false
      this.#principals.free(key)
      this.#total -= 1
    }
  }
}

interface Names {
  readonly own: string
  readonly withTool: Map<string, string>
}

/** Made once per principal object, which is the same for all calls with one credential: texts that are new are slow keys. */
const known = new WeakMap<Principal, Names>()

/** Different for different principals, whatever stands in a tenant's or a principal's name. */
export function subjectKey(principal: Principal): string {
  return namesOf(principal).own
}

/** The same for a principal and a tool; no base name holds a space. */
export function pairKey(principal: Principal, base: string): string {
  const { own, withTool } = namesOf(principal)
  const pair = withTool.get(base)
  if (pair !== undefined) return pair
  const made = `${base} ${own}`
  withTool.set(base, made)
  return made
}

function namesOf(principal: Principal): Names {
  const names = known.get(principal)
  if (names !== undefined) return names
  const { tenant, id } = principal
  const made = { own: `${tenant.length}:${tenant}${id}`, withTool: new Map() }
  known.set(principal, made)
  return made
}

/** The keys under which one run is counted; what is `undefined` is not limited. */
interface SlotKeys {
  readonly principal: string | undefined
  readonly tool: string | undefined
  /** Of a principal with a tool. */
  readonly pair: string | undefined
}

/** How many runs hold a place, by key. What nobody holds is forgotten, so it is as small as what runs. */
class Places {
  readonly #taken = new Map<string, number>()

  taken(key: string | undefined): number {
    return key === undefined ? 0 : (this.#taken.get(key) ?? 0)
  }

  take(key: string): void {
    this.#taken.set(key, this.taken(key) + 1)
  }

  free(key: string): void {
    const left = this.taken(key) - 1
    if (left > 0) this.#taken.set(key, left)
    else this.#taken.delete(key)
  }
}

/** The places that runs take, until they have settled. */
export class RunningSlots {
  readonly principals = new Places()
  readonly tools = new Places()
  readonly pairs = new Places()

  enter(keys: SlotKeys): Slot {
    if (keys.principal !== undefined) this.principals.take(keys.principal)
    if (keys.tool !== undefined) this.tools.take(keys.tool)
    if (keys.pair !== undefined) this.pairs.take(keys.pair)
    return new Slot(this, keys)
  }

  free(keys: SlotKeys): void {
    if (keys.principal !== undefined) this.principals.free(keys.principal)
    if (keys.tool !== undefined) this.tools.free(keys.tool)
    if (keys.pair !== undefined) this.pairs.free(keys.pair)
  }
}

/** The places of one run. */
export class Slot {
  readonly #slots: RunningSlots | undefined
  readonly #keys: SlotKeys
  #isExtended = false

  constructor(slots: RunningSlots | undefined, keys: SlotKeys) {
    this.#slots = slots
    this.#keys = keys
  }

  /** Ended but not settled: the places stay taken until it has (rule 10). */
  extend(settled: Promise<unknown>): void {
    this.#isExtended = true
    const free = () => this.#slots?.free(this.#keys)
    settled.then(free, free)
  }

  leave(): void {
    if (!this.#isExtended) this.#slots?.free(this.#keys)
  }
}

const NO_KEYS: SlotKeys = { principal: undefined, tool: undefined, pair: undefined }

/** Of a run that nothing counts; of its own, because it may be extended. */
export function freeSlot(): Slot {
  return new Slot(undefined, NO_KEYS)
}
