import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { CallAddress } from '#kernel/call/call-record'
import type { KeptResumption, ResumptionStore } from '#kernel/call/stages'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { KeyRing, ResealableRows } from '#kernel/store/key-ring'
import type { StoreModule } from '#kernel/store/module'
import { bytes, integer, text } from '#kernel/store/rows'
import { mapped } from './steps.ts'

/**
 * State that lets calls continue after a crash, for example the id of a task on an upstream server (rule 8). The tool of a
 * call writes and reads it through `ctx.resumption`; a row is kept as long as the call may be continued.
 * Invariant: a row and the permission to run again are one change, so that an attempt that may run again finds its row.
 */

const { get, write } = statements<keyof typeof queries>()

export function openResumptions({ exclusive, read, keys }: StoreContext): ResumptionStore {
  const recordOf = ({ record }: CallAddress) => record
  const keep = exclusive(
    recordOf,
    function* (group: CommitGroup, address: CallAddress, kept: KeptResumption): Steps<void> {
      const { record, tenant } = address
      const { untilMs } = kept
      if ((yield* write('allowRerun', untilMs, untilMs, record, group.writer)) === 0) return
      const { fingerprint, state } = kept
      const sealed = group.keys.seal(
        'requests',
        Buffer.from(JSON.stringify({ fingerprint, state })),
        contextOf(record),
      )
      yield* write('keepResumption', record, tenant, sealed, untilMs)
    },
  )
  const find = read((record: string) => mapped(get('findResumption', record), (row) => row))
  return {
    keep: async (address, kept) => await keep(address, kept),
    async find({ record }, fingerprint) {
      const row = await find(record)
      if (row === undefined) return undefined
      const kept = openState(keys, bytes(row, 'state'), record)
      return kept.fingerprint === fingerprint && isJsonObject(kept.state) ? kept.state : undefined
    },
  }
}

function openState(keys: KeyRing, sealed: Uint8Array, record: string): JsonObject {
  const value: JsonValue = JSON.parse(keys.open('requests', sealed, contextOf(record)).toString('utf8'))
  return isJsonObject(value) ? value : {}
}

/** Binds the sealed state to its call. */
function contextOf(record: string): string {
  return JSON.stringify(['resumption', record])
}

const sealedOf = (row: Row) => [bytes(row, 'state'), contextOf(text(row, 'record'))] as const

const resealing: readonly ResealableRows[] = [
  {
    ...{ what: 'resumptions', page: 'resumptionsAfter', start: [0] },
    after: (row) => [integer(row, 'no')],
    isDue: (row, keys) => keys.isDue('requests', ...sealedOf(row)),
    *reseal({ keys }, row) {
      yield* write('resealResumption', keys.reseal('requests', ...sealedOf(row)), integer(row, 'no'))
    },
  },
]

const queries = {
  /** A call that may run again for longer, because its tool is idempotent or only reads, keeps that time. */
  allowRerun: `UPDATE calls SET rerun_until = CASE WHEN rerun_until < ? THEN ? ELSE rerun_until END
    WHERE record = ? AND state = 'running' AND writer = ? AND session IS NULL`,
  keepResumption: `INSERT INTO resumptions (record, tenant, state, until) VALUES (?, ?, ?, ?)
    ON CONFLICT (record) DO UPDATE SET state = excluded.state, until = excluded.until`,
  findResumption: 'SELECT * FROM resumptions WHERE record = ?',
  resumptionsAfter: 'SELECT * FROM resumptions WHERE no > ? ORDER BY no LIMIT ?',
  resealResumption: 'UPDATE resumptions SET state = ? WHERE no = ?',
  deleteResumptions: 'DELETE FROM resumptions WHERE until < ?',
} as const

const tables = `
CREATE TABLE resumptions (
  no INTEGER PRIMARY KEY,
  record TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  state BLOB NOT NULL,
  until INTEGER NOT NULL
) STRICT;

CREATE INDEX resumptions_until ON resumptions (until);
`

export const resumptionModule: StoreModule = {
  name: 'resumptions',
  ...{ tables, queries, resealing },
  *forget({ nowMs }) {
    yield* write('deleteResumptions', nowMs)
    return 0
  },
}
