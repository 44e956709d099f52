import type { Outcome } from '#kernel/call/call'
import type {
  CallRecord,
  CallSession,
  NewCall,
  NewSession,
  RefusedCall,
  RunAddress,
  RunRecord,
  SessionAddress,
  SessionRecord,
} from '#kernel/call/call-record'
import type { RunPosition, SessionChanged } from '#kernel/journal/events'
import {
  calledFact,
  labelOf,
  openCountChange,
  ownRunEvents,
  type RunEvent,
  type RunFact,
  refusedFacts,
  returnedFact,
  type SessionOutcome,
} from '#kernel/run/events'
import { isRunEnded } from '#kernel/run/runs'
import type { RetentionPolicy } from '#kernel/store/module'
import type { CallFilter } from '#store/call-filter'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

interface Session extends Mutable<SessionRecord> {
  closedAtMs: number | undefined
  readonly endsRun: boolean
}

/** Sessions; each change returns its event for the journal. */
export class ReferenceSessions {
  readonly #sessions = new Map<string, Session>()
  readonly #runs: ReferenceRuns
  readonly #writer: string

  constructor(runs: ReferenceRuns, writer: string) {
    this.#runs = runs
    this.#writer = writer
  }

  find({ tenant, sessionId }: SessionAddress): SessionRecord | undefined {
    const found = this.#sessions.get(sessionId)
    if (found?.tenant !== tenant) return undefined
    const { closedAtMs: _closedAtMs, endsRun: _endsRun, ...record } = found
    return record
  }

  open(session: NewSession, state: 'open' | 'closing'): SessionChanged {
    const { tenant, sessionId, principal, tool, toolId, scope, atMs } = session
    const { run } = scope
    this.#sessions.set(sessionId, {
      tenant,
      sessionId,
      principal,
      tool,
      toolId,
      run,
      state,
      writer: this.#writer,
      address: session.address,
      outcome: undefined,
      closedAtMs: undefined,
      endsRun: session.endsRun === true,
    })
    const position = this.#runs.append(run, { type: 'session.opened', sessionId, toolId }, atMs)
    return { type: 'session.opened', at: atMs, session: sessionId, tenant, principal, tool, ...position }
  }

  beginClose({ tenant, sessionId }: SessionAddress): boolean {
    const found = this.#sessions.get(sessionId)
    if (found?.tenant !== tenant || found.state !== 'open') return false
    found.state = 'closing'
    return true
  }

  /** `undefined` when it was closed already. */
  close(address: SessionAddress, outcome: SessionOutcome, atMs: number): SessionChanged | undefined {
    const { tenant, sessionId } = address
    const found = this.#sessions.get(sessionId)
    if (found?.tenant !== tenant || found.state === 'closed') return undefined
    found.state = 'closed'
    found.outcome = outcome
    found.closedAtMs = atMs
    const { principal, tool, toolId, run } = found
    const position = this.#runs.append(run, { type: 'session.closed', sessionId, toolId, outcome }, atMs)
    const ids = { session: sessionId, tenant, principal, tool }
    return { type: 'session.closed', at: atMs, ...ids, ...position, outcome }
  }

  /** The run that ends with this session. */
  ownRunOf(sessionId: string): string | undefined {
    const found = this.#sessions.get(sessionId)
    return found?.endsRun === true ? found.run : undefined
  }

  purge(beforeMs: number): void {
    for (const [id, { closedAtMs }] of this.#sessions) {
      if (closedAtMs !== undefined && closedAtMs < beforeMs) this.#sessions.delete(id)
    }
  }
}

/** The events of calls in runs: a pair per attempt. */
export class ReferenceRunEvents {
  readonly #runs: ReferenceRuns
  readonly #openSession: (own: NewSession) => void

  constructor(runs: ReferenceRuns, openSession: (own: NewSession) => void) {
    this.#runs = runs
    this.#openSession = openSession
  }

  /** The attempt's first event in its run, after the opening of its own session. */
  begin(row: CallRecord, session: CallSession | undefined, atMs: number): RunPosition | undefined {
    const { tenant, principal, tool, toolId, run } = row
    if (run === undefined) return undefined
    if (session?.isOwn === true) {
      const scope = { tenant, run, principal, runId: '' }
      this.#openSession({ tenant, sessionId: session.sessionId, principal, tool, toolId, scope, atMs })
    }
    return this.#runs.append(run, calledFact(attempted(row), principal), atMs)
  }

  end(row: CallRecord, end: Outcome | 'cut', atMs: number): RunPosition | undefined {
    if (row.run === undefined) return undefined
    return this.#runs.append(row.run, returnedFact(attempted(row), end), atMs)
  }

  /** Adds the pair of a refused call; returns the position of the first event, or nothing if no such run accepts it. */
  refuse(refused: RefusedCall): RunPosition | undefined {
    const { scope, atMs } = refused
    const run = this.#runs.find(scope)
    if (run === undefined || isRunEnded(run, atMs)) return undefined
    const [called, returned] = refusedFacts(refused, labelOf(refused))
    const position = this.#runs.append(scope.run, called, atMs)
    this.#runs.append(scope.run, returned, atMs)
    return position
  }

  /** Stores the events of a call that were derived from its record until now, because later events cannot be derived. */
  keep(row: CallRecord & { run: string | undefined }): void {
    if (row.run !== undefined) return
    const { tenant, record, principal, createdAtMs } = row
    this.#runs.open({ tenant, run: record, principal }, createdAtMs)
    for (const { sequence: _given, atMs, ...fact } of ownRunEvents(row)) {
      this.#runs.append(record, fact, atMs)
    }
    row.run = record
  }
}

function attempted(row: CallRecord) {
  return { record: row.record, attempt: row.attempt, call: labelOf(row), sessionId: row.sessionId }
}

interface Run extends Mutable<RunRecord> {
  readonly events: RunEvent[]
}

/** Runs and their events. */
export class ReferenceRuns {
  readonly #runs = new Map<string, Run>()

  find({ tenant, run }: RunAddress): RunRecord | undefined {
    const found = this.#runs.get(run)
    if (found?.tenant !== tenant) return undefined
    const { events: _events, ...record } = found
    return record
  }

  read({ tenant, run }: RunAddress, after: number, limit: number): readonly RunEvent[] {
    const found = this.#runs.get(run)
    return found?.tenant === tenant ? found.events.slice(after + 1, after + 1 + limit) : []
  }

  /** Creates the run if it is new; `false` if it accepts nothing any more. */
  open(scope: RunAddress & { readonly principal: string }, atMs: number): boolean {
    const { tenant, run, principal } = scope
    const found = this.#runs.get(run)
    if (found !== undefined) return !isRunEnded(found, atMs)
    const touchedAtMs = atMs
    this.#runs.set(run, { tenant, run, principal, open: 0, touchedAtMs, endedAtMs: undefined, events: [] })
    return true
  }

  append(run: string, fact: RunFact, atMs: number): RunPosition {
    const found = this.#runs.get(run)
    if (found === undefined) throw new Error(`run ${run} was not opened`)
    const sequence = found.events.length
    found.events.push({ ...fact, sequence, atMs })
    found.open += openCountChange(fact)
    found.touchedAtMs = Math.max(found.touchedAtMs, atMs)
    return { run, sequence }
  }

  end(address: RunAddress, atMs: number): RunRecord | undefined {
    const found = this.#runs.get(address.run)
    if (found === undefined || found.tenant !== address.tenant || isRunEnded(found, atMs)) return undefined
    found.endedAtMs = atMs
    return found
  }

  remove(run: string): void {
    this.#runs.delete(run)
  }

  purge(beforeMs: number): void {
    for (const [key, run] of this.#runs) {
      if (run.open === 0 && run.touchedAtMs < beforeMs) this.#runs.delete(key)
    }
  }
}

/** A call, and whether its caller asked to cancel it. */
export interface ReferenceRow extends Mutable<CallRecord> {
  cancelRequested: boolean
}

export function newRow(
  call: NewCall,
  end: Pick<CallRecord, 'state' | 'outcome' | 'finishedAtMs' | 'run' | 'writer'>,
): ReferenceRow {
  return {
    tenant: call.tenant,
    record: call.record,
    principal: call.principal,
    ...labelOf(call),
    runId: call.scope?.runId,
    sessionId: call.session?.sessionId,
    protocol: call.protocol,
    userId: call.userId,
    fingerprint: call.fingerprint,
    tool: call.tool,
    definitionHash: call.definitionHash,
    tier: call.tier,
    replay: call.replay,
    rerunUntilMs: call.rerunUntilMs,
    attempt: 1,
    createdAtMs: call.atMs,
    expired: false,
    late: undefined,
    cancelRequested: false,
    parent: call.step?.parent,
    root: call.step?.root,
    resumable: call.resumable ?? false,
    waitsFor: undefined,
    ranMs: runTimeOf(end.outcome),
    ...end,
  }
}

/** Duration in whole milliseconds; none if the tool was not started. */
export function runTimeOf(outcome: Outcome | undefined): number | undefined {
  if (outcome?.durationMs === undefined || (!outcome.ok && outcome.neverStarted === true)) return undefined
  return Math.round(outcome.durationMs)
}

export function beginAttempt(row: ReferenceRow, session: CallSession | undefined): void {
  row.sessionId = session?.sessionId
  row.state = 'running'
  row.attempt += 1
  row.outcome = undefined
  row.finishedAtMs = undefined
  row.ranMs = undefined
  row.cancelRequested = false
}

/** Rule 13. */
export function isForgettable(
  row: ReferenceRow,
  { nowMs, policy }: { readonly nowMs: number; readonly policy: RetentionPolicy },
): boolean {
  return (row.finishedAtMs ?? nowMs) < nowMs - (row.expired ? policy.journalMs : policy.resultsMs)
}

/** Operators' view, as copies. */
export function newestRows(rows: readonly ReferenceRow[], filter: CallFilter): readonly CallRecord[] {
  const { states, tenant, limit } = filter
  return rows
    .filter((row) => states === undefined || states.includes(row.state))
    .filter((row) => tenant === undefined || row.tenant === tenant)
    .reverse()
    .slice(0, limit)
    .map((row) => ({ ...row }))
}
