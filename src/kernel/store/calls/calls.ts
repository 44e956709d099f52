import { StoreError } from '#kernel/base/errors'
import type {
  CallAddress,
  CallPage,
  CallRecord,
  ClaimResult,
  FinishedRun,
  FinishResult,
  NewCall,
  NextAttempt,
  OwnCallsQuery,
  Settlement,
  SettleResult,
} from '#kernel/call/call-record'
import { all, get, type Row, type Steps, type StoreContext } from '#kernel/store/engine'
import { callFromRow, integer, type SealedText, text, unreadableText } from '#kernel/store/rows'
import {
  claim,
  findUnsettled,
  finish,
  insertFinished,
  reclaim,
  recordLate,
  requestCancel,
  settle,
  TAKEN,
} from './call-changes.ts'
import { runOf } from './runs.ts'

/**
 * The store's module of calls, with its statements and tables: find, claim, finish, settle and list. The ladder and recovery use
 * it. Claims and outcomes run in lanes, so that calls of different records do not wait for each other.
 */

export function openCalls(context: StoreContext) {
  const { careful, lane, read, snapshot, sealed, chain } = context
  const holder = holderOf(context)
  const recordOf = ({ record }: { readonly record: string }) => record
  const changes = {
    claim: lane(recordOf, (call) => runOf(call) ?? call.record, claim),
    reclaim: lane(recordOf, ({ run, record }) => run ?? record, reclaim),
    finish: lane(
      ({ run }) => run.record,
      ({ run }) => run.run ?? run.record,
      finish,
    ),
    insertFinished: lane(recordOf, recordOf, insertFinished),
    settle: careful(recordOf, settle),
  }
  const unsettled = read(findUnsettled)
  return {
    find: read((address: CallAddress) => findOwn(sealed, address)),
    /** Inserts a `running` call if the key is free. */
    async claim(call: NewCall): Promise<ClaimResult> {
      const claimed = await changes.claim(call)
      return claimed === TAKEN ? holder(call.record) : claimed
    },
    /**
     * Takes a `released` call, or a `running` one whose run will not continue, for the next attempt: one update, conditional on
     * state, writer and attempt being those of `previous`. A correction replaces fingerprint, input and caller text, and both
     * fingerprints are journaled.
     */
    async reclaim(previous: CallRecord, next: NextAttempt): Promise<ClaimResult> {
      const claimed = await changes.reclaim(previous, next)
      return claimed === TAKEN ? holder(previous.record) : claimed
    },
    /** Ends an attempt of this writer; conditional on it still being `running` and its own. */
    async finish(finished: FinishedRun): Promise<FinishResult> {
      const recorded = await changes.finish(finished)
      return recorded === TAKEN ? holder(finished.run.record) : recorded
    },
    /** Writes a call that skipped its claim, with its outcome, if the key is free (rule 7). */
    async insertFinished(call: NewCall, finished: Omit<FinishedRun, 'run'>): Promise<FinishResult> {
      const recorded = await changes.insertFinished(call, finished)
      return recorded === TAKEN ? holder(call.record) : recorded
    },
    /** Stores and journals a result that arrived after the end. Never changes the outcome (rule 10). */
    recordLate: lane(recordOf, recordOf, recordLate),
    /** Asks the process that runs the call to stop it. */
    requestCancel: careful(recordOf, requestCancel),
    /** Running calls of this writer that a caller asked to stop. */
    cancelRequests: read(() => cancelRequests(chain.no)),
    async settle(settlement: Settlement): Promise<SettleResult> {
      // Looks before it writes: a refusal starts no writer and leaves no trace.
      const found = await unsettled(settlement.record)
      return typeof found === 'string' ? found : await changes.settle(settlement)
    },
    /**
     * A principal's own calls, newest first, without steps of workflows. It scans a limited number of calls of all principals,
     * so that a principal with few calls does not slow down a store with many.
     */
    listOwn: snapshot((query: OwnCallsQuery) => listOwnCalls(sealed, query)),
  }
}

function* findOwn(sealed: SealedText, { tenant, record }: CallAddress): Steps<CallRecord | undefined> {
  const found = yield* findCall(sealed, record)
  return found?.tenant === tenant ? found : undefined
}

function* cancelRequests(writerNo: number): Steps<readonly CallAddress[]> {
  const rows = yield* all('cancelRequests', writerNo)
  return rows.map((row) => ({ tenant: text(row, 'tenant'), record: text(row, 'record') }))
}

/** Calls of all principals that one page scans: some milliseconds. */
const MAX_SCANNED = 5_000

/** Calls of one principal, newest first, and the number before which to continue. */
function* listOwnCalls(sealed: SealedText, query: OwnCallsQuery): Steps<CallPage> {
  const { tenant, principal, before, limit } = query
  const numbers = yield* get('callNumbers')
  if (numbers === undefined) return { calls: [] }
  const first = integer(numbers, 'first')
  const end = Math.min(before ?? Number.MAX_SAFE_INTEGER, integer(numbers, 'last') + 1)
  const from = Math.max(first, end - MAX_SCANNED)
  const rows = yield* all('listOwnCalls', end, from, tenant, principal, limit)
  const last = rows.length < limit ? undefined : rows.at(-1)
  const next = last === undefined ? from : integer(last, 'no')
  const calls = yield* showCalls(rows, sealed)
  return next > first ? { calls, next } : { calls }
}

/** A record whose contents cannot be read is shown without them, so that it does not hide the others. */
export function* showCall(row: Row, sealed: SealedText): Steps<CallRecord> {
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

export function* findCall(sealed: SealedText, record: string): Steps<CallRecord | undefined> {
  try {
    return yield* readCall(sealed, record)
  } catch (error) {
    // Another process may have changed the call between the row and its contents: a second read is consistent.
    if (error instanceof StoreError && error.code === 'unreadable') return yield* readCall(sealed, record)
    throw error
  }
}

/** Reads the holder after a change found the call taken. */
export function holderOf({ read, sealed }: Pick<StoreContext, 'read' | 'sealed'>) {
  const find = read((record: string) => findCall(sealed, record))
  return async (record: string): Promise<{ readonly kind: 'found'; readonly record: CallRecord }> => {
    const holder = await find(record)
    if (holder !== undefined) return { kind: 'found', record: holder }
    throw new StoreError('not_written', 'a call vanished while it was being changed')
  }
}

function* readCall(sealed: SealedText, record: string): Steps<CallRecord | undefined> {
  const row = yield* get('findCall', record)
  return row === undefined ? undefined : yield* callFromRow(row, sealed)
}

export const queries = {
  findCall: 'SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer WHERE c.record = ?',
  callerOf: 'SELECT claim_group, caller_at, caller_length FROM calls WHERE record = ?',
  cancelRequests:
    "SELECT tenant, record FROM calls WHERE state = 'running' AND writer = ? AND cancel_requested = 1",
  /** Uses the existing number: an index over principals would cost every call. */
  listOwnCalls: `SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer
    WHERE c.no < ? AND c.no >= ? AND c.tenant = ? AND c.principal = ? AND c.parent IS NULL ORDER BY c.no DESC LIMIT ?`,
  /** Two look-ups, because SQLite scans the whole table for a minimum and a maximum in one. */
  callNumbers: `SELECT coalesce((SELECT min(no) FROM calls), 0) AS first,
    coalesce((SELECT max(no) FROM calls), 0) AS last`,
} as const

export const tables = `
CREATE TABLE calls (
  no INTEGER PRIMARY KEY,
  record TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  tool TEXT NOT NULL,
  definition TEXT NOT NULL,
  tier TEXT NOT NULL,
  replay TEXT NOT NULL,
  rerun_until INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  state TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  writer INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  finished_at INTEGER,
  claim_group INTEGER NOT NULL,
  caller_at INTEGER NOT NULL,
  caller_length INTEGER NOT NULL,
  input_at INTEGER NOT NULL,
  input_length INTEGER NOT NULL,
  outcome_group INTEGER,
  outcome_at INTEGER,
  outcome_length INTEGER,
  late_group INTEGER,
  late_at INTEGER,
  late_length INTEGER,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  expired INTEGER NOT NULL DEFAULT 0,
  run TEXT,
  session TEXT,
  parent TEXT,
  root TEXT,
  resumable INTEGER NOT NULL DEFAULT 0,
  waits_for TEXT,
  ran_ms INTEGER
) STRICT;

CREATE INDEX calls_running ON calls (writer) WHERE state = 'running';
CREATE INDEX calls_ambiguous ON calls (no) WHERE state = 'ambiguous';
CREATE INDEX calls_ambiguous_run ON calls (run) WHERE state = 'ambiguous';
CREATE INDEX calls_parked ON calls (tenant, principal, fingerprint) WHERE state = 'parked';
CREATE INDEX calls_parked_run ON calls (run) WHERE state = 'parked';
CREATE INDEX calls_parked_session ON calls (session) WHERE state = 'parked';
CREATE INDEX calls_results ON calls (finished_at) WHERE finished_at IS NOT NULL AND expired = 0;
CREATE INDEX calls_tombstones ON calls (finished_at) WHERE expired = 1;
CREATE INDEX calls_steps ON calls (parent) WHERE parent IS NOT NULL;
CREATE INDEX calls_suspended ON calls (rerun_until) WHERE waits_for IS NOT NULL;
`
