import { type BenchRequest, NUMBER_MARK } from './bench-request.ts'

/** One HTTP/1.1 request, serialised once and sent many times. */
export class RequestBytes {
  readonly #bytes: Buffer
  /** Offset of the number that differs in each request; -1 if all requests are the same. */
  readonly #numberOffset: number
  readonly #distinct: number
  #sent = 0

  /** `distinct`: how many different numbers are used before they repeat. */
  constructor(request: BenchRequest, port: number, distinct = Number.POSITIVE_INFINITY) {
    this.#distinct = distinct
    const body = request.body === undefined ? '' : JSON.stringify(request.body)
    const headers = {
      host: `127.0.0.1:${port}`,
      ...request.headers,
      ...(body === '' ? {} : { 'content-length': String(Buffer.byteLength(body)) }),
    }
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
    this.#bytes = Buffer.from(`${request.method} ${request.path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`)
    this.#numberOffset = this.#bytes.indexOf(NUMBER_MARK)
  }

  /** A copy for one connection. `stamp` writes the next number into it before each request. */
  copy(): Buffer {
    return Buffer.from(this.#bytes)
  }

  stamp(copy: Buffer): void {
    if (this.#numberOffset === -1) return
    const number = this.#sent % this.#distinct
    this.#sent += 1
    copy.write(String(number).padStart(NUMBER_MARK.length, '0'), this.#numberOffset, 'latin1')
  }
}
