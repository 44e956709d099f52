import { CALL_STATES, type CallState } from '#core/call'
import { StoreError } from '#core/errors'
import { shownEvent } from '#core/journal/append'
import type {
  CallFilter,
  CallInput,
  CallLook,
  CallPage,
  OperatorStore,
  UsagePage,
  UsageQuery,
} from '#core/ports/operator-store'
import type { CallRecord } from '#core/ports/store'
import {
  all,
  type CommitGroup,
  get,
  type Row,
  type SqlValue,
  type Steps,
  type StoreContext,
} from '#store/engine'
import { openBudgets } from '#store/limits'
import {
  callFromRow,
  integer,
  optionalInteger,
  ownText,
  type SealedText,
  subjectFromRow,
  text,
  unreadableText,
  word,
} from '#store/rows'

/** What operators see of calls. None of it costs a call anything: there is no index that only these need. */
export function sqlOperatorViews({ careful, read, snapshot, sealed }: StoreContext): OperatorStore {
  const noteLook = careful(({ record }: CallLook) => record, noteShown)
  const readInput = snapshot((record: string) => inputOf(sealed, record))
  return {
    list: snapshot((filter: CallFilter) => listCalls(sealed, filter)),
    findByRecord: read((record: string) => findByRecord(sealed, record)),
    findByPrefix: snapshot((prefix: string, limit: number) => findByPrefix(sealed, prefix, limit)),
    usage: snapshot(countCalls),
    openBudgets: read(openBudgets),
    stepsOf: snapshot((record: string, limit: number) => stepsOf(sealed, record, limit)),
    async readInput(look) {
      // Looks before it writes: what is not there begins no writer and leaves no trace.
      const found = await readInput(look.record)
      if (typeof found === 'string') return found
      return (await noteLook(look)) ? found : 'not_found'
    },
  }
}

/** Calls that one page looks at: some milliseconds on either engine. */
const MOST_LOOKED_AT = 10_000
/**
 * A call is numbered when it is first written, which for one that only reads is when it has ended, and by the clock of
 * its process. No two calls that are further apart than this are numbered the other way round.
 */
const DISORDER_MS = 3_600_000

/** The states that few calls are in at a time, each with an index that holds only those. */
const LIVE = {
  ambiguous: 'listAmbiguousCalls',
  parked: 'listParkedCalls',
  running: 'listRunningCalls',
} as const satisfies Partial<Record<CallState, string>>

function* listCalls(sealed: SealedText, filter: CallFilter): Steps<CallPage> {
  const { state, limit } = filter
  const matched = matchedBy(filter)
  const before = filter.before ?? Number.MAX_SAFE_INTEGER
  if (state === 'ambiguous' || state === 'parked' || state === 'running') {
    const rows = yield* all(LIVE[state], before, ...matched, limit)
    return pageOf(rows, yield* showCalls(rows, sealed), limit)
  }
  const reach = yield* reachOf(filter)
  const end = Math.min(before, reach.end)
  const from = Math.max(reach.first, end - MOST_LOOKED_AT)
  const rows = yield* all('listCalls', end, from, state ?? null, state ?? null, ...matched, limit)
  const page = pageOf(rows, yield* showCalls(rows, sealed), limit)
  if (page.next !== undefined) return page.next > reach.first ? page : { calls: page.calls }
  return from > reach.first ? { ...page, next: from } : page
}

function* countCalls({ tenant, sinceMs, untilMs, before }: UsageQuery): Steps<UsagePage> {
  const reach = yield* reachOf({
    ...(sinceMs === undefined ? {} : { sinceMs }),
    ...(untilMs === undefined ? {} : { untilMs }),
  })
  const end = Math.min(before ?? Number.MAX_SAFE_INTEGER, reach.end)
  const from = Math.max(reach.first, end - MOST_LOOKED_AT)
  const times = [sinceMs ?? Number.MIN_SAFE_INTEGER, untilMs ?? Number.MAX_SAFE_INTEGER]
  const found = yield* all('countCalls', end, from, tenant ?? null, tenant ?? null, ...times)
  const rows = found.map((row) => ({
    tenant: text(row, 'tenant'),
    principal: text(row, 'principal'),
    tool: text(row, 'tool'),
    state: word(row, 'state', CALL_STATES),
    tookMs: optionalInteger(row, 'took'),
    calls: integer(row, 'calls'),
  }))
  return from > reach.first ? { rows, next: from } : { rows }
}

/** A full page goes on before its last call. */
function pageOf(rows: readonly Row[], calls: readonly CallRecord[], limit: number): CallPage {
  const last = rows.length < limit ? undefined : rows.at(-1)
  return last === undefined ? { calls } : { calls, next: integer(last, 'no') }
}

/** The values of `MATCHES`. */
function matchedBy({ tenant, principal, tool, sinceMs, untilMs, slow }: CallFilter): SqlValue[] {
  const [of, who, name] = [tenant ?? null, principal ?? null, tool === undefined ? null : spelled(tool)]
  return [
    ...[of, of, who, who],
    ...[name, name, (name?.length ?? 0) + 1, name === null ? null : `${name}@`],
    ...[sinceMs ?? Number.MIN_SAFE_INTEGER, untilMs ?? Number.MAX_SAFE_INTEGER],
    ...[slow?.nowMs ?? 0, slow?.leastMs ?? Number.MIN_SAFE_INTEGER],
  ]
}

/** One spelling for all: `Crm.Find` and `Crm_Find`, with or without what a catalog puts before it. */
function spelled(tool: string): string {
  return tool.slice(tool.lastIndexOf(':') + 1).replaceAll('.', '_')
}

interface Reach {
  readonly first: number
  /** The number after the last. */
  readonly end: number
}

/** Between which numbers all calls of a time are; found by halving, as numbers grow with time but for some disorder. */
function* reachOf({ sinceMs, untilMs }: Pick<CallFilter, 'sinceMs' | 'untilMs'>): Steps<Reach> {
  const numbers = (yield* get('callNumbers')) ?? {}
  const whole = { first: integer(numbers, 'first'), end: integer(numbers, 'last') + 1 }
  const first = sinceMs === undefined ? whole.first : yield* firstAsked(sinceMs - DISORDER_MS, whole)
  const end = untilMs === undefined ? whole.end : yield* firstAsked(untilMs + DISORDER_MS, whole)
  return { first, end }
}

function* firstAsked(atMs: number, { first, end }: Reach): Steps<number> {
  let [low, high] = [first, end]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const row = yield* get('callFrom', middle)
    if (row === undefined || integer(row, 'created_at') >= atMs) high = middle
    else low = integer(row, 'no') + 1
  }
  return low
}

function* findByRecord(sealed: SealedText, record: string): Steps<CallRecord | undefined> {
  const row = yield* get('findCall', record)
  return row === undefined ? undefined : yield* showCall(row, sealed)
}

/** Sorts behind every character that a record has. */
const LAST_CHARACTER = '~'

function* findByPrefix(sealed: SealedText, prefix: string, limit: number): Steps<readonly CallRecord[]> {
  return yield* showCalls(yield* all('callsByPrefix', prefix, prefix + LAST_CHARACTER, limit), sealed)
}

function* stepsOf(sealed: SealedText, record: string, limit: number): Steps<readonly CallRecord[]> {
  return yield* showCalls(yield* all('stepsOfCall', record, limit), sealed)
}

/** `false` when there is no such call any more. */
function* noteShown(group: CommitGroup, { record, by, atMs }: CallLook): Steps<boolean> {
  const row = yield* get('findCall', record)
  if (row === undefined) return false
  group.append(shownEvent(subjectFromRow(row), by, atMs))
  return true
}

function* inputOf(sealed: SealedText, record: string): Steps<CallInput> {
  const row = yield* get('findCall', record)
  if (row === undefined) return 'not_found'
  if (integer(row, 'expired') === 1) return 'gone'
  const slice = {
    group: integer(row, 'claim_group'),
    at: integer(row, 'input_at'),
    length: integer(row, 'input_length'),
  }
  try {
    return { json: ownText(text(row, 'record'), yield* sealed('payload', slice)) }
  } catch (error) {
    if (error instanceof StoreError && error.code === 'unreadable') return 'unreadable'
    throw error
  }
}

/** A record whose contents cannot be read is shown without them, not hidden with all others. */
function* showCall(row: Row, sealed: SealedText): Steps<CallRecord> {
  try {
    return yield* callFromRow(row, sealed)
  } catch (error) {
    if (error instanceof StoreError && error.code === 'unreadable')
      return yield* callFromRow(row, unreadableText(row))
    throw error
  }
}

export function* showCalls(rows: readonly Row[], sealed: SealedText): Steps<readonly CallRecord[]> {
  const calls: CallRecord[] = []
  for (const row of rows) calls.push(yield* showCall(row, sealed))
  return calls
}

const CALLS = 'SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer'

/** Tenant, principal, tool in any version, times, and how long it took. */
const MATCHES = `(CAST(? AS TEXT) IS NULL OR c.tenant = ?) AND (CAST(? AS TEXT) IS NULL OR c.principal = ?)
  AND (CAST(? AS TEXT) IS NULL OR replace(c.tool, '.', '_') = ?
    OR substr(replace(c.tool, '.', '_'), 1, CAST(CAST(? AS BIGINT) AS INTEGER)) = ?)
  AND c.created_at >= ? AND c.created_at < ? AND coalesce(c.finished_at, ?) - c.created_at >= ?`

export const queries = {
  listCalls: `${CALLS} WHERE c.no < ? AND c.no >= ? AND (CAST(? AS TEXT) IS NULL OR c.state = ?) AND ${MATCHES}
    ORDER BY c.no DESC LIMIT ?`,
  listAmbiguousCalls: `${CALLS} WHERE c.state = 'ambiguous' AND c.no < ? AND ${MATCHES} ORDER BY c.no DESC LIMIT ?`,
  /** The sign keeps SQLite from walking all calls in their order: those that wait or run are few, and have an index. */
  listParkedCalls: `${CALLS} WHERE c.state = 'parked' AND +c.no < ? AND ${MATCHES} ORDER BY +c.no DESC LIMIT ?`,
  listRunningCalls: `${CALLS} WHERE c.state = 'running' AND +c.no < ? AND ${MATCHES} ORDER BY +c.no DESC LIMIT ?`,
  countCalls: `SELECT tenant, principal, tool, state, finished_at - created_at AS took, count(*) AS calls FROM calls
    WHERE no < ? AND no >= ? AND (CAST(? AS TEXT) IS NULL OR tenant = ?) AND created_at >= ? AND created_at < ?
    GROUP BY tenant, principal, tool, state, finished_at - created_at`,
  callFrom: 'SELECT no, created_at FROM calls WHERE no >= ? ORDER BY no LIMIT 1',
  callsByPrefix: `${CALLS} WHERE c.record >= ? AND c.record < ? ORDER BY c.record LIMIT ?`,
  stepsOfCall: `${CALLS} WHERE c.parent = ? ORDER BY c.no LIMIT ?`,
} as const
