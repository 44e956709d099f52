import { createStore, type Store } from '../../store.ts'
import type { CallChanges, CallPage, CallRow } from './api.ts'

/*
 * The list of calls in memory: changed calls stay in their row, new ones are added on top. Used by `use-call-list.ts`. No row moves
 * while the list is held.
 */

/** The state of the list for the page. */
export interface CallListView {
  /** Newest first, steps below their call. */
  readonly rows: readonly CallRow[]
  /** How many new calls are not shown because the list is held. */
  readonly waiting: number
  /** Cursor of the next older page; `null` at the end. */
  readonly older: Older | null
  /** Why the last request for older calls failed. */
  readonly olderError: unknown
  /** How many new calls the stream has reported in total. */
  readonly begun: number
}

/** The server's cursor, or a time if rows were dropped from the end. */
type Older = { readonly before: number } | { readonly until: string }

/** Requests the page at a cursor. */
type RequestOlder = (from: Older, signal: AbortSignal) => Promise<CallPage>

/** Longer lists are slow to scroll. */
const MAX_ROWS = 2_000

const NOTHING: CallListView = { rows: [], waiting: 0, older: null, olderError: null, begun: 0 }

/**
 * The list of calls. Changed calls stay in their row, and new calls are added on top. While the list is held, new calls wait, so
 * that no row moves under the pointer.
 */
export class CallList {
  readonly view: Store<CallListView> = createStore(NOTHING)
  #rows = new Map<string, CallRow>()
  #waiting = new Map<string, CallRow>()
  /** Records of calls that the stream reported after the list was last requested. */
  #changed = new Set<string>()
  #older: Older | null = null
  #olderError: unknown = null
  /** The pending request for an older page. */
  #pendingOlder: AbortController | undefined
  #begun = 0
  #isHeld = false

  /** Must be called when a list is requested. The list will contain all earlier events of the stream. */
  expectFill(): void {
    this.#changed.clear()
  }

  /**
   * Takes the first page of a list, and keeps the calls that the stream reported after the request. Times cannot identify those
   * calls: two calls may begin within one millisecond, and the earlier one may be recorded later.
   */
  fill({ calls, next }: CallPage): void {
    const known = [...this.#rows.values(), ...this.#waiting.values()]
    this.#rows = new Map(calls.map((call) => [call.record, call]))
    this.#waiting.clear()
    this.#endAt(next === null ? null : { before: next })
    for (const call of known) {
      if (this.#rows.has(call.record)) this.#put(this.#rows, call)
      else if (this.#changed.has(call.record)) this.#waiting.set(call.record, call)
    }
    if (!this.#isHeld) this.#release()
    this.#publish()
  }

  /** Requests the next older page, one at a time. A page that arrives after the list was replaced is dropped. */
  async loadOlder(requestOlder: RequestOlder): Promise<void> {
    const older = this.#older
    if (older === null || this.#pendingOlder !== undefined) return
    const pending = new AbortController()
    this.#pendingOlder = pending
    this.#olderError = null
    this.#publish()
    const answer = await requestOlder(older, pending.signal).catch((error: unknown) => ({ error }))
    if (pending.signal.aborted) return
    this.#pendingOlder = undefined
    if ('error' in answer) this.#olderError = answer.error
    else {
      for (const call of answer.calls) if (!this.#rows.has(call.record)) this.#rows.set(call.record, call)
      this.#endAt(answer.next === null ? null : { before: answer.next })
    }
    this.#publish()
  }

  /** Applies events of the stream, in order. */
  take(...batch: readonly CallChanges[]): void {
    for (const changes of batch) this.#change(changes)
    if (!this.#isHeld) this.#release()
    this.#publish()
  }

  #change({ calls, left }: CallChanges): void {
    for (const record of left) {
      this.#rows.delete(record)
      this.#waiting.delete(record)
      this.#changed.delete(record)
    }
    for (const call of calls) {
      this.#remember(call.record)
      if (this.#rows.has(call.record)) this.#put(this.#rows, call)
      else if (this.#waiting.has(call.record)) this.#put(this.#waiting, call)
      else {
        this.#waiting.set(call.record, call)
        this.#begun += 1
      }
    }
  }

  /** Holds the rows in place while one is under the pointer, has the focus or is scrolled to. */
  hold(isHeld: boolean): void {
    this.#isHeld = isHeld
    if (isHeld || this.#waiting.size === 0) return
    this.#release()
    this.#publish()
  }

  /** Adds details to known rows. A row that has changed in the meantime gets them with the next request. */
  addDetails(calls: readonly CallRow[]): void {
    for (const call of calls)
      for (const rows of [this.#rows, this.#waiting]) {
        const known = rows.get(call.record)
        if (known !== undefined && known.state === call.state && known.attempt === call.attempt)
          rows.set(call.record, {
            ...known,
            ...call,
            input_summary: call.input_summary ?? known.input_summary,
          })
      }
    this.#publish()
  }

  clear(): void {
    this.#rows.clear()
    this.#waiting.clear()
    this.#changed.clear()
    this.#endAt(null)
    this.#publish()
  }

  /** Remembers a reported record. Only the newest `MAX_ROWS` records are kept. */
  #remember(record: string): void {
    this.#changed.add(record)
    const [oldest] = this.#changed
    if (this.#changed.size > MAX_ROWS && oldest !== undefined) this.#changed.delete(oldest)
  }

  /** Sets a new end of the list. A pending page was requested for the old end, so it is dropped. */
  #endAt(older: Older | null): void {
    this.#pendingOlder?.abort()
    this.#pendingOlder = undefined
    this.#older = older
    this.#olderError = null
  }

  /** Puts waiting calls on top, and drops rows over the limit at the end. */
  #release(): void {
    if (this.#waiting.size === 0) return
    const arrived = [...this.#waiting.values()].toSorted(newestFirst)
    const all = [...arrived, ...this.#rows.values()]
    const kept = all.slice(0, MAX_ROWS)
    const last = kept.at(-1)
    // Other calls may have begun in the same millisecond. `loadOlder` skips calls that are already listed.
    if (kept.length < all.length && last !== undefined)
      this.#endAt({ until: new Date(Date.parse(last.created_at) + 1).toISOString() })
    this.#rows = new Map(kept.map((call) => [call.record, call]))
    this.#waiting.clear()
  }

  /** Updates a call, unless the known state is newer: a call that has ended does not run again in the same attempt. */
  #put(rows: Map<string, CallRow>, call: CallRow): void {
    const known = rows.get(call.record)
    const isOlder =
      known !== undefined &&
      (known.attempt > call.attempt ||
        (known.attempt === call.attempt && known.finished_at !== null && call.finished_at === null))
    if (!isOlder)
      rows.set(call.record, {
        ...known,
        ...call,
        error_code: call.error_code ?? sameCode(known, call),
        error_message: call.error_message ?? (known?.state === call.state ? known.error_message : undefined),
      })
  }

  #publish(): void {
    this.view.set({
      rows: withSteps([...this.#rows.values()].toSorted(newestFirst)),
      waiting: this.#waiting.size,
      older: this.#older,
      olderError: this.#olderError,
      begun: this.#begun,
    })
  }
}

function sameCode(known: CallRow | undefined, call: CallRow): string | null {
  return known?.state === call.state ? known.error_code : null
}

function newestFirst(one: CallRow, other: CallRow): number {
  return one.created_at < other.created_at ? 1 : one.created_at > other.created_at ? -1 : 0
}

/** Puts steps below their workflow if it is listed. */
function withSteps(rows: readonly CallRow[]): readonly CallRow[] {
  if (!rows.some(({ parent }) => parent !== null)) return rows
  const listed = new Set(rows.map(({ record }) => record))
  const steps = Map.groupBy(
    rows.filter(({ parent }) => parent !== null && listed.has(parent)),
    ({ parent }) => parent,
  )
  // Steps of a workflow are ordered from first to last.
  const stepsOf = (row: CallRow): readonly CallRow[] => (steps.get(row.record) ?? []).toReversed()
  const withItsSteps = (row: CallRow): readonly CallRow[] => [row, ...stepsOf(row).flatMap(withItsSteps)]
  return rows.filter(({ parent }) => parent === null || !listed.has(parent)).flatMap(withItsSteps)
}
