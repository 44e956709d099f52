import { get, write } from '#kernel/store/engine'
import { Chain } from '#kernel/store/journal'
import { KeyRing } from '#kernel/store/key-ring'
import { RowGuard } from '#kernel/store/row-mac'
import { text } from '#kernel/store/rows'
import { type Migration, missingMigrations, refuseOutdated, type SchemaMode } from '#kernel/store/schema'
import type { StoreOptions } from '#kernel/store/store'
import { createColletStore, DEFINITION, type Store } from '#store/collet-store'
import { leaseOfAddress } from './address.ts'
import { answerAll, postgresSchema, SCALAR_FUNCTIONS } from './batches.ts'
import { COMMIT, Connection, storeErrorOf } from './connection.ts'
import { PostgresEngine } from './engine.ts'
import { PARTS_TABLES, Volumes } from './journal-parts.ts'
import { type AnswerAll, driveEach } from './lanes.ts'

/**
 * Opens a PostgreSQL database as a store: migrates its tables and refuses a key other than its own (rule 14). `stores.ts` calls it
 * with the address of a store. Processes that start together migrate one after another.
 */

interface PostgresStoreOptions extends StoreOptions {
  readonly url: string
  /**
   * Address of the database itself, if `url` is a pooler's (PgBouncer). Changes, the lease and notices then use this address.
   * Without it everything goes through the pooler, and this process polls for other replicas' changes.
   */
  readonly direct?: string | undefined
  /** How long other replicas wait for a renewal before they consider this process dead; default: from the address. */
  readonly leaseMs?: number
  /** The machine's clock, which is compared with the database's. */
  readonly wallMs?: () => number
}

export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const { url, masterKey, oldMasterKey, schema, nowMs = Date.now, onForeign, onCommit } = options
  const { direct, leaseMs = leaseOfAddress(url), wallMs = Date.now, place } = options
  const keys = new KeyRing({ current: masterKey, old: oldMasterKey })
  await prepareDatabase(direct ?? url, keys, { mode: schema })
  const volumes = new Volumes(nowMs)
  const chain = new Chain(keys, nowMs, { ids: volumes, leaseMs, place })
  const guard = new RowGuard(keys, DEFINITION.guarded, onForeign)
  const engine = new PostgresEngine({ url, direct, chain, volumes, guard, leaseMs, wallMs, onCommit })
  return createColletStore({ definition: DEFINITION, engine, chain, guard, nowMs, isShared: true })
}

/** How long replicas that start together wait for the one that migrates. */
const MAX_MIGRATION_MS = 600_000

interface Preparation {
  /** Default `migrate`. */
  readonly mode?: SchemaMode | undefined
  readonly migrations?: readonly string[]
}

/** Migrates to the current tables, in one transaction. */
export async function prepareDatabase(
  url: string,
  keys: KeyRing,
  { mode = 'migrate', migrations = DEFINITION.migrations }: Preparation = {},
): Promise<Migration> {
  let connection: Connection | undefined
  try {
    connection = await Connection.open(url, { maxSilenceMs: 2 * MAX_MIGRATION_MS })
    await connection.one({ text: 'BEGIN' })
    if (mode === 'migrate') await connection.send(WAIT_FOR_OTHERS)
    const migration = await migrate(connection, keys, { mode, migrations })
    await connection.one(COMMIT)
    return migration
  } catch (error) {
    throw storeErrorOf(error, 'cannot open the database')
  } finally {
    // Closing the connection also ends an open transaction.
    await connection?.close()
  }
}

/**
 * Waits for the lock of the process that migrates the tables. The migration itself waits no longer than other statements:
 * those that hold its locks would wait for it too.
 */
const WAIT_FOR_OTHERS = [
  { text: `SET LOCAL lock_timeout = ${MAX_MIGRATION_MS}` },
  { text: 'SELECT pg_advisory_xact_lock(20419)' },
  { text: 'RESET lock_timeout' },
]

async function migrate(
  connection: Connection,
  keys: KeyRing,
  { mode, migrations }: { readonly mode: SchemaMode; readonly migrations: readonly string[] },
): Promise<Migration> {
  const answer: AnswerAll = (requests) => answerAll(connection, requests, 'change')
  const version = await readSchemaVersion(connection)
  const steps = await driveEach(missingMigrations(version, keys, migrations), answer)
  const migration = { from: version, to: migrations.length }
  refuseOutdated(migration, mode)
  if (mode !== 'migrate') return migration
  if (steps.length > 0) await takeSteps(connection, steps, migration)
  if (version === 0) await driveEach(keys.create(Date.now()), answer)
  return migration
}

/** Inside a transaction: runs the steps and records the version. */
export async function takeSteps(
  connection: Connection,
  steps: readonly string[],
  { from, to }: Migration,
): Promise<void> {
  if (from === 0) await connection.one({ text: SCALAR_FUNCTIONS })
  for (const step of steps) await connection.one({ text: postgresSchema(step) })
  if (from === 0) await connection.one({ text: PARTS_TABLES })
  await driveEach(write('writeMeta', VERSION, String(to)), (requests) =>
    answerAll(connection, requests, 'change'),
  )
}

/** Returns 0 if there are no tables. */
export async function readSchemaVersion(connection: Connection): Promise<number> {
  const { rows } = await connection.one({ text: "SELECT 1 AS n WHERE to_regclass('meta') IS NOT NULL" })
  if (rows.length === 0) return 0
  const row = await driveEach(get('readMeta', VERSION), (requests) => answerAll(connection, requests, 'read'))
  return Number(text(row ?? {}, 'value'))
}

const VERSION = 'schema_version'
