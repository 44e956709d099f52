import {
  APPROVAL_STATES,
  type ApprovalRecord,
  type ApprovalState,
  type ApprovalSubject,
  type ApproverDecision,
  type DecideResult,
  type DecisionAction,
  type EndedParkedCall,
  type NewDecision,
  type ParkedScope,
  type Parking,
  type Resumption,
} from '#kernel/approval/approval'
import {
  decidedFact,
  isUsable,
  judgeDecision,
  type ParkedEnd,
  refusedOutcome,
  requestedFacts,
  resolvedFact,
} from '#kernel/approval/decisions'
import { StoreError } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import type { CallRecord, CallSession, NewCall, NextAttempt } from '#kernel/call/call-record'
import { approvalEvent, claimedEvent, endedEvent, parkedEvent } from '#kernel/journal/append'
import type { NoticeSubject } from '#kernel/journal/notices'
import { labelOf } from '#kernel/run/events'
import { all, type CommitGroup, get, type Row, type Steps, write } from '#kernel/store/engine'
import type { GuardedTable } from '#kernel/store/module'
import { sealRow } from '#kernel/store/row-mac'
import {
  boundText,
  integer,
  keepOutcome,
  optionalInteger,
  optionalText,
  outcomeToText,
  ownText,
  resealReason,
  type SealedText,
  sealReason,
  sliceOf,
  TIERS,
  text,
  word,
} from '#kernel/store/rows'
import {
  type BeginResult,
  beginNext,
  keepsSession,
  type ScopeEnded,
  SESSION_ENDED,
  TAKEN,
  type UncommittedClaim,
} from './call-changes.ts'
import { parkCall } from './calls.ts'
import { appendFact, type BegunAttempt, endAttempt, endOwnSession } from './runs.ts'

/**
 * Changes to parked calls and their approvals: park, decide, resume, end. `approvals.ts` turns them into methods of the store.
 * Each change is one transaction with its events; a grant is consumed with the attempt that uses it, or not at all (rule 20).
 */

/** Rows that decide whether a call may run: requests for approval, and approvers' decisions. */
export const GUARDED: Readonly<Record<'approvals' | 'decisions', GuardedTable>> = {
  approvals: {
    table: 'approvals',
    columns: [
      ...['id', 'tenant', 'record', 'attempt', 'principal', 'tool', 'tool_id', 'tier', 'definition', 'run'],
      ...['own_session', 'binding', 'subject_group', 'subject_at', 'subject_length', 'quorum'],
      ...['required_scope', 'self_approval', 'bypass', 'state', 'created_at', 'expires_at', 'decided_at'],
    ],
    names: ['id'],
    checkedReads: [
      ...['findApproval', 'newestApproval', 'expiredApprovals', 'parkedApprovalOf', 'parkedApprovalsInRun'],
      ...['parkedApprovalsInSession', 'listApprovals'],
    ],
    endOf: (row) => text(row, 'state'),
    endedBy({ type, approval = '' }) {
      const state = /^approval\.(used|rejected|expired|cancelled)$/.exec(type)?.[1]
      return state === undefined ? undefined : { row: { id: approval }, state }
    },
  },
  decisions: {
    table: 'approval_decisions',
    label: 'decisions',
    columns: ['approval', 'principal', 'action', 'reason', 'at', 'n'],
    names: ['approval', 'principal'],
    checkedReads: ['decisionsOf'],
    *resealContents({ keys }, row) {
      if (typeof row.reason !== 'string') return
      const approval = text(row, 'approval')
      const reason = resealReason(keys, approval, row.reason)
      yield* write('resealReason', reason, approval, text(row, 'principal'))
    },
  },
}

/** Writer number of a session whose call waits for approval: it belongs to no writer, so that no writer's death ends it. */
const NO_WRITER = 0

type LimitReached = { readonly kind: 'full'; readonly parked: number }

/** The result of parking before its commit. */
export type UncommittedPark =
  | { readonly kind: 'parked' }
  | { readonly kind: 'taken'; readonly record: string }
  | LimitReached
  | ScopeEnded

export function* park(group: CommitGroup, call: NewCall, parking: Parking): Steps<UncommittedPark> {
  const { tenant, principal, fingerprint, definitionHash, record } = call
  if ((yield* get('callerOf', record)) !== undefined) return { kind: 'taken', record }
  if (!parking.keyed) {
    const equal = yield* get('findParkedLike', tenant, principal, fingerprint, definitionHash)
    if (equal !== undefined) return { kind: 'taken', record: text(equal, 'record') }
  }
  const full = yield* checkLimit(call, parking)
  if (full !== undefined) return full
  return yield* requestApproval(group, call, { next: call, parked: yield* parkCall(group, call), parking })
}

export function* parkAgain(
  group: CommitGroup,
  previous: CallRecord,
  next: NextAttempt,
  parking: Parking,
): Steps<UncommittedPark> {
  const full = yield* checkLimit(previous, parking)
  if (full !== undefined) return full
  const parked = yield* beginNext(group, previous, next, 'parked')
  return yield* requestApproval(group, previous, { next, parked, parking })
}

/** Rule 20: consumes the grant, sets writer and attempt and appends the events, all or nothing. */
export function* resume(
  group: CommitGroup,
  previous: CallRecord,
  resumption: Resumption,
): Steps<UncommittedClaim> {
  const { record, attempt, sessionId } = previous
  const { approvalId, binding, rerunUntilMs, atMs } = resumption
  const row = yield* get('newestApproval', record)
  const approval = row === undefined ? undefined : approvalFromRow(row, [])
  if (row === undefined || approval === undefined) return TAKEN
  const isGranted = approval.id === approvalId && approval.attempt === attempt
  if (!isGranted || !isUsable(approval, binding, atMs)) return TAKEN
  const { writer } = group
  const ownSession = optionalText(row, 'own_session')
  const session = sessionId === undefined ? undefined : { sessionId, isOwn: ownSession !== undefined }
  if (session !== undefined && !(yield* keepsSession(group, session))) return SESSION_ENDED
  if ((yield* write('resumeCall', writer, rerunUntilMs, record, attempt)) === 0) return TAKEN
  yield* write('changeApproval', 'used', atMs, approval.expiresAtMs, approvalId, 'granted')
  yield* sealRow(group.keys, GUARDED.approvals, approvalId)
  if (ownSession !== undefined) yield* write('setSessionWriter', writer, ownSession)
  group.append(approvalEvent(approval, { type: 'approval.used', at: atMs, by: previous.principal }))
  group.append(claimedEvent(previous, attempt, { atMs, parent: previous.parent }))
  return { kind: 'claimed', attempt }
}

export function* decide(
  group: CommitGroup,
  decision: NewDecision,
): Steps<Exclude<DecideResult['kind'], 'not_found'> | undefined> {
  const { id, tenant, by, action, reason, atMs, opaque, isAutomatic } = decision
  const row = yield* get('findApproval', id)
  if (row === undefined || text(row, 'tenant') !== tenant) return undefined
  const decisions = yield* all('decisionsOf', id)
  const approval = approvalFromRow(row, decisions)
  const judged = judgeDecision(approval, decision)
  if (judged.kind === 'closed') {
    if (approval.state === 'pending') yield* endParked(group, row, { why: 'expired', atMs })
    return 'closed'
  }
  if (judged.kind === 'repeated') return 'repeated'
  const sealed = reason === undefined ? undefined : sealReason(group.keys, id, reason)
  yield* write('saveDecision', id, by, action, sealed ?? null, atMs, decisions.length)
  yield* sealRow(group.keys, GUARDED.decisions, id, by)
  const { granted } = judged
  const { run } = approval
  const decided = decidedFact(approval, { action, opaque, reason: sealed, granted })
  yield* appendFact(run, { fact: decided, atMs })
  const why = sealed === undefined ? {} : { reason: sealed }
  group.append(approvalEvent(approval, { type: decided.type, ...why, at: atMs, by }))
  if (judged.kind === 'counted') return 'counted'
  const outcome = action === 'reject' ? 'reject' : 'accept'
  const resolved = resolvedFact(approval, { action: outcome, by: opaque, ...why })
  yield* appendFact(run, { fact: resolved, atMs })
  if (isAutomatic !== true)
    yield* notifyOf(group, { kind: 'approval.decided', approval: id, as: judged.state, by }, atMs)
  if (judged.state === 'rejected') {
    yield* endParked(group, row, { why: 'rejected', atMs, by, reason })
  } else {
    yield* write('changeApproval', 'granted', atMs, judged.expiresAtMs, id, 'pending')
    yield* sealRow(group.keys, GUARDED.approvals, id)
  }
  return 'decided'
}

/** Limits the parked calls of a principal (rule 22). A call that parks again is not counted itself. */
function* checkLimit(
  call: Pick<CallRecord, 'tenant' | 'principal'>,
  { maxParked }: Parking,
): Steps<LimitReached | undefined> {
  const row = (yield* get('countParked', call.tenant, call.principal)) ?? {}
  const parked = integer(row, 'n')
  return parked >= maxParked ? { kind: 'full', parked } : undefined
}

interface ApprovalRequest<Parked> {
  readonly next: NextAttempt
  readonly parked: Parked
  readonly parking: Parking
}

function* requestApproval(
  group: CommitGroup,
  call: NewCall | CallRecord,
  { next, parked, parking }: ApprovalRequest<BeginResult>,
): Steps<UncommittedPark> {
  const { record, tier } = call
  if (parked === TAKEN) return { kind: 'taken', record }
  if ('kind' in parked) return parked
  const { approval } = parking
  const { atMs } = next
  const { attempt, run, caller, position } = parked
  yield* insertApproval(group, call, { next, parked, parking })
  group.append({ ...parkedEvent(call, { id: approval.id, attempt }, atMs), ...position })
  const question = { ...approval, record, attempt, tier, createdAtMs: atMs }
  for (const fact of requestedFacts(question, labelOf(call))) yield* appendFact(run, { fact, caller, atMs })
  const isGranted = parking.grantByRule !== undefined && (yield* parking.grantByRule(group))
  if (!isGranted) yield* notifyOf(group, { kind: 'approval.requested', approval: approval.id }, atMs)
  return { kind: 'parked' }
}

function* insertApproval(
  group: CommitGroup,
  call: NewCall | CallRecord,
  { next, parked, parking: { approval } }: ApprovalRequest<BegunAttempt>,
): Steps<void> {
  const { session, atMs } = next
  const ownSession = session?.isOwn === true ? session.sessionId : undefined
  if (ownSession !== undefined) yield* write('setSessionWriter', NO_WRITER, ownSession)
  const subject = group.addCaller(subjectToText(call.record, approval.subject))
  yield* write(
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
  yield* sealRow(group.keys, GUARDED.approvals, approval.id)
}

/** The state of the approval after each end; the journal event is named after the state. */
const ENDS = {
  rejected: 'rejected',
  expired: 'expired',
  unused: 'expired',
  cancelled: 'cancelled',
  session: 'cancelled',
} as const satisfies Record<ParkedEnd, ApprovalState>

interface PlannedEnd {
  readonly why: ParkedEnd
  readonly atMs: number
  readonly by?: string
  /** The reason in plain text, because it becomes part of the outcome, which is sealed. */
  readonly reason?: string | undefined
}

export function* endParkedIn(
  group: CommitGroup,
  scope: ParkedScope,
  end: PlannedEnd,
): Steps<readonly EndedParkedCall[]> {
  const ended: EndedParkedCall[] = []
  for (const row of yield* parkedIn(scope)) {
    const endedCall = yield* endParked(group, row, end)
    if (endedCall !== undefined) ended.push(endedCall)
  }
  return ended
}

export function* parkedIn(scope: ParkedScope): Steps<readonly Row[]> {
  const { tenant } = scope
  if ('record' in scope) return yield* all('parkedApprovalOf', scope.record, tenant)
  if ('run' in scope) return yield* all('parkedApprovalsInRun', scope.run, tenant)
  return yield* all('parkedApprovalsInSession', scope.sessionId, tenant)
}

/** Ends a parked call and its approval with their events; `undefined` if another process changed the call first. */
export function* endParked(
  group: CommitGroup,
  row: Row,
  end: PlannedEnd,
): Steps<EndedParkedCall | undefined> {
  const approval = approvalFromRow(row, [])
  const { id, tenant, record, attempt, tool, principal, run, state, expiresAtMs } = approval
  const { why, atMs, by, reason } = end
  const outcome = refusedOutcome(why, tool, reason)
  const slice = group.addPayload(boundText(record, outcomeToText(outcome)))
  const columns = [slice.group, slice.at, slice.length]
  if ((yield* write('refuseCall', atMs, ...columns, record, attempt)) === 0) return undefined
  keepOutcome(group, approval, outcome)
  yield* write('changeApproval', ENDS[why], atMs, expiresAtMs, id, state)
  yield* sealRow(group.keys, GUARDED.approvals, id)
  if (state === 'pending' && why !== 'rejected') {
    const action = why === 'expired' ? 'reject' : 'cancel'
    const fact = resolvedFact(approval, { action, reason: why === 'expired' ? 'timeout' : why })
    yield* appendFact(run, { fact, atMs })
  }
  const session = yield* sessionOf(record, optionalText(row, 'own_session'))
  const attempted = { tenant, record, principal, tool, attempt, run, session }
  const position = yield* endAttempt(attempted, outcome, atMs)
  // A rejection already has its own event.
  if (why !== 'rejected') {
    const type = `approval.${ENDS[why]}` as const
    group.append(approvalEvent(approval, { type, at: atMs, ...(by === undefined ? {} : { by }) }))
  }
  group.append({ ...endedEvent(attempted, attempt, { state: 'failed', outcome, atMs }), ...position })
  yield* endOwnSession(group, attempted, outcome, atMs)
  if (why === 'expired') yield* notifyOf(group, { kind: 'approval.expired', approval: id }, atMs)
  return { record, run }
}

/** Stores a notice; an approval has at most one notice of each kind. */
function* notifyOf(
  group: CommitGroup,
  subject: Extract<NoticeSubject, { readonly approval: string }>,
  atMs: number,
): Steps<void> {
  yield* group.notify(subject, { about: subject.approval, atMs })
}

function* sessionOf(record: string, ownSession: string | undefined): Steps<CallSession | undefined> {
  if (ownSession !== undefined) return { sessionId: ownSession, isOwn: true }
  const named = optionalText((yield* get('findCall', record)) ?? { session: null }, 'session')
  return named === undefined ? undefined : { sessionId: named, isOwn: false }
}

const ACTIONS = ['grant', 'reject', 'override'] as const satisfies readonly DecisionAction[]

/** Placeholder for a subject that is not needed, or whose text was removed with its journal group. */
const NO_SUBJECT: ApprovalSubject = {
  callId: '',
  runId: '',
  argsHash: '',
  userId: undefined,
  isUserProven: false,
  summaryJson: '{}',
  inputJson: '{}',
  hidden: 0,
  isPartial: true,
}

/** The approval in a row; its subject is sealed, so it is only included if it is passed. */
export function approvalFromRow(row: Row, decisions: readonly Row[], subject = NO_SUBJECT): ApprovalRecord {
  return {
    tenant: text(row, 'tenant'),
    id: text(row, 'id'),
    record: text(row, 'record'),
    attempt: integer(row, 'attempt'),
    principal: text(row, 'principal'),
    tool: text(row, 'tool'),
    toolId: text(row, 'tool_id'),
    tier: word(row, 'tier', TIERS),
    definitionHash: text(row, 'definition'),
    run: text(row, 'run'),
    subject,
    binding: text(row, 'binding'),
    quorum: integer(row, 'quorum'),
    requiredScope: text(row, 'required_scope'),
    selfApproval: integer(row, 'self_approval') === 1,
    overrideBypassesQuorum: integer(row, 'bypass') === 1,
    state: word(row, 'state', APPROVAL_STATES),
    createdAtMs: integer(row, 'created_at'),
    expiresAtMs: integer(row, 'expires_at'),
    decidedAtMs: optionalInteger(row, 'decided_at'),
    decisions: decisions.map(decisionFromRow),
  }
}

function decisionFromRow(row: Row): ApproverDecision {
  return {
    by: text(row, 'principal'),
    action: word(row, 'action', ACTIONS),
    reason: optionalText(row, 'reason'),
    atMs: integer(row, 'at'),
  }
}

type SealedSubject = readonly [
  callId: string,
  runId: string,
  argsHash: string,
  userId: string | null,
  summaryJson: string,
  inputJson: string,
  hidden: number,
  isUserProven: boolean,
  credentials: string | null,
  definitionJson: string | null,
]

/** The text of a subject, which is sealed because it contains the caller's texts (rule 15). */
function subjectToText(record: string, subject: ApprovalSubject): string {
  const { callId, runId, argsHash, userId, summaryJson, inputJson, hidden, isUserProven } = subject
  const { credentials, definitionJson } = subject
  const names = [callId, runId, argsHash, userId ?? null] as const
  const shown = [summaryJson, inputJson, hidden, isUserProven] as const
  const parts: SealedSubject = [...names, ...shown, credentials ?? null, definitionJson ?? null]
  return boundText(record, JSON.stringify(parts))
}

export function* subjectOf(row: Row, sealed: SealedText): Steps<ApprovalSubject> {
  const slice = sliceOf(row, 'subject')
  try {
    const bound = yield* sealed('callers', slice)
    const parts: SealedSubject = JSON.parse(ownText(text(row, 'record'), bound))
    const [callId, runId, argsHash, userId, summaryJson, inputJson, hidden, ...rest] = parts
    const [isUserProven, credentials, definitionJson] = rest
    const subject = { callId, runId, argsHash, userId: userId ?? undefined, summaryJson, inputJson }
    const kept = { credentials: credentials ?? undefined, definitionJson: definitionJson ?? undefined }
    return { ...subject, hidden, isUserProven, ...defined(kept) }
  } catch (error) {
    // A decided approval may be kept longer than the group with its text; for a pending approval the group is kept.
    if (error instanceof StoreError && error.code === 'unreadable' && row.decided_at !== null)
      return NO_SUBJECT
    throw error
  }
}
