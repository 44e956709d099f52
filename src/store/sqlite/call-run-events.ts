import type { Outcome } from '#core/call'
import { refusedEvent } from '#core/journal/append'
import type { RunPosition } from '#core/journal/events'
import type {
  Attempt,
  CallRecord,
  CallSession,
  NewCall,
  RefusedCall,
  SessionAddress,
} from '#core/ports/store'
import {
  type CallLabel,
  calledFact,
  ownRunEvents,
  ownSessionOutcome,
  refusedFacts,
  returnedFact,
  type ToldCall,
} from '#core/runs/events'
import { isRunEnded } from '#core/runs/runs'
import { boundText, callerSlice, callerToText, subjectFromRow } from '#store/sql/call-row'
import type { OpenGroup, Slice } from '#store/sql/open-group'
import { integer, optionalText, type Row, text } from '#store/sql/row'
import type { Database } from './database.ts'
import type { RunChanges } from './run-changes.ts'
import type { SessionChanges } from './session-changes.ts'

/** Stored events take their label from the caller text they point to, so none is written with them. */
const IN_CALLER_TEXT: CallLabel = { callId: '', toolId: '', transport: 'native', argsHash: '', traceId: '' }

/** The attempt that begins, and where its call's caller text lies. */
export interface BeginningAttempt {
  readonly call: Pick<CallRecord, 'tenant' | 'record' | 'principal' | 'tool' | 'toolId'>
  readonly run: string
  readonly attempt: number
  readonly session: CallSession | undefined
  readonly caller: Slice
  readonly atMs: number
}

/** An attempt whose process is gone, as its row tells. */
export interface CutAttempt {
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

  begin(group: OpenGroup, begun: BeginningAttempt): RunPosition {
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
  endSession(group: OpenGroup, { tenant, session }: Attempt, outcome: Outcome, atMs: number): void {
    if (session?.isOwn !== true) return
    const { sessionId } = session
    this.#sessions.close(group, { tenant, sessionId }, ownSessionOutcome(outcome), atMs)
  }

  closeCutSession(group: OpenGroup, address: SessionAddress, atMs: number): void {
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
  refuse(group: OpenGroup, refused: RefusedCall): boolean {
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
