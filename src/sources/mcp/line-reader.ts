const NEWLINE = 0x0a

/** Cuts a stream of bytes into lines; none may be longer than the limit. */
export class LineReader {
  readonly #longest: number
  #parts: Buffer[] = []
  #bytes = 0

  constructor(longestBytes: number) {
    this.#longest = longestBytes
  }

  /** The lines that these bytes complete. Throws `RangeError` for one that is too long. */
  read(chunk: Buffer): readonly string[] {
    const lines: string[] = []
    let from = 0
    for (;;) {
      const at = chunk.indexOf(NEWLINE, from)
      const part = at === -1 ? chunk.subarray(from) : chunk.subarray(from, at)
      this.#bytes += part.length
      if (this.#bytes > this.#longest) {
        this.#clear()
        throw new RangeError(`a line is longer than ${this.#longest} bytes`)
      }
      if (part.length > 0) this.#parts.push(part)
      if (at === -1) return lines
      lines.push(Buffer.concat(this.#parts).toString('utf8'))
      this.#clear()
      from = at + 1
    }
  }

  #clear(): void {
    this.#parts = []
    this.#bytes = 0
  }
}
