import { isUtf8 } from 'node:buffer'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { fault } from '#core/errors'
import type { JsonValue } from '#core/json'
import type { MaybePromise } from '#core/ports/store'
import { findJsonProblem } from './check-json.ts'
import type { HeldBody } from './held-bytes.ts'
import { httpFault } from './http-fault.ts'

/**
 * The JSON body of a request, GET included; `undefined` when it has none, whatever its content type says.
 * Throws or rejects with a fault that says what to send instead. Our own reader, because member names such as
 * `__proto__` are data here, `1e400` and lone surrogates are errors, and GET may have a body (OTC-08, OTC-66).
 */
export function readJsonBody(
  raw: IncomingMessage,
  limitBytes: number,
  held?: HeldBody,
): MaybePromise<JsonValue | undefined> {
  const { headers } = raw
  if (headers['transfer-encoding'] === undefined) {
    const length = Number(headers['content-length'] ?? 0)
    if (length === 0) return undefined
    checkBodyHeaders(headers)
    if (length > limitBytes) throw tooLarge(limitBytes)
  }
  return new Promise((resolve, reject) => {
    const announced = Number(headers['content-length'] ?? Number.POSITIVE_INFINITY)
    const chunks: Buffer[] = []
    let bytes = 0
    const onData = (chunk: Buffer): void => {
      bytes += chunk.length
      const refusal = bytes > limitBytes ? tooLarge(limitBytes) : held?.add(chunk.length)
      if (refusal === undefined) {
        chunks.push(chunk)
        if (bytes < announced) held?.wait(stop)
      } else stop(refusal)
    }
    const onEnd = (): void => {
      held?.complete()
      try {
        resolve(parseChunks(headers, chunks, bytes))
      } catch (error) {
        reject(error)
      }
    }
    const onError = (cause: Error): void => {
      stop(fault('request_invalid', 'The connection closed before the body was complete.', { cause }))
    }
    const stop = (error: Error): void => {
      raw.off('data', onData).off('end', onEnd).off('error', onError)
      reject(error)
    }
    raw.on('data', onData).on('end', onEnd).on('error', onError)
  })
}

function parseChunks(
  headers: IncomingHttpHeaders,
  chunks: readonly Buffer[],
  bytes: number,
): JsonValue | undefined {
  const [first] = chunks
  if (first === undefined) return undefined
  checkBodyHeaders(headers)
  return parseJsonBody(chunks.length === 1 ? first : Buffer.concat(chunks, bytes))
}

/** Bytes to a JSON value that is exact: everything later stages rely on is checked here, once. */
export function parseJsonBody(bytes: Buffer): JsonValue {
  if (!isUtf8(bytes)) throw fault('request_invalid', 'The body is not UTF-8; send JSON encoded as UTF-8.')
  const text = withoutByteOrderMark(bytes.toString('utf8'))
  const value = parse(text)
  const problem = findJsonProblem(value, { hasEscapes: text.includes('\\u') })
  if (problem === undefined) return value
  const place = problem.pointer === '' ? 'the body' : shorten(problem.pointer)
  throw fault('request_invalid', `The JSON body cannot be used: at ${place}, ${problem.reason}.`)
}

/** A pointer is the sender's own text, and may be as long as the body. */
function shorten(pointer: string): string {
  return pointer.length <= LONGEST_POINTER ? pointer : `${pointer.slice(0, LONGEST_POINTER)}…`
}

const LONGEST_POINTER = 200

function parse(text: string): JsonValue {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw fault('request_invalid', `The body is not valid JSON${placeOf(cause)}.`, { cause })
  }
}

/** The place only: the engine's own message quotes the body, which may hold secrets. */
function placeOf(error: unknown): string {
  if (!(error instanceof SyntaxError)) return ''
  if (error.message.includes('end of JSON input')) return ': it ends too early'
  const position = /at position (\d+)/.exec(error.message)?.[1]
  return position === undefined ? '' : ` (see position ${position})`
}

/** RFC 8259 §8.1 lets a reader ignore it, and some clients send it. */
function withoutByteOrderMark(text: string): string {
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
}

/** Exactly `application/json`, parameters allowed: anything else is what a foreign page can send (rule 28). */
function checkBodyHeaders(headers: IncomingHttpHeaders): void {
  const type = headers['content-type']
  if (type !== 'application/json' && mediaTypeOf(type) !== 'application/json') {
    const came = type === undefined ? 'no Content-Type' : 'another Content-Type'
    throw fault(
      'request_invalid',
      `The body came with ${came}; send JSON with "Content-Type: application/json".`,
    )
  }
  const encoding = headers['content-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw fault('request_invalid', 'The body is encoded; send it without Content-Encoding.')
  }
}

function mediaTypeOf(contentType: string | undefined): string | undefined {
  return contentType?.split(';', 1)[0]?.trim().toLowerCase()
}

function tooLarge(limitBytes: number): Error {
  return httpFault(413, `The body is larger than ${limitBytes} bytes, the limit of this server.`)
}
