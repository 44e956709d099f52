/*
 * A queue of text frames between a running call and the reader of its stream.
 * Used by the MCP streams and by OpenTool's `/streamCall`.
 * Invariant: progress frames that wait for a slow reader are bounded, the oldest is dropped first; results
 * and errors are never dropped.
 */

/** Bounds the progress text that waits for a reader slower than the tool. */
const MAX_EVENT_CHARACTERS = 64 * 1_024

interface Frame {
  readonly text: string
  readonly isNews: boolean
}

/** Drops the oldest progress frames when the reader is slow; keeps all other frames. */
export class FrameQueue {
  readonly #frames: Frame[] = []
  readonly #minNews: number
  #news = 0
  #newsCharacters = 0
  #isEnded = false
  #wake: (() => void) | undefined

  /** `minNews` progress frames are kept, however long they are. */
  constructor(minNews: 0 | 1) {
    this.#minNews = minNews
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  add(text: string, isNews: boolean): void {
    if (this.#isEnded) return
    this.#frames.push({ text, isNews })
    if (isNews) this.#count(text, 1)
    while (this.#newsCharacters > MAX_EVENT_CHARACTERS && this.#news > this.#minNews) {
      const [dropped] = this.#frames.splice(
        this.#frames.findIndex((frame) => frame.isNews),
        1,
      )
      this.#count(dropped?.text ?? '', -1)
    }
    this.#wake?.()
  }

  /** No frames follow; waiting frames can still be taken. */
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
