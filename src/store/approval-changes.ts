import {
  decidedFact,
  isUsable,
  judgeDecision,
  type ParkedEnd,
  refusedOutcome,
  requestedFacts,
  resolvedFact,
} from '#core/approvals/decisions'
import { approvalEvent, claimedEvent, endedEvent, parkedEvent } from '#core/journal/append'
import type { ApprovalChanged } from '#core/journal/events'
import type {
  ApprovalState,
  DecideResult,
  EndedParked,
  NewDecision,
  ParkedScope,
  Parking,
  Resumption,
} from '#core/ports/approval-store'
import type { CallRecord, ClaimResult, NewCall, NextAttempt } from '#core/ports/store'
import { labelOf, type RunFact } from '#core/runs/events'
import type { Database } from '#store/sqlite/database'
import { type ApprovalReasons, approvalFromRow, subjectToText } from './approvals.ts'
import { type CallChanges, type Parked, type RUN_ENDED, TAKEN } from './calls.ts'
import type { CommitGroup } from './engine.ts'
import type { Slice } from './rows.ts'
import { boundText, integer, optionalText, outcomeToText, type Row, text } from './rows.ts'
import type { CallRunEvents, RunChanges } from './runs.ts'

/** Nobody: what waits belongs to no writer, so that no writer's death ends it. */
const NO_WRITER = 0

export type Parkings =
  | { readonly kind: 'parked' }
  | { readonly kind: 'taken'; readonly record: string }
  | { readonly kind: 'full'; readonly parked: number }
  | typeof RUN_ENDED

type Claimed = Extract<ClaimResult, { readonly kind: 'claimed' }>

/** Every change of a question and of the call it is about, each inside a commit group that the caller opened. */
export class ApprovalChanges {
  readonly #database: Database
  readonly #calls: CallChanges
  readonly #runs: RunChanges
  readonly #ends: ParkedEnds
  readonly #reasons: ApprovalReasons
  readonly #writerNo: () => number

  constructor(parts: {
    readonly database: Database
    readonly calls: CallChanges
    readonly runs: RunChanges
    readonly ends: ParkedEnds
    readonly reasons: ApprovalReasons
    readonly writerNo: () => number
  }) {
    this.#database = parts.database
    this.#calls = parts.calls
    this.#runs = parts.runs
    this.#ends = parts.ends
    this.#reasons = parts.reasons
    this.#writerNo = parts.writerNo
  }

  park(group: CommitGroup, call: NewCall, parking: Parking): Parkings {
    const { tenant, principal, fingerprint, definitionHash, record } = call
    if (this.#database.get('callerOf', record) !== undefined) return { kind: 'taken', record }
    if (!parking.keyed) {
      const like = this.#database.get('findParkedLike', tenant, principal, fingerprint, definitionHash)
      if (like !== undefined) return { kind: 'taken', record: text(like, 'record') }
    }
    const full = this.#checkRoom(call, parking)
    if (full !== undefined) return full
    const parked = this.#calls.park(group, call)
    return this.#ask(group, { call, session: call.session, atMs: call.atMs, parked, parking })
  }

  parkAgain(group: CommitGroup, seen: CallRecord, next: NextAttempt, parking: Parking): Parkings {
    const full = this.#checkRoom(seen, parking)
    if (full !== undefined) return full
    const parked = this.#calls.parkAgain(group, seen, next)
    return this.#ask(group, { call: seen, session: next.session, atMs: next.atMs, parked, parking })
  }

  /** Rule 20: consumes the grant, stamps writer and attempt, appends the events; nothing of it without all of it. */
  resume(group: CommitGroup, seen: CallRecord, resumption: Resumption): Claimed | typeof TAKEN {
    const { record, attempt } = seen
    const { approvalId, binding, rerunUntilMs, atMs } = resumption
    const row = this.#database.get('newestApproval', record)
    const approval = row === undefined ? undefined : approvalFromRow(row, [])
    if (row === undefined || approval === undefined) return TAKEN
    const isMeant = approval.id === approvalId && approval.attempt === attempt
    if (!isMeant || !isUsable(approval, binding, atMs)) return TAKEN
    const writer = this.#writerNo()
    if (this.#database.run('resumeCall', writer, rerunUntilMs, record, attempt) === 0) return TAKEN
    this.#database.run('changeApproval', 'used', atMs, approval.expiresAtMs, approvalId, 'granted')
    this.#database.sealApproval(approvalId)
    const ownSession = optionalText(row, 'own_session')
    if (ownSession !== undefined) this.#database.run('setSessionWriter', writer, ownSession)
    group.append(approvalEvent(approval, { type: 'approval.used', at: atMs, by: seen.principal }))
    group.append(claimedEvent(seen, attempt, { atMs, parent: seen.parent }))
    return { kind: 'claimed', attempt }
  }

  decide(group: CommitGroup, decision: NewDecision): Exclude<DecideResult['kind'], 'not_found'> | undefined {
    const { id, tenant, by, action, reason, atMs, opaque } = decision
    const row = this.#database.get('findApproval', id)
    if (row === undefined || text(row, 'tenant') !== tenant) return undefined
    const decisions = this.#database.all('decisionsOf', id)
    const approval = approvalFromRow(row, decisions)
    const judged = judgeDecision(approval, decision)
    if (judged.kind === 'closed') {
      if (approval.state === 'pending') this.#ends.end(group, row, { why: 'expired', atMs })
      return 'closed'
    }
    if (judged.kind === 'repeated') return 'repeated'
    const sealed = reason === undefined ? undefined : this.#reasons.seal(id, reason)
    this.#database.run('saveDecision', id, by, action, sealed ?? null, atMs, decisions.length)
    this.#database.sealDecision(id, by)
    const { granted } = judged
    this.#tell(row, decidedFact(approval, { action, opaque, reason: sealed, granted }), atMs)
    group.append(approvalEvent(approval, { ...journaled(action, sealed), at: atMs, by }))
    if (judged.kind === 'counted') return 'counted'
    const told = action === 'reject' ? ('reject' as const) : ('accept' as const)
    const why = sealed === undefined ? {} : { reason: sealed }
    this.#tell(row, resolvedFact(approval, { action: told, by: opaque, ...why }), atMs)
    if (judged.state === 'rejected') {
      this.#ends.end(group, row, { why: 'rejected', atMs, by, reason })
    } else {
      this.#database.run('changeApproval', 'granted', atMs, judged.expiresAtMs, id, 'pending')
      this.#database.sealApproval(id)
    }
    return 'decided'
  }

  /** Rule 22; a call that is parked already is not among them when it parks again. */
  #checkRoom(call: Pick<CallRecord, 'tenant' | 'principal'>, { mostParked }: Parking) {
    const row = this.#database.get('countParked', call.tenant, call.principal) ?? {}
    const parked = integer(row, 'n')
    return parked >= mostParked ? ({ kind: 'full', parked } as const) : undefined
  }

  #ask(
    group: CommitGroup,
    asked: {
      readonly call: NewCall | CallRecord
      readonly session: NextAttempt['session']
      readonly atMs: number
      readonly parked: Parked | typeof RUN_ENDED | typeof TAKEN
      readonly parking: Parking
    },
  ): Parkings {
    const { call, session, atMs, parked, parking } = asked
    if (parked === TAKEN) return { kind: 'taken', record: call.record }
    if (parked.kind === 'run_ended') return parked
    const { approval } = parking
    const ownSession = session?.isOwn === true ? session.sessionId : undefined
    if (ownSession !== undefined) this.#database.run('setSessionWriter', NO_WRITER, ownSession)
    const subject = group.addCaller(subjectToText(call.record, approval.subject))
    this.#insert(call, { approval, parked, ownSession, subject, atMs })
    group.append({
      ...parkedEvent(call, { id: approval.id, attempt: parked.attempt }, atMs),
      ...parked.position,
    })
    const told = {
      ...approval,
      record: call.record,
      attempt: parked.attempt,
      tier: call.tier,
      createdAtMs: atMs,
    }
    for (const fact of requestedFacts(told, labelOf(call))) {
      this.#runs.append(parked.run, { fact, caller: parked.caller, atMs })
    }
    for (const { id, target } of approval.notices) {
      this.#database.run('insertNotice', id, approval.id, target, atMs)
    }
    return { kind: 'parked' }
  }

  #insert(
    call: NewCall | CallRecord,
    asked: {
      readonly approval: Parking['approval']
      readonly parked: Parked
      readonly ownSession: string | undefined
      readonly subject: Slice
      readonly atMs: number
    },
  ): void {
    const { approval, parked, ownSession, subject, atMs } = asked
    this.#database.run(
      'insertApproval',
      approval.id,
      call.tenant,
      call.record,
      parked.attempt,
      call.principal,
      call.tool,
      call.toolId,
      call.tier,
      call.definitionHash,
      parked.run,
      ownSession ?? null,
      approval.binding,
      subject.group,
      subject.at,
      subject.length,
      approval.quorum,
      approval.requiredScope,
      approval.selfApproval ? 1 : 0,
      approval.overrideBypassesQuorum ? 1 : 0,
      atMs,
      approval.expiresAtMs,
    )
    this.#database.sealApproval(approval.id)
  }

  #tell(row: Row, fact: RunFact, atMs: number): void {
    this.#runs.append(text(row, 'run'), { fact, caller: undefined, atMs })
  }
}

function journaled(action: NewDecision['action'], reason: string | undefined) {
  const type = ({ grant: 'granted', reject: 'rejected', override: 'overridden' } as const)[action]
  return { type: `approval.${type}` as const, ...(reason === undefined ? {} : { reason }) }
}

/** What each end makes of the question, and what the journal calls it. */
const ENDS = {
  rejected: { state: 'rejected', event: 'approval.rejected' },
  expired: { state: 'expired', event: 'approval.expired' },
  unused: { state: 'expired', event: 'approval.expired' },
  cancelled: { state: 'cancelled', event: 'approval.cancelled' },
  session: { state: 'cancelled', event: 'approval.cancelled' },
} as const satisfies Record<
  ParkedEnd,
  { readonly state: ApprovalState; readonly event: ApprovalChanged['type'] }
>

interface PlannedEnd {
  readonly why: ParkedEnd
  readonly atMs: number
  readonly by?: string
  /** In the clear: it goes into the outcome, which is sealed. */
  readonly reason?: string | undefined
}

/** Ends parked calls that will never run, each inside a commit group that the caller opened. */
export class ParkedEnds {
  readonly #database: Database
  readonly #runs: RunChanges
  readonly #runEvents: CallRunEvents

  constructor(parts: {
    readonly database: Database
    readonly runs: RunChanges
    readonly runEvents: CallRunEvents
  }) {
    this.#database = parts.database
    this.#runs = parts.runs
    this.#runEvents = parts.runEvents
  }

  /** Every parked call in scope. */
  endIn(group: CommitGroup, scope: ParkedScope, end: PlannedEnd): readonly EndedParked[] {
    return this.rowsIn(scope).flatMap((row) => this.end(group, row, end) ?? [])
  }

  rowsIn(scope: ParkedScope): readonly Row[] {
    const { tenant } = scope
    if ('record' in scope) return this.#database.all('parkedApprovalOf', scope.record, tenant)
    if ('run' in scope) return this.#database.all('parkedApprovalsInRun', scope.run, tenant)
    return this.#database.all('parkedApprovalsInSession', scope.sessionId, tenant)
  }

  /** Call, question, events and journal in one; nothing when somebody else was first. */
  end(group: CommitGroup, row: Row, end: PlannedEnd): EndedParked | undefined {
    const approval = approvalFromRow(row, [])
    const { id, tenant, record, attempt, tool, principal, state, expiresAtMs } = approval
    const { why, atMs, by, reason } = end
    const outcome = refusedOutcome(why, tool, reason)
    const slice = group.addPayload(boundText(record, outcomeToText(outcome)))
    const place = [slice.group, slice.at, slice.length]
    if (this.#database.run('refuseCall', atMs, ...place, record, attempt) === 0) return undefined
    group.addReference()
    this.#database.run('changeApproval', ENDS[why].state, atMs, expiresAtMs, id, state)
    this.#database.sealApproval(id)
    const run = text(row, 'run')
    if (state === 'pending' && why !== 'rejected') {
      const action = why === 'expired' ? ('reject' as const) : ('cancel' as const)
      const told = why === 'expired' ? 'timeout' : why
      this.#runs.append(run, {
        fact: resolvedFact(approval, { action, reason: told }),
        caller: undefined,
        atMs,
      })
    }
    const ownSession = optionalText(row, 'own_session')
    const session = this.#sessionOf(record, ownSession)
    const attempted = { tenant, record, principal, tool, attempt, run, session }
    const position = this.#runEvents.end(attempted, outcome, atMs)
    const said = { type: ENDS[why].event, at: atMs, ...(by === undefined ? {} : { by }) }
    // Whoever rejects has its own event already.
    if (why !== 'rejected') group.append(approvalEvent(approval, said))
    group.append({ ...endedEvent(attempted, attempt, { state: 'failed', outcome, atMs }), ...position })
    this.#runEvents.endSession(group, attempted, outcome, atMs)
    return { record, run }
  }

  #sessionOf(record: string, ownSession: string | undefined) {
    if (ownSession !== undefined) return { sessionId: ownSession, isOwn: true }
    const named = optionalText(this.#database.get('findCall', record) ?? { session: null }, 'session')
    return named === undefined ? undefined : { sessionId: named, isOwn: false }
  }
}
