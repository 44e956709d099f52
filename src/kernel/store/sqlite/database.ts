import { closeSync, fsyncSync, mkdirSync, openSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { StoreError, type StoreErrorCode } from '#kernel/base/errors'
import { type Ask, drive, type Row, type SqlValue } from '#kernel/store/engine'
import type { KeyRing } from '#kernel/store/key-ring'
import type { StoreDefinition } from '#kernel/store/module'
import { type Migration, missingSteps, refuseOutdated, type SchemaMode } from '#kernel/store/schema'

/**
 * A SQLite file: opening, migrating and backing it up, its prepared statements, and its errors as `StoreError`s. The engine works
 * on it, and commands use it for backups and checks. After opening, no statement waits for another process's lock on this thread.
 */

/**
 * A consistent copy of a database that may be in use, including what is only in its write-ahead log. The target is created
 * here, exclusively and private, so that nothing is ever overwritten.
 */
export function backUpDatabase(path: string, target: string): void {
  const file = openSync(target, 'wx', 0o600)
  try {
    copy(path, target)
    fsyncSync(file)
  } catch (error) {
    rmSync(target, { force: true })
    throw storeErrorOf(error, `cannot back up ${path}`)
  } finally {
    closeSync(file)
  }
}

function copy(path: string, target: string): void {
  const connection = new DatabaseSync(path, { readOnly: true })
  try {
    connection.prepare('VACUUM INTO ?').run(target)
  } finally {
    connection.close()
  }
}

/** The path of a database that ends with its connection. */
export const IN_MEMORY = ':memory:'
/** SQLite's default. */
const PAGE_BYTES = 4_096

/** The first damage in a database file; `undefined` when it is intact. */
export function findDamage(path: string): string | undefined {
  const connection = new DatabaseSync(path, { readOnly: true })
  try {
    const answer = String(connection.prepare('PRAGMA quick_check(1)').get()?.quick_check ?? 'no answer')
    return answer === 'ok' ? undefined : answer
  } finally {
    connection.close()
  }
}

/** How long opening waits for another process that opens or migrates too. */
const OPEN_WAIT_MS = 5_000

/** One connection; statements are prepared on first use. */
export class Database {
  readonly path: string
  readonly #connection: DatabaseSync
  readonly #queries: StoreDefinition['queries']
  readonly #statements = new Map<string, StatementSync>()
  readonly #begin: StatementSync
  readonly #commit: StatementSync
  readonly #rollback: StatementSync

  constructor(path: string, connection: DatabaseSync, queries: StoreDefinition['queries']) {
    this.path = path
    this.#queries = queries
    this.#connection = connection
    this.#begin = connection.prepare('BEGIN IMMEDIATE')
    this.#commit = connection.prepare('COMMIT')
    this.#rollback = connection.prepare('ROLLBACK')
  }

  /** Sets the answer of the ask. */
  answer(ask: Ask): void {
    const statement = this.#statement(ask.query)
    if (ask.way === 'write') ask.answer = Number(statement.run(...ask.values).changes)
    else if (ask.way === 'get') ask.answer = statement.get(...ask.values)
    else ask.answer = statement.all(...ask.values)
  }

  run(name: string, ...values: SqlValue[]): number {
    return Number(this.#statement(name).run(...values).changes)
  }

  get(name: string, ...values: SqlValue[]): Row | undefined {
    return this.#statement(name).get(...values)
  }

  begin(): void {
    this.#begin.run()
  }

  commit(): void {
    this.#commit.run()
  }

  rollback(): void {
    if (this.#connection.isTransaction) this.#rollback.run()
  }

  /** Reads that all see the same state of the database. */
  snapshot<T>(read: () => T): T {
    this.#connection.exec('BEGIN')
    try {
      return read()
    } finally {
      this.#connection.exec('COMMIT')
    }
  }

  /** Takes and releases the write lock: fails where a change would fail, and changes nothing. */
  checkWritable(waitMs: number): void {
    this.exec(`PRAGMA busy_timeout = ${waitMs}`)
    try {
      this.begin()
      this.rollback()
    } finally {
      this.exec('PRAGMA busy_timeout = 0')
    }
  }

  /** A change that needs more space is then refused as on a full disk; freed pages are used again. */
  limitTo(bytes: number): void {
    this.exec(`PRAGMA max_page_count = ${Math.max(1, Math.floor(bytes / PAGE_BYTES))}`)
  }

  exec(sql: string): void {
    this.#connection.exec(sql)
  }

  /** Answer of a pragma with one row. */
  pragma(name: string): Row | undefined {
    return this.#connection.prepare(`PRAGMA ${name}`).get()
  }

  close(): void {
    this.#connection.close()
  }

  #statement(name: string): StatementSync {
    const known = this.#statements.get(name)
    if (known !== undefined) return known
    const prepared = this.#connection.prepare(this.#queries[name] ?? unknownStatement(name))
    this.#statements.set(name, prepared)
    return prepared
  }
}

function unknownStatement(name: string): never {
  throw new StoreError('unreadable', `no module of this store has the statement ${name}`)
}

interface Preparation {
  readonly definition: Pick<StoreDefinition, 'queries' | 'migrations'>
  /** Default `migrate`. */
  readonly mode?: SchemaMode | undefined
}

export function migrateDatabase(path: string, keys: KeyRing, preparation: Preparation): Migration {
  let database: Database | undefined
  try {
    database = connect(path, preparation.definition)
    return migrate(database, keys, preparation)
  } catch (error) {
    throw storeErrorOf(error, `cannot open ${path}`)
  } finally {
    database?.close()
  }
}

/** Opens the file, creates the tables on first use, and refuses a key other than the one the file was made with (rule 14). */
export function openDatabase(path: string, keys: KeyRing, preparation: Preparation): Database {
  if (path !== IN_MEMORY) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    closeSync(openSync(path, 'a', 0o600))
  }
  let database: Database | undefined
  try {
    database = connect(path, preparation.definition)
    migrate(database, keys, preparation)
    // From here on this thread never waits for a lock: the commit queue tries again later.
    database.exec('PRAGMA busy_timeout = 0')
    return database
  } catch (error) {
    database?.close()
    throw storeErrorOf(error, `cannot open ${path}`)
  }
}

function connect(path: string, { queries }: Pick<StoreDefinition, 'queries'>): Database {
  const connection = new DatabaseSync(path, { timeout: OPEN_WAIT_MS })
  connection.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA cache_size = -65536;
    PRAGMA temp_store = MEMORY;
  `)
  return new Database(path, connection, queries)
}

function migrate(
  database: Database,
  keys: KeyRing,
  { mode = 'migrate', definition: { migrations } }: Preparation,
): Migration {
  database.begin()
  try {
    const version = Number(database.pragma('user_version')?.user_version ?? 0)
    const steps = drive(missingSteps(version, keys, migrations), (ask) => database.answer(ask))
    const migration = { from: version, to: migrations.length }
    refuseOutdated(migration, mode)
    if (mode !== 'migrate') {
      database.rollback()
      return migration
    }
    for (const step of steps) database.exec(step)
    if (version === 0) drive(keys.create(Date.now()), (ask) => database.answer(ask))
    if (version < migrations.length) database.exec(`PRAGMA user_version = ${migrations.length}`)
    database.commit()
    return migration
  } catch (error) {
    database.rollback()
    throw error
  }
}

const BUSY = 5
const FULL = 13

/** SQLite's primary result code, or `undefined` for other errors. */
function resultCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number')
    return undefined
  return error.errcode & 0xff
}

export function isFull(error: unknown): boolean {
  return resultCode(error) === FULL
}

export function isBusy(error: unknown): boolean {
  return resultCode(error) === BUSY
}

const CODES: Readonly<Record<number, { readonly code: StoreErrorCode; readonly why: string }>> = {
  8: { code: 'full', why: 'the database is read-only; check the permissions of the file and its folder' },
  10: { code: 'full', why: 'the disk reported an I/O error' },
  11: { code: 'unreadable', why: 'the database file is damaged; restore it from a backup' },
  [FULL]: { code: 'full', why: 'the disk is full' },
  14: { code: 'unreadable', why: 'the database file cannot be opened; check the path and its permissions' },
  26: {
    code: 'unreadable',
    why: 'the file is not a SQLite database, or it is damaged; restore it from a backup or choose another path',
  },
}

/** Any error as a `StoreError` with an explanation. */
export function storeErrorOf(error: unknown, doing: string): StoreError {
  if (error instanceof StoreError)
    return new StoreError(error.code, `${doing}: ${error.message}`, { cause: error })
  const known = CODES[resultCode(error) ?? -1]
  const message = error instanceof Error ? error.message : String(error)
  return new StoreError(known?.code ?? 'not_written', `${doing}: ${known?.why ?? message}`, { cause: error })
}

/** Whether the error concerns the whole store, so that trying changes one by one is pointless. */
export function isStoreWide(error: unknown): boolean {
  const code = resultCode(error)
  return code !== undefined && code in CODES
}
