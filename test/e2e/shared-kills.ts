/**
 * Lets many stories share the kills of one server: each says where it wants one, and when all that are still told have
 * come to such a place the server is killed and started once for all of them.
 */
export class SharedKills {
  readonly #restart: () => Promise<void>
  #told: number
  #waiting: PromiseWithResolvers<void>[] = []
  kills = 0

  constructor(stories: number, restart: () => Promise<void>) {
    this.#told = stories
    this.#restart = restart
  }

  /** Resolves on the next life of the server. */
  kill(): Promise<void> {
    const place = Promise.withResolvers<void>()
    this.#waiting.push(place)
    this.#look()
    return place.promise
  }

  /** A story, told to its end or broken off: nobody waits for it any more. */
  async tell(story: () => Promise<void>): Promise<void> {
    try {
      await story()
    } finally {
      this.#told -= 1
      this.#look()
    }
  }

  #look(): void {
    if (this.#told === 0 || this.#waiting.length < this.#told) return
    const places = this.#waiting
    this.#waiting = []
    this.kills += 1
    this.#restart().then(
      () => {
        for (const { resolve } of places) resolve()
      },
      (error: unknown) => {
        for (const { reject } of places) reject(error)
      },
    )
  }
}
