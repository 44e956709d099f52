/** How much may wait for a reader that is slower than the tool; progress is news, so the newest counts. */
const MOST_CHARACTERS = 64 * 1_024

/** Frames between a tool that reports and a reader that reads, bounded by letting go of the oldest. */
export class WaitingFrames {
  readonly #frames: string[] = []
  #characters = 0
  #isEnded = false
  #wake: (() => void) | undefined

  get isEnded(): boolean {
    return this.#isEnded
  }

  add(frame: string): void {
    if (this.#isEnded) return
    this.#frames.push(frame)
    this.#characters += frame.length
    while (this.#characters > MOST_CHARACTERS && this.#frames.length > 1) this.#take()
    this.#wake?.()
  }

  /** Nothing more comes; what waits can still be taken. */
  end(): void {
    this.#isEnded = true
    this.#wake?.()
  }

  /** The next frame, or `undefined` after the last one. */
  async next(): Promise<string | undefined> {
    while (this.#frames.length === 0 && !this.#isEnded) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    return this.#take()
  }

  #take(): string | undefined {
    const frame = this.#frames.shift()
    this.#characters -= frame?.length ?? 0
    return frame
  }
}
