import type { Outcome } from '#core/call'
import type { RunPosition } from '#core/journal/events'
import type { Attempt, CallRecord, CallSession, NewCall } from '#core/ports/store'
import { calledFact, type OwnRunCall, ownRunEvents, ownSessionOutcome, returnedFact } from '#core/runs/events'
import type { CommitGroup } from '#store/engine'
import { callerSlice, integer, optionalText, type Slice, subjectFromRow, text } from '#store/rows'
import { get, type Row, type Steps, write } from '#store/steps'
import { appendFact, IN_CALLER_TEXT, openRun } from './runs.ts'
import { closeSession, insertSession } from './sessions.ts'

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
export function runOf({ scope, session, record }: NewCall): string | undefined {
  return scope?.run ?? (session === undefined ? undefined : record)
}

/** A pair of events per attempt, inside the brackets of its own session if it has one. */
export function* beginAttempt(group: CommitGroup, begun: BeginningAttempt): Steps<RunPosition> {
  const { call, run, attempt, session, caller, atMs } = begun
  const { tenant, record, principal, tool, toolId } = call
  if (session?.isOwn === true) {
    const scope = { tenant, run, principal, runId: '' }
    const own = { tenant, sessionId: session.sessionId, principal, tool, toolId, scope, atMs }
    yield* insertSession(group, own, 'closing')
  }
  const attempted = { record, attempt, call: IN_CALLER_TEXT, sessionId: session?.sessionId }
  return yield* appendFact(run, { fact: calledFact(attempted, principal), caller, atMs })
}

/** Nothing for a call that is told by its record alone. */
export function* endAttempt(
  { record, attempt, run, session }: Attempt,
  outcome: Outcome,
  atMs: number,
): Steps<RunPosition | undefined> {
  if (run === undefined) return undefined
  const attempted = { record, attempt, call: IN_CALLER_TEXT, sessionId: session?.sessionId }
  const caller = callerSlice((yield* get('callerOf', record)) ?? {})
  return yield* appendFact(run, { fact: returnedFact(attempted, outcome), caller, atMs })
}

/** Called after the call's own end, so that the bracket closes last (OWP-41). */
export function* endOwnSession(
  group: CommitGroup,
  { tenant, session }: Attempt,
  outcome: Outcome,
  atMs: number,
): Steps<void> {
  if (session?.isOwn !== true) return
  const { sessionId } = session
  yield* closeSession(group, { tenant, sessionId }, ownSessionOutcome(outcome), atMs)
}

/** Ends an attempt that nobody will end any more; its call must have a run. */
export function* cutAttempt(
  { row, record, attempt, sessionId, atMs }: CutAttempt,
  end: Outcome | 'cut',
): Steps<RunPosition> {
  const attempted = { record, attempt, call: IN_CALLER_TEXT, sessionId }
  const fact = returnedFact(attempted, end)
  return yield* appendFact(text(row, 'run'), { fact, caller: callerSlice(row), atMs })
}

/** Gives a call told by its record alone a run with events, because more will be told than a record can. */
export function* keepInRun(row: Row, told: OwnRunCall): Steps<void> {
  if (optionalText(row, 'run') !== undefined) return
  const { record, principal } = told
  yield* openRun({ tenant: text(row, 'tenant'), run: record, principal }, told.createdAtMs)
  yield* write('keepInRun', record)
  for (const { sequence: _given, atMs, ...fact } of ownRunEvents(told)) {
    yield* appendFact(record, { fact, caller: callerSlice(row), atMs })
  }
}

/** What is known of a cut call without opening anything sealed: damage must not keep a server from starting. */
export function labelledByRow(row: Row): OwnRunCall {
  return {
    ...subjectFromRow(row),
    ...IN_CALLER_TEXT,
    state: 'running',
    createdAtMs: integer(row, 'created_at'),
    finishedAtMs: undefined,
    outcome: undefined,
    sessionId: undefined,
  }
}
