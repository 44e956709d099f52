import type { KeyObject } from 'node:crypto'
import { checkpointSignature } from '#core/journal/chain'
import type { RetentionPolicy } from '#core/ports/store'
import type { OpenGroup } from '#store/sql/open-group'
import { integer, type Row, text } from '#store/sql/row'
import type { Database } from './database.ts'
import { dropReferences } from './drop-references.ts'

/** Small enough that a step never holds up calls that wait for their commit. */
const STEP = 200

export interface Forgetting {
  readonly nowMs: number
  readonly policy: RetentionPolicy
  readonly chainKey: KeyObject
}

/** One step of rule 13; `true` while there may be more. */
export function purgeStep(database: Database, group: OpenGroup, forgetting: Forgetting): boolean {
  const { nowMs, policy, chainKey } = forgetting
  const calls = forgetResults(database, nowMs - policy.resultsMs)
  const tombstones = database.run('deleteTombstones', nowMs - policy.journalMs, STEP)
  const groups = forgetJournal(database, nowMs - policy.journalMs, chainKey)
  const challenges = database.run('deleteChallenges', nowMs - policy.resultsMs, STEP)
  if (calls > 0 || groups > 0) group.append({ type: 'retention.purged', at: nowMs, calls, groups })
  return calls === STEP || tombstones === STEP || challenges === STEP || groups >= STEP
}

/** Results go, keys stay: calls that may have changed the world leave a tombstone, the others nothing. */
function forgetResults(database: Database, beforeMs: number): number {
  const rows = database.all('expiredResults', beforeMs, STEP)
  dropReferences(database, rows)
  for (const row of rows) {
    const tier = text(row, 'tier')
    const keepsKey = tier === 'write' || tier === 'exec'
    database.run(keepsKey ? 'makeTombstone' : 'deleteCall', text(row, 'record'))
  }
  return rows.length
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
