import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Worker } from 'node:worker_threads'
import { StoreError, type StoreErrorCode } from '#kernel/base/errors'
import type { Database } from './engine.ts'

/**
 * The files of a SQLite database, and SQLite's errors as `StoreError`s: backups and damage; lock files, which show the writers
 * that live (rule 17); the write-ahead log, which a worker thread moves into the database. The engine and commands use it. A
 * database in memory has no files.
 */

/**
 * A consistent copy of a database that may be in use, including what is only in its write-ahead log. The target is created
 * here, exclusively and private, so that nothing is ever overwritten.
 */
export function backUpDatabase(path: string, target: string): void {
  const file = openSync(target, 'wx', 0o600)
  try {
    using connection = new DatabaseSync(path, { readOnly: true })
    connection.prepare('VACUUM INTO ?').run(target)
    fsyncSync(file)
  } catch (error) {
    rmSync(target, { force: true })
    throw storeErrorOf(error, `cannot back up ${path}`)
  } finally {
    closeSync(file)
  }
}

/** The first damage in a database file; `undefined` when it is intact. */
export function findDamage(path: string): string | undefined {
  using connection = new DatabaseSync(path, { readOnly: true })
  const answer = String(connection.prepare('PRAGMA quick_check(1)').get()?.quick_check ?? 'no answer')
  return answer === 'ok' ? undefined : answer
}

/**
 * Rule 17: a living writer holds an exclusive lock on its own small file. The lock is SQLite's, on an empty database: the
 * operating system releases it however the process ends.
 */
export class WriterLock {
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
function lockStateOf(folder: string, writer: string): 'locked' | 'free' | 'missing' {
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
export function lockFolderOf(path: string): string {
  return `${realpathSync(path)}-writers`
}

export function removeLockFile(folder: string, writer: string): void {
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
export class WriterLiveness {
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
export const COMMITS_PER_LOOK = 64
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
  #isWorking = false

  constructor(database: Database) {
    this.#database = database
    this.#log = new LogSize(database.path)
  }

  /** Called once every `COMMITS_PER_LOOK` commits. */
  look(): void {
    if (this.#isWorking) return
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
