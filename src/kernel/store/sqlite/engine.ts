import { closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { StoreError } from '#kernel/base/errors'
import { EventLoopYielder } from '#kernel/base/long-work'
import {
  type CommitGroup,
  drive,
  type Engine,
  get,
  type NotifyChange,
  type PendingChange,
  type Row,
  type StatementRequest,
  type Steps,
  type StoreWatcher,
} from '#kernel/store/engine'
import type { Chain, ChainHead } from '#kernel/store/journal'
import type { KeyRing } from '#kernel/store/key-ring'
import type { StoreDefinition } from '#kernel/store/module'
import type { RowGuard } from '#kernel/store/row-mac'
import { integer } from '#kernel/store/rows'
import { type Migration, missingMigrations, refuseOutdated, type SchemaMode } from '#kernel/store/schema'
import type { StoreOptions } from '#kernel/store/store'
import {
  Checkpointer,
  COMMITS_PER_CHECK,
  isBusy,
  isFull,
  isStoreWide,
  lockFolderOf,
  removeLockFile,
  storeErrorOf,
  WriterLiveness,
  WriterLock,
} from './files.ts'

/**
 * The SQLite engine and its connection: opening and migrating the file, prepared statements, transactions. Statements run
 * synchronously, and a commit blocks its thread until it is on the disk. After opening, no statement on this thread waits for
 * another process's lock, except in `checkWritable`.
 */

export interface SqliteEngineOptions extends Pick<StoreOptions, 'schema' | 'onCommit'> {
  readonly definition: StoreDefinition
  readonly path: string
  readonly chain: Chain
  readonly guard: RowGuard
  readonly maxBytes?: number | undefined
}

/** How often the engine looks for commits by other processes. */
const POLL_MS = 500

export class SqliteEngine implements Engine {
  readonly waitingReads = 0
  readonly #options: SqliteEngineOptions
  readonly #database: Database
  readonly #checked: ReadonlyMap<string, unknown>
  readonly #checkpointer: Checkpointer | undefined
  readonly #lockFolder: string | undefined
  readonly #liveness: WriterLiveness | undefined
  #lock: WriterLock | undefined
  #isHeadKnown = true
  #commits = 0
  readonly #prepare = () => this.#options.chain.prepare()

  constructor(options: SqliteEngineOptions) {
    const { definition, path, chain, guard, schema: mode, maxBytes } = options
    this.#options = options
    this.#checked = guard.checkedReads
    this.#database = openDatabase(path, chain.keys, { definition, mode })
    if (maxBytes !== undefined) this.#database.limitTo(maxBytes)
    if (path === IN_MEMORY) return
    this.#checkpointer = new Checkpointer(this.#database)
    this.#lockFolder = lockFolderOf(path)
    this.#liveness = new WriterLiveness(this.#lockFolder, (writer) => this.#hasEnded(writer))
  }

  read<T>(steps: Steps<T>): T {
    try {
      return this.#drive(steps)
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the database')
    }
  }

  snapshot<T>(steps: Steps<T>): T {
    return attempt('cannot read the database', () => this.#database.snapshot(() => this.#drive(steps)))
  }

  /**
   * Uses its own connection, because a connection with an open snapshot cannot commit. A database in memory has only one
   * connection, so its steps run without pauses.
   */
  async walk<T>(steps: Steps<T>, signal: AbortSignal): Promise<T> {
    const { path, definition } = this.#options
    if (path === IN_MEMORY) return this.snapshot(steps)
    const database = new Database(path, new DatabaseSync(path, { readOnly: true }), definition.queries)
    try {
      database.exec('BEGIN')
      return await driveInPieces(steps, (request) => {
        signal.throwIfAborted()
        this.#answerFrom(database, request)
      })
    } catch (error) {
      throw signal.aborted ? error : storeErrorOf(error, 'cannot read the database')
    } finally {
      database.close()
    }
  }

  commit(changes: readonly PendingChange[]): 'committed' | 'busy' {
    const { chain, onCommit } = this.#options
    const startedMs = performance.now()
    try {
      this.#begin()
      this.#database.begin()
    } catch (error) {
      if (isBusy(error)) return 'busy'
      throw this.#writeError(error)
    }
    let head: ChainHead | undefined
    let group: CommitGroup | undefined
    try {
      if (!this.#isHeadKnown) chain.head = this.#drive(chain.readHead()) ?? chain.head
      this.#isHeadKnown = true
      group = chain.openGroup()
      for (const change of changes) change.keep(this.#drive(change.begin(group)))
      if (!group.isEmpty) head = this.#drive(chain.insert(group))
      this.#database.commit()
    } catch (error) {
      if (!this.#isCommitted(head)) throw this.#failed(error)
    }
    if (head !== undefined && group !== undefined) chain.advance(head, group)
    this.#commits += 1
    if (this.#commits % COMMITS_PER_CHECK === 0) this.#checkpointer?.check()
    onCommit?.(changes.length, performance.now() - startedMs)
    // Runs after the callers of this commit are answered.
    setImmediate(this.#prepare)
    return 'committed'
  }

  /** A process holds its lock as long as it lives, so other processes never consider it dead. */
  obstacle(): undefined {}

  mayStart(): boolean {
    return true
  }

  /** Restores this process's lock file if it was removed: other processes would consider its writer dead after a while. */
  isAlive(writer: string): boolean {
    if (writer === this.#options.chain.id) {
      this.#keepLock()
      return true
    }
    return attempt('cannot read the database', () => this.#liveness?.isAlive(writer) ?? false)
  }

  forgetWriter(writer: string): void {
    if (this.#lockFolder !== undefined) removeLockFile(this.#lockFolder, writer)
  }

  /** Few processes share a file, so each of them does the work itself. */
  takeTurn(): boolean {
    return true
  }

  /** SQLite counts commits by other processes, but does not report what they changed. */
  watch(notify: NotifyChange): StoreWatcher {
    let version = this.#version()
    const poll = () => {
      const current = this.#version()
      // If the version cannot be read, listeners are notified: their own reads will report the error.
      if (current === undefined || current !== version) notify(undefined)
      version = current
    }
    const timer = setInterval(poll, POLL_MS).unref()
    return { want: () => undefined, end: () => clearInterval(timer) }
  }

  checkWritable(waitMs: number): void {
    attempt('cannot write to the database', () => this.#database.checkWritable(waitMs))
  }

  /** Releases the lock; calls that are still running then count as interrupted. */
  async close(): Promise<void> {
    await this.#checkpointer?.close()
    const { chain } = this.#options
    if (chain.isStarted) this.#lock?.release(this.#hasEnded(chain.id))
    chain.forgetWriter()
    this.#database.close()
  }

  #version(): number | undefined {
    try {
      return integer(this.#database.pragma('data_version') ?? {}, 'data_version')
    } catch {
      return undefined
    }
  }

  /** Takes the lock before it inserts the writer's row, because a row without a held lock belongs to a dead writer. */
  #begin(): void {
    const { chain } = this.#options
    if (chain.isStarted) return
    const lock = this.#takeLock()
    try {
      this.#database.begin()
      const head = this.#drive(chain.begin())
      this.#database.commit()
      chain.head = head
      this.#lock = lock
    } catch (error) {
      chain.forgetWriter()
      this.#database.rollback()
      lock?.release(true)
      throw error
    }
  }

  #keepLock(): void {
    if (this.#lock === undefined || this.#lock.isInPlace) return
    this.#lock.release(false)
    this.#lock = this.#takeLock()
  }

  #takeLock(): WriterLock | undefined {
    const folder = this.#lockFolder
    return folder === undefined ? undefined : new WriterLock(folder, this.#options.chain.id)
  }

  #hasEnded(writer: string): boolean {
    const row = this.#drive(get('writerEnd', writer))
    return row === undefined || row.ended_at !== null
  }

  /** A commit that reported an error may still have happened; the chain's head shows whether it did. */
  #isCommitted(head: ChainHead | undefined): boolean {
    try {
      this.#database.rollback()
      return head !== undefined && this.#drive(this.#options.chain.readHead())?.link === head.link
    } catch {
      this.#isHeadKnown = false
      return false
    }
  }

  #failed(error: unknown): unknown {
    this.#isHeadKnown = false
    return isStoreWide(error) || error instanceof StoreError ? this.#writeError(error) : error
  }

  /** A database that cannot be written is reported as a failure of the store, even if the reason is damage (rule 11). */
  #writeError(error: unknown): StoreError {
    if (this.#options.path === IN_MEMORY && isFull(error))
      return new StoreError('full', 'the memory store is full', { cause: error })
    const found = storeErrorOf(error, 'cannot write to the database')
    return found.code === 'unreadable' ? new StoreError('full', found.message, { cause: error }) : found
  }

  #drive<T>(steps: Steps<T>): T {
    return drive(steps, this.#answer)
  }

  readonly #answer = (request: StatementRequest): void => this.#answerFrom(this.#database, request)

  #answerFrom(database: Database, request: StatementRequest): void {
    database.answer(request)
    if (this.#checked.has(request.query)) this.#options.guard.check(request)
  }
}

function attempt<T>(failure: string, act: () => T): T {
  try {
    return act()
  } catch (error) {
    throw storeErrorOf(error, failure)
  }
}

/** Drives steps on this thread, with pauses for other work. */
async function driveInPieces<T>(steps: Steps<T>, answer: (request: StatementRequest) => void): Promise<T> {
  const yielder = new EventLoopYielder()
  const iterator = steps[Symbol.iterator]()
  let step = iterator.next()
  while (step.done !== true) {
    if (yielder.isDue) await yielder.yieldNow()
    answer(step.value)
    step = iterator.next()
  }
  return step.value
}

/** SQLite's path for a database in memory, which exists only as long as its connection. */
export const IN_MEMORY = ':memory:'
/** SQLite's default page size. */
const PAGE_BYTES = 4_096

/** How long opening waits for another process that is opening or migrating the same database. */
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

  answer(request: StatementRequest): void {
    const statement = this.#statement(request.query)
    if (request.kind === 'write') request.answer = Number(statement.run(...request.values).changes)
    else if (request.kind === 'get') request.answer = statement.get(...request.values)
    else request.answer = statement.all(...request.values)
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

  /** Runs reads that all see the same state of the database. */
  snapshot<T>(read: () => T): T {
    this.#connection.exec('BEGIN')
    try {
      return read()
    } finally {
      this.#connection.exec('COMMIT')
    }
  }

  /** Takes and releases the write lock: fails if a change would fail, and changes nothing. */
  checkWritable(waitMs: number): void {
    this.exec(`PRAGMA busy_timeout = ${waitMs}`)
    try {
      this.begin()
      this.rollback()
    } finally {
      this.exec('PRAGMA busy_timeout = 0')
    }
  }

  /** Limits the size: a change that needs more space is refused as on a full disk; freed pages are reused. */
  limitTo(bytes: number): void {
    this.exec(`PRAGMA max_page_count = ${Math.max(1, Math.floor(bytes / PAGE_BYTES))}`)
  }

  exec(sql: string): void {
    this.#connection.exec(sql)
  }

  /** The row that a pragma returns. */
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
  /** What to do with the tables; default: `migrate`. */
  readonly mode?: SchemaMode | undefined
}

export function migrateDatabase(path: string, keys: KeyRing, preparation: Preparation): Migration {
  const { database, migration } = prepare(path, keys, preparation)
  database.close()
  return migration
}

/** Opens the file, creates the tables on first use, and refuses a key that is not the file's key (rule 14). */
export function openDatabase(path: string, keys: KeyRing, preparation: Preparation): Database {
  if (path !== IN_MEMORY) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    closeSync(openSync(path, 'a', 0o600))
  }
  const { database } = prepare(path, keys, preparation)
  // From here on this thread does not wait for locks: the commit queue tries again later.
  database.exec('PRAGMA busy_timeout = 0')
  return database
}

function prepare(path: string, keys: KeyRing, preparation: Preparation) {
  let database: Database | undefined
  try {
    database = connect(path, preparation.definition)
    return { database, migration: migrate(database, keys, preparation) }
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
    const steps = drive(missingMigrations(version, keys, migrations), (request) => database.answer(request))
    const migration = { from: version, to: migrations.length }
    refuseOutdated(migration, mode)
    if (mode !== 'migrate') {
      database.rollback()
      return migration
    }
    for (const step of steps) database.exec(step)
    if (version === 0) drive(keys.create(Date.now()), (request) => database.answer(request))
    if (version < migrations.length) database.exec(`PRAGMA user_version = ${migrations.length}`)
    database.commit()
    return migration
  } catch (error) {
    database.rollback()
    throw error
  }
}
