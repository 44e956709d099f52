import type { Transformer } from 'node:stream/web'
import { setImmediate } from 'node:timers/promises'
import type { JSONRPCMessage } from '@modelcontextprotocol/client'
import { fault } from '#kernel/base/errors'
import { JSON_BOUNDS, type JsonBounds, JsonScan } from '#kernel/base/json'

/** What the client does something about; the rest is news for nobody. */
const HEARD: ReadonlySet<string> = new Set([
  'notifications/progress',
  'notifications/cancelled',
  'notifications/tools/list_changed',
  'notifications/elicitation/complete',
])
/** So many at once, and then so many a second: more than any person follows, and too few to keep us busy. */
const AT_ONCE = 100
const A_SECOND = 50

/**
 * Lets the notices of one connection through at a bounded rate. The client takes a good part of a millisecond for each, so that
 * an upstream which sends nothing else would have this process to itself.
 */
export class NoticeGate {
  #left = AT_ONCE
  #filledMs = performance.now()

  /** Whether the client gets to see it. Requests and answers always pass. */
  lets(message: JSONRPCMessage): boolean {
    if ('id' in message || !('method' in message)) return true
    if (!HEARD.has(message.method)) return false
    const nowMs = performance.now()
    this.#left = Math.min(AT_ONCE, this.#left + ((nowMs - this.#filledMs) * A_SECOND) / 1000)
    this.#filledMs = nowMs
    if (this.#left < 1) return false
    this.#left -= 1
    return true
  }
}

const MIB = 1_048_576

/** How much one message of an upstream may hold. */
export interface MessageBounds {
  readonly maxBytes: number
  readonly json: JsonBounds
}

/** Room for what is around a value in a message. */
const AROUND = { deepest: 16, values: 100 }

/** An answer of a call: as much as a value of anybody's tool. Its bytes are counted where they come from. */
export const CALL_BOUNDS: MessageBounds = {
  maxBytes: Number.POSITIVE_INFINITY,
  json: {
    deepest: JSON_BOUNDS.deepest + AROUND.deepest,
    maxValues: JSON_BOUNDS.maxValues + AROUND.values,
  },
}

/** A page of a list, or a handshake: parsed in one step, which must be short for everybody else. */
export const PAGE_BOUNDS: MessageBounds = {
  maxBytes: 4 * MIB,
  json: { deepest: JSON_BOUNDS.deepest + AROUND.deepest, maxValues: 50_000 },
}

/** The client looks at each message of a batch, and at each event, for some ten microseconds. */
export const MAX_IN_A_BATCH = 1_000
const EVENTS_A_TURN = 100
/** What a refusal says for itself; the rest is nobody's reading. */
export const MAX_REFUSAL_BYTES = 65_536
const MIN_RETRY_MS = 1_000

/** The same answer, which ends with a fault where a message in it is too much to parse. */
export function boundedAnswer(response: Response, bounds: MessageBounds): Response {
  const { status, statusText, headers, body, ok } = response
  if (body === null || (status >= 300 && status < 400)) return response
  const isStream = headers.get('content-type')?.trim().toLowerCase().startsWith('text/event-stream') === true
  const transformer = ok
    ? isStream
      ? eventsWithin(bounds)
      : messageWithin(bounds)
    : cutAt(MAX_REFUSAL_BYTES)
  return new Response(body.pipeThrough(new TransformStream(transformer)), { status, statusText, headers })
}

type BytesTransformer = Transformer<Uint8Array, Uint8Array>

/** One JSON text, or a few of them in a list. */
function messageWithin(bounds: MessageBounds): BytesTransformer {
  const check = messageCheck(bounds)
  return {
    transform(chunk, controller) {
      check(chunk)
      controller.enqueue(chunk)
    },
  }
}

/** Looks at the pieces of one JSON text, or of a list of them, in their order; throws where it is too much. */
export function messageCheck({ maxBytes, json }: MessageBounds): (chunk: Uint8Array) => void {
  const scan = new JsonScan({ ...json, maxOutermost: MAX_IN_A_BATCH })
  let bytes = 0
  return (chunk) => {
    bytes += chunk.length
    scan.take(chunk)
    if (bytes > maxBytes) throw tooMuch(`is larger than ${maxBytes} bytes`)
    if (scan.problem !== undefined) throw tooMuch(scan.problem)
  }
}

const [NEWLINE, RETURN] = [0x0a, 0x0d]
const BYTE_ORDER_MARK = Buffer.from('\uFEFF')

/** Events, line by line, as the transport of the official client gets them. */
function eventsWithin(bounds: MessageBounds): BytesTransformer {
  const lines = new EventLines(bounds)
  return {
    async transform(chunk, controller) {
      for (const line of lines.take(chunk)) {
        controller.enqueue(line)
        if (lines.isTurnOver()) await setImmediate()
      }
    },
    flush(controller) {
      controller.enqueue(lines.rest)
    },
  }
}

/**
 * Takes a stream of events apart into lines. All ends of lines become the same one, so that a parser sees the lines that
 * were looked at here; many events come in many turns; and none asks to be opened again at once, for ever.
 */
export class EventLines {
  readonly #bounds: MessageBounds
  readonly #scan: JsonScan
  #parts: Buffer[] = []
  #partBytes = 0
  #eventBytes = 0
  #events = 0
  #isFirst = true
  #endedInReturn = false

  constructor(bounds: MessageBounds) {
    this.#bounds = bounds
    this.#scan = new JsonScan(bounds.json)
  }

  /** The line that was begun and has no end yet. */
  get rest(): Buffer {
    return Buffer.concat(this.#parts)
  }

  /** Whether others should have a turn before the next line; says so once. */
  isTurnOver(): boolean {
    if (this.#events < EVENTS_A_TURN) return false
    this.#events = 0
    return true
  }

  /** The lines that are whole with this chunk, each with its end. */
  *take(chunk: Uint8Array): Generator<Buffer> {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
    // The other half of an end that was taken already.
    let from = this.#endedInReturn && bytes[0] === NEWLINE ? 1 : 0
    this.#endedInReturn = bytes.length === 0 ? this.#endedInReturn : bytes.at(-1) === RETURN
    for (let at = from; at < bytes.length; at += 1) {
      const byte = bytes[at]
      if (byte !== NEWLINE && byte !== RETURN) continue
      this.#keep(bytes.subarray(from, at))
      if (byte === RETURN && bytes[at + 1] === NEWLINE) at += 1
      from = at + 1
      yield this.#endLine()
    }
    this.#keep(bytes.subarray(from))
  }

  #keep(part: Buffer): void {
    if (part.length === 0) return
    this.#parts.push(part)
    this.#partBytes += part.length
    const { maxBytes } = this.#bounds
    if (this.#eventBytes + this.#partBytes > maxBytes) throw tooMuch(`is larger than ${maxBytes} bytes`)
  }

  /** What goes on of a line that is here whole. */
  #endLine(): Buffer {
    const whole = this.rest
    const hasMark = this.#isFirst && whole.indexOf(BYTE_ORDER_MARK) === 0
    const line = hasMark ? whole.subarray(BYTE_ORDER_MARK.length) : whole
    this.#isFirst = false
    this.#eventBytes += this.#partBytes
    this.#parts = []
    this.#partBytes = 0
    if (line.length === 0) {
      this.#events += 1
      this.#eventBytes = 0
      this.#scan.startAnew()
    } else if (line.indexOf('data') === 0) {
      this.#scan.take(line)
      this.#scan.endLine()
      if (this.#scan.problem !== undefined) throw tooMuch(this.#scan.problem)
    } else if (isHaste(line)) return Buffer.alloc(0)
    return Buffer.concat([line, Buffer.of(NEWLINE)])
  }
}

/** Whether a line asks to be asked again sooner than anybody needs to. */
function isHaste(line: Buffer): boolean {
  if (line.indexOf('retry') !== 0) return false
  const [, milliseconds = ''] = line.toString('utf8').split(':')
  return !(Number(milliseconds) >= MIN_RETRY_MS)
}

/** The beginning of it. */
function cutAt(most: number): BytesTransformer {
  let left = most
  return {
    transform(chunk, controller) {
      controller.enqueue(chunk.subarray(0, left))
      left -= chunk.length
      if (left <= 0) controller.terminate()
    },
  }
}

function tooMuch(problem: string): Error {
  return fault('upstream_failed', 'The MCP server sent more at once than is read of it.', {
    developerMessage: `A message of the MCP server ${problem}.`,
  })
}
