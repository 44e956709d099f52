/** How much news may wait for a reader that is slower than the tool. */
const MOST_NEWS_CHARACTERS = 64 * 1_024

interface Frame {
  readonly text: string
  readonly isNews: boolean
}

/** Frames between a run and its reader: the oldest news is let go of, everything else waits. */
export class FrameQueue {
  #frames: Frame[] = []
  #newsCharacters = 0
  #isEnded = false
  #wake: (() => void) | undefined

  add(text: string, isNews: boolean): void {
    if (this.#isEnded) return
    this.#frames.push({ text, isNews })
    if (isNews) this.#newsCharacters += text.length
    while (this.#newsCharacters > MOST_NEWS_CHARACTERS && this.#dropNews());
    this.#wake?.()
  }

  /** Nothing more comes; what waits can still be taken. */
  end(): void {
    this.#isEnded = true
    this.#wake?.()
  }

  /** The next frame; `late` when none came in time, `undefined` after the last one. */
  async next(mostMs: number): Promise<string | 'late' | undefined> {
    if (this.#frames.length === 0 && !this.#isEnded && !(await this.#arrival(mostMs))) return 'late'
    const frame = this.#frames.shift()
    if (frame?.isNews === true) this.#newsCharacters -= frame.text.length
    return frame?.text
  }

  #arrival(mostMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#wake = undefined
        resolve(false)
      }, mostMs)
      this.#wake = () => {
        clearTimeout(timer)
        this.#wake = undefined
        resolve(true)
      }
    })
  }

  #dropNews(): boolean {
    const place = this.#frames.findIndex(({ isNews }) => isNews)
    const [dropped] = place === -1 ? [] : this.#frames.splice(place, 1)
    this.#newsCharacters -= dropped?.text.length ?? 0
    return dropped !== undefined && this.#frames.some(({ isNews }) => isNews)
  }
}
