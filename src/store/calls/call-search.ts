import { StoreError } from '#kernel/base/errors'
import { CALL_STATES, type CallError, type CallState } from '#kernel/call/call'
import type { CallPage, CallRecord } from '#kernel/call/call-record'
import { attemptEvent } from '#kernel/journal/append'
import { showCalls } from '#kernel/store/calls/calls'
import {
  type CommitGroup,
  LIST,
  listsOf,
  type Row,
  type Steps,
  type StoreContext,
  statements,
} from '#kernel/store/engine'
import type { StoreModule } from '#kernel/store/module'
import {
  callerSlice,
  integer,
  optionalInteger,
  optionalText,
  outcomeIn,
  ownText,
  readCaller,
  type SealedText,
  sliceOf,
  subjectFromRow,
  text,
  word,
} from '#kernel/store/rows'
import {
  type CallFilter,
  type CallSearch,
  matchesError,
  matchesIds,
  type TallyQuery,
} from '#store/call-filter'
import { type Attribution, mapped, texts } from '#store/steps'
import { CALLS, type CountPage, listedStates, MATCHES, matchedBy, STATES, scanOf } from './call-scan.ts'

/**
 * Finds calls by texts that are stored sealed, and reads the errors, waits and inputs of many calls. The admin routes use it for
 * searches, groups of errors and conversations. A page opens a limited number of sealed texts, because SQLite reads in the
 * server's thread.
 */

const { all, get } = statements<keyof typeof queries>()

/** A failed attempt, with the error that the caller got. */
export interface FailedCall
  extends Pick<CallRecord, 'record' | 'tenant' | 'principal' | 'tool' | 'createdAtMs'> {
  readonly error: Pick<CallError, 'code' | 'message'>
}

/** A time during which a call waited for a decision. */
export interface CallWait {
  readonly record: string
  readonly approval: string
  readonly fromMs: number
  /** Absent while it waits. */
  readonly untilMs: number | undefined
}

/** An operator's view of the beginnings of inputs. */
export interface SummaryAccess extends Attribution {
  readonly records: readonly string[]
}

export function openCallSearch({ exclusive, snapshot, sealed }: StoreContext) {
  const readInputs = snapshot((records: readonly string[]) => inputsOf(sealed, records))
  const recordAccess = exclusive(() => '', journalAccess)
  return {
    /** Returns the given calls that exist, in no particular order. */
    findByRecords: snapshot((records: readonly string[]) => findByRecords(sealed, records)),
    /** Failed calls, newest first. A page scans a limited number of calls. */
    failures: snapshot((filter: Omit<CallFilter, 'limit'>) => failuresOf(sealed, filter)),
    /** Callers of the newest calls: a call id is found by its caller, because the record is a digest of both. */
    newestCallers: snapshot(newestCallers),
    /** The record of the call that an approval is for. */
    recordOfApproval: snapshot((approval: string) =>
      mapped(get('recordOfApproval', approval), (row) =>
        row === undefined ? undefined : text(row, 'record'),
      ),
    ),
    waitsOf: snapshot(waitsOf),
    /** Inputs by record, without those that retention removed. Each access is journaled before an input is returned. */
    async readInputs(access: SummaryAccess): Promise<ReadonlyMap<string, string>> {
      const inputs = await readInputs(access.records)
      if (inputs.size > 0) await recordAccess({ ...access, records: [...inputs.keys()] })
      return inputs
    },
  }
}

export type CallSearchStore = ReturnType<typeof openCallSearch>

/** Number of sealed texts that one page opens. */
const MAX_OPENED = 2_000

const FAILED = ['failed', 'released'] as const satisfies readonly CallState[]

interface FoundPage {
  readonly found: readonly Row[]
  readonly next: number | undefined
}

/** The next page of a search. It may be empty and still have a next page. */
export function* searchCalls(sealed: SealedText, filter: CallFilter, search: CallSearch): Steps<CallPage> {
  const { found, next } = yield* find(sealed, filter, search, filter.limit)
  const shown = yield* findByRecords(
    sealed,
    found.map((row) => text(row, 'record')),
  )
  const byRecord = new Map(shown.map((call) => [call.record, call]))
  const calls = found.flatMap((row) => byRecord.get(text(row, 'record')) ?? [])
  return next === undefined ? { calls } : { calls, next }
}

/** Counts what `searchCalls` finds. */
export function* tallyFound(
  sealed: SealedText,
  query: TallyQuery,
  search: CallSearch,
): Steps<CountPage<{ readonly state: CallState; readonly bucket: number; readonly calls: number }>> {
  const { found, next } = yield* find(sealed, query, search, Number.POSITIVE_INFINITY)
  const { sinceMs, bucketMs, originMs = sinceMs } = query
  const rows = found.map((row) => ({
    state: word(row, 'state', CALL_STATES),
    bucket: Math.floor((integer(row, 'created_at') - originMs) / bucketMs),
    calls: 1,
  }))
  return next === undefined ? { rows } : { rows, next }
}

function* find(
  sealed: SealedText,
  filter: Omit<CallFilter, 'limit'>,
  search: CallSearch,
  limit: number,
): Steps<FoundPage> {
  const needsError = search.code !== undefined || search.message !== undefined
  const { states = CALL_STATES } = filter
  const possible = needsError ? states.filter((state) => FAILED.some((failed) => failed === state)) : states
  if (possible.length === 0) return { found: [], next: undefined }
  const { first, from, end, rest } = yield* scanOf(filter)
  const { parent = null, sessionId = null } = search
  const rows = yield* all(
    'searchCalls',
    ...[end, from, ...listedStates(possible), ...matchedBy(filter)],
    ...[parent, parent, sessionId, sessionId, MAX_OPENED],
  )
  const found: Row[] = []
  for (const [nth, row] of rows.entries()) {
    if (!(yield* isFound(row, sealed, search, needsError))) continue
    found.push(row)
    if (found.length < limit || nth === rows.length - 1) continue
    return { found, next: integer(row, 'no') }
  }
  const last = rows.length < MAX_OPENED ? undefined : rows.at(-1)
  const next = last === undefined ? rest.next : integer(last, 'no')
  return { found, next: next !== undefined && next > first ? next : undefined }
}

/** Most searches for an error name no id, and then the caller's texts are not opened. */
function* hasIds(
  row: Row,
  sealed: SealedText,
  { code: _code, message: _message, ...ids }: CallSearch,
): Steps<boolean> {
  if (Object.keys(ids).length === 0) return true
  const record = text(row, 'record')
  return matchesIds(ids, {
    record,
    ...(yield* readCaller(record, sealed, callerSlice(row))),
    sessionId: optionalText(row, 'session'),
    parent: optionalText(row, 'parent'),
    root: optionalText(row, 'root'),
  })
}

/** A call whose texts cannot be read matches no search. */
function* isFound(row: Row, sealed: SealedText, search: CallSearch, needsError: boolean): Steps<boolean> {
  try {
    if (!(yield* hasIds(row, sealed, search))) return false
    if (!needsError) return true
    const outcome = yield* outcomeIn(row, 'outcome', sealed)
    return outcome?.ok === false && matchesError(search, outcome.error)
  } catch (error) {
    if (error instanceof StoreError && error.code === 'unreadable') return false
    throw error
  }
}

function* findByRecords(sealed: SealedText, records: readonly string[]): Steps<readonly CallRecord[]> {
  const found: CallRecord[] = []
  for (const list of listsOf(records)) {
    const rows = yield* all('callsByRecords', ...list)
    found.push(...(yield* showCalls(rows, sealed)))
  }
  return found
}

function* failuresOf(sealed: SealedText, filter: Omit<CallFilter, 'limit'>): Steps<CountPage<FailedCall>> {
  const { search = {} } = filter
  const { first, from, end, rest } = yield* scanOf(filter)
  const values = [end, from, ...listedStates(FAILED), ...matchedBy(filter)]
  const rows = yield* all('searchCalls', ...values, null, null, null, null, MAX_OPENED)
  const failed: FailedCall[] = []
  for (const row of rows) {
    if (!(yield* isFound(row, sealed, search, true))) continue
    const outcome = yield* outcomeIn(row, 'outcome', sealed)
    if (outcome?.ok !== false) continue
    const { code, message } = outcome.error
    failed.push({
      ...texts(row, 'record', 'tenant', 'principal', 'tool'),
      createdAtMs: integer(row, 'created_at'),
      error: { code, message },
    })
  }
  const last = rows.length < MAX_OPENED ? undefined : rows.at(-1)
  const next = last === undefined ? rest.next : integer(last, 'no')
  return next !== undefined && next > first ? { rows: failed, next } : { rows: failed }
}

function* newestCallers(
  tenant: string | undefined,
  limit: number,
): Steps<readonly Readonly<Record<'tenant' | 'principal', string>>[]> {
  const { from, end } = yield* scanOf({})
  const rows = yield* all('newestCallers', end, from, tenant ?? null, tenant ?? null, limit)
  return rows.map((row) => texts(row, 'tenant', 'principal'))
}

function* waitsOf(records: readonly string[]): Steps<readonly CallWait[]> {
  const waits: CallWait[] = []
  for (const list of listsOf(records))
    for (const row of yield* all('waitsOfCalls', ...list)) {
      const isOpen = text(row, 'state') === 'pending'
      const ended = optionalInteger(row, 'decided_at') ?? integer(row, 'expires_at')
      waits.push({
        record: text(row, 'record'),
        approval: text(row, 'id'),
        fromMs: integer(row, 'created_at'),
        untilMs: isOpen ? undefined : ended,
      })
    }
  return waits
}

function* inputsOf(sealed: SealedText, records: readonly string[]): Steps<Map<string, string>> {
  const inputs = new Map<string, string>()
  for (const list of listsOf(records))
    for (const row of yield* all('callsByRecords', ...list)) {
      if (integer(row, 'expired') === 1) continue
      const record = text(row, 'record')
      try {
        const bound = yield* sealed('payload', sliceOf(row, 'input', 'claim_group'))
        inputs.set(record, ownText(record, bound))
      } catch (error) {
        if (!(error instanceof StoreError && error.code === 'unreadable')) throw error
      }
    }
  return inputs
}

function* journalAccess(group: CommitGroup, { records, by, atMs }: SummaryAccess): Steps<void> {
  for (const list of listsOf(records))
    for (const row of yield* all('callsByRecords', ...list))
      group.append(attemptEvent('call.shown', subjectFromRow(row), atMs, { by, part: 'summary' }))
}

const queries = {
  /** Only the columns that a search compares, because most rows do not match. */
  searchCalls: `SELECT c.no, c.record, c.tenant, c.principal, c.tool, c.state, c.created_at, c.session, c.parent, c.root,
      c.claim_group, c.caller_at, c.caller_length, c.outcome_group, c.outcome_at, c.outcome_length
    FROM calls c WHERE c.no < ? AND c.no >= ? AND ${STATES} AND ${MATCHES}
    AND (CAST(? AS TEXT) IS NULL OR c.parent = ?) AND (CAST(? AS TEXT) IS NULL OR c.session = ?)
    ORDER BY c.no DESC LIMIT ?`,
  callsByRecords: `${CALLS} WHERE c.record IN (${LIST})`,
  newestCallers: `SELECT DISTINCT tenant, principal FROM calls
    WHERE no < ? AND no >= ? AND (CAST(? AS TEXT) IS NULL OR tenant = ?) LIMIT ?`,
  recordOfApproval: 'SELECT record FROM approvals WHERE id = ?',
  waitsOfCalls: `SELECT id, record, state, created_at, decided_at, expires_at FROM approvals
    WHERE record IN (${LIST}) ORDER BY created_at`,
} as const

export const callSearchModule: StoreModule = { name: 'call search', queries }
