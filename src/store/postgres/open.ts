import type { Store } from '#core/ports/store'
import { Chain } from '#store/commit-queue'
import { get, type Steps, write } from '#store/engine'
import { KeyRing } from '#store/key-ring'
import { type DecidingTable, RowGuard, text } from '#store/rows'
import { MIGRATIONS, missingSteps } from '#store/schema'
import { createStore } from '#store/store'
import { answerAll, postgresSchema, SCALAR_FUNCTIONS } from './batches.ts'
import { Connection, storeErrorOf } from './connection.ts'
import { PostgresEngine } from './engine.ts'
import { type AnswerAll, driveEach } from './lanes.ts'

interface PostgresStoreOptions {
  readonly url: string
  readonly masterKey: Uint8Array
  /** The key before, while it is being changed. */
  readonly oldMasterKey?: Uint8Array | undefined
  readonly nowMs?: () => number
  /** Called with a row that decides something and was not written with the key. */
  readonly onForeign?: ((row: string, table: DecidingTable) => void) | undefined
  readonly onCommit?: ((changes: number, durationMs: number) => void) | undefined
}

/** A store in a PostgreSQL database; makes the tables on first use, and refuses a key other than theirs (rule 14). */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const { url, masterKey, oldMasterKey, nowMs = Date.now, onForeign, onCommit } = options
  const keys = new KeyRing({ current: masterKey, old: oldMasterKey })
  await prepareDatabase(url, keys)
  const chain = new Chain(keys, nowMs)
  const guard = new RowGuard(keys, onForeign)
  const engine = new PostgresEngine({ url, chain, guard, onCommit })
  return createStore({ engine, chain, guard, nowMs, isShared: true })
}

/** Held by the process that makes or changes the tables. */
const SCHEMA_LOCK = 20_419

/** From whatever is there to the tables of today, or to nothing at all when a step fails. */
export async function prepareDatabase(
  url: string,
  keys: KeyRing,
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

async function migrate(connection: Connection, keys: KeyRing, migrations: readonly string[]): Promise<void> {
  const answer: AnswerAll = (asks) => answerAll(connection, asks, 'change')
  const { rows } = await connection.one({ text: "SELECT 1 AS n WHERE to_regclass('meta') IS NOT NULL" })
  const version = rows.length === 0 ? 0 : await driveEach(readVersion(), answer)
  const steps = await driveEach(missingSteps(version, keys, migrations), answer)
  if (version === 0) await connection.one({ text: SCALAR_FUNCTIONS })
  for (const step of steps) await connection.one({ text: postgresSchema(step) })
  if (version === 0) await driveEach(keys.create(Date.now()), answer)
  if (steps.length > 0) await driveEach(write('writeMeta', VERSION, String(migrations.length)), answer)
}

const VERSION = 'schema_version'

function* readVersion(): Steps<number> {
  const row = (yield* get('readMeta', VERSION)) ?? {}
  return Number(text(row, 'value'))
}
