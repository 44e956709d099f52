import { createHmac, type KeyObject } from 'node:crypto'
import { StoreError } from '#core/errors'
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
import type { CallAddress, CallRecord, ClaimResult, NewCall, NextAttempt } from '#core/ports/store'
import { approvalFromRow, subjectOf } from '#store/sql/approval-row'
import type { SealedText } from '#store/sql/call-row'
import type { GroupQueue } from '#store/sql/group-queue'
import { integer, type Row, text } from '#store/sql/row'
import type { ApprovalChanges, Parkings } from './approval-changes.ts'
import type { ApprovalReasons } from './approval-reasons.ts'
import { type CallChanges, TAKEN } from './call-changes.ts'
import type { Database } from './database.ts'
import type { ParkedEnds } from './parked-ends.ts'
import { storeErrorOf } from './sqlite-errors.ts'

/** Small enough that a step never holds up calls that wait for their commit. */
const STEP = 200

export interface SqliteApprovalParts {
  readonly database: Database
  readonly sealed: SealedText
  readonly queue: GroupQueue
  readonly calls: CallChanges
  readonly changes: ApprovalChanges
  readonly ends: ParkedEnds
  readonly reasons: ApprovalReasons
  readonly key: KeyObject
}

/** Approvals in the one SQLite file: every answer is given after its commit. */
export class SqliteApprovals implements ApprovalStore {
  readonly #parts: SqliteApprovalParts

  constructor(parts: SqliteApprovalParts) {
    this.#parts = parts
  }

  sign(purpose: string, signed: string): string {
    return createHmac('sha256', this.#parts.key)
      .update(JSON.stringify([purpose, signed]))
      .digest('base64url')
  }

  async park(call: NewCall, parking: Parking): Promise<ParkResult> {
    const { queue, changes } = this.#parts
    const parked = await queue.submit(call.record, (group) => changes.park(group, call, parking))
    return this.#parkResult(parked, parking)
  }

  async parkAgain(seen: CallRecord, next: NextAttempt, parking: Parking): Promise<ParkResult> {
    const { queue, changes } = this.#parts
    const parked = await queue.submit(seen.record, (group) => changes.parkAgain(group, seen, next, parking))
    return this.#parkResult(parked, parking)
  }

  async resume(seen: CallRecord, resumption: Resumption): Promise<ClaimResult> {
    const { queue, changes } = this.#parts
    const claimed = await queue.submit(seen.record, (group) => changes.resume(group, seen, resumption))
    return claimed === TAKEN ? this.#holderOf(seen.record) : claimed
  }

  find({ tenant, id }: ApprovalAddress): ApprovalRecord | undefined {
    const found = this.findById(id)
    return found?.tenant === tenant ? found : undefined
  }

  findFor({ tenant, record }: CallAddress): ApprovalRecord | undefined {
    const found = this.#read(() => this.#show(this.#parts.database.get('newestApproval', record)))
    return found?.tenant === tenant ? found : undefined
  }

  findParked(like: Parameters<ApprovalStore['findParked']>[0]): CallRecord | undefined {
    const { tenant, principal, fingerprint, definitionHash } = like
    return this.#read(() => {
      const row = this.#parts.database.get('findParkedLike', tenant, principal, fingerprint, definitionHash)
      return row === undefined ? undefined : this.#parts.calls.find(text(row, 'record'))
    })
  }

  isParkedIn({ tenant, sessionId }: { readonly tenant: string; readonly sessionId: string }): boolean {
    return this.#read(() => this.#parts.database.get('isParkedIn', sessionId, tenant) !== undefined)
  }

  async decide(decision: NewDecision): Promise<DecideResult> {
    const { queue, changes } = this.#parts
    // Looks before it writes: a refusal begins no writer and leaves no trace.
    if (this.find(decision) === undefined) return { kind: 'not_found' }
    const kind = await queue.submit(decision.id, (group) => changes.decide(group, decision))
    const approval = this.find(decision)
    return kind === undefined || approval === undefined ? { kind: 'not_found' } : { kind, approval }
  }

  async expire(nowMs: number): Promise<readonly EndedParked[]> {
    const { queue, database, ends } = this.#parts
    if (this.#read(() => database.all('expiredApprovals', nowMs, STEP)).length === 0) return []
    return await queue.submit('', (group) =>
      database.all('expiredApprovals', nowMs, STEP).flatMap((row) => {
        const why = text(row, 'state') === 'pending' ? 'expired' : 'unused'
        return ends.end(group, row, { why, atMs: nowMs }) ?? []
      }),
    )
  }

  async cancel(scope: ParkedScope, by: string, atMs: number): Promise<readonly EndedParked[]> {
    const { queue, ends } = this.#parts
    if (this.#read(() => ends.rowsIn(scope)).length === 0) return []
    const key = 'record' in scope ? scope.record : 'run' in scope ? scope.run : scope.sessionId
    return await queue.submit(key, (group) => ends.endIn(group, scope, { why: 'cancelled', by, atMs }))
  }

  findById(id: string): ApprovalRecord | undefined {
    return this.#read(() => this.#show(this.#parts.database.get('findApproval', id)))
  }

  list({ state, tenant, limit }: ApprovalFilter): readonly ApprovalRecord[] {
    const [ofTenant, inState] = [tenant ?? null, state ?? null]
    return this.#read(() =>
      this.#parts.database
        .all('listApprovals', ofTenant, ofTenant, inState, inState, limit)
        .flatMap((row) => this.#show(row) ?? []),
    )
  }

  async takeNotices(nowMs: number, leaseMs: number, limit: number): Promise<readonly DueNotice[]> {
    const { queue, database } = this.#parts
    if (this.#read(() => database.get('dueNotices', nowMs, 1)) === undefined) return []
    const taken = await queue.submit('', () =>
      database.all('dueNotices', nowMs, limit).filter((row) => {
        const values = [nowMs + leaseMs, text(row, 'id'), integer(row, 'tries'), nowMs]
        return database.run('takeNotice', ...values) > 0
      }),
    )
    return taken.flatMap((row) => {
      const approval = this.findById(text(row, 'approval'))
      if (approval === undefined) return []
      const id = text(row, 'id')
      return [{ id, target: text(row, 'target'), tries: integer(row, 'tries') + 1, approval }]
    })
  }

  async settleNotice(id: string, nextAtMs: number | undefined): Promise<void> {
    const { queue, database } = this.#parts
    await queue.submit(id, () => {
      if (nextAtMs === undefined) database.run('dropNotice', id)
      else database.run('putOffNotice', nextAtMs, id)
    })
  }

  #parkResult(parked: Parkings, { approval }: Parking): ParkResult {
    if (parked.kind === 'taken') return this.#holderOf(parked.record)
    if (parked.kind !== 'parked') return parked
    const asked = this.findById(approval.id)
    if (asked === undefined) throw new StoreError('not_written', 'a question vanished while it was asked')
    return { kind: 'parked', approval: asked }
  }

  #holderOf(record: string): { readonly kind: 'found'; readonly record: CallRecord } {
    const holder = this.#read(() => this.#parts.calls.find(record))
    if (holder !== undefined) return { kind: 'found', record: holder }
    throw new StoreError('not_written', 'a call vanished while it was being changed')
  }

  #show(row: Row | undefined): ApprovalRecord | undefined {
    if (row === undefined) return undefined
    const { database, sealed, reasons } = this.#parts
    const decisions = database.all('decisionsOf', text(row, 'id'))
    return reasons.openDecisions(approvalFromRow(row, decisions, subjectOf(row, sealed)))
  }

  #read<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the database')
    }
  }
}
