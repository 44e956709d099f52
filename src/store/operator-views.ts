import { StoreError } from '#kernel/base/errors'
import { CALL_STATES, type CallState } from '#kernel/call/call'
import type { CallPage, CallRecord } from '#kernel/call/call-record'
import { attemptEvent } from '#kernel/journal/append'
import type { JournalGroup } from '#kernel/journal/events'
import { showCall, showCalls } from '#kernel/store/calls/calls'
import {
  type CommitGroup,
  LIST,
  listsOf,
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
  sliceOf,
  subjectFromRow,
  TIERS,
  text,
  word,
} from '#kernel/store/rows'
import {
  CALLS,
  type CountPage,
  listedStates,
  MATCHES,
  matchedBy,
  pageOf,
  STATES,
  scanOf,
  scanQueries,
} from '#store/calls/call-scan'
import { searchCalls, tallyFound } from '#store/calls/call-search'
import type { CallFilter, CallSummary, TallyQuery } from './call-filter.ts'
import { listOpenBudgets } from './limits.ts'
import { type Attribution, mapped, texts } from './steps.ts'

/**
 * Operators' queries over all calls: lists, counts, usage, the journal of a call. The admin routes and `collet calls` use them.
 */

const { get, all } = statements<keyof typeof queries>()

export type TallyPage = CountPage<Pick<UsageRow, 'state' | 'bucket' | 'calls'>>

export interface UsageQuery extends Pick<CallFilter, 'tenant' | 'tool' | 'sinceMs' | 'untilMs' | 'before'> {
  /** Counts each interval of this length separately, from `sinceMs` on. */
  readonly bucketMs?: number
}

/** The number of calls that are equal in all other members. */
export interface UsageRow extends Pick<CallRecord, 'tenant' | 'principal' | 'tool' | 'state'> {
  /** Run time; `undefined` for calls that have not ended, did not run or were settled by an operator. */
  readonly tookMs: number | undefined
  /** Whether the call was cancelled while it waited for approval. */
  readonly isWithdrawn: boolean
  /** Index of the interval, from 0; always 0 without intervals. */
  readonly bucket: number
  readonly calls: number
}

/** An operator's access to the input of a call. */
export interface InputAccess extends Attribution {
  readonly record: string
}

/** `gone`: retention removed the input. */
export type CallInput = { readonly json: string } | 'gone' | 'unreadable' | 'not_found'

export function openOperatorViews({ exclusive, read, snapshot, sealed, keys }: StoreContext) {
  const recordAccess = exclusive(({ record }: InputAccess) => record, journalAccess)
  const readInput = snapshot((record: string) => inputOf(sealed, record))
  return {
    /** Newest first. A page scans a limited number of calls, so that a filter with few matches does not delay other requests. */
    list: snapshot((filter: CallFilter) => pageOfCalls(sealed, filter)),
    findByRecord: read((record: string) => findByRecord(sealed, record)),
    findByPrefix: snapshot((prefix: string, limit: number) => findByPrefix(sealed, prefix, limit)),
    /** Scans a limited number of calls, like `list`. */
    usage: snapshot(countCalls),
    /** Scans a limited number of calls, like `list`. */
    tally: snapshot((query: TallyQuery) => tallyOf(sealed, query)),
    /** Returns the given calls that exist, in no particular order. */
    summaries: snapshot(findSummaries),
    /** Commits that the call's record and its run refer to, oldest first, each with its events about the call. */
    journalOf: snapshot((record: string) => journalOf(keys, record)),
    /** Leased amounts of every budget whose window is open, for one tenant or all tenants. */
    openBudgets: read(listOpenBudgets),
    /** The number of calls whose outcome is unknown, of one tenant or all tenants. */
    countAmbiguous: read((tenant: string | undefined) =>
      mapped(get('countAmbiguous', tenant ?? null, tenant ?? null), (row) => integer(row ?? {}, 'calls')),
    ),
    /** Calls made by a workflow's call, in order. */
    stepsOf: snapshot((record: string, limit: number) => stepsOf(sealed, record, limit)),
    /** The access is journaled before the input is returned. */
    async readInput(access: InputAccess): Promise<CallInput> {
      // Reads before it writes, so that a request for a missing call does not start a writer.
      const found = await readInput(access.record)
      if (typeof found === 'string') return found
      return (await recordAccess(access)) ? found : 'not_found'
    },
  }
}

export type OperatorStore = ReturnType<typeof openOperatorViews>

/** States that few calls are in at a time. Each has an index of only those calls. */
const LIST_BY_STATE = {
  ambiguous: 'listAmbiguousCalls',
  parked: 'listParkedCalls',
  running: 'listRunningCalls',
} as const satisfies Partial<Record<CallState, string>>

function* pageOfCalls(sealed: SealedText, filter: CallFilter): Steps<CallPage> {
  const { search } = filter
  return search === undefined ? yield* listCalls(sealed, filter) : yield* searchCalls(sealed, filter, search)
}

function* listCalls(sealed: SealedText, filter: CallFilter): Steps<CallPage> {
  const { states = CALL_STATES, limit } = filter
  const matched = matchedBy(filter)
  const before = filter.before ?? Number.MAX_SAFE_INTEGER
  const [state, ...others] = states
  if (others.length === 0 && (state === 'ambiguous' || state === 'parked' || state === 'running')) {
    const rows = yield* all(LIST_BY_STATE[state], before, ...matched, limit)
    return pageOf(rows, yield* showCalls(rows, sealed), limit)
  }
  const { first, from, end, rest } = yield* scanOf(filter)
  const rows = yield* all('listCalls', end, from, ...listedStates(states), ...matched, limit)
  const page = pageOf(rows, yield* showCalls(rows, sealed), limit)
  if (page.next === undefined) return { ...page, ...rest }
  return page.next > first ? page : { calls: page.calls }
}

function* tallyOf(sealed: SealedText, query: TallyQuery): Steps<TallyPage> {
  const { search } = query
  return search === undefined ? yield* tallyCalls(query) : yield* tallyFound(sealed, query, search)
}

function* tallyCalls(query: TallyQuery): Steps<TallyPage> {
  const { states = CALL_STATES, sinceMs, bucketMs, originMs = sinceMs } = query
  const { from, end, rest } = yield* scanOf(query)
  const values = [originMs, bucketMs, end, from, ...listedStates(states), ...matchedBy(query)]
  const rows = (yield* all('tallyCalls', ...values)).map((row) => ({
    state: word(row, 'state', CALL_STATES),
    bucket: integer(row, 'bucket'),
    calls: integer(row, 'calls'),
  }))
  return { rows, ...rest }
}

function* findSummaries(records: readonly string[]): Steps<readonly CallSummary[]> {
  const found: CallSummary[] = []
  for (const list of listsOf(records)) {
    for (const row of yield* all('callSummaries', ...list))
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

/** Limits the groups that are read, because a run may contain the events of very many calls. */
const MAX_GROUPS = 500

/** The journal has no index by call, but the call's row and the events of its run refer to the commits. */
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

function* countCalls(query: UsageQuery): Steps<CountPage<UsageRow>> {
  const { sinceMs = 0, bucketMs = Number.MAX_SAFE_INTEGER } = query
  const { from, end, rest } = yield* scanOf(query)
  const found = yield* all('countCalls', sinceMs, bucketMs, end, from, ...matchedBy(query))
  const rows = found.map((row) => ({
    ...texts(row, 'tenant', 'principal', 'tool'),
    state: word(row, 'state', CALL_STATES),
    tookMs: optionalInteger(row, 'took'),
    isWithdrawn: integer(row, 'withdrawn') === 1,
    bucket: integer(row, 'bucket'),
    calls: integer(row, 'calls'),
  }))
  return { rows, ...rest }
}

function* findByRecord(sealed: SealedText, record: string): Steps<CallRecord | undefined> {
  const row = yield* get('findCall', record)
  return row === undefined ? undefined : yield* showCall(row, sealed)
}

/** Sorts after every character that a record's id can contain. */
const LAST_CHARACTER = '~'

function* findByPrefix(sealed: SealedText, prefix: string, limit: number): Steps<readonly CallRecord[]> {
  return yield* showCalls(yield* all('callsByPrefix', prefix, prefix + LAST_CHARACTER, limit), sealed)
}

function* stepsOf(sealed: SealedText, record: string, limit: number): Steps<readonly CallRecord[]> {
  return yield* showCalls(yield* all('stepsOfCall', record, limit), sealed)
}

/** Journals the access; `false` if the call no longer exists. */
function* journalAccess(group: CommitGroup, { record, by, atMs }: InputAccess): Steps<boolean> {
  const row = yield* get('findCall', record)
  if (row === undefined) return false
  group.append(attemptEvent('call.shown', subjectFromRow(row), atMs, { by }))
  return true
}

function* inputOf(sealed: SealedText, record: string): Steps<CallInput> {
  const row = yield* get('findCall', record)
  if (row === undefined) return 'not_found'
  if (integer(row, 'expired') === 1) return 'gone'
  try {
    const bound = yield* sealed('payload', sliceOf(row, 'input', 'claim_group'))
    return { json: ownText(text(row, 'record'), bound) }
  } catch (error) {
    if (error instanceof StoreError && error.code === 'unreadable') return 'unreadable'
    throw error
  }
}

/** Index of the interval in which the call was created. */
const BUCKET = '(c.created_at - CAST(? AS BIGINT)) / CAST(? AS BIGINT) AS bucket'

const queries = {
  listCalls: `${CALLS} WHERE c.no < ? AND c.no >= ? AND ${STATES} AND ${MATCHES}
    ORDER BY c.no DESC LIMIT ?`,
  listAmbiguousCalls: `${CALLS} WHERE c.state = 'ambiguous' AND c.no < ? AND ${MATCHES} ORDER BY c.no DESC LIMIT ?`,
  /** The plus sign keeps SQLite from scanning all calls in order instead of using the small index of the state. */
  listParkedCalls: `${CALLS} WHERE c.state = 'parked' AND +c.no < ? AND ${MATCHES} ORDER BY +c.no DESC LIMIT ?`,
  listRunningCalls: `${CALLS} WHERE c.state = 'running' AND +c.no < ? AND ${MATCHES} ORDER BY +c.no DESC LIMIT ?`,
  tallyCalls: `SELECT c.state, ${BUCKET}, count(*) AS calls FROM calls c
    WHERE c.no < ? AND c.no >= ? AND ${STATES} AND ${MATCHES} GROUP BY 1, 2`,
  callSummaries: `SELECT record, tenant, principal, tool, tier, state, attempt, created_at, finished_at, ran_ms, parent FROM calls
    WHERE record IN (${LIST})`,
  groupsById: `SELECT g.n, g.at, g.events, g.link, w.id AS writer_id FROM commit_groups g JOIN writers w ON w.no = g.writer
    WHERE g.id IN (${LIST})`,
  groupsOfRun: `SELECT DISTINCT e.caller_group FROM run_events e JOIN runs r ON r.no = e.run
    WHERE r.key = ? AND e.caller_group IS NOT NULL LIMIT ?`,
  countCalls: `SELECT c.tenant, c.principal, c.tool, c.state, c.ran_ms AS took,
      CASE WHEN a.state = 'cancelled' THEN 1 ELSE 0 END AS withdrawn, ${BUCKET}, count(*) AS calls
    FROM calls c LEFT JOIN approvals a ON a.record = c.record AND a.attempt = c.attempt
    WHERE c.no < ? AND c.no >= ? AND ${MATCHES} GROUP BY 1, 2, 3, 4, 5, 6, 7`,
  callsByPrefix: `${CALLS} WHERE c.record >= ? AND c.record < ? ORDER BY c.record LIMIT ?`,
  countAmbiguous:
    "SELECT count(*) AS calls FROM calls WHERE state = 'ambiguous' AND (CAST(? AS TEXT) IS NULL OR tenant = ?)",
  stepsOfCall: `${CALLS} WHERE c.parent = ? ORDER BY c.no LIMIT ?`,
} as const

export const operatorModule: StoreModule = { name: 'operator views', queries: { ...scanQueries, ...queries } }
