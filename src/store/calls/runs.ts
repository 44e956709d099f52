import { StoreError } from '#core/errors'
import { refusedEvent } from '#core/journal/append'
import type { RunPosition } from '#core/journal/events'
import type { RefusedCall, RunAddress, RunRecord, RunStore } from '#core/ports/store'
import { type CallLabel, labelOf, opens, type RunEvent, type RunFact, refusedFacts } from '#core/runs/events'
import { isRunEnded } from '#core/runs/runs'
import { openReasonIn } from '#store/encryption'
import type { CommitGroup, StoreContext } from '#store/engine'
import {
  boundText,
  callerToText,
  integer,
  NO_SLICE,
  optionalInteger,
  readCaller,
  type SealedText,
  type Slice,
  text,
  withToolId,
} from '#store/rows'
import { all, get, type Row, type Steps, write } from '#store/steps'

/** Runs, and what is refused in them. */
export function sqlRuns(context: StoreContext): RunStore {
  const { careful, read, snapshot } = context
  return {
    findRun: read(findRun),
    readRun: snapshot((address: RunAddress, after: number, limit: number) =>
      readRun(context, address, { after, limit }),
    ),
    endRun: careful(({ run }) => run, endRun),
    noteRefusal: careful(({ record }) => record, noteRefusal),
  }
}

/** A fact and when it became one; `caller` is where the caller text of its call lies. */
interface NewFact {
  readonly fact: RunFact
  readonly caller: Slice | undefined
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
    const event = openReasonIn(keys.reasons, yield* runEventFromRow(stored, sealed))
    events.push(yield* withStoredToolId(event))
  }
  return events
}

/** Makes the run if it is new; `false` when it takes nothing any more. */
export function* openRun(scope: RunAddress & { readonly principal: string }, atMs: number): Steps<boolean> {
  const { run, tenant, principal } = scope
  if ((yield* write('insertRun', run, tenant, principal, atMs)) > 0) return true
  const found = yield* findRun(scope)
  return found !== undefined && !isRunEnded(found, atMs)
}

export function* appendFact(run: string, { fact, caller, atMs }: NewFact): Steps<RunPosition> {
  const row = (yield* get('takeSequence', opens(fact), atMs, run)) ?? {}
  const sequence = integer(row, 'sequence')
  const { group, at, length } = caller ?? NO_SLICE
  yield* write('insertRunEvent', integer(row, 'no'), sequence, atMs, factToText(fact), group, at, length)
  return { run, sequence }
}

export function* endRun(group: CommitGroup, address: RunAddress, atMs: number): Steps<boolean> {
  const found = yield* findRun(address)
  if (found === undefined || isRunEnded(found, atMs)) return false
  const { run, tenant } = address
  if ((yield* write('endRun', atMs, run, tenant)) === 0) return false
  group.append({ type: 'run.ended', at: atMs, run, tenant, principal: found.principal })
  return true
}

/** Removes up to `limit` events of a run, and the run with its last one; gives how much went. */
export function* forgetRun(no: number, limit: number): Steps<number> {
  return (yield* write('deleteRunEvents', no, no, limit)) + (yield* write('deleteRun', no))
}

/** The run of a call that never happened, after all. */
export function* removeRun(run: string): Steps<void> {
  const row = yield* get('findRun', run)
  if (row !== undefined) yield* forgetRun(integer(row, 'no'), Number.MAX_SAFE_INTEGER)
}

function* withStoredToolId(event: RunEvent): Steps<RunEvent> {
  if (!('call' in event) || event.call.toolId !== '') return event
  const row = yield* get('findCall', event.record)
  return row === undefined ? event : { ...event, call: withToolId(event.call, text(row, 'tool')) }
}

/** Stored events take their label from the caller text they point to, so none is written with them. */
export const IN_CALLER_TEXT: CallLabel = {
  callId: '',
  toolId: '',
  transport: 'native',
  argsHash: '',
  traceId: '',
}

/** The pair of a call that was refused; `false` when no such run takes it. */
function* noteRefusal(group: CommitGroup, refused: RefusedCall): Steps<boolean> {
  const { scope, record, atMs } = refused
  const run = yield* findRun(scope)
  if (run === undefined || isRunEnded(run, atMs)) return false
  const caller = group.addCaller(boundText(record, callerToText(refused)))
  const [called, returned] = refusedFacts(refused, IN_CALLER_TEXT)
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

/** A fact as it is stored: without its call's label, which holds caller text and is sealed elsewhere (rule 15). */
function factToText(fact: RunFact): string {
  return JSON.stringify(fact, (name, value: unknown) => (name === 'call' ? undefined : value))
}

/** The same as read back; the label is put in again from the caller text of its call. */
type StoredFact =
  | Omit<Extract<RunFact, { readonly type: 'called' }>, 'call'>
  | Omit<Extract<RunFact, { readonly type: 'returned' }>, 'call'>
  | Omit<Extract<RunFact, { readonly type: 'interrupt.requested' }>, 'call'>
  | Omit<Extract<RunFact, { readonly type: 'consent.requested' }>, 'call'>
  | Exclude<RunFact, { readonly call: CallLabel }>

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
  const slice = {
    group: integer(row, 'caller_group'),
    at: integer(row, 'caller_at'),
    length: integer(row, 'caller_length'),
  }
  try {
    return labelOf(yield* readCaller(record, sealed, slice))
  } catch (error) {
    // A run that goes on for longer than the journal is kept outlives the text of its first calls.
    if (error instanceof StoreError && error.code === 'unreadable') {
      return { ...IN_CALLER_TEXT, callId: record }
    }
    throw error
  }
}

export const queries = {
  insertRun: `INSERT INTO runs (key, tenant, principal, next, open, touched_at) VALUES (?, ?, ?, 0, 0, ?)
    ON CONFLICT (key) DO NOTHING`,
  findRun: 'SELECT * FROM runs WHERE key = ?',
  /** The sequence is given out by the row it counts, in the appending transaction (rule 16). */
  takeSequence: `UPDATE runs SET next = next + 1, open = open + ?, touched_at = max(touched_at, ?) WHERE key = ?
    RETURNING no, next - 1 AS sequence`,
  endRun: 'UPDATE runs SET ended_at = ? WHERE key = ? AND tenant = ? AND ended_at IS NULL',
  insertRunEvent: `INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length)
    VALUES (?, ?, ?, ?, ?, ?, ?)`,
  runEventsAfter: 'SELECT * FROM run_events WHERE run = ? AND sequence > ? ORDER BY sequence LIMIT ?',
  deleteRunEvents: `DELETE FROM run_events WHERE run = ?
    AND sequence IN (SELECT sequence FROM run_events WHERE run = ? ORDER BY sequence LIMIT ?)`,
  deleteRun: 'DELETE FROM runs WHERE no = ? AND NOT EXISTS (SELECT 1 FROM run_events WHERE run = runs.no)',
  keepInRun: 'UPDATE calls SET run = record WHERE record = ? AND run IS NULL',
} as const

/** A run's row gives the next sequence (rule 16). What a caller wrote stays sealed in the group of its call; an event points there. */
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
`
