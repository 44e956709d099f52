import { closeSync, existsSync, mkdirSync, openSync, readSync, realpathSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Worker } from 'node:worker_threads'
import { StoreError } from '#kernel/base/errors'
import { EventLoopYielder } from '#kernel/base/long-work'
import type { StoreWatcher, TellChange } from '#kernel/ports/store'
import type { Chain, ChainHead } from '#kernel/store/chain'
import { type Ask, drive, type Engine, type PendingChange, type Steps } from '#kernel/store/engine'
import type { StoreDefinition } from '#kernel/store/module'
import type { RowGuard } from '#kernel/store/row-mac'
import { integer } from '#kernel/store/rows'
import type { SchemaMode } from '#kernel/store/schema'
import { Database, IN_MEMORY, isBusy, isFull, isStoreWide, openDatabase, storeErrorOf } from './database.ts'

interface SqliteEngineOptions {
  readonly definition: StoreDefinition
  readonly path: string
  readonly chain: Chain
  readonly guard: RowGuard
  readonly schema?: SchemaMode | undefined
  /** How large the database may become. */
  readonly maxBytes?: number | undefined
  /** Called after each commit: how many changes, how long. */
  readonly onCommit?: ((changes: number, durationMs: number) => void) | undefined
}

/** How soon what another process wrote is seen. */
const LOOK_MS = 500

/**
 * One SQLite file: steps are answered at once, and a commit blocks its thread until it is on the disk. A database in
 * memory has neither locks, because no other process can reach it, nor a log to move.
 */
export class SqliteEngine implements Engine {
  /** Each is answered at once. */
  readonly waitingReads = 0
  readonly #options: SqliteEngineOptions
  readonly #database: Database
  readonly #checkpointer: Checkpointer | undefined
  readonly #lockFolder: string | undefined
  readonly #liveness: WriterLiveness | undefined
  #lock: WriterLock | undefined
  #headKnown = true

  constructor(options: SqliteEngineOptions) {
    this.#options = options
    this.#database = openDatabase(options.path, options.chain.keys, {
      definition: options.definition,
      mode: options.schema,
    })
    if (options.maxBytes !== undefined) this.#database.limitTo(options.maxBytes)
    if (options.path === IN_MEMORY) return
    this.#checkpointer = new Checkpointer(this.#database)
    this.#lockFolder = lockFolderOf(options.path)
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
    try {
      return this.#database.snapshot(() => this.#drive(steps))
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the database')
    }
  }

  /** On a connection of its own: one that is inside of a snapshot could not commit. Nobody else reaches a database in memory. */
  async walk<T>(steps: Steps<T>, signal: AbortSignal): Promise<T> {
    const { path, definition } = this.#options
    if (path === IN_MEMORY) return this.snapshot(steps)
    const database = new Database(path, new DatabaseSync(path, { readOnly: true }), definition.queries)
    try {
      database.exec('BEGIN')
      return await driveInPieces(steps, (ask) => {
        signal.throwIfAborted()
        this.#answerFrom(database, ask)
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
    try {
      if (!this.#headKnown) this.#readHead()
      const group = chain.openGroup()
      for (const change of changes) change.keep(this.#drive(change.begin(group)))
      if (!group.isEmpty) head = this.#drive(chain.insert(group))
      this.#database.commit()
    } catch (error) {
      if (!this.#isCommitted(head)) throw this.#failed(error)
    }
    if (head !== undefined) chain.head = head
    this.#checkpointer?.noteCommit()
    onCommit?.(changes.length, performance.now() - startedMs)
    return 'committed'
  }

  /** A process holds its lock as long as it lives, so nobody takes it for dead. */
  obstacle(): undefined {}

  mayStart(): boolean {
    return true
  }

  /** Our own lock file is put back if anything removed it: others take a writer without one for dead, in time. */
  isAlive(writer: string): boolean {
    if (writer === this.#options.chain.id) {
      this.#keepLock()
      return true
    }
    try {
      return this.#liveness?.isAlive(writer) ?? false
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the database')
    }
  }

  forgetWriter(writer: string): void {
    if (this.#lockFolder !== undefined) removeLockFile(this.#lockFolder, writer)
  }

  /** Processes that share a file are few, and each looks after its own. */
  takeTurn(): boolean {
    return true
  }

  /** SQLite counts what others commit, and does not say what it was. */
  watch(tell: TellChange): StoreWatcher {
    let version = this.#version()
    const look = () => {
      const now = this.#version()
      // One that cannot be read tells nothing: those who wait look, and learn what is wrong.
      if (now === undefined || now !== version) tell(undefined)
      version = now
    }
    const timer = setInterval(look, LOOK_MS).unref()
    return { want: () => undefined, end: () => clearInterval(timer) }
  }

  checkWritable(waitMs: number): void {
    try {
      this.#database.checkWritable(waitMs)
    } catch (error) {
      throw storeErrorOf(error, 'cannot write to the database')
    }
  }

  /** Gives the lock back; from then on what is left running counts as cut. */
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

  /** Lock first, then the row: a row without a living lock is a dead writer. */
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
    const row = this.#database.get('writerEnd', writer)
    return row === undefined || row.ended_at !== null
  }

  #readHead(): void {
    const { chain } = this.#options
    chain.head = this.#drive(chain.readHead()) ?? chain.head
    this.#headKnown = true
  }

  /** A commit that reported an error may still have happened: the chain knows. */
  #isCommitted(head: ChainHead | undefined): boolean {
    try {
      this.#database.rollback()
      return head !== undefined && this.#drive(this.#options.chain.readHead())?.link === head.link
    } catch {
      this.#headKnown = false
      return false
    }
  }

  #failed(error: unknown): unknown {
    this.#headKnown = false
    return isStoreWide(error) || error instanceof StoreError ? this.#writeError(error) : error
  }

  /** A database that cannot be written is a failure of the store, also when the reason is damage (rule 11). */
  #writeError(error: unknown): StoreError {
    if (this.#options.path === IN_MEMORY && isFull(error))
      return new StoreError('full', 'the memory store is full and takes no more', { cause: error })
    const found = storeErrorOf(error, 'cannot write to the database')
    return found.code === 'unreadable' ? new StoreError('full', found.message, { cause: error }) : found
  }

  /** Every step at once, on this thread. */
  #drive<T>(steps: Steps<T>): T {
    return drive(steps, this.#answer)
  }

  readonly #answer = (ask: Ask): void => this.#answerFrom(this.#database, ask)

  #answerFrom(database: Database, ask: Ask): void {
    database.answer(ask)
    this.#options.guard.check(ask)
  }
}

/** Steps on this thread, with pauses in which others go on. */
async function driveInPieces<T>(steps: Steps<T>, answer: (ask: Ask) => void): Promise<T> {
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

/**
 * Rule 17: a living writer holds an exclusive lock on its own small file. The lock is SQLite's own, on an empty
 * database: the operating system frees it when the process ends, however it ends.
 */
class WriterLock {
  readonly #file: string
  readonly #connection: DatabaseSync

  constructor(folder: string, writer: string) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    this.#file = lockFile(folder, writer)
    this.#connection = lockedConnection(this.#file)
  }

  /** False when the file was removed: the lock is then held on nothing others can see. */
  get isInPlace(): boolean {
    return existsSync(this.#file)
  }

  /** The file of a writer with calls still running stays, unlocked, as the sign that it is dead. */
  release(hasEnded: boolean): void {
    this.#connection.close()
    if (hasEnded) rmSync(this.#file, { force: true })
  }
}

/** `missing` proves nothing: a living writer puts its file back within seconds. */
type LockState = 'locked' | 'free' | 'missing'

function lockStateOf(folder: string, writer: string): LockState {
  const file = lockFile(folder, writer)
  if (!existsSync(file)) return 'missing'
  try {
    lockedConnection(file).close()
    return 'free'
  } catch (error) {
    if (isBusy(error)) return 'locked'
    throw error
  }
}

/** Whether a process holds the lock of this writer of a database. */
export function isLocked(path: string, writer: string): boolean {
  return lockStateOf(lockFolderOf(path), writer) === 'locked'
}

/** The same database under another name must have the same locks. */
function lockFolderOf(path: string): string {
  return `${realpathSync(path)}-writers`
}

/** For a writer that is dead and has nothing left to recover. */
function removeLockFile(folder: string, writer: string): void {
  rmSync(lockFile(folder, writer), { force: true })
}

function lockFile(folder: string, writer: string): string {
  return join(folder, `${writer}.lock`)
}

function lockedConnection(file: string): DatabaseSync {
  const connection = new DatabaseSync(file, { timeout: 0 })
  try {
    connection.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
    return connection
  } catch (error) {
    connection.close()
    throw error
  }
}

/** A living writer puts a removed lock file back well within this time. */
const MISSING_LOCK_GRACE_MS = 15_000

/** Which other writers live: only one whose lock can be taken is dead (rule 17). */
class WriterLiveness {
  readonly #folder: string
  readonly #hasEnded: (writer: string) => boolean
  readonly #missingSinceMs = new Map<string, number>()

  constructor(folder: string, hasEnded: (writer: string) => boolean) {
    this.#folder = folder
    this.#hasEnded = hasEnded
  }

  isAlive(writer: string): boolean {
    const lock = lockStateOf(this.#folder, writer)
    if (lock !== 'missing') {
      this.#missingSinceMs.delete(writer)
      return lock === 'locked'
    }
    if (this.#hasEnded(writer)) return false
    const sinceMs = this.#missingSinceMs.get(writer) ?? performance.now()
    this.#missingSinceMs.set(writer, sinceMs)
    return performance.now() - sinceMs < MISSING_LOCK_GRACE_MS
  }
}

/** How often the log's size is looked at. */
const COMMITS_PER_LOOK = 64
const CHECKPOINT_BYTES = 16 * 1024 * 1024
/** With several writers one of them always reads the log's end: from here on it is cut by force. */
const TRUNCATE_BYTES = 64 * 1024 * 1024
const WORKER_FILE = import.meta.url.endsWith('.ts') ? './checkpoint-worker.ts' : './checkpoint-worker.js'

/**
 * Moves the write-ahead log into the database from another thread, because a checkpoint on the committing thread
 * is what ruins p99. The rest that arrived meanwhile is small; this thread moves it, so that the log starts over.
 */
export class Checkpointer {
  readonly #database: Database
  readonly #log: LogSize
  #worker: Worker | undefined
  #commits = 0
  #isWorking = false

  constructor(database: Database) {
    this.#database = database
    this.#log = new LogSize(database.path)
  }

  noteCommit(): void {
    this.#commits += 1
    if (this.#commits < COMMITS_PER_LOOK || this.#isWorking) return
    this.#commits = 0
    const bytes = this.#log.bytes()
    if (bytes < CHECKPOINT_BYTES) return
    this.#isWorking = true
    this.#start().postMessage(bytes < TRUNCATE_BYTES ? 'PASSIVE' : 'TRUNCATE')
  }

  async close(): Promise<void> {
    const worker = this.#worker
    this.#worker = undefined
    this.#log.close()
    await worker?.terminate()
  }

  #start(): Worker {
    if (this.#worker !== undefined) return this.#worker
    const worker = new Worker(new URL(WORKER_FILE, import.meta.url), {
      workerData: { path: this.#database.path },
    })
    worker.unref()
    worker.on('message', () => this.#finish(worker))
    worker.on('error', () => this.#fallBack(worker))
    this.#worker = worker
    return worker
  }

  /** A checkpoint that fails is tried again later; the log keeps everything until then. */
  #finish(worker: Worker): void {
    this.#isWorking = false
    if (this.#worker !== worker) return
    try {
      this.#database.exec('PRAGMA wal_checkpoint(PASSIVE)')
    } catch {
      // A full disk: the log keeps everything, commits say so themselves, and the next round tries again (rule 11).
    }
  }

  /** Without the worker SQLite moves the log by itself, slower for the unlucky commit but never forgotten. */
  #fallBack(worker: Worker): void {
    if (this.#worker === worker) this.#database.exec('PRAGMA wal_autocheckpoint = 1000')
  }
}

/** Where the index of the log keeps the number of its last valid frame: fixed by SQLite's file format. */
const LAST_FRAME_OFFSET = 16
const FRAME_BYTES = 4096 + 24

/**
 * How much of the write-ahead log is in use. Its file never shrinks when the log starts over, so its size says
 * nothing after the first time; the index beside it does.
 */
export class LogSize {
  readonly #path: string
  readonly #word = new Uint32Array(1)
  #index: number | undefined

  constructor(databasePath: string) {
    this.#path = databasePath
  }

  bytes(): number {
    try {
      this.#index ??= openSync(`${this.#path}-shm`, 'r')
      const read = readSync(this.#index, this.#word, 0, this.#word.byteLength, LAST_FRAME_OFFSET)
      if (read === this.#word.byteLength) return (this.#word[0] ?? 0) * FRAME_BYTES
    } catch {
      // Where there is no index, the file's size is the next best answer.
    }
    return statSync(`${this.#path}-wal`, { throwIfNoEntry: false })?.size ?? 0
  }

  close(): void {
    if (this.#index !== undefined) closeSync(this.#index)
    this.#index = undefined
  }
}
