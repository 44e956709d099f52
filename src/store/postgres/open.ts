import { StoreError } from '#core/errors'
import { Chain } from '#store/chain'
import { deriveStoreKeys, isSameCheck, type StoreKeys } from '#store/encryption'
import { type DecidingTable, RowGuard, refuseForeignTriggers } from '#store/row-mac'
import { text } from '#store/rows'
import { MIGRATIONS } from '#store/schema'
import { get, type Steps, write } from '#store/steps'
import { createStore, type SqlStore } from '#store/store'
import { answerAll } from './batches.ts'
import { Connection, storeErrorOf } from './connection.ts'
import { postgresSchema, SCALAR_FUNCTIONS } from './dialect.ts'
import { PostgresEngine } from './engine.ts'
import { type AnswerAll, driveEach } from './lanes.ts'

export interface PostgresStoreOptions {
  readonly url: string
  readonly masterKey: Uint8Array
  readonly nowMs?: () => number
  /** Told about a row that decides something and was not written with the key. */
  readonly onForeign?: (row: string, table: DecidingTable) => void
  readonly onCommit?: (changes: number, durationMs: number) => void
}

/** A store in a PostgreSQL database; makes the tables on first use, and refuses a key other than theirs (rule 14). */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<SqlStore> {
  const { url, masterKey, nowMs = Date.now, onForeign, onCommit } = options
  const keys = deriveStoreKeys(masterKey)
  await prepareDatabase(url, keys)
  const chain = new Chain(keys, nowMs)
  const guard = new RowGuard(keys.rows, onForeign)
  const engine = new PostgresEngine({ url, chain, guard, onCommit })
  return createStore({ engine, chain, guard, nowMs })
}

/** Held by whoever makes or changes the tables. */
const SCHEMA_LOCK = 20_419

/** From whatever is there to the tables of today, or to nothing at all when a step fails. */
export async function prepareDatabase(
  url: string,
  keys: StoreKeys,
  migrations: readonly string[] = MIGRATIONS,
): Promise<void> {
  let connection: Connection | undefined
  try {
    connection = await Connection.open(url)
    await connection.send([{ text: 'BEGIN' }, { text: `SELECT pg_advisory_xact_lock(${SCHEMA_LOCK})` }])
    await migrate(connection, keys, migrations)
    await connection.one({ text: 'COMMIT' })
  } catch (error) {
    throw storeErrorOf(error, 'cannot open the database')
  } finally {
    // Ends the transaction too, if it is still open.
    await connection?.close()
  }
}

async function migrate(
  connection: Connection,
  keys: StoreKeys,
  migrations: readonly string[],
): Promise<void> {
  const answer: AnswerAll = (asks) => answerAll(connection, asks, 'change')
  await driveEach(refuseForeignTriggers(), answer)
  const { rows } = await connection.one({ text: "SELECT 1 AS n WHERE to_regclass('meta') IS NOT NULL" })
  const version = rows.length === 0 ? 0 : await driveEach(readVersion(keys), answer)
  if (version > migrations.length) {
    throw new StoreError(
      'unreadable',
      `it was written by a newer Collet (schema ${version}); this one knows ${migrations.length}`,
    )
  }
  if (version === migrations.length) return
  if (version === 0) await connection.one({ text: SCALAR_FUNCTIONS })
  for (const step of migrations.slice(version)) await connection.one({ text: postgresSchema(step) })
  await driveEach(writeVersion(keys, migrations.length), answer)
}

/** The version of the tables, once it is certain that they are ours to change. */
function* readVersion(keys: StoreKeys): Steps<number> {
  const check = yield* get('readMeta', 'key_check')
  if (!isSameCheck(check === undefined ? '' : text(check, 'value'), keys.check)) {
    throw new StoreError(
      'unreadable',
      'the key does not fit this database. Set COLLET_KEY (or restore the key file) to the key it was created with',
    )
  }
  const row = (yield* get('readMeta', 'schema_version')) ?? {}
  return Number(text(row, 'value'))
}

function* writeVersion(keys: StoreKeys, version: number): Steps<void> {
  yield* write('writeMeta', 'key_check', keys.check)
  yield* write('writeMeta', 'schema_version', String(version))
}
