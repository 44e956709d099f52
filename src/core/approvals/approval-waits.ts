import type { StoreChanges } from '#core/runs/store-changes'

/** Requests that wait for a decision. Nothing is held between looks, and everybody goes home when it closes. */
export class ApprovalWaits {
  readonly #waiting = new Map<string, Set<() => void>>()
  readonly #changes: StoreChanges
  #isClosed = false

  constructor(changes: StoreChanges) {
    this.#changes = changes
  }

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
      await this.#next(record, leftMs, gone)
    }
  }

  close(): void {
    this.#isClosed = true
    this.#look(true)
  }

  /** What another process decided is not known by name: everybody looks. */
  readonly #look = (isChanged: boolean): void => {
    if (isChanged) for (const record of [...this.#waiting.keys()]) this.notify(record)
    if (this.#waiting.size === 0) this.#changes.ignore(this.#look)
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
      this.#changes.listen(this.#look)
    })
  }
}
