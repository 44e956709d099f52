/**
 * Bounded reading of byte streams: the start of a body, and lines as they arrive. Sources, the HTTP server and child processes
 * read with it. A sender can never make the server buffer more bytes than the caller of these functions allows.
 */

/** Reads at most `maxBytes` bytes and cancels the rest of the stream. `isWhole` is false if the stream had more bytes. */
export async function readStart(
  chunks: AsyncIterable<string | Uint8Array> | null,
  maxBytes: number,
): Promise<{ readonly bytes: Buffer; readonly isWhole: boolean }> {
  const parts: Uint8Array[] = []
  let length = 0
  // Leaving the loop early cancels the stream.
  for await (const chunk of chunks ?? []) {
    const part = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
    parts.push(part)
    length += part.length
    if (length > maxBytes) return { bytes: Buffer.concat(parts).subarray(0, maxBytes), isWhole: false }
  }
  return { bytes: Buffer.concat(parts), isWhole: true }
}

/** Checks a line piece by piece, as it arrives; returns the problem if the line is invalid. */
export type LineCheck = (piece: Buffer) => string | undefined

/** Thrown for a line that failed its check; the message gives the reason. */
export class BadLine extends Error {
  override readonly name = 'BadLine'
}

const NEWLINE = 0x0a

/** Splits a stream of bytes into lines and keeps only the lines that pass their check. */
export class LineReader {
  readonly #beginCheck: () => LineCheck
  #check: LineCheck | undefined
  #pieces: Buffer[] = []

  /** `beginCheck` is called at the beginning of each line, because the bounds may change over time. */
  constructor(beginCheck: () => LineCheck) {
    this.#beginCheck = beginCheck
  }

  /** Yields the lines that these bytes complete, without their newlines. Throws `BadLine` for a line that fails its check. */
  *read(chunk: Buffer): Generator<Buffer, void> {
    let from = 0
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
      this.#keep(chunk.subarray(from, end))
      from = end + 1
      yield this.end()
    }
    this.#keep(chunk.subarray(from))
  }

  /** Returns the bytes of the unfinished line that have arrived, and resets the reader. */
  end(): Buffer {
    const line = Buffer.concat(this.#pieces)
    this.#pieces = []
    this.#check = undefined
    return line
  }

  #keep(piece: Buffer): void {
    if (piece.length === 0) return
    this.#check ??= this.#beginCheck()
    const problem = this.#check(piece)
    this.#pieces.push(piece)
    if (problem === undefined) return
    this.end()
    throw new BadLine(problem)
  }
}

export function checkLength(maxBytes: number): LineCheck {
  let bytes = 0
  return (piece) => {
    bytes += piece.length
    return bytes > maxBytes ? `is longer than ${maxBytes} bytes` : undefined
  }
}
