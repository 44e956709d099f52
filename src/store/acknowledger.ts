/** Acknowledges like a store that commits in groups: once per turn of the event loop, so that replies leave together. */
export class Acknowledger {
  readonly #waiting: (() => void)[] = []

  get size(): number {
    return this.#waiting.length
  }

  nextTurn<T>(result: T): Promise<T> {
    return new Promise((resolve) => {
      this.#waiting.push(() => resolve(result))
      if (this.#waiting.length > 1) return
      setImmediate(() => {
        for (const acknowledge of this.#waiting.splice(0)) acknowledge()
      })
    })
  }
}
