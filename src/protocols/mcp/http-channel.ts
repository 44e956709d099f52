import { FrameQueue } from '#protocols/frame-queue'
import type { HttpReply } from '#protocols/http-exchange'
import { type Answer, encodeEvent, NO_ANSWER } from './codec-message.ts'
import type { Channel } from './exchange.ts'
import type { Accepted } from './routes.ts'
import { JSON_TYPE, STREAM_TYPE } from './wire.ts'

const LOOK_MS = 1_000

interface Quiet {
  /** Begins a stream, so that something can be sent. */
  stream(): void
}

/** Replies that wait for their answer, in the order they began; those that wait for too long begin to stream (MCP-15). */
export class StreamUpgrade {
  readonly #longestMs: number
  readonly #since = new Map<Quiet, number>()
  #timer: NodeJS.Timeout | undefined

  constructor(longestMs: number) {
    this.#longestMs = longestMs
  }

  add(reply: Quiet): void {
    this.#since.set(reply, performance.now())
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref()
  }

  delete(reply: Quiet): void {
    this.#since.delete(reply)
  }

  #look(): void {
    const longAgo = performance.now() - this.#longestMs
    for (const [reply, sinceMs] of this.#since) {
      if (sinceMs > longAgo) return
      this.#since.delete(reply)
      reply.stream()
    }
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

/** Without an answer for so long, a stream begins, so that nothing between us takes the connection for dead (MCP-15). */
const QUIET_MS = 10_000
const KEEP_ALIVE_MS = 15_000
const KEEP_ALIVE = ':\n\n'

/** Those without an answer yet: one look a second at all of them costs less than a timer for each. */
const QUIET = new StreamUpgrade(QUIET_MS)

/** MCP-16. */
export const STREAM_HEADERS: Readonly<Record<string, string>> = {
  'content-type': STREAM_TYPE,
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

/** One POST: answered with JSON, unless something has to be said before the answer (MCP-13, MCP-15). */
export class HttpChannel implements Channel {
  readonly #accepted: Accepted
  #beginStream: (() => void) | undefined
  #mustStream = false
  #frames: FrameQueue | undefined

  constructor(accepted: Accepted) {
    this.#accepted = accepted
  }

  get canSend(): boolean {
    return this.#accepted.stream
  }

  send(json: string, what: 'news' | 'question'): void {
    if (!this.canSend) return
    this.#queue().add(encodeEvent(json), what === 'news')
    this.stream()
  }

  /** From now on the answer is a stream. */
  stream(): void {
    this.#mustStream = true
    this.#beginStream?.()
  }

  /** All refusals by status are known before the stream begins. */
  reply(answer: Promise<Answer>): Promise<HttpReply> {
    if (this.canSend) QUIET.add(this)
    return new Promise((resolve, reject) => {
      this.#beginStream = () => {
        QUIET.delete(this)
        resolve(this.#stream(answer))
      }
      if (this.#mustStream) this.#beginStream()
      answer.then(
        (made) => {
          QUIET.delete(this)
          resolve(this.#accepted.json || made.status !== 200 ? toReply(made) : this.#stream(answer))
        },
        (error: unknown) => {
          QUIET.delete(this)
          reject(error)
        },
      )
    })
  }

  /** Made for those who stream: most calls are answered with one JSON body. */
  #queue(): FrameQueue {
    this.#frames ??= new FrameQueue(0)
    return this.#frames
  }

  #stream(answer: Promise<Answer>): HttpReply {
    return {
      status: 200,
      headers: STREAM_HEADERS,
      body: (ended) => this.#pieces(answer, ended),
    }
  }

  async *#pieces(answer: Promise<Answer>, ended: AbortSignal): AsyncGenerator<string> {
    const frames = this.#queue()
    ended.addEventListener('abort', () => frames.end(), { once: true })
    const last = answer.catch(() => NO_ANSWER)
    void last.finally(() => frames.end())
    for (;;) {
      const frame = await frames.next(KEEP_ALIVE_MS)
      if (frame === undefined) break
      yield frame === 'late' ? KEEP_ALIVE : frame
    }
    if (ended.aborted) return
    const { json } = await last
    if (json !== undefined) yield encodeEvent(json)
  }
}

/** A cancelled request gets an empty stream: there is no other way to say nothing (MCP-85). */
export function toReply({ status, headers, json }: Answer): HttpReply {
  if (json === undefined) return { status: 200, headers: { ...STREAM_HEADERS, ...headers }, body: '' }
  return { status, headers: { 'content-type': JSON_TYPE, ...headers }, body: json }
}
