import { createHmac } from 'node:crypto'
import { StoreError } from '#core/errors'
import type {
  ApprovalAddress,
  ApprovalFilter,
  ApprovalRecord,
  ApprovalStore,
  DueNotice,
  EndedParked,
  ParkedScope,
  Parking,
  ParkResult,
} from '#core/ports/approval-store'
import type { CallAddress, CallRecord } from '#core/ports/store'
import { openReason } from '#store/encryption'
import type { CommitGroup, StoreContext } from '#store/engine'
import { integer, text } from '#store/rows'
import { all, get, type Row, type Steps, write } from '#store/steps'
import {
  decide,
  endParked,
  endParkedIn,
  type Parkings,
  park,
  parkAgain,
  parkedIn,
  resume,
} from './approval-changes.ts'
import { approvalFromRow, subjectOf } from './approval-rows.ts'
import { TAKEN } from './call-changes.ts'
import { findCall, holderOf } from './calls.ts'

/** Small enough that a step never holds up calls that wait for their commit. */
const STEP = 200

/** Approvals: every answer is given after its commit. */
export function sqlApprovals(context: StoreContext): ApprovalStore {
  const { careful, read, keys } = context
  const holder = holderOf(context)
  const recordOf = ({ record }: { readonly record: string }) => record
  const changes = {
    park: careful(recordOf, park),
    parkAgain: careful(recordOf, parkAgain),
    resume: careful(recordOf, resume),
    decide: careful(({ id }) => id, decide),
    expire: careful(() => '', expire),
    cancel: careful(keyOfScope, cancelParked),
    takeNotices: careful(() => '', takeNotices),
  }
  const reads = {
    findById: read((id: string) => findApproval(context, id)),
    findFor: read((address: CallAddress) => findFor(context, address)),
    // All of them, because one that is not ours is left out of a list and must not hide the others.
    expired: read((nowMs: number) => all('expiredApprovals', nowMs, STEP)),
    parkedIn: read(parkedIn),
    firstDue: read((nowMs: number) => get('dueNotices', nowMs, 1)),
  }
  const find = async ({ tenant, id }: ApprovalAddress) => {
    const found = await reads.findById(id)
    return found?.tenant === tenant ? found : undefined
  }
  const parkResult = async (parked: Parkings, { approval }: Parking): Promise<ParkResult> => {
    if (parked.kind === 'taken') return holder(parked.record)
    if (parked.kind !== 'parked') return parked
    const asked = await reads.findById(approval.id)
    if (asked === undefined) throw new StoreError('not_written', 'a question vanished while it was asked')
    return { kind: 'parked', approval: asked }
  }
  return {
    sign: (purpose, signed) =>
      createHmac('sha256', keys.approvals)
        .update(JSON.stringify([purpose, signed]))
        .digest('base64url'),
    park: async (call, parking) => parkResult(await changes.park(call, parking), parking),
    parkAgain: async (seen, next, parking) =>
      parkResult(await changes.parkAgain(seen, next, parking), parking),
    async resume(seen, resumption) {
      const claimed = await changes.resume(seen, resumption)
      return claimed === TAKEN ? holder(seen.record) : claimed
    },
    find,
    findFor: reads.findFor,
    findParked: read((like: Parameters<ApprovalStore['findParked']>[0]) => findParkedLike(context, like)),
    isParkedIn: read(isParkedIn),
    async decide(decision) {
      // Looks before it writes: a refusal begins no writer and leaves no trace.
      if ((await find(decision)) === undefined) return { kind: 'not_found' }
      const kind = await changes.decide(decision)
      const approval = await find(decision)
      return kind === undefined || approval === undefined ? { kind: 'not_found' } : { kind, approval }
    },
    expire: async (nowMs) => ((await reads.expired(nowMs)).length === 0 ? [] : changes.expire(nowMs)),
    cancel: async (scope, by, atMs) =>
      (await reads.parkedIn(scope)).length === 0 ? [] : changes.cancel(scope, by, atMs),
    findById: reads.findById,
    list: read((filter: ApprovalFilter) => listApprovals(context, filter)),
    async takeNotices(nowMs, leaseMs, limit) {
      if ((await reads.firstDue(nowMs)) === undefined) return []
      const notices: DueNotice[] = []
      for (const row of await changes.takeNotices(nowMs, leaseMs, limit)) {
        const approval = await reads.findById(text(row, 'approval'))
        if (approval === undefined) continue
        const id = text(row, 'id')
        notices.push({ id, target: text(row, 'target'), tries: integer(row, 'tries') + 1, approval })
      }
      return notices
    },
    settleNotice: careful((id) => id, settleNotice),
  }
}

function keyOfScope(scope: ParkedScope): string {
  return 'record' in scope ? scope.record : 'run' in scope ? scope.run : scope.sessionId
}

function* findApproval(context: StoreContext, id: string): Steps<ApprovalRecord | undefined> {
  const row = yield* get('findApproval', id)
  return row === undefined ? undefined : yield* show(context, row)
}

function* findFor(context: StoreContext, { tenant, record }: CallAddress): Steps<ApprovalRecord | undefined> {
  const row = yield* get('newestApproval', record)
  if (row === undefined || text(row, 'tenant') !== tenant) return undefined
  return yield* show(context, row)
}

function* findParkedLike(
  { sealed }: StoreContext,
  like: Parameters<ApprovalStore['findParked']>[0],
): Steps<CallRecord | undefined> {
  const { tenant, principal, fingerprint, definitionHash } = like
  const row = yield* get('findParkedLike', tenant, principal, fingerprint, definitionHash)
  return row === undefined ? undefined : yield* findCall(sealed, text(row, 'record'))
}

function* isParkedIn({
  tenant,
  sessionId,
}: {
  readonly tenant: string
  readonly sessionId: string
}): Steps<boolean> {
  return (yield* get('isParkedIn', sessionId, tenant)) !== undefined
}

function* listApprovals(
  context: StoreContext,
  { state, tenant, limit }: ApprovalFilter,
): Steps<readonly ApprovalRecord[]> {
  const [ofTenant, inState] = [tenant ?? null, state ?? null]
  const approvals: ApprovalRecord[] = []
  for (const row of yield* all('listApprovals', ofTenant, ofTenant, inState, inState, limit)) {
    approvals.push(yield* show(context, row))
  }
  return approvals
}

function* show({ keys, sealed }: StoreContext, row: Row): Steps<ApprovalRecord> {
  const decisions = yield* all('decisionsOf', text(row, 'id'))
  const approval = approvalFromRow(row, decisions, yield* subjectOf(row, sealed))
  return {
    ...approval,
    decisions: approval.decisions.map((decision) => {
      const { reason } = decision
      return reason === undefined
        ? decision
        : { ...decision, reason: openReason(keys.reasons, approval.id, reason) }
    }),
  }
}

function* expire(group: CommitGroup, nowMs: number): Steps<readonly EndedParked[]> {
  const ended: EndedParked[] = []
  for (const row of yield* all('expiredApprovals', nowMs, STEP)) {
    const why = text(row, 'state') === 'pending' ? 'expired' : 'unused'
    const one = yield* endParked(group, row, { why, atMs: nowMs })
    if (one !== undefined) ended.push(one)
  }
  return ended
}

function* cancelParked(
  group: CommitGroup,
  scope: ParkedScope,
  by: string,
  atMs: number,
): Steps<readonly EndedParked[]> {
  return yield* endParkedIn(group, scope, { why: 'cancelled', by, atMs })
}

function* takeNotices(
  _group: CommitGroup,
  nowMs: number,
  leaseMs: number,
  limit: number,
): Steps<readonly Row[]> {
  const taken: Row[] = []
  for (const row of yield* all('dueNotices', nowMs, limit)) {
    const values = [nowMs + leaseMs, text(row, 'id'), integer(row, 'tries'), nowMs]
    if ((yield* write('takeNotice', ...values)) > 0) taken.push(row)
  }
  return taken
}

function* settleNotice(_group: CommitGroup, id: string, nextAtMs: number | undefined): Steps<void> {
  if (nextAtMs === undefined) yield* write('dropNotice', id)
  else yield* write('putOffNotice', nextAtMs, id)
}
