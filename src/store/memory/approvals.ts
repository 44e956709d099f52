import { createHmac, randomBytes } from 'node:crypto'
import {
  decidedFact,
  isOpen,
  isUsable,
  judgeDecision,
  type ParkedEnd,
  refusedOutcome,
  requestedFacts,
  resolvedFact,
} from '#core/approvals/decisions'
import { approvalEvent, claimedEvent, endedEvent, parkedEvent } from '#core/journal/append'
import type { JournalEvent } from '#core/journal/events'
import type {
  ApprovalAddress,
  ApprovalFilter,
  ApprovalRecord,
  ApprovalStore,
  DecideResult,
  DueNotice,
  EndedParked,
  NewDecision,
  ParkedScope,
  Parking,
  ParkResult,
  Resumption,
} from '#core/ports/approval-store'
import type {
  CallAddress,
  CallRecord,
  CallSession,
  ClaimResult,
  NewCall,
  NextAttempt,
} from '#core/ports/store'
import { labelOf, ownSessionOutcome, type SessionOutcome } from '#core/runs/events'
import type { MemoryRow, MemoryRunEvents, MemoryRuns } from './runs.ts'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

interface Question extends Mutable<ApprovalRecord> {
  readonly ownSession: string | undefined
}

interface Notice {
  readonly id: string
  readonly target: string
  readonly approval: string
  tries: number
  nextAtMs: number
}

interface MemoryApprovalParts {
  readonly rows: ReadonlyMap<string, MemoryRow>
  readonly runs: MemoryRuns
  readonly runEvents: MemoryRunEvents
  readonly writer: string
  append(event: JournalEvent): void
  /** A row that waits; `undefined` when the run it names takes nothing. */
  insertParked(call: NewCall): MemoryRow | undefined
  /** Begins the next attempt of `seen` in this state, as `reclaim` does. */
  beginNext(seen: CallRecord, next: NextAttempt, as: 'parked'): MemoryRow | CallRecord | 'run_ended'
  closeSession(address: { tenant: string; sessionId: string }, outcome: SessionOutcome, atMs: number): void
}

/** The memory store's approvals, with the same rules as any other's. */
export class MemoryApprovals implements ApprovalStore {
  readonly #parts: MemoryApprovalParts
  readonly #key = randomBytes(32)
  readonly #byId = new Map<string, Question>()
  readonly #newest = new Map<string, string>()
  readonly #notices = new Map<string, Notice>()

  constructor(parts: MemoryApprovalParts) {
    this.#parts = parts
  }

  sign(purpose: string, text: string): string {
    return createHmac('sha256', this.#key)
      .update(JSON.stringify([purpose, text]))
      .digest('base64url')
  }

  park(call: NewCall, parking: Parking): ParkResult {
    const row = this.#parts.rows.get(call.record) ?? (parking.keyed ? undefined : this.#like(call))
    if (row !== undefined) return { kind: 'found', record: { ...row } }
    const parked = this.#countParked(call)
    if (parked >= parking.mostParked) return { kind: 'full', parked }
    const inserted = this.#parts.insertParked(call)
    if (inserted === undefined) return { kind: 'run_ended' }
    return this.#ask(inserted, call.session, call.atMs, parking)
  }

  parkAgain(seen: CallRecord, next: NextAttempt, parking: Parking): ParkResult {
    const parked = this.#countParked(seen)
    if (parked >= parking.mostParked) return { kind: 'full', parked }
    const begun = this.#parts.beginNext(seen, next, 'parked')
    if (begun === 'run_ended') return { kind: 'run_ended' }
    if (!('cancelRequested' in begun)) return { kind: 'found', record: begun }
    return this.#ask(begun, next.session, next.atMs, parking)
  }

  resume(seen: CallRecord, resumption: Resumption): ClaimResult {
    const { rows, append, writer } = this.#parts
    const row = rows.get(seen.record)
    if (row === undefined) throw new Error('the call to resume is gone')
    const { approvalId, binding, rerunUntilMs, atMs } = resumption
    const question = this.#byId.get(this.#newest.get(seen.record) ?? '')
    const isMeant =
      row.state === 'parked' &&
      row.waitsFor === undefined &&
      row.attempt === seen.attempt &&
      question?.id === approvalId &&
      question.attempt === row.attempt
    if (!isMeant || !isUsable(question, binding, atMs)) return { kind: 'found', record: { ...row } }
    question.state = 'used'
    row.state = 'running'
    row.writer = writer
    row.cancelRequested = false
    row.rerunUntilMs = rerunUntilMs
    append(approvalEvent(question, { type: 'approval.used', at: atMs, by: row.principal }))
    append(claimedEvent(row, row.attempt, { atMs, parent: row.parent }))
    return { kind: 'claimed', attempt: row.attempt }
  }

  find({ tenant, id }: ApprovalAddress): ApprovalRecord | undefined {
    const found = this.findById(id)
    return found?.tenant === tenant ? found : undefined
  }

  findFor({ tenant, record }: CallAddress): ApprovalRecord | undefined {
    return this.find({ tenant, id: this.#newest.get(record) ?? '' })
  }

  findParked(like: Parameters<ApprovalStore['findParked']>[0]): CallRecord | undefined {
    const row = this.#like(like)
    return row === undefined ? undefined : { ...row }
  }

  isParkedIn({ tenant, sessionId }: { readonly tenant: string; readonly sessionId: string }): boolean {
    return this.#rowsIn({ tenant, sessionId }).length > 0
  }

  decide(decision: NewDecision): DecideResult {
    const { by, action, reason, atMs, opaque } = decision
    const question = this.#byId.get(decision.id)
    if (question === undefined || question.tenant !== decision.tenant) return { kind: 'not_found' }
    const judged = judgeDecision(question, decision)
    if (judged.kind === 'closed') {
      if (question.state === 'pending') this.#end(question, { why: 'expired', atMs })
      return { kind: 'closed', approval: shown(question) }
    }
    if (judged.kind === 'repeated') return { kind: 'repeated', approval: shown(question) }
    const others = question.decisions.filter((said) => said.by !== by)
    question.decisions = [...others, { by, action, reason, atMs }]
    const { runs, append } = this.#parts
    const { granted } = judged
    runs.append(question.run, decidedFact(question, { action, opaque, reason, granted }), atMs)
    const type =
      `approval.${({ grant: 'granted', reject: 'rejected', override: 'overridden' } as const)[action]}` as const
    append(approvalEvent(question, { type, at: atMs, by, ...(reason === undefined ? {} : { reason }) }))
    if (judged.kind === 'counted') return { kind: 'counted', approval: shown(question) }
    const told = action === 'reject' ? ('reject' as const) : ('accept' as const)
    const why = reason === undefined ? {} : { reason }
    runs.append(question.run, resolvedFact(question, { action: told, by: opaque, ...why }), atMs)
    if (judged.state === 'rejected') this.#end(question, { why: 'rejected', atMs, ...why })
    else {
      question.state = 'granted'
      question.decidedAtMs = atMs
      question.expiresAtMs = judged.expiresAtMs
    }
    return { kind: 'decided', approval: shown(question) }
  }

  expire(nowMs: number): readonly EndedParked[] {
    const over = [...this.#byId.values()].filter((found) => isOpen(found) && found.expiresAtMs <= nowMs)
    return over.map((question) =>
      this.#end(question, { why: question.state === 'pending' ? 'expired' : 'unused', atMs: nowMs }),
    )
  }

  cancel(scope: ParkedScope, by: string, atMs: number): readonly EndedParked[] {
    return this.endIn(scope, { why: 'cancelled', by, atMs })
  }

  /** Ends every parked call in scope. */
  endIn(scope: ParkedScope, end: { why: ParkedEnd; atMs: number; by?: string }): readonly EndedParked[] {
    return this.#rowsIn(scope).flatMap(({ record }) => {
      const question = this.#byId.get(this.#newest.get(record) ?? '')
      return question === undefined || !isOpen(question) ? [] : [this.#end(question, end)]
    })
  }

  findById(id: string): ApprovalRecord | undefined {
    const found = this.#byId.get(id)
    return found === undefined ? undefined : shown(found)
  }

  list({ state, tenant, limit }: ApprovalFilter): readonly ApprovalRecord[] {
    return [...this.#byId.values()]
      .filter((found) => (state ?? found.state) === found.state && (tenant ?? found.tenant) === found.tenant)
      .reverse()
      .slice(0, limit)
      .map(shown)
  }

  takeNotices(nowMs: number, leaseMs: number, limit: number): readonly DueNotice[] {
    const due = [...this.#notices.values()].filter(({ nextAtMs }) => nextAtMs <= nowMs).slice(0, limit)
    return due.flatMap((notice) => {
      const approval = this.findById(notice.approval)
      notice.tries += 1
      notice.nextAtMs = nowMs + leaseMs
      const { id, target, tries } = notice
      return approval === undefined ? [] : [{ id, target, tries, approval }]
    })
  }

  settleNotice(id: string, nextAtMs: number | undefined): void {
    const notice = this.#notices.get(id)
    if (notice === undefined) return
    if (nextAtMs === undefined) this.#notices.delete(id)
    else notice.nextAtMs = nextAtMs
  }

  /** Questions live as long as their call. */
  forget(record: string): void {
    for (const [id, question] of this.#byId) if (question.record === record) this.#byId.delete(id)
    for (const [id, { approval }] of this.#notices) if (!this.#byId.has(approval)) this.#notices.delete(id)
    this.#newest.delete(record)
  }

  #like(like: Pick<CallRecord, 'tenant' | 'principal' | 'fingerprint' | 'definitionHash'>) {
    return [...this.#parts.rows.values()].find(
      (row) =>
        row.state === 'parked' &&
        row.root === undefined &&
        row.tenant === like.tenant &&
        row.principal === like.principal &&
        row.fingerprint === like.fingerprint &&
        row.definitionHash === like.definitionHash,
    )
  }

  #countParked({ tenant, principal }: Pick<CallRecord, 'tenant' | 'principal'>): number {
    const isOne = (row: MemoryRow) =>
      row.state === 'parked' &&
      row.waitsFor === undefined &&
      row.tenant === tenant &&
      row.principal === principal
    return [...this.#parts.rows.values()].filter(isOne).length
  }

  #rowsIn(scope: ParkedScope): readonly MemoryRow[] {
    return [...this.#parts.rows.values()].filter((row) => {
      if (row.state !== 'parked' || row.tenant !== scope.tenant) return false
      if ('record' in scope) return row.record === scope.record
      return 'run' in scope ? row.run === scope.run : row.sessionId === scope.sessionId
    })
  }

  #ask(row: MemoryRow, session: CallSession | undefined, atMs: number, { approval }: Parking): ParkResult {
    const { runs, runEvents, append } = this.#parts
    const { tenant, record, attempt, principal, tool, toolId, tier, definitionHash } = row
    const run = row.run ?? record
    append({
      ...parkedEvent(row, { id: approval.id, attempt }, atMs),
      ...runEvents.begin(row, session, atMs),
    })
    const { notices, ...asked } = approval
    const question: Question = {
      ...asked,
      ...{ tenant, record, attempt, principal, tool, toolId, tier, definitionHash, run },
      ownSession: session?.isOwn === true ? session.sessionId : undefined,
      state: 'pending',
      createdAtMs: atMs,
      decidedAtMs: undefined,
      decisions: [],
    }
    this.#byId.set(question.id, question)
    this.#newest.set(record, question.id)
    for (const fact of requestedFacts(question, labelOf(row))) runs.append(run, fact, atMs)
    for (const { id, target } of notices) {
      this.#notices.set(id, { id, target, approval: question.id, tries: 0, nextAtMs: atMs })
    }
    return { kind: 'parked', approval: shown(question) }
  }

  #end(
    question: Question,
    end: { readonly why: ParkedEnd; readonly atMs: number; readonly by?: string; readonly reason?: string },
  ): EndedParked {
    const { runs, rows, runEvents, append, closeSession } = this.#parts
    const { why, atMs, by, reason } = end
    const { record, run, tenant, ownSession } = question
    const row = rows.get(record)
    if (row === undefined) throw new Error('the call of a question is gone')
    const outcome = refusedOutcome(why, question.tool, reason)
    if (question.state === 'pending' && why !== 'rejected') {
      const action = why === 'expired' ? ('reject' as const) : ('cancel' as const)
      runs.append(run, resolvedFact(question, { action, reason: why === 'expired' ? 'timeout' : why }), atMs)
    }
    question.state = why === 'rejected' ? 'rejected' : STATES[why]
    question.decidedAtMs ??= atMs
    row.state = 'failed'
    row.outcome = outcome
    row.finishedAtMs = atMs
    const position = runEvents.end(row, outcome, atMs)
    const type = STATES[why] === 'expired' ? 'approval.expired' : 'approval.cancelled'
    if (why !== 'rejected')
      append(approvalEvent(question, { type, at: atMs, ...(by === undefined ? {} : { by }) }))
    append({ ...endedEvent(row, row.attempt, { state: 'failed', outcome, atMs }), ...position })
    if (ownSession !== undefined)
      closeSession({ tenant, sessionId: ownSession }, ownSessionOutcome(outcome), atMs)
    return { record, run }
  }
}

const STATES = {
  rejected: 'rejected',
  expired: 'expired',
  unused: 'expired',
  cancelled: 'cancelled',
  session: 'cancelled',
} as const satisfies Record<ParkedEnd, ApprovalRecord['state']>

function shown({ ownSession: _session, ...approval }: Question): ApprovalRecord {
  return approval
}
