import { type ParkedEnd, refusedOutcome, resolvedFact } from '#core/approvals/decisions'
import { approvalEvent, endedEvent } from '#core/journal/append'
import type { ApprovalChanged } from '#core/journal/events'
import type { ApprovalState, EndedParked, ParkedScope } from '#core/ports/approval-store'
import { approvalFromRow } from '#store/sql/approval-row'
import { boundText } from '#store/sql/call-row'
import type { OpenGroup } from '#store/sql/open-group'
import { outcomeToText } from '#store/sql/outcome-text'
import { optionalText, type Row, text } from '#store/sql/row'
import type { CallRunEvents } from './call-run-events.ts'
import type { Database } from './database.ts'
import type { RunChanges } from './run-changes.ts'

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

export interface PlannedEnd {
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
  endIn(group: OpenGroup, scope: ParkedScope, end: PlannedEnd): readonly EndedParked[] {
    return this.rowsIn(scope).flatMap((row) => this.end(group, row, end) ?? [])
  }

  rowsIn(scope: ParkedScope): readonly Row[] {
    const { tenant } = scope
    if ('record' in scope) return this.#database.all('parkedApprovalOf', scope.record, tenant)
    if ('run' in scope) return this.#database.all('parkedApprovalsInRun', scope.run, tenant)
    return this.#database.all('parkedApprovalsInSession', scope.sessionId, tenant)
  }

  /** Call, question, events and journal in one; nothing when somebody else was first. */
  end(group: OpenGroup, row: Row, end: PlannedEnd): EndedParked | undefined {
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
