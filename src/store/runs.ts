import type { Outcome } from '#core/call'
import { StoreError } from '#core/errors'
import { refusedEvent } from '#core/journal/append'
import type { RunPosition } from '#core/journal/events'
import type {
  Attempt,
  CallRecord,
  CallSession,
  NewCall,
  NewSession,
  RefusedCall,
  RunAddress,
  RunRecord,
  SessionAddress,
  SessionRecord,
} from '#core/ports/store'
import {
  type CallLabel,
  calledFact,
  labelOf,
  opens,
  ownRunEvents,
  ownSessionOutcome,
  type RunEvent,
  type RunFact,
  refusedFacts,
  returnedFact,
  type SessionOutcome,
  type ToldCall,
} from '#core/runs/events'
import { isRunEnded } from '#core/runs/runs'
import type { Database } from '#store/sqlite/database'
import type { ApprovalReasons } from './approvals.ts'
import type { CommitGroup } from './engine.ts'
import type { Slice } from './rows.ts'
import {
  boundText,
  callerSlice,
  callerToText,
  integer,
  optionalInteger,
  optionalText,
  type Row,
  readCaller,
  type SealedText,
  subjectFromRow,
  text,
  withToolId,
  word,
} from './rows.ts'

/** Stored events take their label from the caller text they point to, so none is written with them. */
const IN_CALLER_TEXT: CallLabel = { callId: '', toolId: '', transport: 'native', argsHash: '', traceId: '' }

/** The attempt that begins, and where its call's caller text lies. */
interface BeginningAttempt {
  readonly call: Pick<CallRecord, 'tenant' | 'record' | 'principal' | 'tool' | 'toolId'>
  readonly run: string
  readonly attempt: number
  readonly session: CallSession | undefined
  readonly caller: Slice
  readonly atMs: number
}

/** An attempt whose process is gone, as its row tells. */
interface CutAttempt {
  readonly row: Row
  readonly record: string
  readonly attempt: number
  readonly sessionId: string | undefined
  readonly atMs: number
}

/** The run that a new call's events go to; none when its record alone tells them. */
export function runOf({ place, session, record }: NewCall): string | undefined {
  return place?.run ?? (session === undefined ? undefined : record)
}

/** What is known of a cut call without opening anything sealed: damage must not keep a server from starting. */
export function toldByRow(row: Row, state: 'running' | 'ambiguous'): ToldCall {
  return {
    ...subjectFromRow(row),
    ...IN_CALLER_TEXT,
    state,
    createdAtMs: integer(row, 'created_at'),
    finishedAtMs: undefined,
    outcome: undefined,
    sessionId: undefined,
  }
}

/** What calls leave in runs: a pair of events per attempt, inside the brackets of its own session if it has one. */
export class CallRunEvents {
  readonly #database: Database
  readonly #runs: RunChanges
  readonly #sessions: SessionChanges

  constructor(parts: {
    readonly database: Database
    readonly runs: RunChanges
    readonly sessions: SessionChanges
  }) {
    this.#database = parts.database
    this.#runs = parts.runs
    this.#sessions = parts.sessions
  }

  begin(group: CommitGroup, begun: BeginningAttempt): RunPosition {
    const { call, run, attempt, session, caller, atMs } = begun
    const { tenant, record, principal, tool, toolId } = call
    if (session?.isOwn === true) {
      const place = { tenant, run, principal, runId: '' }
      const own = { tenant, sessionId: session.sessionId, principal, tool, toolId, place, atMs }
      this.#sessions.open(group, own, 'closing')
    }
    const attempted = { record, attempt, call: IN_CALLER_TEXT, sessionId: session?.sessionId }
    return this.#runs.append(run, { fact: calledFact(attempted, principal), caller, atMs })
  }

  /** Nothing for a call that is told by its record alone. */
  end({ record, attempt, run, session }: Attempt, outcome: Outcome, atMs: number): RunPosition | undefined {
    if (run === undefined) return undefined
    const attempted = { record, attempt, call: IN_CALLER_TEXT, sessionId: session?.sessionId }
    const caller = callerSlice(this.#database.get('callerOf', record) ?? {})
    return this.#runs.append(run, { fact: returnedFact(attempted, outcome), caller, atMs })
  }

  /** Called after the call's own end, so that the bracket closes last (OWP-41). */
  endSession(group: CommitGroup, { tenant, session }: Attempt, outcome: Outcome, atMs: number): void {
    if (session?.isOwn !== true) return
    const { sessionId } = session
    this.#sessions.close(group, { tenant, sessionId }, ownSessionOutcome(outcome), atMs)
  }

  closeCutSession(group: CommitGroup, address: SessionAddress, atMs: number): void {
    this.#sessions.close(group, address, 'failed', atMs)
  }

  /** Ends an attempt that nobody will end any more; its call must have a run. */
  cut({ row, record, attempt, sessionId, atMs }: CutAttempt, end: Outcome | 'cut'): RunPosition {
    const attempted = { record, attempt, call: IN_CALLER_TEXT, sessionId }
    return this.#runs.append(text(row, 'run'), {
      fact: returnedFact(attempted, end),
      caller: callerSlice(row),
      atMs,
    })
  }

  /** The pair of a call that was refused; `false` when no such run takes it. */
  refuse(group: CommitGroup, refused: RefusedCall): boolean {
    const { place, record, atMs } = refused
    const run = this.#runs.find(place)
    if (run === undefined || isRunEnded(run, atMs)) return false
    const caller = group.addCaller(boundText(record, callerToText(refused)))
    const [called, returned] = refusedFacts(refused, IN_CALLER_TEXT)
    const position = this.#runs.append(place.run, { fact: called, caller, atMs })
    this.#runs.append(place.run, { fact: returned, caller, atMs })
    group.append({ ...refusedEvent(refused), ...position })
    return true
  }

  /** Gives a call told by its record alone a run with events, because more will be told than a record can. */
  keep(row: Row, told: ToldCall): void {
    if (optionalText(row, 'run') !== undefined) return
    const { record, principal } = told
    this.#runs.open({ tenant: text(row, 'tenant'), run: record, principal }, told.createdAtMs)
    this.#database.run('keepInRun', record)
    for (const { sequence: _given, atMs, ...fact } of ownRunEvents(told)) {
      this.#runs.append(record, { fact, caller: callerSlice(row), atMs })
    }
  }
}

/** Every change of a session, with its event in the run it belongs to (rule 30). */
export class SessionChanges {
  readonly #database: Database
  readonly #runs: RunChanges
  readonly #writerNo: () => number

  constructor(parts: {
    readonly database: Database
    readonly runs: RunChanges
    readonly writerNo: () => number
  }) {
    this.#database = parts.database
    this.#runs = parts.runs
    this.#writerNo = parts.writerNo
  }

  find({ tenant, sessionId }: SessionAddress): SessionRecord | undefined {
    const row = this.#database.get('findSession', sessionId)
    const found = row === undefined ? undefined : sessionFromRow(row)
    return found?.tenant === tenant ? found : undefined
  }

  /** Its run must be open. A session of a single attempt begins as `closing`: no other call may use it. */
  open(group: CommitGroup, session: NewSession, state: 'open' | 'closing'): void {
    const { sessionId, tenant, principal, tool, toolId, place, endsRun, atMs } = session
    this.#database.run(
      'insertSession',
      sessionId,
      tenant,
      principal,
      tool,
      toolId,
      place.run,
      endsRun === true ? 1 : 0,
      this.#writerNo(),
      state,
      atMs,
    )
    const position = this.#runs.append(place.run, {
      fact: { type: 'session.opened', sessionId, toolId },
      caller: undefined,
      atMs,
    })
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

  beginClose({ tenant, sessionId }: SessionAddress): boolean {
    return this.#database.run('beginSessionClose', sessionId, tenant) > 0
  }

  /** `closed` with its event; `false` when it was closed already, so there is exactly one close (OWP-41). */
  close(group: CommitGroup, address: SessionAddress, outcome: SessionOutcome, atMs: number): boolean {
    const { tenant, sessionId } = address
    const row = this.#database.get('closeSession', outcome, atMs, sessionId, tenant)
    if (row === undefined) return false
    const position = this.#runs.append(text(row, 'run'), {
      fact: { type: 'session.closed', sessionId, toolId: text(row, 'tool_id'), outcome },
      caller: undefined,
      atMs,
    })
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
    if (integer(row, 'ends_run') === 1) this.#runs.end(group, { tenant, run: text(row, 'run') }, atMs)
    return true
  }
}

/** A fact and when it became one; `caller` is where the caller text of its call lies. */
interface NewFact {
  readonly fact: RunFact
  readonly caller: Slice | undefined
  readonly atMs: number
}

const NO_SLICE = { group: null, at: null, length: null } as const

/** Every change of a run, each inside a commit group that the caller opened. */
export class RunChanges {
  readonly #database: Database
  readonly #sealed: SealedText
  readonly #reasons: ApprovalReasons

  constructor(database: Database, sealed: SealedText, reasons: ApprovalReasons) {
    this.#database = database
    this.#sealed = sealed
    this.#reasons = reasons
  }

  find({ tenant, run }: RunAddress): RunRecord | undefined {
    const row = this.#database.get('findRun', run)
    const found = row === undefined ? undefined : runFromRow(row)
    return found?.tenant === tenant ? found : undefined
  }

  read(address: RunAddress, after: number, limit: number): readonly RunEvent[] {
    const row = this.#database.get('findRun', address.run)
    if (row === undefined || runFromRow(row).tenant !== address.tenant) return []
    return this.#database
      .all('runEventsAfter', integer(row, 'no'), after, limit)
      .map((event) => this.#withToolId(this.#reasons.openIn(runEventFromRow(event, this.#sealed))))
  }

  /** Makes the run if it is new; `false` when it takes nothing any more. */
  open(place: RunAddress & { readonly principal: string }, atMs: number): boolean {
    const { run, tenant, principal } = place
    if (this.#database.run('insertRun', run, tenant, principal, atMs) > 0) return true
    const found = this.find(place)
    return found !== undefined && !isRunEnded(found, atMs)
  }

  append(run: string, { fact, caller, atMs }: NewFact): RunPosition {
    const row = this.#database.get('takeSequence', opens(fact), atMs, run) ?? {}
    const sequence = integer(row, 'sequence')
    const { group, at, length } = caller ?? NO_SLICE
    this.#database.run(
      'insertRunEvent',
      integer(row, 'no'),
      sequence,
      atMs,
      factToText(fact),
      group,
      at,
      length,
    )
    return { run, sequence }
  }

  end(group: CommitGroup, address: RunAddress, atMs: number): boolean {
    const found = this.find(address)
    if (found === undefined || isRunEnded(found, atMs)) return false
    const { run, tenant } = address
    if (this.#database.run('endRun', atMs, run, tenant) === 0) return false
    group.append({ type: 'run.ended', at: atMs, run, tenant, principal: found.principal })
    return true
  }

  /** Removes up to `limit` events of a run, and the run with its last one; gives how much went. */
  forget(no: number, limit: number): number {
    return this.#database.run('deleteRunEvents', no, no, limit) + this.#database.run('deleteRun', no)
  }

  #withToolId(event: RunEvent): RunEvent {
    if (!('call' in event) || event.call.toolId !== '') return event
    const row = this.#database.get('findCall', event.record)
    return row === undefined ? event : { ...event, call: withToolId(event.call, text(row, 'tool')) }
  }

  /** The run of a call that never happened, after all. */
  remove(run: string): void {
    const row = this.#database.get('findRun', run)
    if (row !== undefined) this.forget(integer(row, 'no'), Number.MAX_SAFE_INTEGER)
  }
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
    outcome: row.outcome === null ? undefined : word(row, 'outcome', OUTCOMES),
  }
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

function runEventFromRow(row: Row, sealed: SealedText): RunEvent {
  const place = { sequence: integer(row, 'sequence'), atMs: integer(row, 'at') }
  const fact: StoredFact = JSON.parse(text(row, 'fact'))
  if (
    fact.type === 'called' ||
    fact.type === 'returned' ||
    fact.type === 'interrupt.requested' ||
    fact.type === 'consent.requested'
  ) {
    return { ...fact, call: callOf(fact.record, row, sealed), ...place }
  }
  return { ...fact, ...place }
}

function callOf(record: string, row: Row, sealed: SealedText): CallLabel {
  const slice = {
    group: integer(row, 'caller_group'),
    at: integer(row, 'caller_at'),
    length: integer(row, 'caller_length'),
  }
  try {
    return labelOf(readCaller(record, sealed, slice))
  } catch (error) {
    // A run that goes on for longer than the journal is kept outlives the text of its first calls.
    if (error instanceof StoreError && error.code === 'unreadable') {
      return { callId: record, toolId: '', transport: 'native', argsHash: '', traceId: '' }
    }
    throw error
  }
}
