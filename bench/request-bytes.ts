import { type BenchRequest, CALL_ID_MARK } from './bench-request.ts'

/** One HTTP/1.1 request, serialised once and sent again and again. */
export class RequestBytes {
  readonly #bytes: Buffer
  /** Where each sending writes its call id; -1 = all sendings are the same. */
  readonly #callIdPlace: number
  #sent = 0

  constructor(request: BenchRequest, port: number) {
    const body = request.body === undefined ? '' : JSON.stringify(request.body)
    const headers = {
      host: `127.0.0.1:${port}`,
      ...request.headers,
      ...(body === '' ? {} : { 'content-length': String(Buffer.byteLength(body)) }),
    }
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
    this.#bytes = Buffer.from(`${request.method} ${request.path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`)
    this.#callIdPlace = this.#bytes.indexOf(CALL_ID_MARK)
  }

  /** A connection's own copy, to be stamped before each sending. */
  copy(): Buffer {
    return Buffer.from(this.#bytes)
  }

  stamp(copy: Buffer): void {
    if (this.#callIdPlace === -1) return
    this.#sent += 1
    copy.write(String(this.#sent).padStart(CALL_ID_MARK.length, '0'), this.#callIdPlace, 'latin1')
  }
}
