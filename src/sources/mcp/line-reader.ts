import { JsonScan } from '#core/json-bounds'
import type { MessageBounds } from './answer-bounds.ts'

const NEWLINE = 0x0a

/** Cuts a stream of bytes into lines; none may be longer, or hold more JSON, than the bounds of the moment it begins. */
export class LineReader {
  readonly #boundsNow: () => MessageBounds
  #bounds: MessageBounds
  #scan: JsonScan
  #parts: Buffer[] = []
  #bytes = 0

  constructor(boundsNow: () => MessageBounds) {
    this.#boundsNow = boundsNow
    this.#bounds = boundsNow()
    this.#scan = new JsonScan(this.#bounds.json)
  }

  /** The lines that these bytes complete. Throws `RangeError` for one that is too much. */
  read(chunk: Buffer): readonly string[] {
    const lines: string[] = []
    let from = 0
    for (;;) {
      const at = chunk.indexOf(NEWLINE, from)
      this.#keep(at === -1 ? chunk.subarray(from) : chunk.subarray(from, at))
      if (at === -1) return lines
      lines.push(Buffer.concat(this.#parts).toString('utf8'))
      this.#clear()
      from = at + 1
    }
  }

  #keep(part: Buffer): void {
    if (part.length === 0) return
    if (this.#bytes === 0) {
      this.#bounds = this.#boundsNow()
      this.#scan = new JsonScan(this.#bounds.json)
    }
    this.#bytes += part.length
    this.#scan.take(part)
    const isLong = this.#bytes > this.#bounds.mostBytes
    const problem = isLong ? `is longer than ${this.#bounds.mostBytes} bytes` : this.#scan.problem
    if (problem !== undefined) {
      this.#clear()
      throw new RangeError(`a message that ${problem}`)
    }
    this.#parts.push(part)
  }

  #clear(): void {
    this.#parts = []
    this.#bytes = 0
  }
}
