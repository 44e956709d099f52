import type { KeyObject } from 'node:crypto'
import type { CallError, Failure } from '#core/call'
import { lastFailure, MOST_ATTEMPTS } from '#core/calls/look-up'
import { ambiguousEvent, endedEvent } from '#core/journal/append'
import { checkpointSignature } from '#core/journal/chain'
import { CALLER_REQUEST_KEPT_MS, CALLER_SESSION_IDLE_MS } from '#core/ports/protocol-store'
import type { RetentionPolicy } from '#core/ports/store'
import { sessionLostError } from '#core/runs/sessions'
import type { Database } from '#store/sqlite/database'
import type { ParkedEnds } from './approval-changes.ts'
import { deleteApprovalsOf, deleteCall, dropReferences } from './calls.ts'
import type { CommitQueue } from './commit-queue.ts'
import type { CommitGroup } from './engine.ts'
import { BUDGETS_KEPT_MS } from './protocol-state.ts'
import { boundText, integer, optionalText, outcomeToText, type Row, subjectFromRow, text } from './rows.ts'
import { type CallRunEvents, type RunChanges, type SessionChanges, toldByRow } from './runs.ts'

/** Small enough that a step never holds up calls that wait for their commit. */
const STEP = 200

interface Forgettable {
  readonly database: Database
  readonly runs: RunChanges
}

interface Forgetting {
  readonly nowMs: number
  readonly policy: RetentionPolicy
  readonly chainKey: KeyObject
}

/** One step of rule 13; `true` while there may be more. */
export function purgeStep(place: Forgettable, group: CommitGroup, forgetting: Forgetting): boolean {
  const { database } = place
  const { nowMs, policy, chainKey } = forgetting
  const calls = forgetResults(place, nowMs - policy.resultsMs)
  const runs = forgetRuns(place, nowMs - policy.journalMs)
  const tombstones = forgetTombstones(database, nowMs - policy.journalMs)
  const groups = forgetJournal(database, nowMs - policy.journalMs, chainKey)
  const challenges = database.run('deleteChallenges', nowMs - policy.resultsMs, STEP)
  const denials = database.run('deleteDenials', nowMs - policy.journalMs, STEP)
  const budgets = database.run('deleteBudgets', nowMs - BUDGETS_KEPT_MS, STEP)
  database.run('deleteConsents', nowMs)
  forgetCallers(database, nowMs)
  if (calls > 0 || groups > 0) group.append({ type: 'retention.purged', at: nowMs, calls, groups })
  return [calls, tombstones, challenges, budgets, groups, runs, denials].some((removed) => removed >= STEP)
}

function forgetCallers(database: Database, nowMs: number): void {
  database.run('deleteCallerSessions', nowMs - CALLER_SESSION_IDLE_MS)
  database.run('deleteCallerRequests', nowMs - CALLER_REQUEST_KEPT_MS)
  database.run('deleteQuestions', nowMs)
  database.run('deleteMarks', nowMs)
  database.run('deleteRequests', nowMs)
}

/** Results go, keys stay: calls that may have changed the world leave a tombstone, the others nothing. */
function forgetResults({ database, runs }: Forgettable, beforeMs: number): number {
  const rows = database.all('expiredResults', beforeMs, beforeMs, STEP)
  dropReferences(database, rows)
  for (const row of rows) {
    const record = text(row, 'record')
    const tier = text(row, 'tier')
    const keepsKey = tier === 'write' || tier === 'exec'
    if (keepsKey) database.run('makeTombstone', record)
    else deleteCall(database, record)
    // The key is free, so whoever takes it next begins a run anew.
    if (!keepsKey && row.run === record) runs.remove(record)
  }
  return rows.length
}

function forgetTombstones(database: Database, beforeMs: number): number {
  const deleted = database.all('deleteTombstones', beforeMs, STEP)
  for (const row of deleted) deleteApprovalsOf(database, row)
  return deleted.length
}

/** Runs and sessions are told as long as the journal; a long run goes in several steps. */
function forgetRuns({ database, runs }: Forgettable, beforeMs: number): number {
  let removed = database.run('deleteSessions', beforeMs, STEP)
  for (const row of database.all('oldRuns', beforeMs, STEP)) {
    if (removed >= STEP) break
    removed += runs.forget(integer(row, 'no'), STEP)
  }
  return removed
}

/** Cuts old groups off the front of each chain and signs where the cut is (rule 15). */
function forgetJournal(database: Database, beforeMs: number, chainKey: KeyObject): number {
  let removed = 0
  for (const writer of database.all('allWriters')) {
    const no = integer(writer, 'no')
    const last = lastForgettable(database.all('oldestGroups', no, STEP), beforeMs)
    if (last === undefined) continue
    const link = text(database.get('linkAt', no, last) ?? {}, 'link')
    const signature = checkpointSignature(chainKey, { writer: text(writer, 'id'), group: last, link })
    database.run('saveCheckpoint', no, last, link, signature)
    removed += database.run('deletePrefix', no, last)
  }
  return removed
}

/** The end of the run of groups, from the oldest on, that are old and hold nothing a call still needs. */
function lastForgettable(groups: readonly Row[], beforeMs: number): number | undefined {
  let last: number | undefined
  for (const group of groups) {
    if (integer(group, 'at') >= beforeMs || integer(group, 'live') > 0) break
    last = integer(group, 'n')
  }
  return last
}

const MOST_AT_ONCE = 500

interface DeadWriter {
  readonly no: number
  readonly id: string
}

interface Recovered {
  readonly ambiguous: number
  /** There may be more to decide. */
  readonly hasMore: boolean
}

/**
 * Rule 8: what a dead writer left running becomes `ambiguous`, except what may simply run again; that stays
 * until somebody asks for it or its time is over. Reads changed nothing, so they just end; what ran in a session
 * was lost with its state. Sessions close when nothing runs in them any more (rule 30).
 */
export class Recovery {
  readonly #database: Database
  readonly #runEvents: CallRunEvents
  readonly #sessions: SessionChanges
  readonly #ends: ParkedEnds

  constructor(parts: {
    readonly database: Database
    readonly runEvents: CallRunEvents
    readonly sessions: SessionChanges
    readonly ends: ParkedEnds
  }) {
    this.#database = parts.database
    this.#runEvents = parts.runEvents
    this.#sessions = parts.sessions
    this.#ends = parts.ends
  }

  /** Everything of one dead writer, a step a commit; gives how many calls became ambiguous. */
  async recoverAll(queue: CommitQueue, dead: DeadWriter, nowMs: number): Promise<number> {
    let ambiguous = 0
    for (;;) {
      const recovered = await queue.submit('', (group) => this.recoverWriter(group, dead, nowMs))
      ambiguous += recovered.ambiguous
      if (!recovered.hasMore) return ambiguous
    }
  }

  recoverWriter(group: CommitGroup, dead: DeadWriter, nowMs: number): Recovered {
    const rows = this.#database.all('cutCallsOf', dead.no, nowMs, MOST_ATTEMPTS, MOST_AT_ONCE)
    let ambiguous = 0
    for (const row of rows) {
      const outcome = outcomeOfCut(row)
      if (outcome !== undefined) this.#end(group, dead, { row, outcome, nowMs })
      else if (this.#makeAmbiguous(group, dead, { row, nowMs })) ambiguous += 1
    }
    const hasMore = rows.length === MOST_AT_ONCE || this.#closeSessions(group, dead, nowMs)
    this.#database.run('endWriter', nowMs, dead.id)
    return { ambiguous, hasMore }
  }

  #makeAmbiguous(
    group: CommitGroup,
    dead: DeadWriter,
    cut: { readonly row: Row; readonly nowMs: number },
  ): boolean {
    const { row, nowMs } = cut
    const subject = subjectFromRow(row)
    const { record, attempt } = subject
    if (this.#database.run('makeAmbiguous', record, dead.no, attempt) === 0) return false
    this.#runEvents.keep(row, toldByRow(row, 'running'))
    const run = optionalText(row, 'run') ?? record
    const attempted = { row: { ...row, run }, record, attempt, sessionId: undefined, atMs: nowMs }
    group.append({ ...ambiguousEvent(subject, dead.id, nowMs), ...this.#runEvents.cut(attempted, 'cut') })
    return true
  }

  #end(
    group: CommitGroup,
    dead: DeadWriter,
    cut: { readonly row: Row; readonly outcome: Failure; readonly nowMs: number },
  ): void {
    const { row, outcome, nowMs } = cut
    const subject = subjectFromRow(row)
    const { record, attempt } = subject
    const state = outcome.error.canRetry ? 'released' : 'failed'
    const slice = group.addPayload(boundText(record, outcomeToText(outcome)))
    const place = [slice.group, slice.at, slice.length]
    if (this.#database.run('endCut', state, nowMs, ...place, record, dead.no, attempt) === 0) return
    group.addReference()
    const ended = endedEvent(subject, attempt, { state, outcome, atMs: nowMs })
    const sessionId = optionalText(row, 'session')
    const position =
      optionalText(row, 'run') === undefined
        ? undefined
        : this.#runEvents.cut({ row, record, attempt, sessionId, atMs: nowMs }, outcome)
    group.append({ ...ended, ...position })
  }

  /** `true` while there are more. */
  #closeSessions(group: CommitGroup, dead: DeadWriter, nowMs: number): boolean {
    const rows = this.#database.all('openSessionsOf', dead.no, MOST_AT_ONCE)
    for (const row of rows) {
      const address = { tenant: text(row, 'tenant'), sessionId: text(row, 'id') }
      // The state that a parked call waits on is gone: a yes could not be used any more.
      this.#ends.endIn(group, address, { why: 'session', atMs: nowMs })
      this.#sessions.close(group, address, 'failed', nowMs)
    }
    return rows.length === MOST_AT_ONCE
  }
}

/** How a cut call ends; `undefined` when only an operator can say. */
function outcomeOfCut(row: Row): Failure | undefined {
  const tool = text(row, 'tool')
  const tier = text(row, 'tier')
  const hasEffects = tier === 'write' || tier === 'exec'
  if (optionalText(row, 'session') !== undefined) return failureOf(sessionLostError(tool, hasEffects))
  if (hasEffects) return undefined
  const message = `The server stopped while ${tool} was running. Nothing was changed.`
  const cut = failureOf({ code: 'cancelled', message, canRetry: true })
  // A read cut by a crash may be asked again as long as it has attempts left.
  return integer(row, 'attempt') < MOST_ATTEMPTS ? cut : lastFailure(cut)
}

function failureOf(error: CallError): Failure {
  return { ok: false, error }
}
