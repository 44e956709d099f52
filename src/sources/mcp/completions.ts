/** Tells those who wait when a person has finished what an upstream sent them to (MCP-80). */
export class Completions {
  readonly #waiting = new Map<string, Set<() => void>>()

  complete(id: string): void {
    for (const go of this.#waiting.get(id) ?? []) go()
  }

  /** Resolves when it is complete, or when it was waited for long enough. */
  async wait(id: string, longestMs: number, signal: AbortSignal): Promise<void> {
    const waiting = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, waiting)
    let go: () => void = () => undefined
    let timer: NodeJS.Timeout | undefined
    try {
      await new Promise<void>((resolve) => {
        go = resolve
        waiting.add(go)
        timer = setTimeout(go, longestMs)
        signal.addEventListener('abort', go, { once: true })
      })
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', go)
      waiting.delete(go)
      if (waiting.size === 0) this.#waiting.delete(id)
    }
    signal.throwIfAborted()
  }
}
