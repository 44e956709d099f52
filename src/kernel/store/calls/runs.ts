import { StoreError } from '#kernel/base/errors'
import type { Outcome } from '#kernel/call/call'
import type {
  Attempt,
  CallRecord,
  NewSession,
  NextAttempt,
  RefusedCall,
  RunAddress,
  RunRecord,
  SessionAddress,
  SessionRecord,
} from '#kernel/call/call-record'
import { refusedEvent } from '#kernel/journal/append'
import type { RunPosition } from '#kernel/journal/events'
import {
  type CallLabel,
  calledFact,
  labelOf,
  type OwnRunCall,
  openCountChange,
  ownRunEvents,
  ownSessionOutcome,
  type RunEvent,
  type RunFact,
  refusedFacts,
  returnedFact,
  type SessionOutcome,
} from '#kernel/run/events'
import { isRunEnded } from '#kernel/run/runs'
import {
  all,
  type CommitGroup,
  get,
  LIST,
  listsOf,
  type Row,
  type Steps,
  type StoreContext,
  write,
} from '#kernel/store/engine'
import {
  boundText,
  callerSlice,
  callerToText,
  integer,
  NO_LABEL,
  NO_SLICE,
  openReasonIn,
  optionalInteger,
  optionalText,
  readCaller,
  type SealedText,
  type Slice,
  sliceOf,
  subjectFromRow,
  text,
  withToolId,
  word,
} from '#kernel/store/rows'

/**
 * Runs, their events and the sessions in them: statements, tables, and the changes that calls make to them. `call-changes.ts`,
 * `recovery.ts` and the session stage use it. A run's row contains the next sequence number (rule 16). Callers' texts stay sealed
 * in their call's group; events refer to them.
 */

export function openRuns(context: StoreContext) {
  const { exclusive, read, snapshot } = context
  return {
    findRun: read(findRun),
    /** Events after a sequence number, in order. */
    readRun: snapshot((address: RunAddress, after: number, limit: number) =>
      readRun(context, address, { after, limit }),
    ),
    /** Ends a run, which then refuses new calls; `false` if there is no such run or it has already ended. */
    endRun: exclusive(({ run }) => run, endRun),
    /** Appends the events of a refused call; `false` if there is no such run or it has ended. */
    noteRefusal: exclusive(({ record }) => record, noteRefusal),
  }
}

interface NewFact {
  readonly fact: RunFact
  /** The slice of the call's caller text, for facts about a call. */
  readonly caller?: Slice
  readonly atMs: number
}

export function* findRun({ tenant, run }: RunAddress): Steps<RunRecord | undefined> {
  const row = yield* get('findRun', run)
  const found = row === undefined ? undefined : runFromRow(row)
  return found?.tenant === tenant ? found : undefined
}

function* readRun(
  { keys, sealed }: Pick<StoreContext, 'keys' | 'sealed'>,
  address: RunAddress,
  page: { readonly after: number; readonly limit: number },
): Steps<readonly RunEvent[]> {
  const row = yield* get('findRun', address.run)
  if (row === undefined || runFromRow(row).tenant !== address.tenant) return []
  const events: RunEvent[] = []
  for (const stored of yield* all('runEventsAfter', integer(row, 'no'), page.after, page.limit)) {
    const event = openReasonIn(keys, yield* runEventFromRow(stored, sealed))
    events.push(yield* withStoredToolId(event))
  }
  return events
}

/** Creates the run if it is new; `false` if the run has ended. */
export function* openRun(scope: RunAddress & { readonly principal: string }, atMs: number): Steps<boolean> {
  const { run, tenant, principal } = scope
  if ((yield* write('insertRun', run, tenant, principal, atMs)) > 0) return true
  const found = yield* findRun(scope)
  return found !== undefined && !isRunEnded(found, atMs)
}

export function* appendFact(run: string, { fact, caller, atMs }: NewFact): Steps<RunPosition> {
  const row = (yield* get('takeSequence', openCountChange(fact), atMs, run)) ?? {}
  const sequence = integer(row, 'sequence')
  const { group, at, length } = caller ?? NO_SLICE
  yield* write('insertRunEvent', integer(row, 'no'), sequence, atMs, factToText(fact), group, at, length)
  return { run, sequence }
}

function* endRun(group: CommitGroup, address: RunAddress, atMs: number): Steps<boolean> {
  const found = yield* findRun(address)
  if (found === undefined || isRunEnded(found, atMs)) return false
  const { run, tenant } = address
  if ((yield* write('endRun', atMs, run, tenant)) === 0) return false
  group.append({ type: 'run.ended', at: atMs, run, tenant, principal: found.principal })
  return true
}

/** Deletes runs with their remaining events. */
export function* deleteRuns(runs: readonly number[]): Steps<void> {
  for (const list of listsOf(runs)) {
    yield* write('deleteRunEvents', ...list)
    yield* write('deleteRuns', ...list)
  }
}

/** Removes the runs of deleted calls. */
export function* removeRuns(keys: readonly string[]): Steps<void> {
  for (const list of listsOf(keys)) {
    yield* deleteRuns((yield* all('findRuns', ...list)).map((row) => integer(row, 'no')))
  }
}

function* withStoredToolId(event: RunEvent): Steps<RunEvent> {
  if (!('call' in event) || event.call.toolId !== '') return event
  const row = yield* get('findCall', event.record)
  return row === undefined ? event : { ...event, call: withToolId(event.call, text(row, 'tool')) }
}

function* noteRefusal(group: CommitGroup, refused: RefusedCall): Steps<boolean> {
  const { scope, record, atMs } = refused
  const run = yield* findRun(scope)
  if (run === undefined || isRunEnded(run, atMs)) return false
  const caller = group.addCaller(boundText(record, callerToText(refused)))
  const [called, returned] = refusedFacts(refused, NO_LABEL)
  const position = yield* appendFact(scope.run, { fact: called, caller, atMs })
  yield* appendFact(scope.run, { fact: returned, caller, atMs })
  group.append({ ...refusedEvent(refused), ...position })
  return true
}

function runFromRow(row: Row): RunRecord {
  return {
    tenant: text(row, 'tenant'),
    run: text(row, 'key'),
    principal: text(row, 'principal'),
    open: integer(row, 'open'),
    touchedAtMs: integer(row, 'touched_at'),
    endedAtMs: optionalInteger(row, 'ended_at'),
  }
}

/** The stored form of a fact, without its call's label, which contains caller text and is sealed elsewhere (rule 15). */
function factToText(fact: RunFact): string {
  return JSON.stringify(fact, (name, value: unknown) => (name === 'call' ? undefined : value))
}

/** A stored fact; its label comes from the caller text of its call. */
type StoredFact<Fact = RunFact> = Fact extends { readonly call: CallLabel } ? Omit<Fact, 'call'> : Fact

function* runEventFromRow(row: Row, sealed: SealedText): Steps<RunEvent> {
  const position = { sequence: integer(row, 'sequence'), atMs: integer(row, 'at') }
  const fact: StoredFact = JSON.parse(text(row, 'fact'))
  if (
    fact.type === 'called' ||
    fact.type === 'returned' ||
    fact.type === 'interrupt.requested' ||
    fact.type === 'consent.requested'
  ) {
    return { ...fact, call: yield* callOf(fact.record, row, sealed), ...position }
  }
  return { ...fact, ...position }
}

function* callOf(record: string, row: Row, sealed: SealedText): Steps<CallLabel> {
  const slice = sliceOf(row, 'caller')
  try {
    return labelOf(yield* readCaller(record, sealed, slice))
  } catch (error) {
    // If a run lasts longer than the journal's retention, the texts of its first calls are removed before it ends.
    if (error instanceof StoreError && error.code === 'unreadable') return { ...NO_LABEL, callId: record }
    throw error
  }
}

export function* findSession({ tenant, sessionId }: SessionAddress): Steps<SessionRecord | undefined> {
  const row = yield* get('findSession', sessionId)
  const found = row === undefined ? undefined : sessionFromRow(row)
  return found?.tenant === tenant ? found : undefined
}

export function* openSession(group: CommitGroup, session: NewSession): Steps<'opened' | 'run_ended'> {
  if (!(yield* openRun(session.scope, session.atMs))) return 'run_ended'
  yield* insertSession(group, session, 'open')
  return 'opened'
}

/** The run must be open. A session for a single attempt begins as `closing`, so that no other call can use it. */
function* insertSession(group: CommitGroup, session: NewSession, state: 'open' | 'closing'): Steps<void> {
  const { sessionId, tenant, principal, tool, toolId, scope, endsRun, address = null, atMs } = session
  const who = [sessionId, tenant, principal, tool, toolId] as const
  const where = [group.writer, address] as const
  yield* write('insertSession', ...who, scope.run, endsRun === true ? 1 : 0, ...where, state, atMs)
  const fact = { type: 'session.opened', sessionId, toolId } as const
  const position = yield* appendFact(scope.run, { fact, atMs })
  group.append({
    type: 'session.opened',
    at: atMs,
    session: sessionId,
    tenant,
    principal,
    tool,
    ...position,
  })
}

export function* beginSessionClose(
  _group: CommitGroup,
  { tenant, sessionId }: SessionAddress,
): Steps<boolean> {
  return (yield* write('beginSessionClose', sessionId, tenant)) > 0
}

/** Whether this writer opened the session. */
export function* holdsSession(group: CommitGroup, { tenant, sessionId }: SessionAddress): Steps<boolean> {
  return (yield* get('holdsSession', sessionId, tenant, group.writer)) !== undefined
}

/** Closes the session with its event; `false` if it was already closed, so that there is exactly one close event (OWP-41). */
export function* closeSession(
  group: CommitGroup,
  address: SessionAddress,
  outcome: SessionOutcome,
  atMs: number,
): Steps<boolean> {
  const { tenant, sessionId } = address
  const row = yield* get('closeSession', outcome, atMs, sessionId, tenant)
  if (row === undefined) return false
  const run = text(row, 'run')
  const fact = { type: 'session.closed', sessionId, toolId: text(row, 'tool_id'), outcome } as const
  const position = yield* appendFact(run, { fact, atMs })
  group.append({
    type: 'session.closed',
    at: atMs,
    session: sessionId,
    tenant,
    principal: text(row, 'principal'),
    tool: text(row, 'tool'),
    ...position,
    outcome,
  })
  if (integer(row, 'ends_run') === 1) yield* endRun(group, { tenant, run }, atMs)
  return true
}

const STATES = ['open', 'closing', 'closed'] as const
const OUTCOMES = ['completed', 'failed', 'cancelled'] as const

function sessionFromRow(row: Row): SessionRecord {
  return {
    tenant: text(row, 'tenant'),
    sessionId: text(row, 'id'),
    principal: text(row, 'principal'),
    tool: text(row, 'tool'),
    toolId: text(row, 'tool_id'),
    run: text(row, 'run'),
    state: word(row, 'state', STATES),
    writer: text(row, 'writer_id'),
    address: optionalText(row, 'address'),
    outcome: row.outcome === null ? undefined : word(row, 'outcome', OUTCOMES),
  }
}

/** An attempt that runs or waits, with its position in its run and the slice of its call's caller text. */
export interface BegunAttempt {
  readonly attempt: number
  readonly run: string
  readonly caller: Slice
  readonly position: RunPosition
}

/** Appends the first of an attempt's two events, after the event that opens its own session if it has one. */
export function* beginAttempt(
  group: CommitGroup,
  call: Pick<CallRecord, 'tenant' | 'record' | 'principal' | 'tool' | 'toolId'>,
  begun: Omit<BegunAttempt, 'position'> & NextAttempt,
): Steps<RunPosition> {
  const { run, attempt, session, caller, atMs } = begun
  const { tenant, record, principal, tool, toolId } = call
  if (session?.isOwn === true) {
    const scope = { tenant, run, principal, runId: '' }
    const own = { tenant, sessionId: session.sessionId, principal, tool, toolId, scope, atMs }
    yield* insertSession(group, own, 'closing')
  }
  const attempted = { record, attempt, call: NO_LABEL, sessionId: session?.sessionId }
  return yield* appendFact(run, { fact: calledFact(attempted, principal), caller, atMs })
}

/** Appends the second of an attempt's two events; `undefined` for a call without stored events. */
export function* endAttempt(
  { record, attempt, run, session }: Attempt,
  outcome: Outcome,
  atMs: number,
): Steps<RunPosition | undefined> {
  if (run === undefined) return undefined
  const attempted = { record, attempt, call: NO_LABEL, sessionId: session?.sessionId }
  const caller = callerSlice((yield* get('callerOf', record)) ?? {})
  return yield* appendFact(run, { fact: returnedFact(attempted, outcome), caller, atMs })
}

/** Closes the session made for an attempt. Called after the attempt's last event, so that the session closes last (OWP-41). */
export function* endOwnSession(
  group: CommitGroup,
  { tenant, session }: Attempt,
  outcome: Outcome,
  atMs: number,
): Steps<void> {
  if (session?.isOwn !== true) return
  const address = { tenant, sessionId: session.sessionId }
  yield* closeSession(group, address, ownSessionOutcome(outcome), atMs)
}

/** Ends an attempt whose process has died; its call must have a run. */
export function* cutAttempt(
  row: Row,
  end: Outcome | 'cut',
  { sessionId, atMs }: { readonly sessionId: string | undefined; readonly atMs: number },
): Steps<RunPosition> {
  const { record, attempt } = subjectFromRow(row)
  const fact = returnedFact({ record, attempt, call: NO_LABEL, sessionId }, end)
  return yield* appendFact(optionalText(row, 'run') ?? record, { fact, caller: callerSlice(row), atMs })
}

/** Stores the events of a call whose events were derived from its record until now, because later events cannot be derived. */
export function* keepInRun(row: Row, call: OwnRunCall): Steps<void> {
  if (optionalText(row, 'run') !== undefined) return
  const { record, principal } = call
  yield* openRun({ tenant: text(row, 'tenant'), run: record, principal }, call.createdAtMs)
  yield* write('keepInRun', record)
  for (const { sequence: _derived, atMs, ...fact } of ownRunEvents(call)) {
    yield* appendFact(record, { fact, caller: callerSlice(row), atMs })
  }
}

/** A cut call without its sealed texts, which are not read because damaged texts must not prevent a server from starting. */
export function labelledByRow(row: Row): OwnRunCall {
  return {
    ...subjectFromRow(row),
    ...NO_LABEL,
    state: 'running',
    createdAtMs: integer(row, 'created_at'),
    finishedAtMs: undefined,
    outcome: undefined,
    sessionId: undefined,
  }
}

export const queries = {
  insertRun: `INSERT INTO runs (key, tenant, principal, next, open, touched_at) VALUES (?, ?, ?, 0, 0, ?)
    ON CONFLICT (key) DO NOTHING`,
  findRun: 'SELECT * FROM runs WHERE key = ?',
  findRuns: `SELECT no FROM runs WHERE key IN (${LIST})`,
  /** Takes the next sequence number from the run's row, in the transaction that appends the event (rule 16). */
  takeSequence: `UPDATE runs SET next = next + 1, open = open + ?, touched_at = max(touched_at, ?) WHERE key = ?
    RETURNING no, next - 1 AS sequence`,
  endRun: 'UPDATE runs SET ended_at = ? WHERE key = ? AND tenant = ? AND ended_at IS NULL',
  insertRunEvent: `INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length)
    VALUES (?, ?, ?, ?, ?, ?, ?)`,
  runEventsAfter: 'SELECT * FROM run_events WHERE run = ? AND sequence > ? ORDER BY sequence LIMIT ?',
  deleteFirstEvents: `DELETE FROM run_events WHERE run = ?
    AND sequence IN (SELECT sequence FROM run_events WHERE run = ? ORDER BY sequence LIMIT ?)`,
  deleteRunEvents: `DELETE FROM run_events WHERE run IN (${LIST})`,
  deleteRuns: `DELETE FROM runs WHERE no IN (${LIST}) AND NOT EXISTS (SELECT 1 FROM run_events WHERE run = runs.no)`,
  keepInRun: 'UPDATE calls SET run = record WHERE record = ? AND run IS NULL',
  insertSession: `INSERT INTO sessions (id, tenant, principal, tool, tool_id, run, ends_run, writer, address, state, opened_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  findSession:
    'SELECT s.*, w.id AS writer_id FROM sessions s JOIN writers w ON w.no = s.writer WHERE s.id = ?',
  // Changes nothing, but locks the row until the commit, so that the session cannot close in the meantime.
  keepSession: "UPDATE sessions SET state = state WHERE id = ? AND writer = ? AND state = 'open'",
  holdsSession: 'SELECT 1 AS found FROM sessions WHERE id = ? AND tenant = ? AND writer = ?',
  beginSessionClose: "UPDATE sessions SET state = 'closing' WHERE id = ? AND tenant = ? AND state = 'open'",
  closeSession: `UPDATE sessions SET state = 'closed', outcome = ?, closed_at = ?
    WHERE id = ? AND tenant = ? AND state <> 'closed' RETURNING principal, tool, tool_id, run, ends_run`,
} as const

export const tables = `
CREATE TABLE runs (
  no INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  next INTEGER NOT NULL,
  open INTEGER NOT NULL,
  touched_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT;

CREATE INDEX runs_touched ON runs (touched_at);

CREATE TABLE run_events (
  run INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  at INTEGER NOT NULL,
  fact TEXT NOT NULL,
  caller_group INTEGER,
  caller_at INTEGER,
  caller_length INTEGER,
  PRIMARY KEY (run, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  tool TEXT NOT NULL,
  tool_id TEXT NOT NULL,
  run TEXT NOT NULL,
  ends_run INTEGER NOT NULL,
  writer INTEGER NOT NULL,
  address TEXT,
  state TEXT NOT NULL,
  outcome TEXT,
  opened_at INTEGER NOT NULL,
  closed_at INTEGER
) STRICT;

CREATE INDEX sessions_open ON sessions (writer) WHERE state <> 'closed';
CREATE INDEX sessions_closed ON sessions (closed_at) WHERE state = 'closed';
`
