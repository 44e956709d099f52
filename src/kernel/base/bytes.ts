/** The beginning of a stream of bytes. */
interface StreamStart {
  readonly bytes: Buffer
  /** Whether that is all of it. */
  readonly isWhole: boolean
}

/** Reads at most so many bytes; what is left of a longer stream is cancelled, so that nobody can fill our memory. */
export async function readStart(
  chunks: AsyncIterable<string | Uint8Array> | null,
  maxBytes: number,
): Promise<StreamStart> {
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

/** Looks at a line piece by piece, as it arrives; a text is what is wrong with the line. */
export type LineCheck = (piece: Buffer) => string | undefined

/** A line that its check refused; its message says why. */
export class BadLine extends Error {
  override readonly name = 'BadLine'
}

const NEWLINE = 0x0a

/** Cuts a stream of bytes into lines, and keeps of a line only what its check lets pass. */
export class LineReader {
  readonly #beginCheck: () => LineCheck
  #check: LineCheck | undefined
  #pieces: Buffer[] = []

  /** `beginCheck` is called at the beginning of each line: its bounds may depend on the moment. */
  constructor(beginCheck: () => LineCheck) {
    this.#beginCheck = beginCheck
  }

  /** The lines that these bytes complete, without their ends. Throws `BadLine` with what is wrong with one. */
  *read(chunk: Buffer): Generator<Buffer, void> {
    let from = 0
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
      this.#keep(chunk.subarray(from, end))
      from = end + 1
      yield this.end()
    }
    this.#keep(chunk.subarray(from))
  }

  /** What has come of a line that is not at its end, which is then forgotten. */
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
    if (problem === undefined) this.#pieces.push(piece)
    else {
      this.end()
      throw new BadLine(problem)
    }
  }
}

/** A check that lets lines up to a length pass. */
export function checkLength(maxBytes: number): LineCheck {
  let bytes = 0
  return (piece) => {
    bytes += piece.length
    return bytes > maxBytes ? `is longer than ${maxBytes} bytes` : undefined
  }
}
