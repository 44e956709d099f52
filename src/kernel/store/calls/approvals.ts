import type {
  ApprovalAddress,
  ApprovalFilter,
  ApprovalPage,
  ApprovalRecord,
  DecideResult,
  EndedParkedCall,
  NewDecision,
  NewLink,
  ParkedScope,
  Parking,
  ParkResult,
  Resumption,
} from '#kernel/approval/approval'
import { StoreError } from '#kernel/base/errors'
import type {
  CallAddress,
  CallRecord,
  ClaimResult,
  NewCall,
  NextAttempt,
  SessionAddress,
} from '#kernel/call/call-record'
import { approvalEvent } from '#kernel/journal/append'
import {
  all,
  type CommitGroup,
  get,
  LIST,
  type Row,
  type Steps,
  type StoreContext,
} from '#kernel/store/engine'
import { integer, openReason, text } from '#kernel/store/rows'
import {
  approvalFromRow,
  decide,
  endParked,
  endParkedIn,
  park,
  parkAgain,
  parkedIn,
  resume,
  subjectOf,
  type UncommittedPark,
} from './approval-changes.ts'
import { TAKEN } from './call-changes.ts'
import { findCall, holderOf } from './calls.ts'

/**
 * The store's module for approvals, with its statements and tables. The kernel's `Approvals`, the ladder and the operator's
 * interfaces read and decide through it. Results are returned after the commit; guarded rows are checked as they are read.
 */

/** Rows per step; small enough that a step does not delay calls that wait for their commit. */
const STEP_ROWS = 200
type EqualRequest = Pick<CallRecord, 'tenant' | 'principal' | 'fingerprint' | 'definitionHash'>

export function openApprovals(context: StoreContext) {
  const { exclusive, read } = context
  const holder = holderOf(context)
  const recordOf = ({ record }: { readonly record: string }) => record
  const changes = {
    park: exclusive(recordOf, park),
    parkAgain: exclusive(recordOf, parkAgain),
    resume: exclusive(recordOf, resume),
    decide: exclusive(({ id }) => id, decide),
    expire: exclusive(() => '', expire),
    cancel: exclusive(keyOfScope, (group: CommitGroup, scope: ParkedScope, by: string, atMs: number) =>
      endParkedIn(group, scope, { why: 'cancelled', by, atMs }),
    ),
  }
  const reads = {
    findById: read((id: string) => findApproval(context, id)),
    findFor: read((address: CallAddress) => findFor(context, address)),
    // A whole page is read, because a foreign row (`RowGuard`) is left out of the list: with `LIMIT 1` it would hide the others.
    expired: read((nowMs: number) => all('expiredApprovals', nowMs, STEP_ROWS)),
    parkedIn: read(parkedIn),
  }
  const find = async ({ tenant, id }: ApprovalAddress) => {
    const found = await reads.findById(id)
    return found?.tenant === tenant ? found : undefined
  }
  const parkResult = async (parked: UncommittedPark, { approval }: Parking): Promise<ParkResult> => {
    if (parked.kind === 'taken') return holder(parked.record)
    if (parked.kind !== 'parked') return parked
    const written = await reads.findById(approval.id)
    if (written === undefined)
      throw new StoreError('not_written', 'a request for approval disappeared while it was being written')
    return { kind: 'parked', approval: written }
  }
  return {
    /** Journals a link for an approver before the link is handed out. */
    noteLink: exclusive(({ approval }) => approval.record, noteLink),
    /** Inserts a `parked` call with its request for approval, if the key is free. */
    park: async (call: NewCall, parking: Parking) => parkResult(await changes.park(call, parking), parking),
    /** Parks a call for its next attempt, because a grant covers only one attempt (rule 20). Conditional like `reclaim`. */
    parkAgain: async (previous: CallRecord, next: NextAttempt, parking: Parking) =>
      parkResult(await changes.parkAgain(previous, next, parking), parking),
    /** `parked → running`: consumes the grant, sets the writer and appends the events. `found` if the call or grant changed. */
    async resume(previous: CallRecord, resumption: Resumption): Promise<ClaimResult> {
      const claimed = await changes.resume(previous, resumption)
      return claimed === TAKEN ? holder(previous.record) : claimed
    },
    find,
    /** The newest approval of a call. */
    findFor: reads.findFor,
    /** The oldest parked call with an equal request of the same principal (rule 6). */
    findParked: read((request: EqualRequest) => findParkedLike(context, request)),
    isParkedIn: read(isParkedIn),
    async decide(decision: NewDecision): Promise<DecideResult> {
      // Reads before it writes, so that a refused decision does not start a writer or change the journal.
      if ((await find(decision)) === undefined) return { kind: 'not_found' }
      const kind = await changes.decide(decision)
      const approval = await find(decision)
      return kind === undefined || approval === undefined ? { kind: 'not_found' } : { kind, approval }
    },
    /** Ends some of the approvals that were not decided or used in time: a timeout is a rejection (OWP-71). */
    expire: async (nowMs: number) => ((await reads.expired(nowMs)).length === 0 ? [] : changes.expire(nowMs)),
    /** Ends parked calls at their caller's request. */
    cancel: async (scope: ParkedScope, by: string, atMs: number) =>
      (await reads.parkedIn(scope)).length === 0 ? [] : changes.cancel(scope, by, atMs),
    /** Finds an approval of any tenant; for operators, and for requests that know the unguessable id. */
    findById: reads.findById,
    /** Lists approvals, newest first. */
    list: read((filter: ApprovalFilter) => listApprovals(context, filter)),
    /** The list, in pages. */
    listPage: read((filter: ApprovalFilter) => pageOfApprovals(context, filter)),
  }
}

// biome-ignore lint/correctness/useYield: only the journal is written
function* noteLink(group: CommitGroup, { approval, by, for: approver, power, atMs }: NewLink): Steps<void> {
  const event = approvalEvent(approval, { type: 'approval.link_made', at: atMs, by })
  group.append({ ...event, for: approver, power })
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

function* findParkedLike({ sealed }: StoreContext, request: EqualRequest): Steps<CallRecord | undefined> {
  const { tenant, principal, fingerprint, definitionHash } = request
  const row = yield* get('findParkedLike', tenant, principal, fingerprint, definitionHash)
  return row === undefined ? undefined : yield* findCall(sealed, text(row, 'record'))
}

function* isParkedIn({ tenant, sessionId }: SessionAddress): Steps<boolean> {
  return (yield* get('isParkedIn', sessionId, tenant)) !== undefined
}

function* listApprovals(context: StoreContext, filter: ApprovalFilter): Steps<readonly ApprovalRecord[]> {
  return (yield* pageOfApprovals(context, filter)).approvals
}

function* pageOfApprovals(
  context: StoreContext,
  { state, tenant, before = Number.MAX_SAFE_INTEGER, limit }: ApprovalFilter,
): Steps<ApprovalPage> {
  const [ofTenant, inState] = [tenant ?? null, state ?? null]
  const approvals: ApprovalRecord[] = []
  const rows = yield* all('listApprovals', before, ofTenant, ofTenant, inState, inState, limit)
  for (const row of rows) approvals.push(yield* show(context, row))
  const last = rows.at(-1)
  return last === undefined ? { approvals } : { approvals, next: integer(last, 'no') }
}

function* show({ keys, sealed }: StoreContext, row: Row): Steps<ApprovalRecord> {
  const decisions = yield* all('decisionsOf', text(row, 'id'))
  const approval = approvalFromRow(row, decisions, yield* subjectOf(row, sealed))
  return {
    ...approval,
    decisions: approval.decisions.map((decision) => {
      const { reason } = decision
      return reason === undefined ? decision : { ...decision, reason: openReason(keys, approval.id, reason) }
    }),
  }
}

function* expire(group: CommitGroup, nowMs: number): Steps<readonly EndedParkedCall[]> {
  const ended: EndedParkedCall[] = []
  for (const row of yield* all('expiredApprovals', nowMs, STEP_ROWS)) {
    const why = text(row, 'state') === 'pending' ? 'expired' : 'unused'
    const endedCall = yield* endParked(group, row, { why, atMs: nowMs })
    if (endedCall !== undefined) ended.push(endedCall)
  }
  return ended
}

export const queries = {
  resealReason: 'UPDATE approval_decisions SET reason = ? WHERE approval = ? AND principal = ?',
  countParked:
    "SELECT count(*) AS n FROM calls WHERE tenant = ? AND principal = ? AND state = 'parked' AND waits_for IS NULL",
  findParkedLike: `SELECT record FROM calls WHERE tenant = ? AND principal = ? AND fingerprint = ? AND state = 'parked'
    AND definition = ? AND root IS NULL ORDER BY no LIMIT 1`,
  isParkedIn: "SELECT 1 AS n FROM calls WHERE session = ? AND tenant = ? AND state = 'parked' LIMIT 1",
  resumeCall: `UPDATE calls SET state = 'running', writer = ?, cancel_requested = 0, rerun_until = ?
    WHERE record = ? AND state = 'parked' AND attempt = ? AND waits_for IS NULL`,
  refuseCall: `UPDATE calls SET state = 'failed', finished_at = ?, outcome_group = ?, outcome_at = ?, outcome_length = ?
    WHERE record = ? AND state = 'parked' AND attempt = ? AND waits_for IS NULL`,
  /** A session made for one attempt belongs to no writer while the attempt waits, so that no writer's death ends it. */
  setSessionWriter: 'UPDATE sessions SET writer = ? WHERE id = ?',
  insertApproval: `INSERT INTO approvals (id, tenant, record, attempt, principal, tool, tool_id, tier, definition, run, own_session,
      binding, subject_group, subject_at, subject_length, quorum, required_scope, self_approval, bypass, state, created_at, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?)`,
  findApproval: 'SELECT * FROM approvals WHERE id = ?',
  newestApproval: 'SELECT * FROM approvals WHERE record = ? ORDER BY attempt DESC LIMIT 1',
  /** Each change is a conditional update, so that a second, simultaneous change has no effect (OWP-68). */
  changeApproval: `UPDATE approvals SET state = ?, decided_at = coalesce(decided_at, ?), expires_at = ? WHERE id = ? AND state = ?`,
  expiredApprovals:
    "SELECT * FROM approvals WHERE state IN ('pending', 'granted') AND expires_at <= ? ORDER BY expires_at LIMIT ?",
  parkedApprovalOf: `SELECT a.* FROM approvals a JOIN calls c ON c.record = a.record AND c.attempt = a.attempt
    WHERE c.record = ? AND c.tenant = ? AND c.state = 'parked' AND a.state IN ('pending', 'granted')`,
  parkedApprovalsInRun: `SELECT a.* FROM calls c JOIN approvals a ON a.record = c.record AND a.attempt = c.attempt
    WHERE c.run = ? AND c.tenant = ? AND c.state = 'parked' AND a.state IN ('pending', 'granted') LIMIT 1000`,
  parkedApprovalsInSession: `SELECT a.* FROM calls c JOIN approvals a ON a.record = c.record AND a.attempt = c.attempt
    WHERE c.session = ? AND c.tenant = ? AND c.state = 'parked' AND a.state IN ('pending', 'granted') LIMIT 1000`,
  listApprovals: `SELECT * FROM approvals WHERE no < ? AND (CAST(? AS TEXT) IS NULL OR tenant = ?) AND (CAST(? AS TEXT) IS NULL OR state = ?) ORDER BY no DESC LIMIT ?`,
  decisionsOf: 'SELECT * FROM approval_decisions WHERE approval = ? ORDER BY n',
  saveDecision: `INSERT INTO approval_decisions (approval, principal, action, reason, at, n) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (approval, principal) DO UPDATE SET action = excluded.action, reason = excluded.reason, at = excluded.at`,
  deleteDecisionsOfCalls: `DELETE FROM approval_decisions WHERE approval IN (SELECT id FROM approvals WHERE record IN (${LIST}))`,
  deleteApprovalsOfCalls: `DELETE FROM approvals WHERE record IN (${LIST})`,
} as const

/**
 * Requests for approval, one per attempt of a call, with their approvers' decisions. They are kept as long as the row of their
 * call, so that operators can see who decided even after the call's result has expired (rule 13).
 */
export const tables = `
CREATE TABLE approvals (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  record TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  principal TEXT NOT NULL,
  tool TEXT NOT NULL,
  tool_id TEXT NOT NULL,
  tier TEXT NOT NULL,
  definition TEXT NOT NULL,
  run TEXT NOT NULL,
  own_session TEXT,
  binding TEXT NOT NULL,
  subject_group INTEGER NOT NULL,
  subject_at INTEGER NOT NULL,
  subject_length INTEGER NOT NULL,
  quorum INTEGER NOT NULL,
  required_scope TEXT NOT NULL,
  self_approval INTEGER NOT NULL,
  bypass INTEGER NOT NULL,
  state TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  decided_at INTEGER,
  mac TEXT,
  UNIQUE (record, attempt)
) STRICT;

CREATE INDEX approvals_open ON approvals (expires_at) WHERE state IN ('pending', 'granted');

CREATE TABLE approval_decisions (
  approval TEXT NOT NULL,
  principal TEXT NOT NULL,
  action TEXT NOT NULL,
  reason TEXT,
  at INTEGER NOT NULL,
  n INTEGER NOT NULL,
  mac TEXT,
  PRIMARY KEY (approval, principal)
) STRICT, WITHOUT ROWID;
`
