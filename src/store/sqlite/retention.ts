import type { KeyObject } from 'node:crypto'
import { checkpointSignature } from '#core/journal/chain'
import { CALLER_REQUEST_KEPT_MS, CALLER_SESSION_IDLE_MS } from '#core/ports/protocol-store'
import type { RetentionPolicy } from '#core/ports/store'
import { BUDGETS_KEPT_MS } from '#store/sql/budget-window'
import type { OpenGroup } from '#store/sql/open-group'
import { integer, type Row, text } from '#store/sql/row'
import type { Database } from './database.ts'
import { dropReferences } from './drop-references.ts'
import type { RunChanges } from './run-changes.ts'

/** Small enough that a step never holds up calls that wait for their commit. */
const STEP = 200

export interface Forgettable {
  readonly database: Database
  readonly runs: RunChanges
}

export interface Forgetting {
  readonly nowMs: number
  readonly policy: RetentionPolicy
  readonly chainKey: KeyObject
}

/** One step of rule 13; `true` while there may be more. */
export function purgeStep(place: Forgettable, group: OpenGroup, forgetting: Forgetting): boolean {
  const { database } = place
  const { nowMs, policy, chainKey } = forgetting
  const calls = forgetResults(place, nowMs - policy.resultsMs)
  const runs = forgetRuns(place, nowMs - policy.journalMs)
  const tombstones = database.run('deleteTombstones', nowMs - policy.journalMs, STEP)
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
    database.run(keepsKey ? 'makeTombstone' : 'deleteCall', record)
    // The key is free, so whoever takes it next begins a run anew.
    if (!keepsKey && row.run === record) runs.remove(record)
  }
  return rows.length
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
