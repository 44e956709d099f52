/** A line longer than allowed: nothing after it can be trusted to be a message (MCP-99). */
export const TOO_LONG = Symbol('too long')

const NEWLINE = 0x0a

/** Lines of a stream of bytes, without their ends; the last one may lack its end. */
export async function* readLines(
  chunks: AsyncIterable<string | Uint8Array>,
  mostBytes: number,
): AsyncGenerator<Buffer | typeof TOO_LONG> {
  let pieces: Buffer[] = []
  let bytes = 0
  for await (const chunk of chunks) {
    let rest = Buffer.from(chunk)
    for (;;) {
      const end = rest.indexOf(NEWLINE)
      const piece = end === -1 ? rest : rest.subarray(0, end)
      bytes += piece.length
      if (bytes > mostBytes) {
        yield TOO_LONG
        return
      }
      pieces.push(piece)
      if (end === -1) break
      yield Buffer.concat(pieces)
      pieces = []
      bytes = 0
      rest = rest.subarray(end + 1)
    }
  }
  if (bytes > 0) yield Buffer.concat(pieces)
}
