/*
 * A queue of text frames between a running call and the reader of its stream. Used by the MCP streams and by OpenTool's `/streamCall`.
 * Invariant: progress frames that wait for a slow reader are bounded, and the oldest frame is dropped first;
 * results and errors are never dropped.
 */

/** Maximum number of characters of progress that wait for a reader slower than the tool. */
const MAX_PROGRESS_CHARACTERS = 64 * 1_024

/** Drops the oldest progress frames when the reader is slow; keeps all other frames. */
export class FrameQueue {
  readonly #frames: { readonly text: string; readonly isProgress: boolean }[] = []
  readonly #minProgress: number
  #progressFrames = 0
  #progressCharacters = 0
  #isEnded = false
  #wake: (() => void) | undefined

  /** At least `minProgress` progress frames are kept, however long they are. */
  constructor(minProgress: 0 | 1) {
    this.#minProgress = minProgress
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  add(text: string, isProgress: boolean): void {
    if (this.#isEnded) return
    this.#frames.push({ text, isProgress })
    if (isProgress) this.#count(text, 1)
    while (this.#progressCharacters > MAX_PROGRESS_CHARACTERS && this.#progressFrames > this.#minProgress) {
      const [dropped] = this.#frames.splice(
        this.#frames.findIndex((frame) => frame.isProgress),
        1,
      )
      this.#count(dropped?.text ?? '', -1)
    }
    this.#wake?.()
  }

  /** Ends the queue; waiting frames can still be taken. */
  end(): void {
    this.#isEnded = true
    this.#wake?.()
  }

  /** The next frame; `late` if no frame came within `maxMs`, `undefined` after the last frame. */
  async next(maxMs?: number): Promise<string | undefined> {
    if (this.#frames.length === 0 && !this.#isEnded && !(await this.#arrival(maxMs))) return 'late'
    const frame = this.#frames.shift()
    if (frame?.isProgress === true) this.#count(frame.text, -1)
    return frame?.text
  }

  #arrival(maxMs: number | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (hasArrived: boolean): void => {
        clearTimeout(timer)
        this.#wake = undefined
        resolve(hasArrived)
      }
      const timer = maxMs === undefined ? undefined : setTimeout(settle, maxMs, false)
      this.#wake = () => settle(true)
    })
  }

  #count(text: string, frames: 1 | -1): void {
    this.#progressFrames += frames
    this.#progressCharacters += frames * text.length
  }
}
