import type { Duplex } from 'node:stream'
import { BadLine, checkLength, LineReader } from '#kernel/base/bytes'
import { type JsonBounds, parseJson, tooMuchJson } from '#kernel/base/json'

/*
 * The connection between the server and the process of a pack, which carries lines of JSON. Both ends use it. Invariant: once the
 * other end exceeds a bound, nothing more is read from it.
 */

const SECOND_MS = 1_000

export interface ChannelBounds {
  readonly maxLineBytes: number
  readonly json: JsonBounds
  /** Maximum messages per second. Further messages wait in the pipe and then in the other process. */
  readonly maxMessages: number
  readonly maxBytes: number
  /** Maximum number of sent bytes that the other process has not read yet. */
  readonly maxUnreadBytes: number
}

export interface ChannelEvents {
  onMessage(message: unknown): void
  /** The other process exceeded a bound; nothing more is read from it. */
  onBroken(why: string): void
}

/**
 * Sends and receives lines of JSON over a separate pipe. Node's IPC channel is not used, because an invalid message from the other
 * side would end this process, handles could be sent, and nothing is bounded.
 */
export class PackChannel {
  readonly #socket: Duplex
  readonly #bounds: ChannelBounds
  readonly #events: ChannelEvents
  readonly #reader: LineReader
  readonly #lines: Buffer[] = []
  #secondBeganMs = Number.NEGATIVE_INFINITY
  #messages = 0
  #bytes = 0
  #pauseTimer: NodeJS.Timeout | undefined
  #isBroken = false

  constructor(socket: Duplex, bounds: ChannelBounds, events: ChannelEvents) {
    this.#socket = socket
    this.#bounds = bounds
    this.#reader = new LineReader(() => checkLength(bounds.maxLineBytes))
    this.#events = events
    socket.on('data', (chunk) => this.#take(Buffer.from(chunk)))
    // The exit of the other process is reported elsewhere.
    socket.on('error', () => undefined)
    socket.once('close', () => clearTimeout(this.#pauseTimer))
  }

  /** Returns false if the message is larger than `maxBytes`. If the other process has ended, the message is dropped. */
  send(message: object, maxBytes = Number.POSITIVE_INFINITY): boolean {
    const line = Buffer.from(`${JSON.stringify(message)}\n`)
    if (line.length > maxBytes) return false
    if (this.#isBroken || !this.#socket.writable) return true
    this.#socket.write(line)
    if (this.#socket.writableLength > this.#bounds.maxUnreadBytes) {
      this.#break(`it does not read its messages (${this.#socket.writableLength} bytes are waiting)`)
    }
    return true
  }

  #take(chunk: Buffer): void {
    try {
      this.#lines.push(...this.#reader.read(chunk))
    } catch (error) {
      if (!(error instanceof BadLine)) throw error
      this.#break(`it sent a message of more than ${this.#bounds.maxLineBytes} bytes`)
    }
    this.#deliver()
  }

  #deliver(): void {
    while (!this.#isBroken) {
      const [line] = this.#lines
      if (line === undefined) break
      if (!this.#hasRoom(line.length)) {
        this.#pause()
        return
      }
      this.#lines.shift()
      this.#read(line)
    }
    if (!this.#isBroken && this.#socket.isPaused()) this.#socket.resume()
  }

  #read(line: Buffer): void {
    const problem = tooMuchJson(line, this.#bounds.json)
    const message = problem === undefined ? parseJson(line.toString('utf8')) : undefined
    if (message === undefined) this.#break(`it sent a message that ${problem ?? 'is not JSON'}`)
    else this.#events.onMessage(message)
  }

  #hasRoom(bytes: number): boolean {
    const nowMs = performance.now()
    if (nowMs - this.#secondBeganMs >= SECOND_MS) {
      this.#secondBeganMs = nowMs
      this.#messages = 0
      this.#bytes = 0
    }
    const { maxMessages, maxBytes } = this.#bounds
    const isFull = this.#messages >= maxMessages || this.#bytes + bytes > maxBytes
    // The first message of a second always passes.
    if (this.#messages > 0 && isFull) return false
    this.#messages += 1
    this.#bytes += bytes
    return true
  }

  #pause(): void {
    this.#socket.pause()
    const untilMs = this.#secondBeganMs + SECOND_MS - performance.now()
    clearTimeout(this.#pauseTimer)
    this.#pauseTimer = setTimeout(() => this.#deliver(), Math.max(1, untilMs)).unref()
  }

  #break(why: string): void {
    if (this.#isBroken) return
    this.#isBroken = true
    clearTimeout(this.#pauseTimer)
    this.#lines.length = 0
    this.#socket.destroy()
    this.#events.onBroken(why)
  }
}
