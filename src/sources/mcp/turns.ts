/** Lets only so many in at a time; the rest wait in line. The limit may change while they do. */
export class Turns {
  readonly #limit: () => number
  readonly #waiting = new Set<() => void>()
  #taken = 0

  constructor(limit: () => number) {
    this.#limit = limit
  }

  get taken(): number {
    return this.#taken
  }

  /** Resolves when it is one's turn; rejects with the signal's reason. Each turn is given back by `leave`. */
  async enter(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#taken < this.#limit()) {
      this.#taken += 1
      return
    }
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
