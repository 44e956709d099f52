import { type BenchRequest, NUMBER_MARK } from './bench-request.ts'

/** One HTTP/1.1 request, serialised once and sent again and again. */
export class RequestBytes {
  readonly #bytes: Buffer
  /** Where each sending writes its number; -1 = all sendings are the same. */
  readonly #numberOffset: number
  readonly #distinct: number
  #sent = 0

  /** `distinct`: how many different numbers there are before they begin again. */
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

  /** A connection's own copy, to be stamped before each sending. */
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
