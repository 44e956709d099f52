import { closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { drive } from '#kernel/store/engine'
import { integer, optionalInteger, optionalText, text } from '#kernel/store/rows'
import { Database } from '#kernel/store/sqlite/engine'
import { isLocked } from '#kernel/store/sqlite/files'
import { DEFINITION } from '#store/collet-store'
import { type StoreTables, sqlValue, type TableShape } from '#store/copy'

/*
 * The tables of a SQLite file, for `collet store copy`.
 * `copy.ts` reads and writes through it.
 * Invariant: a missing file is created readable by its owner only.
 */

export function openSqliteTables(path: string): StoreTables {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  closeSync(openSync(path, 'a', 0o600))
  const connection = new DatabaseSync(path, { timeout: 5_000 })
  connection.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  const database = new Database(path, connection, DEFINITION.queries)
  const numbers = (table: TableShape) =>
    connection.prepare('SELECT seq FROM sqlite_sequence WHERE name = ?').get(table.name)
  return {
    version: async () => integer(database.pragma('user_version') ?? {}, 'user_version'),
    async makeTables() {
      for (const step of DEFINITION.migrations) connection.exec(step)
      connection.exec(`PRAGMA user_version = ${DEFINITION.migrations.length}`)
    },
    livingWriters: async () =>
      connection
        .prepare('SELECT id, place FROM writers WHERE ended_at IS NULL')
        .all()
        .filter((row) => isLocked(path, text(row, 'id')))
        .map((row) => optionalText(row, 'place') ?? text(row, 'id')),
    /** Takes the write lock of the file; readers continue. */
    freeze: async () => database.begin(),
    query: async (statement, ...values) => connection.prepare(statement).all(...values),
    async insert({ name, columns }, rows) {
      const names = columns.map((column) => column.name)
      const insert = connection.prepare(
        `INSERT INTO ${name} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`,
      )
      for (const row of rows) insert.run(...names.map((column) => sqlValue(row[column])))
    },
    lastNumber: async (table) => optionalInteger(numbers(table) ?? { seq: null }, 'seq'),
    async raiseNumber(table, last) {
      // Tables without a sequence continue from their last row.
      const row = numbers(table)
      if (row === undefined || integer(row, 'seq') >= last) return
      connection.prepare('UPDATE sqlite_sequence SET seq = ? WHERE name = ?').run(last, table.name)
    },
    async transaction(work) {
      database.begin()
      try {
        const result = await work()
        database.commit()
        return result
      } catch (error) {
        database.rollback()
        throw error
      }
    },
    run: async (steps) => drive(steps, (request) => database.answer(request)),
    close: async () => database.close(),
  }
}
