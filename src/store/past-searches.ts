import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { KeyRing, ResealableRows } from '#kernel/store/key-ring'
import type { StoreModule } from '#kernel/store/module'
import { bytes, integer, text } from '#kernel/store/rows'
import { mapped } from './steps.ts'

/**
 * Searches that were followed by a successful call, with the tool that was called. The search (`search/learning.ts`) writes them
 * and reads those of the caller's tenant.
 * The queries are callers' texts, so they are sealed (rule 15). The number of rows is limited per tool and tenant, and retention
 * deletes them with the journal.
 * Invariant: if there are too many rows, the caller with the most rows loses its oldest one, so that a caller that searches often
 * does not displace the rows of others.
 */

const { all, write } = statements<keyof typeof queries>()

const MAX_PER_TOOL = 100
const MAX_PER_TENANT = 10_000

export interface PastSearch {
  readonly tenant: string
  /** Without a version. */
  readonly tool: string
  readonly principal: string
  readonly text: string
}

export function openPastSearches({ exclusive, read, keys }: StoreContext) {
  const order = ({ tenant }: PastSearch) => `searches ${tenant}`
  return {
    remember: exclusive(order, function* (group: CommitGroup, search: PastSearch, atMs: number): Steps<void> {
      const { tenant, tool, principal } = search
      const sealed = group.keys.seal('requests', Buffer.from(search.text), contextOf(search))
      yield* write('insertPastSearch', tenant, tool, principal, sealed, atMs)
      yield* write('trimSearchesOfTool', tenant, tool, MAX_PER_TOOL, tenant, tool, tenant, tool, principal)
      yield* write('trimSearchesOfTenant', tenant, MAX_PER_TENANT, tenant, tenant, principal)
    }),
    /** All stored searches of a tenant, oldest first. */
    list: read((tenant: string) =>
      mapped(all('listPastSearches', tenant), (rows) => rows.map((row) => recordOf(keys, row))),
    ),
  }
}

export type PastSearchStore = ReturnType<typeof openPastSearches>

function recordOf(keys: KeyRing, row: Row): PastSearch {
  const named = namesOf(row)
  return { ...named, text: keys.open('requests', bytes(row, 'query'), contextOf(named)).toString('utf8') }
}

function namesOf(row: Row): Omit<PastSearch, 'text'> {
  return { tenant: text(row, 'tenant'), tool: text(row, 'tool'), principal: text(row, 'principal') }
}

/** Binds a sealed text to its row, so that it cannot be moved to another row. */
function contextOf({ tenant, tool, principal }: Omit<PastSearch, 'text'>): string {
  return JSON.stringify(['past search', tenant, tool, principal])
}

const resealing: readonly ResealableRows[] = [
  {
    ...{ what: 'past searches', page: 'pastSearchesAfter', start: [0] },
    after: (row) => [integer(row, 'no')],
    isDue: (row, keys) => keys.isDue('requests', bytes(row, 'query'), contextOf(namesOf(row))),
    *reseal({ keys }, row) {
      const sealed = keys.reseal('requests', bytes(row, 'query'), contextOf(namesOf(row)))
      yield* write('resealPastSearch', sealed, integer(row, 'no'))
    },
  },
]

const queries = {
  insertPastSearch:
    'INSERT INTO past_searches (tenant, tool, principal, query, searched_at) VALUES (?, ?, ?, ?, ?)',
  trimSearchesOfTool: `DELETE FROM past_searches WHERE (SELECT count(*) FROM past_searches WHERE tenant = ? AND tool = ?) > ?
    AND no = (SELECT min(no) FROM past_searches WHERE tenant = ? AND tool = ? AND principal = (
      SELECT principal FROM past_searches WHERE tenant = ? AND tool = ? GROUP BY principal
      ORDER BY count(*) DESC, principal = ? DESC LIMIT 1))`,
  trimSearchesOfTenant: `DELETE FROM past_searches WHERE (SELECT count(*) FROM past_searches WHERE tenant = ?) > ?
    AND no = (SELECT min(no) FROM past_searches WHERE tenant = ? AND principal = (
      SELECT principal FROM past_searches WHERE tenant = ? GROUP BY principal
      ORDER BY count(*) DESC, principal = ? DESC LIMIT 1))`,
  listPastSearches: 'SELECT * FROM past_searches WHERE tenant = ? ORDER BY no',
  pastSearchesAfter: 'SELECT * FROM past_searches WHERE no > ? ORDER BY no LIMIT ?',
  resealPastSearch: 'UPDATE past_searches SET query = ? WHERE no = ?',
  deletePastSearches: 'DELETE FROM past_searches WHERE searched_at < ?',
} as const

const tables = `
CREATE TABLE past_searches (
  no INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  tool TEXT NOT NULL,
  principal TEXT NOT NULL,
  query BLOB NOT NULL,
  searched_at INTEGER NOT NULL
) STRICT;

CREATE INDEX past_searches_tool ON past_searches (tenant, tool, principal, no);
CREATE INDEX past_searches_tenant ON past_searches (tenant, principal, no);
CREATE INDEX past_searches_age ON past_searches (searched_at);
`

export const pastSearchModule: StoreModule = {
  name: 'past searches',
  ...{ tables, queries, resealing },
  *forget({ nowMs, policy }) {
    yield* write('deletePastSearches', nowMs - policy.journalMs)
    return 0
  },
}
