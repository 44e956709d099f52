import { closeSync, existsSync, mkdirSync, openSync, readSync, realpathSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Worker } from 'node:worker_threads'
import { StoreError } from '#kernel/base/errors'
import { EventLoopYielder } from '#kernel/base/long-work'
import type { Chain, ChainHead } from '#kernel/store/chain'
import {
  type Ask,
  drive,
  type Engine,
  type NotifyChange,
  type PendingChange,
  type Steps,
  type StoreWatcher,
} from '#kernel/store/engine'
import type { StoreDefinition } from '#kernel/store/module'
import type { RowGuard } from '#kernel/store/row-mac'
import { integer } from '#kernel/store/rows'
import type { SchemaMode } from '#kernel/store/schema'
import { Database, IN_MEMORY, isBusy, isFull, isStoreWide, openDatabase, storeErrorOf } from './database.ts'

/**
 * The SQLite engine: steps are answered synchronously, and a commit blocks its thread until it is on the disk. Also here: locks
 * that show which writers live (rule 17), and checkpoints of the write-ahead log on another thread.
 * A database in memory has no locks, because no other process can reach it, and no log.
 */

interface SqliteEngineOptions {
  readonly definition: StoreDefinition
  readonly path: string
  readonly chain: Chain
  readonly guard: RowGuard
  readonly schema?: SchemaMode | undefined
  readonly maxBytes?: number | undefined
  /** Called after each commit with the number of changes and the duration. */
  readonly onCommit?: ((changes: number, durationMs: number) => void) | undefined
}

/** How soon commits of other processes are seen. */
const LOOK_MS = 500

export class SqliteEngine implements Engine {
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

  /**
   * Uses its own connection, because one inside a snapshot could not commit. No other connection reaches a database in memory.
   */
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

  /** A process holds its lock as long as it lives, so it is never considered dead. */
  obstacle(): undefined {}

  mayStart(): boolean {
    return true
  }

  /** The own lock file is restored if it was removed: other processes consider a writer without one dead after a while. */
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

  /** Processes that share a file are few, and each does its own work. */
  takeTurn(): boolean {
    return true
  }

  /** SQLite counts commits of other processes, but does not say what they changed. */
  watch(notify: NotifyChange): StoreWatcher {
    let version = this.#version()
    const look = () => {
      const now = this.#version()
      // If the version cannot be read, listeners are notified: their own reads will report the error.
      if (now === undefined || now !== version) notify(undefined)
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

  /** Releases the lock; calls that are still running then count as cut. */
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

  /** Lock first, then the row: a row without a living lock belongs to a dead writer. */
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

  /** A commit that reported an error may have happened: the chain's head shows it. */
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

  /** A database that cannot be written is a failure of the store, even when the reason is damage (rule 11). */
  #writeError(error: unknown): StoreError {
    if (this.#options.path === IN_MEMORY && isFull(error))
      return new StoreError('full', 'the memory store is full and takes no more', { cause: error })
    const found = storeErrorOf(error, 'cannot write to the database')
    return found.code === 'unreadable' ? new StoreError('full', found.message, { cause: error }) : found
  }

  #drive<T>(steps: Steps<T>): T {
    return drive(steps, this.#answer)
  }

  readonly #answer = (ask: Ask): void => this.#answerFrom(this.#database, ask)

  #answerFrom(database: Database, ask: Ask): void {
    database.answer(ask)
    this.#options.guard.check(ask)
  }
}

/** Drives steps on this thread, with pauses for other work. */
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
 * Rule 17: a living writer holds an exclusive lock on its own small file. The lock is SQLite's, on an empty database: the
 * operating system releases it however the process ends.
 */
class WriterLock {
  readonly #file: string
  readonly #connection: DatabaseSync

  constructor(folder: string, writer: string) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    this.#file = lockFile(folder, writer)
    this.#connection = lockedConnection(this.#file)
  }

  /** False when the file was removed: other processes cannot see the lock then. */
  get isInPlace(): boolean {
    return existsSync(this.#file)
  }

  /** The file of a writer with running calls stays, unlocked, as the sign that it is dead. */
  release(hasEnded: boolean): void {
    this.#connection.close()
    if (hasEnded) rmSync(this.#file, { force: true })
  }
}

/** `missing` proves nothing: a living writer restores its file within seconds. */
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

/** Whether a process holds the lock of this writer. */
export function isLocked(path: string, writer: string): boolean {
  return lockStateOf(lockFolderOf(path), writer) === 'locked'
}

/** A database under another name must have the same locks. */
function lockFolderOf(path: string): string {
  return `${realpathSync(path)}-writers`
}

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

/** A living writer restores a removed lock file well within this time. */
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

/** Commits between two checks of the log's size. */
const COMMITS_PER_LOOK = 64
const CHECKPOINT_BYTES = 16 * 1024 * 1024
/** With several writers one of them always reads the log's end: from this size on it is truncated. */
const TRUNCATE_BYTES = 64 * 1024 * 1024
const WORKER_FILE = import.meta.url.endsWith('.ts') ? './checkpoint-worker.ts' : './checkpoint-worker.js'

/**
 * Moves the write-ahead log into the database on another thread, because a checkpoint on the committing thread would dominate
 * p99. The little that arrives in the meantime is moved by this thread, so that the log starts over.
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

  /** A failed checkpoint is tried again later; until then the log keeps everything. */
  #finish(worker: Worker): void {
    this.#isWorking = false
    if (this.#worker !== worker) return
    try {
      this.#database.exec('PRAGMA wal_checkpoint(PASSIVE)')
    } catch {
      // A full disk: the log keeps everything, commits report it themselves, and the next checkpoint tries again (rule 11).
    }
  }

  /** Without the worker SQLite moves the log itself, which is slower for one commit but never forgotten. */
  #fallBack(worker: Worker): void {
    if (this.#worker === worker) this.#database.exec('PRAGMA wal_autocheckpoint = 1000')
  }
}

/** Offset in the log's index of its last valid frame, fixed by SQLite's file format. */
const LAST_FRAME_OFFSET = 16
const FRAME_BYTES = 4096 + 24

/**
 * How much of the write-ahead log is in use. Its file never shrinks when the log starts over, so the index beside it is read
 * instead.
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
      // Without an index, the file's size is the next best answer.
    }
    return statSync(`${this.#path}-wal`, { throwIfNoEntry: false })?.size ?? 0
  }

  close(): void {
    if (this.#index !== undefined) closeSync(this.#index)
    this.#index = undefined
  }
}
