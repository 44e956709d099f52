import { StoreError } from '#kernel/base/errors'
import type { Row, SqlValue } from '#kernel/store/engine'
import { integer, optionalInteger, text } from '#kernel/store/rows'
import { DEFINITION } from '#store/collet-store'
import { type StoreTables, sqlValue, type TableShape } from '#store/copy'
import { answerAll, numbered } from './batches.ts'
import { Connection, storeErrorOf } from './connection.ts'
import { driveEach } from './lanes.ts'
import { NOW_MS } from './lease.ts'
import { readSchemaVersion, takeSteps } from './open.ts'

/*
 * The tables of a PostgreSQL database, for `collet store copy`: bulk reads and inserts, numbers, and the freeze.
 * `copy.ts` reads and writes through it.
 * Invariant: rows are numbered as in the source store.
 */

const TYPES = { INTEGER: 'bigint', TEXT: 'text', BLOB: 'bytea' } as const

/** Counting the rows of a large table takes long. */
const COUNTING_MS = 3_600_000

export async function openPostgresTables(url: string): Promise<StoreTables> {
  const connection = await Connection.open(url, { maxSilenceMs: COUNTING_MS })
  const query = async (statement: string, ...values: SqlValue[]): Promise<readonly Row[]> => {
    try {
      return (await connection.one({ text: numbered(statement), values })).rows
    } catch (error) {
      throw storeErrorOf(error, 'cannot copy')
    }
  }
  return {
    version: () => readSchemaVersion(connection),
    makeTables: () =>
      takeSteps(connection, DEFINITION.migrations, { from: 0, to: DEFINITION.migrations.length }),
    async livingWriters() {
      const rows = await query(
        `SELECT COALESCE(place, id) AS place FROM writers WHERE ended_at IS NULL AND lease_until > ${NOW_MS}`,
      )
      return rows.map((row) => text(row, 'place'))
    },
    async freeze(tables) {
      await query('BEGIN')
      await query('SET LOCAL idle_in_transaction_session_timeout = 0')
      await query(`LOCK TABLE ${tables.map(({ name }) => name).join(', ')} IN SHARE MODE`)
    },
    query,
    async insert(table, rows) {
      if (rows.length === 0) return
      const { name, columns } = table
      const arrays = columns.map((column) => rows.map((row) => sqlValue(row[column.name])))
      refuseNul(table, arrays)
      const types = columns.map(({ type }, index) => `$${index + 1}::${TYPES[type]}[]`)
      try {
        await connection.one({
          name: `copy ${name}`,
          text: `INSERT INTO ${name} (${columns.map((column) => column.name).join(', ')}) OVERRIDING SYSTEM VALUE
            SELECT * FROM unnest(${types.join(', ')})`,
          values: arrays,
        })
      } catch (error) {
        throw storeErrorOf(error, `cannot copy ${name}`)
      }
    },
    async lastNumber(table) {
      if (!isNumbered(table)) return undefined
      const [row = {}] = await query(
        `SELECT CASE WHEN is_called THEN last_value END AS last FROM ${table.name}_no_seq`,
      )
      return optionalInteger(row, 'last')
    },
    async raiseNumber(table, last) {
      if (!isNumbered(table)) return
      const [row = {}] = await query(`SELECT coalesce(max(no), 0) AS last FROM ${table.name}`)
      const highest = Math.max(last, integer(row, 'last'))
      if (highest > 0) await query(`SELECT setval('${table.name}_no_seq', ?)`, highest)
    },
    async transaction(work) {
      await query('BEGIN')
      try {
        const result = await work()
        await query('COMMIT')
        return result
      } catch (error) {
        if (!connection.isLost) await query('ROLLBACK')
        throw error
      }
    },
    run: (steps) => driveEach(steps, (requests) => answerAll(connection, requests, 'read')),
    close: () => connection.close(),
  }
}

/** Whether the database assigns numbers to the table's rows. */
function isNumbered({ key }: TableShape): boolean {
  return key.join() === 'no'
}

function refuseNul({ name, columns }: TableShape, arrays: readonly (readonly SqlValue[])[]): void {
  const at = arrays.findIndex((values) =>
    values.some((value) => typeof value === 'string' && value.includes('\0')),
  )
  if (at === -1) return
  throw new StoreError(
    'not_written',
    `a text in ${name}.${columns[at]?.name} contains NUL, which PostgreSQL cannot store`,
  )
}
