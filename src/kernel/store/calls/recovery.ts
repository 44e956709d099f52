import type { Failure } from '#kernel/call/call'
import { lastFailure, MAX_ATTEMPTS } from '#kernel/call/look-up'
import { attemptEvent, endedEvent } from '#kernel/journal/append'
import type { CallSubject } from '#kernel/journal/events'
import { sessionLostError } from '#kernel/run/session-ends'
import {
  all,
  type CommitGroup,
  get,
  LIST,
  listsOf,
  type Row,
  type Steps,
  type StoreContext,
  write,
} from '#kernel/store/engine'
import { checkpointSignature } from '#kernel/store/journal'
import type { Generation } from '#kernel/store/key-ring'
import type { PurgeStep, RetentionPolicy, StoreDefinition } from '#kernel/store/module'
import {
  boundText,
  integer,
  keepOutcome,
  optionalText,
  outcomeToText,
  subjectFromRow,
  text,
} from '#kernel/store/rows'
import { endParkedIn } from './approval-changes.ts'
import { APPROVALS_OF_CALL, deleteApprovalsOf, dropReferences } from './call-changes.ts'
import { closeSession, cutAttempt, deleteRuns, keepInRun, labelledByRow, removeRuns } from './runs.ts'

/**
 * Recovery of cut calls (rule 8), and retention (rule 13). A call is cut if its writer died while it was running. The gateway
 * recovers at start and by timer; a job purges. Every step is small, so that it does not delay calls that wait for their commit.
 */

export function openRecovery({ exclusive, read, engine, chain, definition }: StoreContext) {
  const openWriters = read(findOpenWriters)
  const hasEnded = read(writerHasEnded)
  const recoverSome = exclusive(() => '', recoverWriter)
  const purgeSome = exclusive(
    () => '',
    (group, nowMs: number, policy: RetentionPolicy, dropped: number) =>
      purgeOnce(definition, { group, nowMs, policy, limit: STEP_ROWS }, dropped),
  )
  return {
    /**
     * Makes running calls of dead writers `ambiguous`, unless they may run again (rule 8), had no effects or were lost with
     * their session, and closes the sessions of these writers (rule 30).
     */
    async recover(nowMs: number) {
      await engine.isAlive(chain.id)
      let deadWriters = 0
      let ambiguous = 0
      for (const writer of await openWriters()) {
        if (await engine.isAlive(writer.id)) continue
        deadWriters += 1
        for (let hasMore = true; hasMore; ) {
          const recovered = await recoverSome(writer, nowMs)
          ambiguous += recovered.ambiguous
          hasMore = recovered.hasMore
        }
        if (await hasEnded(writer.id)) await engine.forgetWriter(writer.id)
      }
      return { deadWriters, ambiguous }
    },
    isWriterAlive: (writer: string) => engine.isAlive(writer),
    /** Whether another living process has written to this store. */
    async hasOtherWriters() {
      for (const { id } of await openWriters()) if (id !== chain.id && (await engine.isAlive(id))) return true
      return false
    },
    /** Removes some rows that are past retention (rule 13); `true` while there is more to do. */
    async purge(nowMs: number, policy: RetentionPolicy) {
      const dropped = (await engine.maintainPartitions?.(nowMs, policy.journalMs)) ?? 0
      return await purgeSome(nowMs, policy, dropped)
    },
  }
}

const STEP_ROWS = 200

/** One step of retention (rule 13). `dropped` is the number of journal groups that were deleted with their partitions. */
function* purgeOnce(
  { forgetting }: Pick<StoreDefinition, 'forgetting'>,
  step: PurgeStep,
  dropped: number,
): Steps<boolean> {
  const { group, nowMs, policy, limit } = step
  const journalMs = nowMs - policy.journalMs
  const calls = yield* forgetResults(nowMs - policy.resultsMs)
  const runs = yield* forgetRuns(journalMs)
  const tombstones = yield* forgetTombstones(journalMs)
  const groups = yield* forgetJournal(journalMs, group.keys.current)
  const removed = [calls, runs, tombstones, groups]
  for (const forget of forgetting) removed.push(yield* forget(step))
  if (calls + groups + dropped > 0)
    group.append({ type: 'retention.purged', at: nowMs, calls, groups: groups + dropped })
  return removed.some((rows) => rows >= limit)
}

/** Removes results. A call that may have had effects stays as a tombstone, so that its key is still taken; others are deleted. */
function* forgetResults(beforeMs: number): Steps<number> {
  const rows = yield* all('expiredResults', beforeMs, beforeMs, STEP_ROWS)
  yield* dropReferences(rows)
  const { kept = [], gone = [] } = Object.groupBy(rows, (row) => (mayChange(row) ? 'kept' : 'gone'))
  for (const records of listsOf(recordsOf(kept))) yield* write('makeTombstones', ...records)
  for (const records of listsOf(recordsOf(gone)))
    yield* deleteApprovalsOf(yield* all('deleteCalls', ...records))
  // The key is free, so the next claim starts a new run.
  yield* removeRuns(recordsOf(gone.filter((row) => row.run === row.record)))
  return rows.length
}

/** Whether the call's tool may have effects. */
function mayChange(row: Row): boolean {
  return ['write', 'exec'].includes(text(row, 'tier'))
}

function recordsOf(rows: readonly Row[]): string[] {
  return rows.map((row) => text(row, 'record'))
}

function* forgetTombstones(beforeMs: number): Steps<number> {
  const deleted = yield* all('deleteTombstones', beforeMs, STEP_ROWS)
  yield* deleteApprovalsOf(deleted)
  return deleted.length
}

/** Runs and sessions are kept as long as the journal; a long run is deleted in several steps, oldest events first. */
function* forgetRuns(beforeMs: number): Steps<number> {
  let removed = yield* write('deleteSessions', beforeMs, STEP_ROWS)
  const wholeRuns: number[] = []
  for (const row of yield* all('oldRuns', beforeMs, STEP_ROWS)) {
    if (removed >= STEP_ROWS) break
    const [no, events] = [integer(row, 'no'), integer(row, 'next')]
    const gone = events < STEP_ROWS ? events : yield* write('deleteFirstEvents', no, no, STEP_ROWS)
    if (gone < STEP_ROWS) wholeRuns.push(no)
    removed += gone + 1
  }
  yield* deleteRuns(wholeRuns)
  return removed
}

/** Deletes the oldest groups of each chain and signs the checkpoint that replaces them (rule 15). */
function* forgetJournal(beforeMs: number, generation: Generation): Steps<number> {
  let removed = 0
  for (const writer of yield* all('oldChains', beforeMs)) {
    const no = integer(writer, 'no')
    const last = lastForgettable(yield* all('oldestGroups', no, STEP_ROWS), beforeMs)
    if (last === undefined) continue
    const link = text((yield* get('linkAt', no, last)) ?? {}, 'link')
    const signature = checkpointSignature(generation, { writer: text(writer, 'id'), group: last, link })
    yield* write('saveCheckpoint', no, last, link, signature)
    removed += yield* write('deletePrefix', no, last)
  }
  return removed
}

/** The position of the last group that can be deleted: it and all earlier groups are past retention and no call refers to them. */
function lastForgettable(groups: readonly Row[], beforeMs: number): number | undefined {
  let last: number | undefined
  for (const group of groups) {
    if (integer(group, 'at') >= beforeMs || integer(group, 'live') > 0) break
    last = integer(group, 'n')
  }
  return last
}

const MAX_AT_ONCE = 500

interface DeadWriter {
  readonly no: number
  readonly id: string
}

function* findOpenWriters(): Steps<readonly DeadWriter[]> {
  return (yield* all('openWriters')).map((row) => ({ no: integer(row, 'no'), id: text(row, 'id') }))
}

function* writerHasEnded(writer: string): Steps<boolean> {
  const row = yield* get('writerEnd', writer)
  return row !== undefined && row.ended_at !== null
}

/**
 * Rule 8: running calls of a dead writer become `ambiguous`, except calls that may run again, which stay until a caller repeats
 * them or their rerun window ends. Reads changed nothing, so they end; calls in a session end because its state was lost.
 * Sessions close once none of their calls run (rule 30).
 */
function* recoverWriter(
  group: CommitGroup,
  dead: DeadWriter,
  nowMs: number,
): Steps<{ readonly ambiguous: number; readonly hasMore: boolean }> {
  yield* write('endLease', dead.no)
  const rows = yield* all('cutCallsOf', dead.no, nowMs, MAX_ATTEMPTS, MAX_AT_ONCE)
  const ambiguous: CallSubject[] = []
  for (const row of rows) {
    const outcome = outcomeOfCut(row)
    if (outcome !== undefined) yield* endCut(group, dead, { row, outcome, nowMs })
    else if (yield* makeAmbiguous(group, row, dead, nowMs)) ambiguous.push(subjectFromRow(row))
  }
  yield* notifyAmbiguous(group, ambiguous, nowMs)
  const hasMore = rows.length === MAX_AT_ONCE || (yield* closeSessions(group, dead, nowMs))
  yield* write('endWriter', nowMs, dead.id)
  return { ambiguous: ambiguous.length, hasMore }
}

/** Maximum number of calls in one notice: a crash may cut hundreds of calls, which are reported together. */
const MAX_REPORTED = 50

function* notifyAmbiguous(group: CommitGroup, ambiguous: readonly CallSubject[], atMs: number): Steps<void> {
  for (let at = 0; at < ambiguous.length; at += MAX_REPORTED) {
    const calls = ambiguous.slice(at, at + MAX_REPORTED)
    // An attempt becomes ambiguous only once, so the first call's attempt identifies the notice.
    const about = JSON.stringify([calls[0]?.record, calls[0]?.attempt])
    yield* group.notify({ kind: 'call.ambiguous', calls }, { about, atMs })
  }
}

function* makeAmbiguous(group: CommitGroup, row: Row, dead: DeadWriter, atMs: number): Steps<boolean> {
  const subject = subjectFromRow(row)
  if ((yield* write('makeAmbiguous', subject.record, dead.no, subject.attempt)) === 0) return false
  yield* keepInRun(row, labelledByRow(row))
  const position = yield* cutAttempt(row, 'cut', { sessionId: undefined, atMs })
  group.append({ ...attemptEvent('call.ambiguous', subject, atMs, { deadWriter: dead.id }), ...position })
  return true
}

function* endCut(
  group: CommitGroup,
  dead: DeadWriter,
  { row, outcome, nowMs }: { readonly row: Row; readonly outcome: Failure; readonly nowMs: number },
): Steps<void> {
  const subject = subjectFromRow(row)
  const { record, attempt } = subject
  const state = outcome.error.canRetry ? 'released' : 'failed'
  const slice = group.addPayload(boundText(record, outcomeToText(outcome)))
  const columns = [slice.group, slice.at, slice.length]
  if ((yield* write('endCut', state, nowMs, ...columns, record, dead.no, attempt)) === 0) return
  keepOutcome(group, subject, outcome)
  const cut = { sessionId: optionalText(row, 'session'), atMs: nowMs }
  const position = row.run === null ? undefined : yield* cutAttempt(row, outcome, cut)
  group.append({ ...endedEvent(subject, attempt, { state, outcome, atMs: nowMs }), ...position })
}

function* closeSessions(group: CommitGroup, dead: DeadWriter, nowMs: number): Steps<boolean> {
  const rows = yield* all('openSessionsOf', dead.no, MAX_AT_ONCE)
  for (const row of rows) {
    const address = { tenant: text(row, 'tenant'), sessionId: text(row, 'id') }
    // The state that a parked call needs is lost, so its approval can no longer be used.
    yield* endParkedIn(group, address, { why: 'session', atMs: nowMs })
    yield* closeSession(group, address, 'failed', nowMs)
  }
  return rows.length === MAX_AT_ONCE
}

/** The outcome of a cut call; `undefined` if only an operator can decide it. */
function outcomeOfCut(row: Row): Failure | undefined {
  const tool = text(row, 'tool')
  const hasEffects = mayChange(row)
  if (optionalText(row, 'session') !== undefined)
    return { ok: false, error: sessionLostError(tool, hasEffects) }
  if (hasEffects) return undefined
  const message = `The server stopped while ${tool} was running. Nothing was changed.`
  const cut: Failure = { ok: false, error: { code: 'cancelled', message, canRetry: true } }
  // A cut read may be repeated as long as it has attempts left.
  return integer(row, 'attempt') < MAX_ATTEMPTS ? cut : lastFailure(cut)
}

export const queries = {
  openWriters: `SELECT no, id FROM writers WHERE ended_at IS NULL
    UNION SELECT no, id FROM writers WHERE no IN (SELECT DISTINCT writer FROM calls WHERE state = 'running')
    UNION SELECT no, id FROM writers WHERE no IN (SELECT DISTINCT writer FROM sessions WHERE state <> 'closed')`,
  writerEnd: 'SELECT ended_at FROM writers WHERE id = ?',
  /** Calls that a dead writer left running and that may not run again. */
  cutCallsOf: `SELECT record, tenant, principal, tool, tier, attempt, run, session, created_at,
      claim_group, caller_at, caller_length FROM calls
    WHERE state = 'running' AND writer = ? AND (rerun_until <= ? OR session IS NOT NULL
      OR (resumable = 0 AND (attempt >= ? OR tier IN ('pure', 'read')))) LIMIT ?`,
  endCut: `UPDATE calls SET state = ?, finished_at = ?, outcome_group = ?, outcome_at = ?, outcome_length = ?
    WHERE record = ? AND state = 'running' AND writer = ? AND attempt = ?`,
  makeAmbiguous: `UPDATE calls SET state = 'ambiguous' WHERE record = ? AND state = 'running' AND writer = ? AND attempt = ?`,
  openSessionsOf: "SELECT tenant, id FROM sessions WHERE writer = ? AND state <> 'closed' LIMIT ?",
  /** Rule 13: the retention period of a step starts when its outermost call is final. */
  expiredResults: `SELECT record, tier, run, claim_group, outcome_group, late_group FROM calls
    WHERE finished_at IS NOT NULL AND expired = 0 AND finished_at < ?
      AND coalesce((SELECT coalesce(r.finished_at, ${Number.MAX_SAFE_INTEGER}) FROM calls r WHERE r.record = calls.root), 0) < ?
    ORDER BY finished_at LIMIT ?`,
  /** The row keeps the outcome's group, because the journal shows who settled a call, and why. */
  makeTombstones: `UPDATE calls SET expired = 1, outcome_at = NULL, outcome_length = NULL,
      late_group = NULL, late_at = NULL, late_length = NULL WHERE record IN (${LIST})`,
  deleteCalls: `DELETE FROM calls WHERE record IN (${LIST}) RETURNING record, ${APPROVALS_OF_CALL}`,
  /** A key becomes free only after its call's run is deleted too, so that the next call starts a new run. */
  deleteTombstones: `DELETE FROM calls WHERE no IN (SELECT no FROM calls WHERE expired = 1 AND finished_at < ?
      AND (run IS NULL OR run <> record OR NOT EXISTS (SELECT 1 FROM runs WHERE key = calls.record))
      AND (root IS NULL OR NOT EXISTS (SELECT 1 FROM calls r WHERE r.record = calls.root)) LIMIT ?)
    RETURNING record, ${APPROVALS_OF_CALL}`,
  /** The run of an ambiguous call is not deleted, because an ambiguous call is kept completely (rule 13). */
  oldRuns: `SELECT no, next FROM runs WHERE touched_at < ? AND open = 0
      AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.run = runs.key AND calls.state = 'ambiguous')
    ORDER BY touched_at LIMIT ?`,
  deleteSessions: `DELETE FROM sessions WHERE no IN (SELECT no FROM sessions WHERE state = 'closed' AND closed_at < ? LIMIT ?)`,
  /** Chains whose oldest group is past retention. */
  oldChains: `SELECT w.no, w.id FROM writers w
    WHERE (SELECT g.at FROM commit_groups g WHERE g.writer = w.no ORDER BY g.n LIMIT 1) < ?`,
  oldestGroups: 'SELECT n, at, live FROM commit_groups WHERE writer = ? ORDER BY n LIMIT ?',
  saveCheckpoint: `INSERT INTO checkpoints (writer, n, link, signature) VALUES (?, ?, ?, ?)
    ON CONFLICT (writer) DO UPDATE SET n = excluded.n, link = excluded.link, signature = excluded.signature
    WHERE excluded.n > checkpoints.n`,
  deletePrefix: 'DELETE FROM commit_groups WHERE writer = ? AND n <= ?',
} as const
