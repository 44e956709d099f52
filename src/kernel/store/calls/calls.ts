import { StoreError } from '#kernel/base/errors'
import type { Outcome } from '#kernel/call/call'
import type {
  CallAddress,
  CallPage,
  CallRecord,
  ClaimResult,
  FinishedAttempt,
  FinishResult,
  NewCall,
  NextAttempt,
  OwnCallsQuery,
  Settlement,
  SettleResult,
} from '#kernel/call/call-record'
import { claimedEvent, endedEvent, operatorOf } from '#kernel/journal/append'
import type { RunPosition } from '#kernel/journal/events'
import {
  all,
  type CommitGroup,
  get,
  type Row,
  type Steps,
  type StoreContext,
  write,
} from '#kernel/store/engine'
import {
  boundText,
  callerToText,
  callFromRow,
  integer,
  keepOutcome,
  NO_SLICE,
  outcomeToText,
  type SealedText,
  type Slice,
  text,
  unreadableText,
} from '#kernel/store/rows'
import {
  type BeginResult,
  findUnsettled,
  keepsSession,
  RUN_ENDED,
  reclaim,
  recordLate,
  requestCancel,
  SESSION_ENDED,
  settle,
  TAKEN,
  type UncommittedClaim,
} from './call-changes.ts'
import { beginAttempt, endAttempt, endOwnSession, openRun } from './runs.ts'

/**
 * The store's module for calls, with its statements and tables: find, claim, finish, settle and list. The ladder and recovery use
 * it. Claims and outcomes run in lanes (`engine.ts`), so that changes to different runs do not wait for each other.
 */

type Recorded = Extract<FinishResult, { readonly kind: 'recorded' }>

interface InsertedCall {
  readonly call: NewCall
  readonly run: string | undefined
  readonly state: CallRecord['state']
  readonly finished?: Omit<FinishedAttempt, 'run'>
}

export function openCalls(context: StoreContext) {
  const { exclusive, lane, read, snapshot, sealed, chain } = context
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
    settle: exclusive(recordOf, settle),
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
     * Claims the next attempt of a `released` call, or of a `running` call whose run will not continue: one update, conditional
     * on the state, writer and attempt of `previous`. A correction replaces fingerprint, input and caller text; both
     * fingerprints are journaled.
     */
    async reclaim(previous: CallRecord, next: NextAttempt): Promise<ClaimResult> {
      const claimed = await changes.reclaim(previous, next)
      return claimed === TAKEN ? holder(previous.record) : claimed
    },
    /** Ends an attempt, if it is still `running` and belongs to this writer. */
    async finish(finished: FinishedAttempt): Promise<FinishResult> {
      const recorded = await changes.finish(finished)
      return recorded === TAKEN ? holder(finished.run.record) : recorded
    },
    /** Writes a call that skipped its claim, with its outcome, if the key is free (rule 7). */
    async insertFinished(call: NewCall, finished: Omit<FinishedAttempt, 'run'>): Promise<FinishResult> {
      const recorded = await changes.insertFinished(call, finished)
      return recorded === TAKEN ? holder(call.record) : recorded
    },
    /** Stores and journals a result that arrived after the call ended. Never changes the outcome (rule 10). */
    recordLate: lane(recordOf, recordOf, recordLate),
    /** Asks the process that runs the call to stop it. */
    requestCancel: exclusive(recordOf, requestCancel),
    /** This writer's running calls that are to be cancelled. */
    cancelRequests: read(() => cancelRequests(chain.no)),
    async settle(settlement: Settlement): Promise<SettleResult> {
      // Reads before it writes, so that a refused settlement does not start a writer or change the journal.
      const found = await unsettled(settlement.record)
      return typeof found === 'string' ? found : await changes.settle(settlement)
    },
    /**
     * A principal's own calls, newest first, without workflow steps. Each page scans a limited number of all principals' calls,
     * so that listing the few calls of one principal does not slow down a large store.
     */
    listOwn: snapshot((query: OwnCallsQuery) => listOwnCalls(sealed, query)),
  }
}

function* claim(group: CommitGroup, call: NewCall): Steps<UncommittedClaim> {
  const run = runOf(call)
  let position: RunPosition | undefined
  if (run === undefined) {
    if ((yield* insertCall(group, { call, run, state: 'running' })) === undefined) return TAKEN
  } else {
    const begun = yield* beginFirst(group, { call, run, state: 'running' })
    if (begun === TAKEN || 'kind' in begun) return begun
    position = begun.position
  }
  group.append({ ...claimedEvent(call, 1, { atMs: call.atMs, parent: call.step?.parent }), ...position })
  return { kind: 'claimed', attempt: 1 }
}

/** Begins the first attempt of a call that has a run: inserts its row and appends the attempt's first event. */
function* beginFirst(
  group: CommitGroup,
  inserted: InsertedCall & { readonly run: string },
): Steps<BeginResult> {
  const { call, run } = inserted
  const { tenant, principal, session, atMs } = call
  // The key is checked first (rule 1): a claim whose key is taken neither creates a run nor checks whether the run has ended.
  if ((yield* get('callerOf', call.record)) !== undefined) return TAKEN
  if (session !== undefined && !(yield* keepsSession(group, session))) return SESSION_ENDED
  if (!(yield* openRun({ tenant, run, principal }, atMs))) return RUN_ENDED
  const caller = yield* insertCall(group, inserted)
  if (caller === undefined) return TAKEN
  const position = yield* beginAttempt(group, call, { run, attempt: 1, session, caller, atMs })
  return { attempt: 1, run, caller, position }
}

function* insertFinished(
  group: CommitGroup,
  call: NewCall,
  finished: Omit<FinishedAttempt, 'run'>,
): Steps<Recorded | typeof TAKEN> {
  const { state } = finished
  if ((yield* insertCall(group, { call, run: runOf(call), state, finished })) === undefined) return TAKEN
  group.append({ ...endedEvent(call, 1, finished), ...operatorOf(call) })
  return { kind: 'recorded' }
}

/** A call that waits for approval always has a run with events (rule 20). */
export function* parkCall(group: CommitGroup, call: NewCall): Steps<BeginResult> {
  return yield* beginFirst(group, { call, run: runOf(call) ?? call.record, state: 'parked' })
}

function* finish(group: CommitGroup, finished: FinishedAttempt): Steps<Recorded | typeof TAKEN> {
  const { run, state, outcome, atMs } = finished
  const slice = group.addPayload(boundText(run.record, outcomeToText(outcome)))
  const changed = yield* write(
    'finishCall',
    state,
    atMs,
    slice.group,
    slice.at,
    slice.length,
    ranMs(outcome),
    run.record,
    run.attempt,
    group.writer,
  )
  if (changed === 0) return TAKEN
  keepOutcome(group, run, outcome)
  const position = run.run === undefined ? undefined : yield* endAttempt(run, outcome, atMs)
  group.append({ ...endedEvent(run, run.attempt, { state, outcome, atMs }), ...position })
  if (run.session?.isOwn === true) yield* endOwnSession(group, run, outcome, atMs)
  return { kind: 'recorded' }
}

/** Returns the slice of the caller text; `undefined` if the key is taken. */
function* insertCall(
  group: CommitGroup,
  { call, run, state, finished }: InsertedCall,
): Steps<Slice | undefined> {
  const caller = group.addCaller(boundText(call.record, callerToText(call)))
  const input = group.addPayload(boundText(call.record, call.inputJson))
  const outcome =
    finished === undefined
      ? NO_SLICE
      : group.addPayload(boundText(call.record, outcomeToText(finished.outcome)))
  const inserted = yield* write(
    'insertCall',
    call.record,
    call.tenant,
    call.principal,
    call.tool,
    call.definitionHash,
    call.tier,
    call.replay,
    call.rerunUntilMs,
    call.fingerprint,
    state,
    group.writer,
    call.atMs,
    finished?.atMs ?? null,
    group.id,
    caller.at,
    caller.length,
    input.at,
    input.length,
    outcome.group,
    outcome.at,
    outcome.length,
    run ?? null,
    call.session?.sessionId ?? null,
    call.step?.parent ?? null,
    call.step?.root ?? null,
    call.resumable === true ? 1 : 0,
    ranMs(finished?.outcome),
  )
  if (inserted === 0) return undefined
  group.addReference()
  if (finished !== undefined) keepOutcome(group, { record: call.record, attempt: 1 }, finished.outcome)
  return caller
}

/** A call that ended before its tool started has no run time. */
function ranMs(outcome: Outcome | undefined): number | null {
  if (outcome?.durationMs === undefined || (!outcome.ok && outcome.neverStarted === true)) return null
  return Math.round(outcome.durationMs)
}

/** The run that contains a new call's events; `undefined` if its events are derived from its record. */
function runOf({ scope, session, record }: NewCall): string | undefined {
  return scope?.run ?? (session === undefined ? undefined : record)
}

function* findOwn(sealed: SealedText, { tenant, record }: CallAddress): Steps<CallRecord | undefined> {
  const found = yield* findCall(sealed, record)
  return found?.tenant === tenant ? found : undefined
}

function* cancelRequests(writerNo: number): Steps<readonly CallAddress[]> {
  const rows = yield* all('cancelRequests', writerNo)
  return rows.map((row) => ({ tenant: text(row, 'tenant'), record: text(row, 'record') }))
}

/** Number of calls, of all principals, that one page scans; this takes some milliseconds. */
const MAX_SCANNED = 5_000

/** Calls of one principal, newest first, and the call number before which the next page starts. */
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

/** A record whose sealed texts cannot be read is shown without them, so that other records can still be listed. */
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

/** Returns a function that reads the call that has the key, for a change that found the key taken. */
export function holderOf({ read, sealed }: Pick<StoreContext, 'read' | 'sealed'>) {
  const find = read((record: string) => findCall(sealed, record))
  return async (record: string): Promise<{ readonly kind: 'found'; readonly record: CallRecord }> => {
    const holder = await find(record)
    if (holder !== undefined) return { kind: 'found', record: holder }
    throw new StoreError('not_written', 'a call disappeared while it was being changed')
  }
}

function* readCall(sealed: SealedText, record: string): Steps<CallRecord | undefined> {
  const row = yield* get('findCall', record)
  return row === undefined ? undefined : yield* callFromRow(row, sealed)
}

export const queries = {
  insertCall: `INSERT INTO calls (record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint,
      state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length,
      outcome_group, outcome_at, outcome_length, run, session, parent, root, resumable, ran_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (record) DO NOTHING`,
  finishCall: `UPDATE calls SET state = ?, finished_at = ?, outcome_group = ?, outcome_at = ?, outcome_length = ?,
      ran_ms = ? WHERE record = ? AND state = 'running' AND attempt = ? AND writer = ?`,
  findCall: 'SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer WHERE c.record = ?',
  callerOf: 'SELECT claim_group, caller_at, caller_length FROM calls WHERE record = ?',
  cancelRequests:
    "SELECT tenant, record FROM calls WHERE state = 'running' AND writer = ? AND cancel_requested = 1",
  /** Scans by call number, because an index over principals would slow down every call. */
  listOwnCalls: `SELECT c.*, w.id AS writer_id FROM calls c JOIN writers w ON w.no = c.writer
    WHERE c.no < ? AND c.no >= ? AND c.tenant = ? AND c.principal = ? AND c.parent IS NULL ORDER BY c.no DESC LIMIT ?`,
  /** Uses two subqueries, because SQLite scans the whole table if one query asks for both minimum and maximum. */
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
