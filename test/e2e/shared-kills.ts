/**
 * Lets many stories share the kills of one server: each story requests its kills, and once all active stories wait for
 * one, the server is killed and started once for all of them.
 */
export class SharedKills {
  readonly #restart: () => Promise<void>
  #reported: number
  #waiting: PromiseWithResolvers<void>[] = []
  kills = 0

  constructor(stories: number, restart: () => Promise<void>) {
    this.#reported = stories
    this.#restart = restart
  }

  /** Resolves after the next restart of the server. */
  kill(): Promise<void> {
    const index = Promise.withResolvers<void>()
    this.#waiting.push(index)
    this.#look()
    return index.promise
  }

  /** A story that ended or was interrupted. */
  async tell(story: () => Promise<void>): Promise<void> {
    try {
      await story()
    } finally {
      this.#reported -= 1
      this.#look()
    }
  }

  #look(): void {
    if (this.#reported === 0 || this.#waiting.length < this.#reported) return
    const positions = this.#waiting
    this.#waiting = []
    this.kills += 1
    this.#restart().then(
      () => {
        for (const { resolve } of positions) resolve()
      },
      (error: unknown) => {
        for (const { reject } of positions) reject(error)
      },
    )
  }
}
