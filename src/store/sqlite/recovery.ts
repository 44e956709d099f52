import { mayRunAgain } from '#core/call/may-run-again'
import { ambiguousEvent } from '#core/journal/call-events'
import { subjectFromRow } from '#store/sql/call-row'
import type { OpenGroup } from '#store/sql/open-group'
import { integer, type Row } from '#store/sql/row'
import type { Database } from './database.ts'

const MOST_AT_ONCE = 500

export interface DeadWriter {
  readonly no: number
  readonly id: string
}

export interface Recovered {
  readonly ambiguous: number
  /** Nothing of the writer is left to decide. */
  readonly isDone: boolean
}

/**
 * Rule 8: what a dead writer left running becomes `ambiguous`, except what may simply run again; that stays
 * until somebody asks for it or its time is over.
 */
export function recoverWriter(
  database: Database,
  group: OpenGroup,
  dead: DeadWriter & { readonly nowMs: number },
): Recovered {
  const rows = database.all('runningOf', dead.no, MOST_AT_ONCE)
  let ambiguous = 0
  for (const row of rows) {
    const cut = cutCallOf(row)
    if (mayRunAgain(cut, dead.nowMs)) continue
    if (database.run('makeAmbiguous', cut.record, dead.no, cut.attempt) === 0) continue
    group.append(ambiguousEvent(cut, dead.id, dead.nowMs))
    ambiguous += 1
  }
  const isDone = rows.length < MOST_AT_ONCE && ambiguous === rows.length
  if (isDone) database.run('endWriter', dead.nowMs, dead.id)
  return { ambiguous, isDone }
}

function cutCallOf(row: Row) {
  return { ...subjectFromRow(row), rerunUntilMs: integer(row, 'rerun_until') }
}
