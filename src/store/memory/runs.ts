import type { Outcome } from '#core/call'
import { shownBytes } from '#core/calls/execute'
import { correctedEvent } from '#core/journal/append'
import type { CallCorrected, RunPosition, SessionChanged } from '#core/journal/events'
import type {
  CallFilter,
  CallRecord,
  CallSession,
  NewCall,
  NewSession,
  OwnCallsPage,
  OwnCallsQuery,
  RefusedCall,
  RetentionPolicy,
  RunAddress,
  RunRecord,
  SessionAddress,
  SessionRecord,
} from '#core/ports/store'
import {
  calledFact,
  labelOf,
  opens,
  ownRunEvents,
  type RunEvent,
  type RunFact,
  refusedFacts,
  returnedFact,
  type SessionOutcome,
} from '#core/runs/events'
import { isRunEnded } from '#core/runs/runs'

/** Rough heap cost of one call with its events, without its result. */
export const BYTES_PER_CALL = 2_048
/** The same of a session with its two events. */
export const BYTES_PER_SESSION = 2_048

/** What a call costs, roughly: enough to refuse before the heap is full. */
export function bytesOf(outcome: Outcome | undefined): number {
  return BYTES_PER_CALL + outcomeBytes(outcome)
}

export function outcomeBytes(outcome: Outcome | undefined): number {
  if (outcome === undefined) return 0
  const shown = 2 * shownBytes(outcome.ok ? outcome.shown : outcome.error.shown)
  return outcome.ok ? 2 * outcome.valueJson.length + shown : shown
}

type MutableInMemorySessions<T> = { -readonly [K in keyof T]: T[K] }

interface Session extends MutableInMemorySessions<SessionRecord> {
  closedAtMs: number | undefined
  readonly endsRun: boolean
}

/** The memory store's sessions; each change gives the event that goes to the journal. */
export class MemorySessions {
  readonly #sessions = new Map<string, Session>()
  readonly #runs: MemoryRuns
  readonly #writer: string

  constructor(runs: MemoryRuns, writer: string) {
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
    const { tenant, sessionId, principal, tool, toolId, place, atMs } = session
    const { run } = place
    this.#sessions.set(sessionId, {
      tenant,
      sessionId,
      principal,
      tool,
      toolId,
      run,
      state,
      writer: this.#writer,
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

  /** Gives how many were forgotten. */
  purge(beforeMs: number): number {
    const before = this.#sessions.size
    for (const [id, { closedAtMs }] of this.#sessions) {
      if (closedAtMs !== undefined && closedAtMs < beforeMs) this.#sessions.delete(id)
    }
    return before - this.#sessions.size
  }
}

/** What the memory store's calls leave in runs: a pair of events per attempt. */
export class MemoryRunEvents {
  readonly #runs: MemoryRuns
  readonly #openSession: (own: NewSession) => void

  constructor(runs: MemoryRuns, openSession: (own: NewSession) => void) {
    this.#runs = runs
    this.#openSession = openSession
  }

  /** The attempt's first event in its run, after the opening of its own session. */
  begin(row: CallRecord, session: CallSession | undefined, atMs: number): RunPosition | undefined {
    const { tenant, principal, tool, toolId, run } = row
    if (run === undefined) return undefined
    if (session?.isOwn === true) {
      const place = { tenant, run, principal, runId: '' }
      this.#openSession({ tenant, sessionId: session.sessionId, principal, tool, toolId, place, atMs })
    }
    return this.#runs.append(run, calledFact(attempted(row), principal), atMs)
  }

  end(row: CallRecord, end: Outcome | 'cut', atMs: number): RunPosition | undefined {
    if (row.run === undefined) return undefined
    return this.#runs.append(row.run, returnedFact(attempted(row), end), atMs)
  }

  /** The pair of a call that was refused; where the first one is, or nothing when no such run takes it. */
  refuse(refused: RefusedCall): RunPosition | undefined {
    const { place, atMs } = refused
    const run = this.#runs.find(place)
    if (run === undefined || isRunEnded(run, atMs)) return undefined
    const [called, returned] = refusedFacts(refused, labelOf(refused))
    const position = this.#runs.append(place.run, called, atMs)
    this.#runs.append(place.run, returned, atMs)
    return position
  }

  /** Gives a call told by its record alone a run with events, because more will be told than a record can. */
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

type MutableInMemoryRuns<T> = { -readonly [K in keyof T]: T[K] }

interface Run extends MutableInMemoryRuns<RunRecord> {
  readonly events: RunEvent[]
}

/** The memory store's runs, with the same rules as any other's. */
export class MemoryRuns {
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

  /** Makes the run if it is new; `false` when it takes nothing any more. */
  open(place: RunAddress & { readonly principal: string }, atMs: number): boolean {
    const { tenant, run, principal } = place
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
    found.open += opens(fact)
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

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** A call as the memory store holds it. */
export interface MemoryRow extends Mutable<CallRecord> {
  cancelRequested: boolean
}

export function newRow(
  call: NewCall,
  end: Pick<CallRecord, 'state' | 'outcome' | 'finishedAtMs' | 'run' | 'writer'>,
): MemoryRow {
  return {
    tenant: call.tenant,
    record: call.record,
    principal: call.principal,
    ...labelOf(call),
    runId: call.place?.runId,
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
    ...end,
  }
}

/** Rule 9: what the call is from its next attempt on. Gives what the journal says of it. */
export function correctRow(row: MemoryRow, corrected: NewCall, atMs: number): CallCorrected {
  const event = correctedEvent(row, corrected, atMs)
  const { fingerprint, traceId } = corrected
  Object.assign(row, labelOf(corrected), { fingerprint, traceId })
  return event
}

export function beginAttempt(
  row: MemoryRow,
  begun: {
    readonly as: 'running' | 'parked'
    readonly session: CallSession | undefined
    readonly writer: string
  },
): void {
  row.sessionId = begun.session?.sessionId
  row.state = begun.as
  row.attempt += 1
  row.writer = begun.writer
  row.outcome = undefined
  row.finishedAtMs = undefined
  row.cancelRequested = false
}

/** Rule 13: the clock of a step starts when the call that began it all is final. */
export function isForgettable(
  row: MemoryRow,
  root: MemoryRow | undefined,
  { nowMs, policy }: { readonly nowMs: number; readonly policy: RetentionPolicy },
): boolean {
  const beforeMs = nowMs - (row.expired ? policy.journalMs : policy.resultsMs)
  return [row, root].every((one) => one === undefined || (one.finishedAtMs ?? nowMs) < beforeMs)
}

/** Operators' view, as copies. */
export function newestRows(rows: readonly MemoryRow[], filter: CallFilter): readonly CallRecord[] {
  const { state, tenant, limit } = filter
  return rows
    .filter((row) => state === undefined || row.state === state)
    .filter((row) => tenant === undefined || row.tenant === tenant)
    .reverse()
    .slice(0, limit)
    .map((row) => ({ ...row }))
}

/** A place is how many calls were there before; what was forgotten meanwhile moves it, which at worst shows a call twice. */
export function ownRows(rows: readonly MemoryRow[], query: OwnCallsQuery): OwnCallsPage {
  const { tenant, principal, before = rows.length, limit } = query
  const calls: CallRecord[] = []
  let place = Math.min(before, rows.length)
  while (place > 0 && calls.length < limit) {
    place -= 1
    const row = rows[place]
    if (row?.tenant === tenant && row.principal === principal && row.parent === undefined)
      calls.push({ ...row })
  }
  return place > 0 ? { calls, next: place } : { calls }
}
