import type { CallEnded, JournalEvent } from '#kernel/journal/events'

/**
 * Counts calls from journal events: by state, run time, tool and caller, for each minute and tenant. The rollup store passes it the
 * events of each commit, or those that it reads from the journal after a crash; both give the same counts.
 * Invariant: each end of an attempt counts once, at the time of its event. The work per event is a few map entries.
 */

const MINUTE_MS = 60_000

/** What a row counts. `code`, `rejected tool` and `rejected caller` count requests that were rejected before a call was recorded. */
export const ROLLUP_KINDS = [
  'state',
  'time',
  'tool',
  'caller',
  'code',
  'rejected tool',
  'rejected caller',
] as const

export type RollupKind = (typeof ROLLUP_KINDS)[number]

/** How an attempt ended. `withdrawn`: its caller or an operator cancelled it while it waited for approval. */
type EndState = 'succeeded' | 'failed' | 'released' | 'ambiguous' | 'withdrawn'

/** Calls with an equal name in one interval. `errors` is 0 for kinds other than `tool` and `caller`. */
export interface RollupRow {
  readonly kind: RollupKind
  readonly startMs: number
  readonly tenant: string
  readonly name: string
  readonly calls: number
  readonly errors: number
}

type EndedCall = Pick<CallEnded, 'at' | 'tenant' | 'principal' | 'tool' | 'durationMs'>

interface Count {
  calls: number
  errors: number
}

const COUNTED_KINDS = ['state', 'time', 'tool', 'caller'] as const satisfies readonly RollupKind[]

type Counts = Readonly<Record<(typeof COUNTED_KINDS)[number], Map<string | number, Count>>>

/** Counts of events that are not written yet. */
export class CallCounts {
  readonly #minutes = new Map<number, Map<string, Counts>>()

  get isEmpty(): boolean {
    return this.#minutes.size === 0
  }

  /** Counts the events of one commit. */
  add(events: readonly JournalEvent[]): void {
    let withdrawn: string | undefined
    for (const event of events) {
      switch (event.type) {
        case 'approval.cancelled':
          // The end of the call follows in the same commit.
          withdrawn = event.record
          break
        case 'call.succeeded':
          this.#count(event, 'succeeded')
          break
        case 'call.failed':
          this.#count(event, event.record === withdrawn ? 'withdrawn' : 'failed')
          break
        case 'call.released':
          this.#count(event, 'released')
          break
        case 'call.ambiguous':
          this.#count(event, 'ambiguous')
          break
      }
    }
  }

  /** Rows for each minute. */
  *rows(): Iterable<RollupRow> {
    for (const [startMs, tenants] of this.#minutes)
      for (const [tenant, counts] of tenants)
        for (const kind of COUNTED_KINDS)
          for (const [key, count] of counts[kind]) {
            const name = kind === 'tool' ? withoutVersion(String(key)) : String(key)
            yield { kind, startMs, tenant, name, ...count }
          }
  }

  #count({ at, tenant, principal, tool, durationMs }: EndedCall, state: EndState): void {
    const counts = this.#countsOf(at - (at % MINUTE_MS), tenant)
    const isError = state !== 'succeeded' && state !== 'withdrawn'
    increase(counts.state, state, false)
    increase(counts.tool, tool, isError)
    increase(counts.caller, principal, isError)
    // An error without a run time ended before its tool started.
    const isTimed = durationMs !== undefined && (durationMs > 0 || !isError)
    if (isTimed) increase(counts.time, roundedMs(durationMs), false)
  }

  #countsOf(minuteMs: number, tenant: string): Counts {
    let tenants = this.#minutes.get(minuteMs)
    if (tenants === undefined) {
      tenants = new Map()
      this.#minutes.set(minuteMs, tenants)
    }
    let counts = tenants.get(tenant)
    if (counts === undefined) {
      counts = { state: new Map(), time: new Map(), tool: new Map(), caller: new Map() }
      tenants.set(tenant, counts)
    }
    return counts
  }
}

/** Rounds a duration to two digits, which bounds the number of distinct durations. */
export function roundedMs(durationMs: number): number {
  if (durationMs < 99.5) return Math.round(Math.max(0, durationMs))
  return Number(durationMs.toPrecision(2))
}

function increase(counts: Map<string | number, Count>, name: string | number, isError: boolean): void {
  const count = counts.get(name)
  if (count === undefined) counts.set(name, { calls: 1, errors: isError ? 1 : 0 })
  else {
    count.calls += 1
    if (isError) count.errors += 1
  }
}

/** `Toolkit.Name` of `Toolkit.Name@1.0.0`. */
export function withoutVersion(tool: string): string {
  const at = tool.lastIndexOf('@')
  return at === -1 ? tool : tool.slice(0, at)
}
