import { closeSync, openSync, readSync, statSync } from 'node:fs'

/** Where the index of the log keeps the number of its last valid frame: fixed by SQLite's file format. */
const LAST_FRAME_OFFSET = 16
const FRAME_BYTES = 4096 + 24

/**
 * How much of the write-ahead log is in use. Its file never shrinks when the log starts over, so its size says
 * nothing after the first time; the index beside it does.
 */
export class LogSize {
  readonly #path: string
  readonly #word = new Uint32Array(1)
  #index: number | undefined

  constructor(databasePath: string) {
    this.#path = databasePath
  }

  bytes(): number {
    try {
      this.#index ??= openSync(`${this.#path}-shm`, 'r')
      const read = readSync(this.#index, this.#word, 0, this.#word.byteLength, LAST_FRAME_OFFSET)
      if (read === this.#word.byteLength) return (this.#word[0] ?? 0) * FRAME_BYTES
    } catch {
      // Where there is no index, the file's size is the next best answer.
    }
    return statSync(`${this.#path}-wal`, { throwIfNoEntry: false })?.size ?? 0
  }

  close(): void {
    if (this.#index !== undefined) closeSync(this.#index)
    this.#index = undefined
  }
}
