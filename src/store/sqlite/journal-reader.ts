import type { JournalEvent, JournalGroup, JournalHead } from '#core/journal/events'
import { integer, type Row, text } from '#store/sql/row'
import type { ApprovalReasons } from './approval-reasons.ts'
import type { Database } from './database.ts'

/**
 * Groups after the given positions. SQLite has one writer at a time, so group ids are in commit order and the
 * newest position a reader holds is where it goes on.
 */
export function readJournal(
  database: Database,
  reasons: ApprovalReasons,
  after: readonly JournalHead[],
  limit: number,
): readonly JournalGroup[] {
  const places = after.map(({ writer, group }) => database.get('groupPlace', writer, group))
  const last = places.reduce((most, row) => Math.max(most, row === undefined ? 0 : integer(row, 'id')), 0)
  return database.all('groupsAfter', last, limit).map((row) => groupFromRow(row, reasons))
}

function groupFromRow(row: Row, reasons: ApprovalReasons): JournalGroup {
  const events: readonly JournalEvent[] = JSON.parse(text(row, 'events'))
  return {
    writer: text(row, 'writer'),
    group: integer(row, 'n'),
    link: text(row, 'link'),
    atMs: integer(row, 'at'),
    events: events.map((event) => reasons.openIn(event)),
  }
}
