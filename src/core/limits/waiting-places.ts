import type { Principal } from '#core/principal'
import { type LimitName, limitRefusal } from './limit-refusal.ts'
import type { WaitLimit } from './limit-settings.ts'
import { Places } from './running-slots.ts'
import { subjectKey } from './subject-key.ts'

/** When somebody who found every place taken may look again: those who wait do so for long. */
const PLACE_RETRY_MS = 5_000

/** Gives the place back; again does nothing. */
export type LeavePlace = () => void

export interface WaitingPlacesOptions {
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
