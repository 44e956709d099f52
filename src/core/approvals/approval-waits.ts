/** How soon a decision of another process is seen. */
const POLL_MS = 250

/** Requests that wait for a decision. Nothing is held between looks, and everybody goes home when it closes. */
export class ApprovalWaits {
  readonly #waiting = new Map<string, Set<() => void>>()
  #isClosed = false

  /** Somebody decided about this call, or it ended. */
  notify(record: string): void {
    for (const wake of this.#waiting.get(record) ?? []) wake()
  }

  /** Looks until `isOver` or time is up; tells which. */
  async until(
    record: string,
    { waitMs, gone }: { readonly waitMs: number; readonly gone: AbortSignal | undefined },
    isOver: () => Promise<boolean>,
  ): Promise<boolean> {
    const endsAtMs = performance.now() + waitMs
    for (;;) {
      if (await isOver()) return true
      const leftMs = endsAtMs - performance.now()
      if (leftMs <= 0 || this.#isClosed || gone?.aborted === true) return false
      await this.#next(record, Math.min(leftMs, POLL_MS), gone)
    }
  }

  close(): void {
    this.#isClosed = true
    for (const record of [...this.#waiting.keys()]) this.notify(record)
  }

  #next(record: string, mostMs: number, gone: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(record) ?? new Set()
      const wake = (): void => {
        clearTimeout(timer)
        gone?.removeEventListener('abort', wake)
        waiting.delete(wake)
        if (waiting.size === 0) this.#waiting.delete(record)
        resolve()
      }
      const timer = setTimeout(wake, mostMs)
      gone?.addEventListener('abort', wake, { once: true })
      waiting.add(wake)
      this.#waiting.set(record, waiting)
    })
  }
}
