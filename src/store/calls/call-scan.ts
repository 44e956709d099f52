import { CALL_STATES, type CallState } from '#kernel/call/call'
import type { CallPage, CallRecord } from '#kernel/call/call-record'
import { type Row, type SqlValue, type Steps, statements } from '#kernel/store/engine'
import { integer } from '#kernel/store/rows'
import { type CallFilter, toolCondition, toolValues } from '#store/call-filter'

/**
 * How operators' queries walk over all calls: a page scans a limited range of call numbers, newest first. `operator-views.ts`
 * and `call-search.ts` use it. No index exists for these queries alone, so they do not slow down calls.
 */

const { get } = statements<'callNumbers' | keyof typeof scanQueries>()

export interface CountPage<Counted> {
  readonly rows: readonly Counted[]
  /** Position to continue from, towards older calls; absent at the end. */
  readonly next?: number
}

/** Number of calls that one page scans, which takes some milliseconds on either engine. */
const MAX_SCANNED = 10_000
/**
 * A call gets its number when it is first written; a call that only reads is first written when it ends. Calls whose times of
 * creation differ by more than this are numbered in the order of these times.
 */
const DISORDER_MS = 3_600_000

/** The page after a full page continues before its last call. */
export function pageOf(rows: readonly Row[], calls: readonly CallRecord[], limit: number): CallPage {
  const last = rows.length < limit ? undefined : rows.at(-1)
  return last === undefined ? { calls } : { calls, next: integer(last, 'no') }
}

/** Parameters for `MATCHES`. */
export function matchedBy(filter: Omit<CallFilter, 'limit'>): SqlValue[] {
  const { tenant, principal, tool, sinceMs, untilMs, took } = filter
  const nowMs = took?.nowMs ?? 0
  // An unknown run time never matches a filter by run time, and always matches without one.
  const unknown = took === undefined ? 0 : -1
  return [
    ...[tenant, principal].flatMap((value) => [value ?? null, value ?? null]),
    ...toolValues(tool),
    ...[sinceMs ?? Number.MIN_SAFE_INTEGER, untilMs ?? Number.MAX_SAFE_INTEGER],
    ...[nowMs, unknown, took === undefined ? Number.MIN_SAFE_INTEGER : (took.minMs ?? 0)],
    ...[nowMs, unknown, took?.belowMs ?? Number.MAX_SAFE_INTEGER],
  ]
}

/** The states as parameters for `STATES`, padded with null. */
export function listedStates(states: readonly CallState[]): (CallState | null)[] {
  return CALL_STATES.map((_, nth) => states[nth] ?? null)
}

interface Scan {
  /** The lowest number that a call in the time range can have. */
  readonly first: number
  /** This page scans the numbers from `from` to before `end`. */
  readonly from: number
  readonly end: number
  /** Where the next page continues. */
  readonly rest: Pick<CountPage<unknown>, 'next'>
}

/** The numbers to scan for calls in a time range, found by binary search: numbers grow with time, except within `DISORDER_MS`. */
export function* scanOf(filter: Pick<CallFilter, 'sinceMs' | 'untilMs' | 'before'>): Steps<Scan> {
  const { sinceMs, untilMs, before = Number.MAX_SAFE_INTEGER } = filter
  const numbers = (yield* get('callNumbers')) ?? {}
  const range = [integer(numbers, 'first'), integer(numbers, 'last') + 1] as const
  const first = sinceMs === undefined ? range[0] : yield* firstCreated(sinceMs - DISORDER_MS, range)
  const last = untilMs === undefined ? range[1] : yield* firstCreated(untilMs + DISORDER_MS, range)
  const end = Math.min(before, last)
  const from = Math.max(first, end - MAX_SCANNED)
  return { first, from, end, rest: from > first ? { next: from } : {} }
}

/** The number of the first call created at this time or later. */
function* firstCreated(atMs: number, range: readonly [number, number]): Steps<number> {
  let [low, high] = range
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const row = yield* get('callFrom', middle)
    if (row === undefined || integer(row, 'created_at') >= atMs) high = middle
    else low = integer(row, 'no') + 1
  }
  return low
}

export const CALLS = 'SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer'

export const STATES = `c.state IN (${CALL_STATES.map(() => '?').join(', ')})`

/** How long a call ran, or has been running. */
const RAN =
  "coalesce(CASE WHEN c.state = 'running' THEN CAST(? AS BIGINT) - c.created_at ELSE c.ran_ms END, ?)"

/** Matches tenant, principal, tool in any version, time of creation, and run time. */
export const MATCHES = `(CAST(? AS TEXT) IS NULL OR c.tenant = ?) AND (CAST(? AS TEXT) IS NULL OR c.principal = ?)
  AND ${toolCondition('c.tool')} AND c.created_at >= ? AND c.created_at < ? AND ${RAN} >= ? AND ${RAN} < ?`

export const scanQueries = {
  callFrom: 'SELECT no, created_at FROM calls WHERE no >= ? ORDER BY no LIMIT 1',
} as const
