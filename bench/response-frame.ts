const HEAD_END = '\r\n\r\n'
const LENGTH_HEADER = '\r\ncontent-length:'
const LAST_CHUNK = '0\r\n\r\n'

/**
 * Finds the end of an HTTP/1.1 response and parses nothing else, because the load generator shares two cores with the
 * server that it measures. Requests are never pipelined, so no bytes follow the end.
 */
export class ResponseFrame {
  status = 0
  #head = ''
  #inBody = false
  /** Remaining bytes of the body; `undefined` if it is chunked. */
  #remaining: number | undefined
  /** The last characters of a chunked body. */
  #tail = ''

  /** Takes the first `length` bytes of `buffer`; true when the response is complete. */
  push(buffer: Buffer, length: number): boolean {
    if (this.#inBody) return this.#pushBody(buffer, 0, length)
    const text = buffer.toString('latin1', 0, length)
    const known = this.#head.length
    this.#head = known === 0 ? text : this.#head + text
    const end = this.#head.indexOf(HEAD_END)
    if (end === -1) return false
    this.#readHead(end)
    return this.#pushBody(buffer, end + HEAD_END.length - known, length)
  }

  #readHead(end: number): void {
    const head = this.#head.slice(0, end).toLowerCase()
    this.#head = ''
    this.#tail = ''
    this.#inBody = true
    this.status = Number(head.slice('http/1.1 '.length, 'http/1.1 200'.length))
    this.#remaining = this.status === 304 ? 0 : readContentLength(head)
  }

  #pushBody(buffer: Buffer, from: number, length: number): boolean {
    if (this.#remaining === undefined) {
      // JSON escapes line ends inside strings, so only the last chunk of a reply can end like this.
      const text = buffer.toString('latin1', Math.max(from, length - LAST_CHUNK.length), length)
      this.#tail = (this.#tail + text).slice(-LAST_CHUNK.length)
      this.#inBody = this.#tail !== LAST_CHUNK
    } else {
      this.#remaining -= length - from
      this.#inBody = this.#remaining > 0
    }
    return !this.#inBody
  }
}

function readContentLength(head: string): number | undefined {
  const index = head.indexOf(LENGTH_HEADER)
  return index === -1 ? undefined : Number.parseInt(head.slice(index + LENGTH_HEADER.length), 10)
}
