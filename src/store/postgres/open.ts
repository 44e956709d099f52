import { Chain } from '#kernel/store/chain'
import { get, type Steps, write } from '#kernel/store/engine'
import { KeyRing } from '#kernel/store/key-ring'
import { RowGuard } from '#kernel/store/row-mac'
import { text } from '#kernel/store/rows'
import { type Migration, missingSteps, refuseOutdated, type SchemaMode } from '#kernel/store/schema'
import { createColletStore, DEFINITION, type Store } from '#store/collet-store'
import { leaseOfAddress } from './address.ts'
import { answerAll, postgresSchema, SCALAR_FUNCTIONS } from './batches.ts'
import { Connection, storeErrorOf } from './connection.ts'
import { PostgresEngine } from './engine.ts'
import { PARTS_TABLES, Volumes } from './journal-parts.ts'
import { type AnswerAll, driveEach } from './lanes.ts'

interface PostgresStoreOptions {
  readonly url: string
  /**
   * The database itself, when `url` leads to a pooler that gives every transaction another connection (PgBouncer): what
   * changes, renews the lease and listens connects there. Without it all goes through the pooler, and what other
   * replicas do is polled.
   */
  readonly direct?: string | undefined
  readonly masterKey: Uint8Array
  /** The key before, while it is being changed. */
  readonly oldMasterKey?: Uint8Array | undefined
  /** Default: the tables are made, or brought up to date. */
  readonly schema?: SchemaMode | undefined
  readonly nowMs?: () => number
  /** Where this process runs, as operators read it. */
  readonly place?: string | undefined
  /** How long other replicas wait for a sign of life before they take this process for dead; default: that of addresses. */
  readonly leaseMs?: number
  /** The clock of this machine, which is compared with that of the database. */
  readonly wallMs?: () => number
  /** Called with a row that decides something and was not written with the key. */
  readonly onForeign?: ((row: string, table: string) => void) | undefined
  readonly onCommit?: ((changes: number, durationMs: number) => void) | undefined
}

/** A store in a PostgreSQL database; makes the tables on first use, and refuses a key other than theirs (rule 14). */
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

/** Held by the process that makes or changes the tables. */
const SCHEMA_LOCK = 20_419
/** How long replicas that start together wait for the one that changes the tables. */
const MAX_MIGRATION_MS = 600_000

interface Preparation {
  /** Default `migrate`. */
  readonly mode?: SchemaMode | undefined
  readonly migrations?: readonly string[]
}

/** From whatever is there to the tables of today, or to nothing at all when a step fails. */
export async function prepareDatabase(
  url: string,
  keys: KeyRing,
  { mode = 'migrate', migrations = DEFINITION.migrations }: Preparation = {},
): Promise<Migration> {
  let connection: Connection | undefined
  try {
    connection = await Connection.open(url, { patienceMs: 2 * MAX_MIGRATION_MS })
    await connection.one(BEGIN)
    // Who only looks waits for nobody.
    if (mode === 'migrate') await connection.send(WAIT_FOR_OTHERS)
    const migration = await migrate(connection, keys, { mode, migrations })
    await connection.one({ text: 'COMMIT' })
    return migration
  } catch (error) {
    throw storeErrorOf(error, 'cannot open the database')
  } finally {
    // Ends the transaction too, if it is still open.
    await connection?.close()
  }
}

const BEGIN = { text: 'BEGIN' }

/** A change of the tables itself waits no longer than any other statement: whatever it waits for also waits behind it. */
const WAIT_FOR_OTHERS = [
  { text: `SET LOCAL lock_timeout = ${MAX_MIGRATION_MS}` },
  { text: `SELECT pg_advisory_xact_lock(${SCHEMA_LOCK})` },
  { text: 'RESET lock_timeout' },
]

async function migrate(
  connection: Connection,
  keys: KeyRing,
  { mode, migrations }: { readonly mode: SchemaMode; readonly migrations: readonly string[] },
): Promise<Migration> {
  const answer: AnswerAll = (asks) => answerAll(connection, asks, 'change')
  const version = await readSchemaVersion(connection)
  const steps = await driveEach(missingSteps(version, keys, migrations), answer)
  const migration = { from: version, to: migrations.length }
  refuseOutdated(migration, mode)
  if (mode !== 'migrate') return migration
  if (steps.length > 0) await takeSteps(connection, steps, migration)
  if (version === 0) await driveEach(keys.create(Date.now()), answer)
  return migration
}

/** Inside a transaction: makes or changes the tables, and notes their version. */
export async function takeSteps(
  connection: Connection,
  steps: readonly string[],
  { from, to }: Migration,
): Promise<void> {
  if (from === 0) await connection.one({ text: SCALAR_FUNCTIONS })
  for (const step of steps) await connection.one({ text: postgresSchema(step) })
  if (from === 0) await connection.one({ text: PARTS_TABLES })
  await driveEach(write('writeMeta', VERSION, String(to)), (asks) => answerAll(connection, asks, 'change'))
}

/** 0 when there are no tables. */
export async function readSchemaVersion(connection: Connection): Promise<number> {
  const { rows } = await connection.one({ text: "SELECT 1 AS n WHERE to_regclass('meta') IS NOT NULL" })
  if (rows.length === 0) return 0
  return await driveEach(readVersion(), (asks) => answerAll(connection, asks, 'read'))
}

const VERSION = 'schema_version'

function* readVersion(): Steps<number> {
  const row = (yield* get('readMeta', VERSION)) ?? {}
  return Number(text(row, 'value'))
}
