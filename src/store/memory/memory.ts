import { hash, randomBytes, randomUUID } from 'node:crypto'
import { getHeapStatistics } from 'node:v8'
import type { Outcome } from '#core/call'
import { StoreError } from '#core/errors'
import {
  cancelRequestedEvent,
  claimedEvent,
  cutEvent,
  endedEvent,
  refusedEvent,
  settledEvent,
} from '#core/journal/append'
import type { JournalGroup, JournalHead } from '#core/journal/events'
import type {
  Attempt,
  CallAddress,
  CallRecord,
  ChallengeNeed,
  ChallengeRecord,
  ClaimResult,
  FinishedRun,
  FinishResult,
  NewCall,
  NewChallenge,
  NewSession,
  NextAttempt,
  RecoveryReport,
  RefusedCall,
  RetentionPolicy,
  RunAddress,
  RunRecord,
  SessionAddress,
  SessionRecord,
  Settlement,
  SettleResult,
  Store,
} from '#core/ports/store'
import { ownSessionOutcome, type RunEvent, type SessionOutcome } from '#core/runs/events'
import { hasEffects } from '#core/tool'
import { MemoryApprovals } from './approvals.ts'
import { MemoryAudit, MemoryChallenges, MemoryConsents, MemoryKeys, MemoryVault } from './credentials.ts'
import {
  MemoryBudgets,
  MemoryCallers,
  MemoryJournal,
  MemoryPins,
  MemoryRequests,
  MemorySources,
  MemoryWorkflows,
} from './parts.ts'
import {
  BYTES_PER_CALL,
  BYTES_PER_SESSION,
  beginAttempt,
  bytesOf,
  correctRow,
  isForgettable,
  type MemoryRow,
  MemoryRunEvents,
  MemoryRuns,
  MemorySessions,
  newestRows,
  newRow,
  outcomeBytes,
  ownRows,
} from './runs.ts'

const PURGE_STEP = 1_000

/**
 * The reference store: the same rules with nothing under them. Nothing outlives the process, nothing is
 * encrypted and the journal is not chained, so it is for tests and for tools without effects.
 */
export class MemoryStore implements Store {
  readonly writer = `memory-${randomUUID()}`
  readonly #journal = new MemoryJournal(this.writer)
  readonly keys = new MemoryKeys(this.#journal.append)
  readonly audit = new MemoryAudit(this.#journal.append)
  readonly budgets = new MemoryBudgets()
  readonly #salt = randomBytes(32).toString('base64url')
  readonly vault = new MemoryVault(this.#journal.append)
  readonly callers = new MemoryCallers()
  readonly requests = new MemoryRequests(this.writer)
  readonly pins = new MemoryPins(this.#journal.append)
  readonly sources = new MemorySources(this.#journal.append)
  readonly #rows = new Map<string, MemoryRow>()
  readonly #challenges = new MemoryChallenges(this.#journal.append)
  readonly #runs = new MemoryRuns()
  readonly consents = new MemoryConsents({
    ...{ runs: this.#runs, append: this.#journal.append },
    hasCall: (record) => this.#rows.has(record),
  })
  readonly #sessions = new MemorySessions(this.#runs, this.writer)
  readonly #runEvents = new MemoryRunEvents(this.#runs, (own) => this.#openSession(own, 'closing'))
  readonly approvals = new MemoryApprovals({
    rows: this.#rows,
    runs: this.#runs,
    runEvents: this.#runEvents,
    writer: this.writer,
    append: this.#journal.append,
    insertParked: (call) => this.#insertParked(call),
    beginNext: (seen, next, as) => this.#beginNext(seen, next, as),
    closeSession: (address, outcome, atMs) => this.closeSession(address, outcome, atMs),
  })
  /** Nobody else can reach this memory. */
  readonly foreignVersion = () => 0
  readonly workflows = new MemoryWorkflows({
    ...{ rows: this.#rows, runEvents: this.#runEvents, writer: this.writer },
    append: this.#journal.append,
  })
  readonly #acknowledger = new Acknowledger()
  #bytes = 0
  readonly #mostBytes: number

  constructor(options: { readonly mostBytes?: number } = {}) {
    this.#mostBytes = options.mostBytes ?? Math.floor(getHeapStatistics().heap_size_limit / 2)
  }

  get pendingWrites(): number {
    return this.#acknowledger.size
  }

  digest(text: string): string {
    return hash('sha256', this.#salt + text, 'base64url').slice(0, 24)
  }

  find(address: CallAddress): CallRecord | undefined {
    const row = this.#rows.get(address.record)
    return row?.tenant === address.tenant ? { ...row } : undefined
  }

  claim(call: NewCall): Promise<ClaimResult> {
    const row = this.#rows.get(call.record)
    if (row !== undefined) return this.#acknowledger.nextTurn({ kind: 'found', record: { ...row } })
    const { place, session, tenant, principal, record, atMs } = call
    const run = place?.run ?? (session === undefined ? undefined : record)
    this.#checkRoom()
    if (run !== undefined && !this.#runs.open({ tenant, run, principal }, atMs)) {
      return this.#acknowledger.nextTurn({ kind: 'run_ended' })
    }
    const inserted = this.#insert(call, {
      state: 'running',
      outcome: undefined,
      finishedAtMs: undefined,
      run,
    })
    this.#journal.append({
      ...claimedEvent(call, 1, { atMs, parent: call.step?.parent }),
      ...this.#runEvents.begin(inserted, session, atMs),
    })
    return this.#acknowledger.nextTurn({ kind: 'claimed', attempt: 1 })
  }

  reclaim(seen: CallRecord, next: NextAttempt): Promise<ClaimResult> {
    const row = this.#beginNext(seen, next, 'running')
    if (row === 'run_ended') return this.#acknowledger.nextTurn({ kind: 'run_ended' })
    if (!('cancelRequested' in row)) return this.#acknowledger.nextTurn({ kind: 'found', record: row })
    const position = this.#runEvents.begin(row, next.session, next.atMs)
    const claimed = claimedEvent(row, row.attempt, { atMs: next.atMs, parent: row.parent })
    this.#journal.append({ ...claimed, ...position })
    return this.#acknowledger.nextTurn({ kind: 'claimed', attempt: row.attempt })
  }

  /** The row at its next attempt; a copy of it when somebody else has it. */
  #beginNext(
    seen: CallRecord,
    { session, atMs, corrected }: NextAttempt,
    as: 'running' | 'parked',
  ): MemoryRow | CallRecord | 'run_ended' {
    const row = this.#rows.get(seen.record)
    if (row === undefined) throw new StoreError('not_written', 'the call to run again is gone')
    const isSame = row.state === seen.state && row.attempt === seen.attempt && row.writer === seen.writer
    const isOpen = (row.state === 'released' && !row.expired) || row.state === 'running'
    if (!isSame || !isOpen) {
      const { cancelRequested: _ours, ...record } = row
      return record
    }
    const { tenant, principal, record } = row
    const run = row.run ?? record
    if (run !== record && !this.#runs.open({ tenant, run, principal }, atMs)) return 'run_ended'
    this.#runEvents.keep(row)
    if (row.state === 'running') {
      this.#journal.append({ ...cutEvent(row, row.writer, atMs), ...this.#runEvents.end(row, 'cut', atMs) })
      if (session?.isOwn === true && row.sessionId !== undefined) {
        this.closeSession({ tenant, sessionId: row.sessionId }, 'failed', atMs)
      }
    }
    if (corrected !== undefined) this.#journal.append(correctRow(row, corrected, atMs))
    beginAttempt(row, { as, session, writer: this.writer })
    return row
  }

  finish(finished: FinishedRun): Promise<FinishResult> {
    const { run, state, outcome, atMs } = finished
    const row = this.#rows.get(run.record)
    if (row === undefined) throw new StoreError('not_written', 'the call to finish is gone')
    if (row.state !== 'running' || row.attempt !== run.attempt || row.writer !== this.writer) {
      return this.#acknowledger.nextTurn({ kind: 'found', record: { ...row } })
    }
    row.state = state
    row.outcome = outcome
    row.finishedAtMs = atMs
    this.#bytes += outcomeBytes(outcome)
    const ended = endedEvent(row, row.attempt, { state, outcome, atMs })
    this.#journal.append({ ...ended, ...this.#runEvents.end(row, outcome, atMs) })
    if (run.session?.isOwn === true) {
      this.closeSession(
        { tenant: row.tenant, sessionId: run.session.sessionId },
        ownSessionOutcome(outcome),
        atMs,
      )
    }
    return this.#acknowledger.nextTurn({ kind: 'recorded' })
  }

  insertFinished(call: NewCall, finished: Omit<FinishedRun, 'run'>): Promise<FinishResult> {
    const row = this.#rows.get(call.record)
    if (row !== undefined) return this.#acknowledger.nextTurn({ kind: 'found', record: { ...row } })
    const { state, outcome, atMs } = finished
    const run = call.place?.run ?? (call.session === undefined ? undefined : call.record)
    this.#insert(call, { state, outcome, finishedAtMs: atMs, run })
    this.#journal.append(endedEvent(call, 1, finished))
    return this.#acknowledger.nextTurn({ kind: 'recorded' })
  }

  recordLate(run: Attempt, late: Outcome, atMs: number): void {
    const row = this.#rows.get(run.record)
    if (row?.attempt === run.attempt && !row.expired) row.late ??= late
    this.#journal.append(endedEvent(run, run.attempt, { state: 'late', outcome: late, atMs }))
  }

  requestCancel(address: CallAddress, by: string, atMs: number): boolean {
    const row = this.#rows.get(address.record)
    if (row === undefined || row.tenant !== address.tenant || row.state !== 'running') return false
    if (row.cancelRequested) return false
    row.cancelRequested = true
    this.#journal.append(cancelRequestedEvent(row, by, atMs))
    return true
  }

  cancelRequests(): readonly CallAddress[] {
    return [...this.#rows.values()].filter((row) => row.cancelRequested && row.state === 'running')
  }

  settle(settlement: Settlement): SettleResult {
    const row = this.#rows.get(settlement.record)
    if (row === undefined) return 'not_found'
    if (row.state !== 'ambiguous') return 'not_ambiguous'
    this.#journal.append(settledEvent(row, settlement))
    if (settlement.as === 'not-run') {
      this.#rows.delete(settlement.record)
      this.approvals.forget(settlement.record)
      this.#runs.remove(settlement.record)
      return 'settled'
    }
    row.state = settlement.as
    row.outcome = settledOutcome(settlement)
    row.finishedAtMs = settlement.atMs
    return 'settled'
  }

  /** Only this process ever writes here, so nobody else can have died. */
  recover(): RecoveryReport {
    return { deadWriters: 0, ambiguous: 0 }
  }

  isWriterAlive(writer: string): boolean {
    return writer === this.writer
  }

  findRun(address: RunAddress): RunRecord | undefined {
    return this.#runs.find(address)
  }

  readRun(address: RunAddress, after: number, limit: number): readonly RunEvent[] {
    return this.#runs.read(address, after, limit)
  }

  endRun(address: RunAddress, atMs: number): boolean {
    const ended = this.#runs.end(address, atMs)
    if (ended === undefined) return false
    this.#journal.append({ type: 'run.ended', at: atMs, ...address, principal: ended.principal })
    return true
  }

  noteRefusal(refused: RefusedCall): boolean {
    const told = this.#runEvents.refuse(refused)
    if (told === undefined) return false
    this.#journal.append({ ...refusedEvent(refused), ...told })
    return true
  }

  findSession(address: SessionAddress): SessionRecord | undefined {
    return this.#sessions.find(address)
  }

  openSession(session: NewSession): 'opened' | 'run_ended' {
    this.#checkRoom()
    if (!this.#runs.open(session.place, session.atMs)) return 'run_ended'
    this.#openSession(session, 'open')
    return 'opened'
  }

  beginSessionClose(address: SessionAddress): boolean {
    return this.#sessions.beginClose(address)
  }

  closeSession(address: SessionAddress, outcome: SessionOutcome, atMs: number): boolean {
    this.approvals.endIn(address, { why: 'session', atMs })
    const closed = this.#sessions.close(address, outcome, atMs)
    if (closed === undefined) return false
    this.#journal.append(closed)
    const run = this.#sessions.ownRunOf(address.sessionId)
    if (run !== undefined) this.endRun({ tenant: address.tenant, run }, atMs)
    return true
  }

  openChallenge(challenge: NewChallenge): ChallengeRecord {
    return this.#challenges.open(challenge)
  }

  findChallenge: Store['findChallenge'] = (id) => this.#challenges.find(id)

  endChallenge(need: ChallengeNeed, as: 'completed' | 'failed', atMs: number): void {
    this.#challenges.end(need, as, atMs)
  }

  listOwn: Store['listOwn'] = (query) => ownRows([...this.#rows.values()], query)

  list: Store['list'] = (filter) => newestRows([...this.#rows.values()], filter)

  findByRecord(record: string): CallRecord | undefined {
    const row = this.#rows.get(record)
    return row === undefined ? undefined : { ...row }
  }

  readJournal(after: readonly JournalHead[], limit: number): readonly JournalGroup[] {
    return this.#journal.read(after, limit)
  }

  purge(nowMs: number, policy: RetentionPolicy): boolean {
    let steps = 0
    for (const row of this.#rows.values()) {
      if (steps >= PURGE_STEP) return true
      if (!isForgettable(row, this.#rows.get(row.root ?? ''), { nowMs, policy })) continue
      steps += 1
      const keepsKey =
        hasEffects({ safetyTier: row.tier }) && (row.finishedAtMs ?? nowMs) >= nowMs - policy.journalMs
      if (!keepsKey) {
        this.#rows.delete(row.record)
        this.approvals.forget(row.record)
        // Whoever takes the key next begins a run anew.
        if (row.run === row.record) this.#runs.remove(row.record)
        this.#bytes -= BYTES_PER_CALL
      }
      this.#bytes -= outcomeBytes(row.outcome)
      Object.assign(row, { outcome: undefined, late: undefined, expired: true })
    }
    this.#challenges.forget(nowMs - policy.resultsMs)
    this.audit.forget(nowMs - policy.journalMs)
    this.consents.purge(nowMs)
    for (const part of [this.budgets, this.callers, this.requests]) part.forget(nowMs)
    this.#runs.purge(nowMs - policy.journalMs)
    this.#bytes -= BYTES_PER_SESSION * this.#sessions.purge(nowMs - policy.journalMs)
    this.#journal.forget(nowMs - policy.journalMs)
    return false
  }

  probe(): void {
    this.#checkRoom()
  }

  #checkRoom(): void {
    if (this.#bytes < this.#mostBytes) return
    throw new StoreError('full', `the memory store holds ${this.#rows.size} calls and takes no more`)
  }

  close(): void {}

  #insert(call: NewCall, end: Omit<Parameters<typeof newRow>[1], 'writer'>): MemoryRow {
    this.#checkRoom()
    this.#bytes += bytesOf(end.outcome)
    const row = newRow(call, { ...end, writer: this.writer })
    this.#rows.set(call.record, row)
    return row
  }

  #insertParked(call: NewCall): MemoryRow | undefined {
    const { place, tenant, principal, record, atMs } = call
    const run = place?.run ?? record
    this.#checkRoom()
    if (!this.#runs.open({ tenant, run, principal }, atMs)) return undefined
    return this.#insert(call, { state: 'parked', outcome: undefined, finishedAtMs: undefined, run })
  }

  #openSession(session: NewSession, state: 'open' | 'closing'): void {
    this.#journal.append(this.#sessions.open(session, state))
    this.#bytes += BYTES_PER_SESSION
  }
}

/** Acknowledges like a store that commits in groups: once per turn of the event loop, so that replies leave together. */
class Acknowledger {
  readonly #waiting: (() => void)[] = []

  get size(): number {
    return this.#waiting.length
  }

  nextTurn<T>(result: T): Promise<T> {
    return new Promise((resolve) => {
      this.#waiting.push(() => resolve(result))
      if (this.#waiting.length > 1) return
      setImmediate(() => {
        for (const acknowledge of this.#waiting.splice(0)) acknowledge()
      })
    })
  }
}

/** What a settled call answers from now on; `undefined` when it took effect but nobody knows the value (rule 12). */
function settledOutcome({ as, valueJson, error }: Settlement): Outcome | undefined {
  if (as === 'succeeded') return valueJson === undefined ? undefined : { ok: true, valueJson }
  return error === undefined ? undefined : { ok: false, error }
}
