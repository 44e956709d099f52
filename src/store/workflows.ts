import type { EndedParkedCall } from '#kernel/approval/approval'
import type { Attempt, CallAddress, CallRecord } from '#kernel/call/call-record'
import type { SuspendDetails, WorkflowStore } from '#kernel/call/stages'
import { endSuspended } from '#kernel/call/suspend'
import { attemptEvent, endedEvent } from '#kernel/journal/append'
import { holderOf } from '#kernel/store/calls/calls'
import { endAttempt } from '#kernel/store/calls/runs'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { StoreModule } from '#kernel/store/module'
import { boundText, keepOutcome, optionalText, outcomeToText, subjectFromRow, text } from '#kernel/store/rows'

/**
 * Workflows that are suspended while a step waits (rule 31): their calls are `parked` with `waits_for`, and keep their attempt
 * when they continue. The call ladder and the workflow stage use it; each change is one transaction with its events.
 */

const { get, all, write } = statements<keyof typeof queries>()

const MAX_EXPIRED = 100

export function openWorkflows(context: StoreContext) {
  const { exclusive, read } = context
  const holder = holderOf(context)
  const recordOf = ({ record }: { readonly record: string }) => record
  const changes = {
    suspend: exclusive(recordOf, suspend),
    resume: exclusive(recordOf, resume),
    cancel: exclusive(recordOf, cancel),
    expire: exclusive(() => '', expire),
  }
  const findSuspended = read(suspendedCall)
  const firstExpired = read((nowMs: number) => get('expiredSuspended', nowMs, 1))
  const stored = {
    suspend: async (run, suspending) =>
      (await changes.suspend(run, suspending)) ? { kind: 'recorded' } : holder(run.record),
    resume: async (previous, next) =>
      (await changes.resume(previous, next))
        ? { kind: 'claimed', attempt: previous.attempt }
        : holder(previous.record),
    /** Reads before it writes, because most cancelled calls are not suspended workflows. */
    cancel: async (address, _by, atMs) =>
      (await findSuspended(address)) === undefined ? [] : changes.cancel(address, atMs),
    expire: async (nowMs) => ((await firstExpired(nowMs)) === undefined ? [] : changes.expire(nowMs)),
  } satisfies WorkflowStore
  /** `openSteps` returns the steps of a workflow's call that are running or waiting. */
  return { ...stored, openSteps: read(openSteps) }
}

export type SuspendedStore = ReturnType<typeof openWorkflows>

function* suspend(group: CommitGroup, run: Attempt, { waitsFor, atMs }: SuspendDetails): Steps<boolean> {
  if ((yield* write('suspendCall', waitsFor, run.record, run.attempt, group.writer)) === 0) return false
  group.append(attemptEvent('call.suspended', run, atMs, waitsFor === '' ? {} : { waitsFor }))
  return true
}

function* resume(
  group: CommitGroup,
  previous: CallRecord,
  { atMs, rerunUntilMs }: { readonly atMs: number; readonly rerunUntilMs: number },
): Steps<boolean> {
  const values = [group.writer, rerunUntilMs, previous.record, previous.attempt]
  if ((yield* write('resumeSuspended', ...values)) === 0) return false
  group.append(attemptEvent('call.resumed', previous, atMs, {}))
  return true
}

function* suspendedCall({ tenant, record }: CallAddress): Steps<Row | undefined> {
  return yield* get('suspendedCall', record, tenant)
}

function* cancel(group: CommitGroup, address: CallAddress, atMs: number): Steps<readonly EndedParkedCall[]> {
  const row = yield* suspendedCall(address)
  return row === undefined ? [] : yield* end(group, row, { why: 'cancelled', atMs })
}

function* expire(group: CommitGroup, nowMs: number): Steps<readonly EndedParkedCall[]> {
  const ended: EndedParkedCall[] = []
  for (const row of yield* all('expiredSuspended', nowMs, MAX_EXPIRED)) {
    ended.push(...(yield* end(group, row, { why: 'expired', atMs: nowMs })))
  }
  return ended
}

function* end(
  group: CommitGroup,
  row: Row,
  { why, atMs }: { readonly why: 'cancelled' | 'expired'; readonly atMs: number },
): Steps<readonly EndedParkedCall[]> {
  const subject = subjectFromRow(row)
  const { record, attempt } = subject
  const outcome = endSuspended(subject.tool, why)
  const slice = group.addPayload(boundText(record, outcomeToText(outcome)))
  if ((yield* write('endSuspended', atMs, slice.group, slice.at, slice.length, record)) === 0) return []
  keepOutcome(group, subject, outcome)
  const run = optionalText(row, 'run') ?? record
  const position = yield* endAttempt({ ...subject, run, session: undefined }, outcome, atMs)
  group.append({ ...endedEvent(subject, attempt, { state: 'failed', outcome, atMs }), ...position })
  return [{ record, run }]
}

function* openSteps({ record, tenant }: CallAddress): Steps<readonly CallAddress[]> {
  return (yield* all('openSteps', record))
    .map((row) => ({ tenant: text(row, 'tenant'), record: text(row, 'record') }))
    .filter((step) => step.tenant === tenant)
}

const queries = {
  suspendCall: `UPDATE calls SET state = 'parked', waits_for = ?
    WHERE record = ? AND state = 'running' AND attempt = ? AND writer = ? AND resumable = 1`,
  resumeSuspended: `UPDATE calls SET state = 'running', waits_for = NULL, writer = ?, cancel_requested = 0, rerun_until = ?
    WHERE record = ? AND state = 'parked' AND waits_for IS NOT NULL AND attempt = ?`,
  suspendedCall:
    "SELECT * FROM calls WHERE record = ? AND tenant = ? AND state = 'parked' AND waits_for IS NOT NULL",
  endSuspended: `UPDATE calls SET state = 'failed', waits_for = NULL, finished_at = ?, outcome_group = ?, outcome_at = ?,
      outcome_length = ? WHERE record = ? AND state = 'parked' AND waits_for IS NOT NULL`,
  expiredSuspended: `SELECT * FROM calls WHERE waits_for IS NOT NULL AND state = 'parked' AND rerun_until <= ?
    ORDER BY rerun_until LIMIT ?`,
  openSteps:
    "SELECT tenant, record FROM calls WHERE parent = ? AND state IN ('running', 'parked') LIMIT 10000",
} as const

export const workflowModule: StoreModule = { name: 'workflows', queries }
