import { createStore, type Store } from '../../store.ts'
import type { CallChanges, CallPage, CallRow } from './api.ts'

/** What the list shows. */
export interface JournalView {
  /** In the order of the list: newest first, steps below the call they belong to. */
  readonly rows: readonly CallRow[]
  /** How many came while the list is held; they are shown when it is let go. */
  readonly waiting: number
  /** Where older ones are; `null` when there are none. */
  readonly older: Older | null
  /** Why the older ones could not be read, when somebody last asked for them. */
  readonly olderError: unknown
  /** How many calls began, all in all. */
  readonly begun: number
}

/** By the server's own place, or by time after rows were let go. */
type Older = { readonly before: number } | { readonly until: string }

/** Gives the page that begins there. */
type AskOlder = (from: Older, signal: AbortSignal) => Promise<CallPage>

/** A list of more rows is slow to walk through, and nobody reads it. */
const MAX_ROWS = 2_000

const NOTHING: JournalView = { rows: [], waiting: 0, older: null, olderError: null, begun: 0 }

/**
 * The rows of the journal. What changes is drawn where it stands; what is new comes on top, unless the list is held: then it waits,
 * so that no row moves under the pointer.
 */
export class Journal {
  readonly view: Store<JournalView> = createStore(NOTHING)
  #rows = new Map<string, CallRow>()
  #waiting = new Map<string, CallRow>()
  /** Calls that the stream told of since the list was last asked for. */
  #told = new Set<string>()
  #older: Older | null = null
  #olderError: unknown = null
  /** The older page that is on its way. */
  #asking: AbortController | undefined
  #begun = 0
  #isHeld = false

  /** The list is asked for: it has all that the stream told before this moment. */
  expectFill(): void {
    this.#told.clear()
  }

  /**
   * The first page of a list, from the server. What the stream told since it was asked for stays, whether it is there or not. Times do
   * not tell: two calls may begin within one millisecond, and one that began earlier may be written down later.
   */
  fill({ calls, next }: CallPage): void {
    const known = [...this.#rows.values(), ...this.#waiting.values()]
    this.#rows = new Map(calls.map((call) => [call.record, call]))
    this.#waiting.clear()
    this.#endAt(next === null ? null : { before: next })
    for (const call of known) {
      if (this.#rows.has(call.record)) this.#put(this.#rows, call)
      else if (this.#told.has(call.record)) this.#waiting.set(call.record, call)
    }
    if (!this.#isHeld) this.#release()
    this.#tell()
  }

  /** Asks for the next older page, for one at a time. One that comes after the list has become another is of no use, and is let go. */
  async loadOlder(ask: AskOlder): Promise<void> {
    const older = this.#older
    if (older === null || this.#asking !== undefined) return
    const asking = new AbortController()
    this.#asking = asking
    this.#olderError = null
    this.#tell()
    const answer = await ask(older, asking.signal).catch((error: unknown) => ({ error }))
    if (asking.signal.aborted) return
    this.#asking = undefined
    if ('error' in answer) this.#olderError = answer.error
    else {
      for (const call of answer.calls) if (!this.#rows.has(call.record)) this.#rows.set(call.record, call)
      this.#endAt(answer.next === null ? null : { before: answer.next })
    }
    this.#tell()
  }

  /** What the stream told, in its order. */
  take(...told: readonly CallChanges[]): void {
    for (const changes of told) this.#change(changes)
    if (!this.#isHeld) this.#release()
    this.#tell()
  }

  #change({ calls, left }: CallChanges): void {
    for (const record of left) {
      this.#rows.delete(record)
      this.#waiting.delete(record)
      this.#told.delete(record)
    }
    for (const call of calls) {
      this.#note(call.record)
      if (this.#rows.has(call.record)) this.#put(this.#rows, call)
      else if (this.#waiting.has(call.record)) this.#put(this.#waiting, call)
      else {
        this.#waiting.set(call.record, call)
        this.#begun += 1
      }
    }
  }

  /** While a row is under the pointer, has the focus or is scrolled to, rows stay where they are. */
  hold(isHeld: boolean): void {
    this.#isHeld = isHeld
    if (isHeld || this.#waiting.size === 0) return
    this.#release()
    this.#tell()
  }

  clear(): void {
    this.#rows.clear()
    this.#waiting.clear()
    this.#told.clear()
    this.#endAt(null)
    this.#tell()
  }

  /** The latest of them are enough: no more rows than that are kept. */
  #note(record: string): void {
    this.#told.add(record)
    const [oldest] = this.#told
    if (this.#told.size > MAX_ROWS && oldest !== undefined) this.#told.delete(oldest)
  }

  /** The list ends elsewhere: what was asked for at its old end does not go on from the new one. */
  #endAt(older: Older | null): void {
    this.#asking?.abort()
    this.#asking = undefined
    this.#older = older
    this.#olderError = null
  }

  /** Puts what waits on top, and lets go of what is too much at the end. */
  #release(): void {
    if (this.#waiting.size === 0) return
    const came = [...this.#waiting.values()].toSorted(newestFirst)
    const all = [...came, ...this.#rows.values()]
    const kept = all.slice(0, MAX_ROWS)
    const last = kept.at(-1)
    // The same millisecond may have more: those that are here already are not taken twice.
    if (kept.length < all.length && last !== undefined)
      this.#endAt({ until: new Date(Date.parse(last.created_at) + 1).toISOString() })
    this.#rows = new Map(kept.map((call) => [call.record, call]))
    this.#waiting.clear()
  }

  /** An answer to an older question does not undo what came since: what has ended does not run again in the same attempt. */
  #put(rows: Map<string, CallRow>, call: CallRow): void {
    const known = rows.get(call.record)
    const isOlder =
      known !== undefined &&
      (known.attempt > call.attempt ||
        (known.attempt === call.attempt && known.finished_at !== null && call.finished_at === null))
    if (!isOlder)
      rows.set(call.record, { ...known, ...call, error_code: call.error_code ?? sameCode(known, call) })
  }

  #tell(): void {
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

/** Steps stand below the call they belong to, if that is here. */
function withSteps(rows: readonly CallRow[]): readonly CallRow[] {
  if (!rows.some(({ parent }) => parent !== null)) return rows
  const here = new Set(rows.map(({ record }) => record))
  const steps = Map.groupBy(
    rows.filter(({ parent }) => parent !== null && here.has(parent)),
    ({ parent }) => parent,
  )
  // The steps of a workflow read from its first to its last.
  const stepsOf = (row: CallRow): readonly CallRow[] => (steps.get(row.record) ?? []).toReversed()
  const place = (row: CallRow): readonly CallRow[] => [row, ...stepsOf(row).flatMap(place)]
  return rows.filter(({ parent }) => parent === null || !here.has(parent)).flatMap(place)
}
