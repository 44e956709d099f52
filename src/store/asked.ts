import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { KeyRing, ResealableRows } from '#kernel/store/key-ring'
import type { StoreModule } from '#kernel/store/module'
import { bytes, integer, text } from '#kernel/store/rows'
import { mapped } from './steps.ts'

/**
 * What was asked of the search before a successful call, with the tool that was called. The search of the same tenant reads it.
 * The texts are caller text, and so sealed (rule 15). The number of rows is bounded for each tool and tenant, and retention
 * deletes them with the journal.
 */

const { all, write } = statements<keyof typeof queries>()

const MAX_PER_TOOL = 100
const MAX_PER_TENANT = 10_000

export interface AskedRecord {
  readonly tenant: string
  /** Without a version. */
  readonly tool: string
  readonly principal: string
  readonly text: string
}

export function openAsked({ exclusive, read, keys }: StoreContext) {
  const order = ({ tenant }: AskedRecord) => `asked ${tenant}`
  return {
    remember: exclusive(order, function* (group: CommitGroup, asked: AskedRecord, atMs: number): Steps<void> {
      const { tenant, tool, principal } = asked
      const sealed = group.keys.seal('requests', Buffer.from(asked.text), contextOf(asked))
      yield* write('rememberAsked', tenant, tool, principal, sealed, atMs)
      yield* write('trimAskedTool', tenant, tool, tenant, tool, MAX_PER_TOOL)
      yield* write('trimAskedTenant', tenant, tenant, MAX_PER_TENANT)
    }),
    /** Everything that is remembered for a tenant, oldest first. */
    list: read((tenant: string) =>
      mapped(all('listAsked', tenant), (rows) => rows.map((row) => recordOf(keys, row))),
    ),
  }
}

export type AskedStore = ReturnType<typeof openAsked>

function recordOf(keys: KeyRing, row: Row): AskedRecord {
  const named = namesOf(row)
  return { ...named, text: keys.open('requests', bytes(row, 'asked'), contextOf(named)).toString('utf8') }
}

function namesOf(row: Row): Omit<AskedRecord, 'text'> {
  return { tenant: text(row, 'tenant'), tool: text(row, 'tool'), principal: text(row, 'principal') }
}

/** Binds a sealed text to its row, so that it cannot be moved to another row. */
function contextOf({ tenant, tool, principal }: Omit<AskedRecord, 'text'>): string {
  return JSON.stringify(['asked', tenant, tool, principal])
}

const resealing: readonly ResealableRows[] = [
  {
    ...{ what: 'asked', page: 'askedAfter', start: [0] },
    after: (row) => [integer(row, 'no')],
    isDue: (row, keys) => keys.isDue('requests', bytes(row, 'asked'), contextOf(namesOf(row))),
    *reseal({ keys }, row) {
      const sealed = keys.reseal('requests', bytes(row, 'asked'), contextOf(namesOf(row)))
      yield* write('resealAsked', sealed, integer(row, 'no'))
    },
  },
]

const queries = {
  rememberAsked: 'INSERT INTO asked (tenant, tool, principal, asked, asked_at) VALUES (?, ?, ?, ?, ?)',
  trimAskedTool: `DELETE FROM asked WHERE tenant = ? AND tool = ? AND no <= (
    SELECT no FROM asked WHERE tenant = ? AND tool = ? ORDER BY no DESC LIMIT 1 OFFSET ?)`,
  trimAskedTenant: `DELETE FROM asked WHERE tenant = ? AND no <= (
    SELECT no FROM asked WHERE tenant = ? ORDER BY no DESC LIMIT 1 OFFSET ?)`,
  listAsked: 'SELECT * FROM asked WHERE tenant = ? ORDER BY no',
  askedAfter: 'SELECT * FROM asked WHERE no > ? ORDER BY no LIMIT ?',
  resealAsked: 'UPDATE asked SET asked = ? WHERE no = ?',
  deleteOldAsked: 'DELETE FROM asked WHERE asked_at < ?',
} as const

const tables = `
CREATE TABLE asked (
  no INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  tool TEXT NOT NULL,
  principal TEXT NOT NULL,
  asked BLOB NOT NULL,
  asked_at INTEGER NOT NULL
) STRICT;

CREATE INDEX asked_tool ON asked (tenant, tool, no);
CREATE INDEX asked_tenant ON asked (tenant, no);
CREATE INDEX asked_at ON asked (asked_at);
`

export const askedModule: StoreModule = {
  name: 'asked',
  ...{ tables, queries, resealing },
  *forget({ nowMs, policy }) {
    yield* write('deleteOldAsked', nowMs - policy.journalMs)
    return 0
  },
}
