/** The places one run takes, until it has settled. */
export class Slot {
  readonly #free: () => void
  #isExtended = false

  constructor(free: () => void) {
    this.#free = free
  }

  /** Ended but not settled: the places stay taken until it has (rule 10). */
  extend(settled: Promise<unknown>): void {
    this.#isExtended = true
    settled.then(this.#free, this.#free)
  }

  leave(): void {
    if (!this.#isExtended) this.#free()
  }
}

export const NO_SLOT = new Slot(() => undefined)

/** How many runs hold a place, by key. What nobody holds is forgotten, so it is as small as what runs. */
export class RunningSlots {
  readonly #taken = new Map<string, number>()

  get size(): number {
    return this.#taken.size
  }

  taken(key: string): number {
    return this.#taken.get(key) ?? 0
  }

  enter(keys: readonly string[]): Slot {
    for (const key of keys) this.#taken.set(key, this.taken(key) + 1)
    return new Slot(() => {
      for (const key of keys) this.#release(key)
    })
  }

  #release(key: string): void {
    const left = this.taken(key) - 1
    if (left > 0) this.#taken.set(key, left)
    else this.#taken.delete(key)
  }
}
