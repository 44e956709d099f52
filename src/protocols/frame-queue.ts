/** How much news may wait for a reader that is slower than the tool. */
const MAX_EVENT_CHARACTERS = 64 * 1_024

interface Frame {
  readonly text: string
  readonly isNews: boolean
}

/** Frames between a run and the reader of its stream: of news the oldest is let go of, everything else waits. */
export class FrameQueue {
  readonly #frames: Frame[] = []
  readonly #leastNews: number
  #news = 0
  #newsCharacters = 0
  #isEnded = false
  #wake: (() => void) | undefined

  /** `leastNews` frames of news are kept, however long they are. */
  constructor(leastNews: 0 | 1) {
    this.#leastNews = leastNews
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  add(text: string, isNews: boolean): void {
    if (this.#isEnded) return
    this.#frames.push({ text, isNews })
    if (isNews) this.#count(text, 1)
    while (this.#newsCharacters > MAX_EVENT_CHARACTERS && this.#news > this.#leastNews) {
      const [dropped] = this.#frames.splice(
        this.#frames.findIndex((frame) => frame.isNews),
        1,
      )
      this.#count(dropped?.text ?? '', -1)
    }
    this.#wake?.()
  }

  /** Nothing more comes; waiting frames can still be taken. */
  end(): void {
    this.#isEnded = true
    this.#wake?.()
  }

  /** The next frame; `late` when none came within `maxMs`, `undefined` after the last one. */
  async next(maxMs: number): Promise<string | 'late' | undefined>
  async next(): Promise<string | undefined>
  async next(maxMs?: number): Promise<string | undefined> {
    if (this.#frames.length === 0 && !this.#isEnded && !(await this.#arrival(maxMs))) return 'late'
    const frame = this.#frames.shift()
    if (frame?.isNews === true) this.#count(frame.text, -1)
    return frame?.text
  }

  #arrival(maxMs: number | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (hasCome: boolean): void => {
        clearTimeout(timer)
        this.#wake = undefined
        resolve(hasCome)
      }
      const timer = maxMs === undefined ? undefined : setTimeout(settle, maxMs, false)
      this.#wake = () => settle(true)
    })
  }

  #count(text: string, frames: 1 | -1): void {
    this.#news += frames
    this.#newsCharacters += frames * text.length
  }
}
