import { fault } from '#core/errors'
import type { RunPage, RunQuery } from './run-view.ts'

/** How soon events that another process wrote are seen. */
const POLL_MS = 500

/** Reads one page of one run. */
export type ReadPage = (after: number) => Promise<RunPage | undefined>

interface Watch {
  readonly wake: Set<() => void>
  readonly pages: Map<number, Promise<RunPage | undefined>>
  readonly timer: NodeJS.Timeout
}

/**
 * Lets any number of readers follow a run at the price of one: whoever is at the same place shares one page, and
 * one timer looks for what other processes wrote. Nothing is held for a reader between its questions.
 */
export class RunFeed {
  readonly #watched = new Map<string, Watch>()
  #isClosed = false

  /** Something was committed in this run. */
  notify(run: string): void {
    const watch = this.#watched.get(run)
    if (watch !== undefined) renew(watch)
  }

  /** The next page, as soon as it has something to say or the reader's patience is over. */
  async read(run: string, query: Omit<RunQuery, 'runId'>, readPage: ReadPage): Promise<RunPage | undefined> {
    const { after, waitMs, signal } = query
    const endsAtMs = performance.now() + waitMs
    for (;;) {
      const watch = waitMs > 0 ? this.#watch(run) : this.#watched.get(run)
      const page = await (watch === undefined ? readPage(after) : sharedPage(watch, after, readPage))
      if (page === undefined || page.events.length > 0 || page.isComplete) return page
      const leftMs = endsAtMs - performance.now()
      if (watch === undefined || leftMs <= 0 || signal?.aborted === true) return page
      if (this.#isClosed) throw fault('not_ready', 'The server is shutting down.', { retryAfterMs: 2_000 })
      await nextChange(watch, leftMs, signal)
    }
  }

  /** Whoever waits is told to come back later. */
  close(): void {
    this.#isClosed = true
    for (const watch of this.#watched.values()) {
      clearInterval(watch.timer)
      renew(watch)
    }
    this.#watched.clear()
  }

  #watch(run: string): Watch {
    const known = this.#watched.get(run)
    if (known !== undefined) return known
    const timer = setInterval(() => {
      if (watch.wake.size > 0) {
        renew(watch)
        return
      }
      clearInterval(timer)
      this.#watched.delete(run)
    }, POLL_MS).unref()
    const watch: Watch = { wake: new Set(), pages: new Map(), timer }
    this.#watched.set(run, watch)
    return watch
  }
}

/** What was read is old now: whoever waits looks again. */
function renew({ wake, pages }: Watch): void {
  pages.clear()
  const waiting = [...wake]
  wake.clear()
  for (const look of waiting) look()
}

function sharedPage({ pages }: Watch, after: number, readPage: ReadPage): Promise<RunPage | undefined> {
  const known = pages.get(after)
  if (known !== undefined) return known
  const page = readPage(after)
  pages.set(after, page)
  return page
}

function nextChange({ wake }: Watch, mostMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      wake.delete(done)
      resolve()
    }
    const timer = setTimeout(done, mostMs)
    signal?.addEventListener('abort', done, { once: true })
    wake.add(done)
  })
}
