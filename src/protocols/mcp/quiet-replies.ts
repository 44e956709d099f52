const LOOK_MS = 1_000

interface Quiet {
  /** Begins a stream, so that something can be sent. */
  stream(): void
}

/** Replies that wait for their answer, in the order they began; those that wait for too long begin to stream (MCP-15). */
export class QuietReplies {
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
