import type { Outcome } from '#kernel/call/call'
import type {
  Attempt,
  CallAddress,
  CallRecord,
  CallSession,
  ClaimResult,
  NewCall,
  NextAttempt,
  Settlement,
  SettleResult,
} from '#kernel/call/call-record'
import { attemptEvent, claimedEvent, correctedEvent, endedEvent } from '#kernel/journal/append'
import { all, type CommitGroup, get, LIST, listsOf, type Row, type Steps, write } from '#kernel/store/engine'
import {
  boundText,
  callerSlice,
  callerToText,
  integer,
  keepOutcome,
  NO_SLICE,
  optionalInteger,
  outcomeToText,
  type Slice,
  subjectFromRow,
  text,
} from '#kernel/store/rows'
import {
  type BegunAttempt,
  beginAttempt,
  closeSession,
  cutAttempt,
  keepInRun,
  openRun,
  removeRuns,
} from './runs.ts'

/**
 * The rarer changes to calls: the next attempt, late results, cancellation, settlement. `calls.ts` makes methods of them,
 * `approval-changes.ts` builds on them. Every change is conditional on state, attempt and writer, and is committed with its
 * journal and run events.
 */

/**
 * Another request has the key or changed the call first. Its record is read after the commit, because it may be in the same
 * group, whose text is not sealed yet (rule 19).
 */
export const TAKEN = 'taken'
export const RUN_ENDED = { kind: 'run_ended' } as const
export const SESSION_ENDED = { kind: 'session_ended' } as const
/** Why a call does not start although its key is free. */
export type ScopeEnded = typeof RUN_ENDED | typeof SESSION_ENDED

/** The result of a claim before its commit. */
export type UncommittedClaim = Exclude<ClaimResult, { readonly kind: 'found' }> | typeof TAKEN
/** An attempt that has begun, or why it has not. */
export type BeginResult = BegunAttempt | ScopeEnded | typeof TAKEN

export function* reclaim(
  group: CommitGroup,
  previous: CallRecord,
  next: NextAttempt,
): Steps<UncommittedClaim> {
  const begun = yield* beginNext(group, previous, next, 'running')
  if (begun === TAKEN || 'kind' in begun) return begun
  const { attempt, position } = begun
  const event = claimedEvent(previous, attempt, { atMs: next.atMs, parent: previous.parent })
  group.append({ ...event, ...position })
  return { kind: 'claimed', attempt }
}

/**
 * Whether this writer holds the state of the session. A process that lost its lease continues as another writer, and recovery
 * closes the sessions of the previous writer: a call that began in the meantime would end in a closed session. The session is
 * checked before the run, which may have ended with it, so that the caller gets the error for an ended session.
 */
export function* keepsSession(group: CommitGroup, { isOwn, sessionId }: CallSession): Steps<boolean> {
  return isOwn || (yield* write('keepSession', sessionId, group.writer)) > 0
}

export function* beginNext(
  group: CommitGroup,
  previous: CallRecord,
  next: NextAttempt,
  as: 'running' | 'parked',
): Steps<BeginResult> {
  const { tenant, principal, record, state, attempt, writer, sessionId } = previous
  const { session, atMs, corrected } = next
  const run = previous.run ?? record
  const before = yield* get('findCall', record)
  if (before === undefined || !isStillFree(before, previous)) return TAKEN
  if (session !== undefined && !(yield* keepsSession(group, session))) return SESSION_ENDED
  if (run !== record && !(yield* openRun({ tenant, run, principal }, atMs))) return RUN_ENDED
  const values = [as, group.writer, session?.sessionId ?? null, record, state, attempt, writer]
  if ((yield* write('reclaimCall', ...values)) === 0) return TAKEN
  yield* dropOutcome(before)
  yield* keepInRun(before, previous)
  if (state === 'running') {
    const position = yield* cutAttempt(before, 'cut', { sessionId, atMs })
    group.append({ ...attemptEvent('call.cut', previous, atMs, { deadWriter: writer }), ...position })
    // No other change would close the session of an attempt that never started.
    if (session?.isOwn === true && sessionId !== undefined) {
      yield* closeSession(group, { tenant, sessionId }, 'failed', atMs)
    }
  }
  const caller =
    corrected === undefined
      ? callerSlice(before)
      : yield* correct(group, { before, previous }, corrected, atMs)
  const begun = { run, attempt: attempt + 1, caller }
  return { ...begun, position: yield* beginAttempt(group, previous, { ...begun, session, atMs }) }
}

/** Rule 9: replaces the content of the call; returns the slice of its caller text. */
function* correct(
  group: CommitGroup,
  { before, previous }: { readonly before: Row; readonly previous: CallRecord },
  corrected: NewCall,
  atMs: number,
): Steps<Slice> {
  const { record, fingerprint, inputJson } = corrected
  const caller = group.addCaller(boundText(record, callerToText(corrected)))
  const input = group.addPayload(boundText(record, inputJson))
  const slices = [group.id, caller.at, caller.length, input.at, input.length]
  yield* write('correctCall', fingerprint, ...slices, record)
  yield* write('dropReference', integer(before, 'claim_group'))
  group.addReference()
  group.append(correctedEvent(previous, corrected, atMs))
  return caller
}

export function* recordLate(group: CommitGroup, run: Attempt, outcome: Outcome, atMs: number): Steps<void> {
  const slice = group.addPayload(boundText(run.record, outcomeToText(outcome)))
  if ((yield* write('lateCall', slice.group, slice.at, slice.length, run.record, run.attempt)) > 0) {
    keepOutcome(group, run, outcome)
  }
  group.append(endedEvent(run, run.attempt, { state: 'late', outcome, atMs }))
}

export function* requestCancel(
  group: CommitGroup,
  { tenant, record }: CallAddress,
  by: string,
  atMs: number,
): Steps<boolean> {
  if ((yield* write('requestCancel', record, tenant)) === 0) return false
  const row = (yield* get('findCall', record)) ?? {}
  group.append(attemptEvent('call.cancel_requested', subjectFromRow(row), atMs, { by }))
  return true
}

export function* findUnsettled(record: string): Steps<Row | Exclude<SettleResult, 'settled'>> {
  const row = yield* get('findCall', record)
  if (row === undefined) return 'not_found'
  return text(row, 'state') === 'ambiguous' ? row : 'not_ambiguous'
}

export function* settle(group: CommitGroup, settlement: Settlement): Steps<SettleResult> {
  const row = yield* findUnsettled(settlement.record)
  if (typeof row === 'string') return row
  if (settlement.as === 'not-run') {
    yield* dropReferences([row])
    yield* deleteApprovalsOf(yield* all('deleteCall', settlement.record))
    yield* removeRuns([settlement.record])
  } else {
    const outcome = settledOutcome(settlement)
    // Without an outcome the row still names the commit, so that readers find who settled the call and why.
    const slice =
      outcome === undefined
        ? { ...NO_SLICE, group: group.id }
        : group.addPayload(boundText(settlement.record, outcomeToText(outcome)))
    if (outcome === undefined) group.addReference()
    else keepOutcome(group, subjectFromRow(row), outcome)
    const { as, atMs, record } = settlement
    yield* write('settleCall', as, atMs, slice.group, slice.at, slice.length, record)
  }
  const { as, who, why, atMs } = settlement
  group.append(attemptEvent('call.settled', subjectFromRow(row), atMs, { as, who, why }))
  return 'settled'
}

/** Drops the reference to the previous outcome, because a group with references is never removed (rule 13). */
function* dropOutcome(row: Row): Steps<void> {
  const group = optionalInteger(row, 'outcome_group')
  if (group !== undefined) yield* write('dropReference', group)
}

/** Whether the call may begin its next attempt and has not changed since it was read. */
function isStillFree(row: Row, { state, attempt, writer }: CallRecord): boolean {
  const isSame =
    text(row, 'state') === state && integer(row, 'attempt') === attempt && text(row, 'writer_id') === writer
  return isSame && (state === 'released' || state === 'running') && integer(row, 'expired') === 0
}

const GROUP_COLUMNS = ['claim_group', 'outcome_group', 'late_group'] as const

/** Drops these calls' references to their groups; the payload of a group without references is deleted. */
export function* dropReferences(calls: readonly Row[]): Steps<void> {
  const dropped = new Map<number, number>()
  for (const call of calls) {
    for (const column of GROUP_COLUMNS) {
      const group = optionalInteger(call, column)
      if (group !== undefined) dropped.set(group, (dropped.get(group) ?? 0) + 1)
    }
  }
  const byCount = Map.groupBy(dropped.keys(), (group) => dropped.get(group) ?? 0)
  for (const [count, groups] of byCount)
    for (const list of listsOf(groups)) yield* write('dropReferences', count, count, ...list)
}

/** Deletes the approvals of deleted calls, with their decisions. */
export function* deleteApprovalsOf(deleted: readonly Row[]): Steps<void> {
  const withApprovals = deleted.filter((call) => integer(call, 'approvals') > 0)
  for (const records of listsOf(withApprovals.map((call) => text(call, 'record')))) {
    yield* write('deleteDecisionsOfCalls', ...records)
    yield* write('deleteApprovalsOfCalls', ...records)
  }
}

/** The outcome of a settled call; `undefined` if the call took effect but its value is unknown (rule 12). */
function settledOutcome(settlement: Settlement): Outcome | undefined {
  const { as, valueJson, error } = settlement
  if (as === 'succeeded') return valueJson === undefined ? undefined : { ok: true, valueJson }
  return error === undefined ? undefined : { ok: false, error }
}

/** Column with the number of a call's approvals, which are deleted with the call. */
export const APPROVALS_OF_CALL =
  '(SELECT count(*) FROM approvals WHERE approvals.record = calls.record) AS approvals'

export const queries = {
  reclaimCall: `UPDATE calls SET state = ?, attempt = attempt + 1, writer = ?, finished_at = NULL, cancel_requested = 0,
      outcome_group = NULL, outcome_at = NULL, outcome_length = NULL, ran_ms = NULL, run = coalesce(run, record), session = ?
    WHERE record = ? AND state = ? AND attempt = ? AND writer = (SELECT no FROM writers WHERE id = ?)
      AND state IN ('released', 'running') AND expired = 0`,
  /** Runs after `reclaimCall` in the same transaction (rule 9). */
  correctCall: `UPDATE calls SET fingerprint = ?, claim_group = ?, caller_at = ?, caller_length = ?, input_at = ?,
      input_length = ? WHERE record = ?`,
  lateCall: `UPDATE calls SET late_group = ?, late_at = ?, late_length = ?
    WHERE record = ? AND attempt = ? AND late_group IS NULL AND expired = 0`,
  requestCancel:
    "UPDATE calls SET cancel_requested = 1 WHERE record = ? AND tenant = ? AND state = 'running' AND cancel_requested = 0",
  settleCall: `UPDATE calls SET state = ?, ran_ms = NULL, finished_at = ?, outcome_group = ?, outcome_at = ?, outcome_length = ?
    WHERE record = ? AND state = 'ambiguous'`,
  deleteCall: `DELETE FROM calls WHERE record = ? RETURNING record, ${APPROVALS_OF_CALL}`,
  dropReference:
    'UPDATE commit_groups SET live = live - 1, payload = CASE WHEN live <= 1 THEN NULL ELSE payload END WHERE id = ?',
  dropReferences: `UPDATE commit_groups SET live = live - ?, payload = CASE WHEN live <= ? THEN NULL ELSE payload END
    WHERE id IN (${LIST})`,
} as const
