import type { JournalGroup, JournalHead } from '#core/journal/journal-group'
import { integer, type Row, text } from '#store/sql/row'
import type { Database } from './database.ts'

/**
 * Groups after the given positions. SQLite has one writer at a time, so group ids are in commit order and the
 * newest position a reader holds is where it goes on.
 */
export function readJournal(
  database: Database,
  after: readonly JournalHead[],
  limit: number,
): readonly JournalGroup[] {
  const places = after.map(({ writer, group }) => database.get('groupPlace', writer, group))
  const last = places.reduce((most, row) => Math.max(most, row === undefined ? 0 : integer(row, 'id')), 0)
  return database.all('groupsAfter', last, limit).map(groupFromRow)
}

function groupFromRow(row: Row): JournalGroup {
  return {
    writer: text(row, 'writer'),
    group: integer(row, 'n'),
    link: text(row, 'link'),
    atMs: integer(row, 'at'),
    events: JSON.parse(text(row, 'events')),
  }
}
