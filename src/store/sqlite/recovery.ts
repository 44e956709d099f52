import { MOST_ATTEMPTS } from '#core/call/may-run-again'
import { ambiguousEvent, endedEvent } from '#core/journal/call-events'
import type { Failure } from '#core/outcome'
import { boundText, subjectFromRow } from '#store/sql/call-row'
import type { OpenGroup } from '#store/sql/open-group'
import { outcomeToText } from '#store/sql/outcome-text'
import { type Row, text } from '#store/sql/row'
import type { Database } from './database.ts'

const MOST_AT_ONCE = 500

export interface DeadWriter {
  readonly no: number
  readonly id: string
}

export interface Recovered {
  readonly ambiguous: number
  /** There may be more to decide. */
  readonly hasMore: boolean
}

/**
 * Rule 8: what a dead writer left running becomes `ambiguous`, except what may simply run again; that stays
 * until somebody asks for it or its time is over. Reads changed nothing, so they just end.
 */
export function recoverWriter(
  database: Database,
  group: OpenGroup,
  dead: DeadWriter & { readonly nowMs: number },
): Recovered {
  const rows = database.all('cutCallsOf', dead.no, dead.nowMs, MOST_ATTEMPTS, MOST_AT_ONCE)
  let ambiguous = 0
  for (const row of rows) {
    if (endCutRead(database, group, dead, row)) continue
    const cut = subjectFromRow(row)
    if (database.run('makeAmbiguous', cut.record, dead.no, cut.attempt) === 0) continue
    group.append(ambiguousEvent(cut, dead.id, dead.nowMs))
    ambiguous += 1
  }
  database.run('endWriter', dead.nowMs, dead.id)
  return { ambiguous, hasMore: rows.length === MOST_AT_ONCE }
}

/** A read cut by a crash may be asked again as long as it has attempts left. */
function endCutRead(
  database: Database,
  group: OpenGroup,
  dead: DeadWriter & { readonly nowMs: number },
  row: Row,
): boolean {
  const tier = text(row, 'tier')
  if (tier !== 'pure' && tier !== 'read') return false
  const cut = subjectFromRow(row)
  const canRetry = cut.attempt < MOST_ATTEMPTS
  const outcome: Failure = {
    ok: false,
    error: {
      code: 'cancelled',
      message: `The server stopped while ${cut.tool} was running. Nothing was changed.`,
      canRetry,
    },
    durationMs: 0,
  }
  const state = canRetry ? 'released' : 'failed'
  const slice = group.addPayload(boundText(cut.record, outcomeToText(outcome)))
  const { nowMs, no } = dead
  const ended = database.run(
    'endCutRead',
    state,
    nowMs,
    slice.group,
    slice.at,
    slice.length,
    cut.record,
    no,
    cut.attempt,
  )
  if (ended > 0) {
    group.addReference()
    group.append(endedEvent(cut, cut.attempt, { state, outcome, atMs: nowMs }))
  }
  return true
}
