/** Somebody who holds places and can give up one that is not in use. */
export interface PlaceHolder {
  /** Ends one that idles; `false` when all of its places are in use. */
  releaseIdle(): Promise<boolean>
}

/** How many processes all sources together may have (pain 9: elsewhere they leak by the thousand). */
const MOST_PROCESSES = 256

/** A hard cap on processes; one that idles gives way to one that is needed. */
export class ProcessPlaces {
  readonly #limit: number
  readonly #holders = new Set<PlaceHolder>()
  #taken = 0

  constructor(limit: number = MOST_PROCESSES) {
    this.#limit = limit
  }

  get taken(): number {
    return this.#taken
  }

  join(holder: PlaceHolder): void {
    this.#holders.add(holder)
  }

  leave(holder: PlaceHolder): void {
    this.#holders.delete(holder)
  }

  /** `false` when there is no room, not even by ending idle ones. */
  async take(): Promise<boolean> {
    while (this.#taken >= this.#limit) if (!(await this.#makeRoom())) return false
    this.#taken += 1
    return true
  }

  give(): void {
    this.#taken -= 1
  }

  async #makeRoom(): Promise<boolean> {
    for (const holder of this.#holders) if (await holder.releaseIdle()) return true
    return false
  }
}

export const PROCESS_PLACES = new ProcessPlaces()
