import { StoreError } from '#kernel/base/errors'
import type { MaybePromise } from '#kernel/base/waiting'
import type { Outcome } from '#kernel/call/call'
import type {
  Attempt,
  CallAddress,
  CallRecord,
  ClaimResult,
  FinishedAttempt,
  FinishResult,
  NewCall,
  NewSession,
  NextAttempt,
  RefusedCall,
  RunAddress,
  RunRecord,
  SessionAddress,
  SessionRecord,
  Settlement,
  SettleResult,
} from '#kernel/call/call-record'
import type { ChallengeNeed, ChallengeRecord, NewChallenge } from '#kernel/call/stages'
import { attemptEvent, claimedEvent, endedEvent, refusedEvent } from '#kernel/journal/append'
import type { JournalGroup, JournalPosition } from '#kernel/journal/events'
import { ownSessionOutcome, type RunEvent, type SessionOutcome } from '#kernel/run/events'
import type { RetentionPolicy } from '#kernel/store/module'
import { hasEffects } from '#kernel/tool/tool'
import type { Store } from '#store/collet-store'
import { ReferenceBudgets, ReferenceChallenges, ReferenceJournal } from './parts.ts'
import {
  beginAttempt,
  isForgettable,
  newestRows,
  newRow,
  type ReferenceRow,
  ReferenceRunEvents,
  ReferenceRuns,
  ReferenceSessions,
  runTimeOf,
} from './runs-and-sessions.ts'

/** A method of a store, or of the model, which answers synchronously. */
type Answering<Store> = {
  [Name in keyof Store]: Store[Name] extends (...given: infer Given) => infer Answer
    ? (...given: Given) => MaybePromise<Awaited<Answer>>
    : Store[Name]
}

/** The methods of a store that random sequences of operations call. */
type ModelledMethods = Pick<
  Store,
  | 'find'
  | 'claim'
  | 'reclaim'
  | 'finish'
  | 'insertFinished'
  | 'recordLate'
  | 'requestCancel'
  | 'cancelRequests'
  | 'settle'
  | 'findRun'
  | 'readRun'
  | 'endRun'
  | 'noteRefusal'
  | 'findSession'
  | 'openSession'
  | 'beginSessionClose'
  | 'closeSession'
  | 'openChallenge'
  | 'findChallenge'
  | 'endChallenge'
  | 'list'
  | 'findByRecord'
  | 'readJournal'
  | 'purge'
>

export type ModelledStore = Answering<ModelledMethods> & { readonly budgets: Answering<Store['budgets']> }

/**
 * A second implementation of the rules for calls, runs, sessions, challenges and budgets, without a database, commits or other
 * processes. A store is correct if every sequence of operations has the same results on it and on this model.
 */
export class ReferenceStore implements ModelledStore {
  readonly #writer = 'reference'
  readonly #journal = new ReferenceJournal(this.#writer)
  readonly budgets = new ReferenceBudgets()
  readonly #rows = new Map<string, ReferenceRow>()
  readonly #challenges = new ReferenceChallenges(this.#journal.append)
  readonly #runs = new ReferenceRuns()
  readonly #sessions = new ReferenceSessions(this.#runs, this.#writer)
  readonly #runEvents = new ReferenceRunEvents(this.#runs, (own) => this.#openSession(own, 'closing'))

  find(address: CallAddress): CallRecord | undefined {
    const row = this.#rows.get(address.record)
    return row?.tenant === address.tenant ? { ...row } : undefined
  }

  async claim(call: NewCall): Promise<ClaimResult> {
    const row = this.#rows.get(call.record)
    if (row !== undefined) return { kind: 'found', record: { ...row } }
    const { scope, session, tenant, principal, record, atMs } = call
    const run = scope?.run ?? (session === undefined ? undefined : record)
    if (run !== undefined && !this.#runs.open({ tenant, run, principal }, atMs)) {
      return { kind: 'run_ended' }
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
    return { kind: 'claimed', attempt: 1 }
  }

  async reclaim(previous: CallRecord, { session, atMs }: NextAttempt): Promise<ClaimResult> {
    const row = this.#rows.get(previous.record)
    if (row === undefined) throw new StoreError('not_written', 'the call to run again is gone')
    const isSame = row.state === previous.state && row.attempt === previous.attempt
    const isOpen = (row.state === 'released' && !row.expired) || row.state === 'running'
    if (!isSame || !isOpen) return { kind: 'found', record: { ...row } }
    const { tenant, principal, record } = row
    const run = row.run ?? record
    if (run !== record && !this.#runs.open({ tenant, run, principal }, atMs)) return { kind: 'run_ended' }
    this.#runEvents.keep(row)
    if (row.state === 'running') {
      const event = attemptEvent('call.cut', row, atMs, { deadWriter: row.writer })
      this.#journal.append({ ...event, ...this.#runEvents.end(row, 'cut', atMs) })
      if (session?.isOwn === true && row.sessionId !== undefined) {
        this.closeSession({ tenant, sessionId: row.sessionId }, 'failed', atMs)
      }
    }
    beginAttempt(row, session)
    const position = this.#runEvents.begin(row, session, atMs)
    this.#journal.append({ ...claimedEvent(row, row.attempt, { atMs, parent: row.parent }), ...position })
    return { kind: 'claimed', attempt: row.attempt }
  }

  async finish(finished: FinishedAttempt): Promise<FinishResult> {
    const { run, state, outcome, atMs } = finished
    const row = this.#rows.get(run.record)
    if (row === undefined) throw new StoreError('not_written', 'the call to finish is gone')
    if (row.state !== 'running' || row.attempt !== run.attempt) return { kind: 'found', record: { ...row } }
    row.state = state
    row.outcome = outcome
    row.finishedAtMs = atMs
    row.ranMs = runTimeOf(outcome)
    const ended = endedEvent(row, row.attempt, { state, outcome, atMs })
    this.#journal.append({ ...ended, ...this.#runEvents.end(row, outcome, atMs) })
    if (run.session?.isOwn === true) {
      this.closeSession(
        { tenant: row.tenant, sessionId: run.session.sessionId },
        ownSessionOutcome(outcome),
        atMs,
      )
    }
    return { kind: 'recorded' }
  }

  async insertFinished(call: NewCall, finished: Omit<FinishedAttempt, 'run'>): Promise<FinishResult> {
    const row = this.#rows.get(call.record)
    if (row !== undefined) return { kind: 'found', record: { ...row } }
    const { state, outcome, atMs } = finished
    const run = call.scope?.run ?? (call.session === undefined ? undefined : call.record)
    this.#insert(call, { state, outcome, finishedAtMs: atMs, run })
    this.#journal.append(endedEvent(call, 1, finished))
    return { kind: 'recorded' }
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
    this.#journal.append(attemptEvent('call.cancel_requested', row, atMs, { by }))
    return true
  }

  cancelRequests(): readonly CallAddress[] {
    return [...this.#rows.values()].filter((row) => row.cancelRequested && row.state === 'running')
  }

  /** No writer dies here, so no call is ever ambiguous. */
  settle({ record }: Settlement): SettleResult {
    return this.#rows.has(record) ? 'not_ambiguous' : 'not_found'
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
    const reported = this.#runEvents.refuse(refused)
    if (reported === undefined) return false
    this.#journal.append({ ...refusedEvent(refused), ...reported })
    return true
  }

  findSession(address: SessionAddress): SessionRecord | undefined {
    return this.#sessions.find(address)
  }

  openSession(session: NewSession): 'opened' | 'run_ended' {
    if (!this.#runs.open(session.scope, session.atMs)) return 'run_ended'
    this.#openSession(session, 'open')
    return 'opened'
  }

  beginSessionClose(address: SessionAddress): boolean {
    return this.#sessions.beginClose(address)
  }

  closeSession(address: SessionAddress, outcome: SessionOutcome, atMs: number): boolean {
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

  list: Store['list'] = (filter) => ({ calls: newestRows([...this.#rows.values()], filter) })

  findByRecord(record: string): CallRecord | undefined {
    const row = this.#rows.get(record)
    return row === undefined ? undefined : { ...row }
  }

  readJournal(after: readonly JournalPosition[], limit: number): readonly JournalGroup[] {
    return this.#journal.read(after, limit)
  }

  purge(nowMs: number, policy: RetentionPolicy): boolean {
    for (const row of this.#rows.values()) {
      if (!isForgettable(row, { nowMs, policy })) continue
      const keepsKey =
        hasEffects({ safetyTier: row.tier }) && (row.finishedAtMs ?? nowMs) >= nowMs - policy.journalMs
      if (!keepsKey) {
        this.#rows.delete(row.record)
        // Another call that takes the key begins a new run.
        if (row.run === row.record) this.#runs.remove(row.record)
      }
      Object.assign(row, { outcome: undefined, late: undefined, expired: true })
    }
    this.#challenges.forget(nowMs - policy.resultsMs)
    this.budgets.forget(nowMs)
    this.#runs.purge(nowMs - policy.journalMs)
    this.#sessions.purge(nowMs - policy.journalMs)
    this.#journal.forget(nowMs - policy.journalMs)
    return false
  }

  #insert(call: NewCall, end: Omit<Parameters<typeof newRow>[1], 'writer'>): ReferenceRow {
    const row = newRow(call, { ...end, writer: this.#writer })
    this.#rows.set(call.record, row)
    return row
  }

  #openSession(session: NewSession, state: 'open' | 'closing'): void {
    this.#journal.append(this.#sessions.open(session, state))
  }
}
