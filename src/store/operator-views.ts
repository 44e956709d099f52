import { StoreError } from '#kernel/base/errors'
import { CALL_STATES, type CallState } from '#kernel/call/call'
import { spelledTool } from '#kernel/call/call-filter'
import { shownEvent } from '#kernel/journal/append'
import type { JournalGroup } from '#kernel/journal/events'
import type { CallPage, CallRecord } from '#kernel/ports/store'
import { showCall, showCalls } from '#kernel/store/calls/calls'
import {
  type CommitGroup,
  LIST,
  listsOf,
  type Row,
  type SqlValue,
  type Steps,
  type StoreContext,
  statements,
} from '#kernel/store/engine'
import { groupFromRow } from '#kernel/store/journal'
import type { KeyRing } from '#kernel/store/key-ring'
import type { StoreModule } from '#kernel/store/module'
import {
  integer,
  optionalInteger,
  optionalText,
  ownText,
  type SealedText,
  subjectFromRow,
  TIERS,
  text,
  word,
} from '#kernel/store/rows'
import type {
  CallFilter,
  CallGlance,
  CallInput,
  CallLook,
  OperatorStore,
  TallyPage,
  TallyQuery,
  UsagePage,
  UsageQuery,
} from '#store/ports/operator-store'
import { openBudgets } from './limits.ts'

const { get, all } = statements<keyof typeof queries>()

/** What operators see of calls. None of it costs a call anything: there is no index that only these need. */
export function sqlOperatorViews({ careful, read, snapshot, sealed, keys }: StoreContext): OperatorStore {
  const noteLook = careful(({ record }: CallLook) => record, noteShown)
  const readInput = snapshot((record: string) => inputOf(sealed, record))
  return {
    list: snapshot((filter: CallFilter) => listCalls(sealed, filter)),
    findByRecord: read((record: string) => findByRecord(sealed, record)),
    findByPrefix: snapshot((prefix: string, limit: number) => findByPrefix(sealed, prefix, limit)),
    usage: snapshot(countCalls),
    tally: snapshot(tallyCalls),
    glance: snapshot(glanceAt),
    journalOf: snapshot((record: string) => journalOf(keys, record)),
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
const MAX_SCANNED = 10_000
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
  const { states = CALL_STATES, limit } = filter
  const matched = matchedBy(filter)
  const before = filter.before ?? Number.MAX_SAFE_INTEGER
  const [state, ...others] = states
  if (others.length === 0 && (state === 'ambiguous' || state === 'parked' || state === 'running')) {
    const rows = yield* all(LIVE[state], before, ...matched, limit)
    return pageOf(rows, yield* showCalls(rows, sealed), limit)
  }
  const reach = yield* reachOf(filter)
  const end = Math.min(before, reach.end)
  const from = Math.max(reach.first, end - MAX_SCANNED)
  const rows = yield* all('listCalls', end, from, ...listedStates(states), ...matched, limit)
  const page = pageOf(rows, yield* showCalls(rows, sealed), limit)
  if (page.next !== undefined) return page.next > reach.first ? page : { calls: page.calls }
  return from > reach.first ? { ...page, next: from } : page
}

function* tallyCalls(query: TallyQuery): Steps<TallyPage> {
  const { states = CALL_STATES, sinceMs, bucketMs, originMs = sinceMs, before } = query
  const reach = yield* reachOf(query)
  const end = Math.min(before ?? Number.MAX_SAFE_INTEGER, reach.end)
  const from = Math.max(reach.first, end - MAX_SCANNED)
  const values = [originMs, bucketMs, end, from, ...listedStates(states), ...matchedBy(query)]
  const rows = (yield* all('tallyCalls', ...values)).map((row) => ({
    state: word(row, 'state', CALL_STATES),
    bucket: integer(row, 'bucket'),
    calls: integer(row, 'calls'),
  }))
  return from > reach.first ? { rows, next: from } : { rows }
}

function* glanceAt(records: readonly string[]): Steps<readonly CallGlance[]> {
  const found: CallGlance[] = []
  for (const list of listsOf(records)) {
    for (const row of yield* all('glanceAtCalls', ...list))
      found.push({
        ...subjectFromRow(row),
        tier: word(row, 'tier', TIERS),
        state: word(row, 'state', CALL_STATES),
        createdAtMs: integer(row, 'created_at'),
        finishedAtMs: optionalInteger(row, 'finished_at'),
        ranMs: optionalInteger(row, 'ran_ms'),
        parent: optionalText(row, 'parent'),
      })
  }
  return found
}

/** A run may hold the events of very many calls. */
const MAX_GROUPS = 500

/** The journal has no index by call, so what names commits is followed: the call's row, and the events of its run. */
function* journalOf(keys: KeyRing, record: string): Steps<readonly JournalGroup[]> {
  const row = yield* get('findCall', record)
  if (row === undefined) return []
  const named = ['claim_group', 'outcome_group', 'late_group'].map((column) => optionalInteger(row, column))
  const run = optionalText(row, 'run')
  const inRun = run === undefined ? [] : yield* all('groupsOfRun', run, MAX_GROUPS)
  const ids = new Set([...named, ...inRun.map((event) => integer(event, 'caller_group'))])
  const groups: JournalGroup[] = []
  for (const list of listsOf([...ids].filter((id) => id !== undefined))) {
    for (const found of yield* all('groupsById', ...list)) {
      const group = groupFromRow(found, text(found, 'writer_id'), keys)
      const events = group.events.filter((event) => 'record' in event && event.record === record)
      if (events.length > 0) groups.push({ ...group, events })
    }
  }
  return groups.toSorted((one, other) => one.atMs - other.atMs || one.group - other.group)
}

function* countCalls(query: UsageQuery): Steps<UsagePage> {
  const { sinceMs = 0, bucketMs = Number.MAX_SAFE_INTEGER, before } = query
  const reach = yield* reachOf(query)
  const end = Math.min(before ?? Number.MAX_SAFE_INTEGER, reach.end)
  const from = Math.max(reach.first, end - MAX_SCANNED)
  const found = yield* all('countCalls', sinceMs, bucketMs, end, from, ...matchedBy(query))
  const rows = found.map((row) => ({
    tenant: text(row, 'tenant'),
    principal: text(row, 'principal'),
    tool: text(row, 'tool'),
    state: word(row, 'state', CALL_STATES),
    tookMs: optionalInteger(row, 'took'),
    isWithdrawn: integer(row, 'withdrawn') === 1,
    bucket: integer(row, 'bucket'),
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
function matchedBy(filter: Omit<CallFilter, 'limit'>): SqlValue[] {
  const { tenant, principal, tool, sinceMs, untilMs, took } = filter
  const [of, who, pattern] = [
    tenant ?? null,
    principal ?? null,
    tool === undefined ? null : toolPattern(tool),
  ]
  const nowMs = took?.nowMs ?? 0
  // Stands for a run time that is not known: below any that is asked for, and in reach where none is asked for.
  const unknown = took === undefined ? 0 : -1
  return [
    ...[of, of, who, who],
    ...[pattern, pattern, pattern === null ? null : `${pattern}@%`],
    ...[sinceMs ?? Number.MIN_SAFE_INTEGER, untilMs ?? Number.MAX_SAFE_INTEGER],
    ...[nowMs, unknown, took === undefined ? Number.MIN_SAFE_INTEGER : (took.leastMs ?? 0)],
    ...[nowMs, unknown, took?.belowMs ?? Number.MAX_SAFE_INTEGER],
  ]
}

/** What names of tools are compared with by `LIKE`, for which `%` and `_` are no letters. */
export function toolPattern(tool: string): string {
  return spelledTool(tool)
    .replaceAll(/[!%_]/g, (letter) => `!${letter}`)
    .replaceAll('*', '%')
}

/** As many as a statement asks for. */
function listedStates(states: readonly CallState[]): (CallState | null)[] {
  return CALL_STATES.map((_, nth) => states[nth] ?? null)
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

const CALLS = 'SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer'

const STATES = `c.state IN (${CALL_STATES.map(() => '?').join(', ')})`
const TOOL = "lower(replace(c.tool, '.', '_'))"

/** Which part of the time from a moment on a call was asked for in. */
const BUCKET = '(c.created_at - CAST(? AS BIGINT)) / CAST(? AS BIGINT) AS bucket'

/** How long a call has been running, or ran. */
const RAN =
  "coalesce(CASE WHEN c.state = 'running' THEN CAST(? AS BIGINT) - c.created_at ELSE c.ran_ms END, ?)"

/** Tenant, principal, tool in any version, times, and how long it ran. */
const MATCHES = `(CAST(? AS TEXT) IS NULL OR c.tenant = ?) AND (CAST(? AS TEXT) IS NULL OR c.principal = ?)
  AND (CAST(? AS TEXT) IS NULL OR ${TOOL} LIKE ? ESCAPE '!' OR ${TOOL} LIKE ? ESCAPE '!')
  AND c.created_at >= ? AND c.created_at < ?
  AND ${RAN} >= ? AND ${RAN} < ?`

const queries = {
  listCalls: `${CALLS} WHERE c.no < ? AND c.no >= ? AND ${STATES} AND ${MATCHES}
    ORDER BY c.no DESC LIMIT ?`,
  listAmbiguousCalls: `${CALLS} WHERE c.state = 'ambiguous' AND c.no < ? AND ${MATCHES} ORDER BY c.no DESC LIMIT ?`,
  /** The sign keeps SQLite from walking all calls in their order: those that wait or run are few, and have an index. */
  listParkedCalls: `${CALLS} WHERE c.state = 'parked' AND +c.no < ? AND ${MATCHES} ORDER BY +c.no DESC LIMIT ?`,
  listRunningCalls: `${CALLS} WHERE c.state = 'running' AND +c.no < ? AND ${MATCHES} ORDER BY +c.no DESC LIMIT ?`,
  tallyCalls: `SELECT c.state, ${BUCKET}, count(*) AS calls FROM calls c
    WHERE c.no < ? AND c.no >= ? AND ${STATES} AND ${MATCHES} GROUP BY 1, 2`,
  glanceAtCalls: `SELECT record, tenant, principal, tool, tier, state, attempt, created_at, finished_at, ran_ms, parent FROM calls
    WHERE record IN (${LIST})`,
  groupsById: `SELECT g.n, g.at, g.events, g.link, w.id AS writer_id FROM commit_groups g JOIN writers w ON w.no = g.writer
    WHERE g.id IN (${LIST})`,
  groupsOfRun: `SELECT DISTINCT e.caller_group FROM run_events e JOIN runs r ON r.no = e.run
    WHERE r.key = ? AND e.caller_group IS NOT NULL LIMIT ?`,
  countCalls: `SELECT c.tenant, c.principal, c.tool, c.state, c.ran_ms AS took,
      CASE WHEN a.state = 'cancelled' THEN 1 ELSE 0 END AS withdrawn, ${BUCKET}, count(*) AS calls
    FROM calls c LEFT JOIN approvals a ON a.record = c.record AND a.attempt = c.attempt
    WHERE c.no < ? AND c.no >= ? AND ${MATCHES} GROUP BY 1, 2, 3, 4, 5, 6, 7`,
  callFrom: 'SELECT no, created_at FROM calls WHERE no >= ? ORDER BY no LIMIT 1',
  callsByPrefix: `${CALLS} WHERE c.record >= ? AND c.record < ? ORDER BY c.record LIMIT ?`,
  stepsOfCall: `${CALLS} WHERE c.parent = ? ORDER BY c.no LIMIT ?`,
} as const

export const operatorModule: StoreModule = { name: 'operator views', queries }
