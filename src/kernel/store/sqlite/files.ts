import {
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Worker } from 'node:worker_threads'
import { StoreError, type StoreErrorCode } from '#kernel/base/errors'
import type { Database } from './engine.ts'

/**
 * The files of a SQLite database, and SQLite's errors as `StoreError`s: backups and damage; lock files, which show which writers
 * are alive (rule 17); the write-ahead log, which a worker thread moves into the database. The engine and commands use this
 * module. A database in memory has no files.
 */

/**
 * Makes a consistent copy of a database that may be in use, including changes that are only in its write-ahead log. The target
 * is created exclusively, with mode 0600, so that no file is ever overwritten.
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

/** The first damage found in a database file; `undefined` if the file is intact. */
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

  /** False if the file was removed, so that other processes cannot see the lock. */
  get isInPlace(): boolean {
    return existsSync(this.#file)
  }

  /** The file of a writer that has not ended stays, unlocked, to show other processes that the writer is dead. */
  release(hasEnded: boolean): void {
    this.#connection.close()
    if (hasEnded) rmSync(this.#file, { force: true })
  }
}

/** `missing` does not prove that the writer is dead: a living writer restores its file within seconds. */
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

/** Resolves symbolic links, because a database opened under another name must have the same locks. */
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

/** Determines which other writers are alive: a writer is dead if its lock can be taken, or is missing for too long (rule 17). */
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
export const COMMITS_PER_CHECK = 64
const CHECKPOINT_BYTES = 16 * 1024 * 1024
/** From this size on, the log is truncated: with several writers, one of them is always reading the end of the log. */
const TRUNCATE_BYTES = 64 * 1024 * 1024
const WORKER_FILE = import.meta.url.endsWith('.ts') ? './checkpoint-worker.ts' : './checkpoint-worker.js'

/**
 * Moves the write-ahead log into the database on another thread, because a checkpoint on the committing thread would dominate
 * p99 latency. This thread moves the few changes that arrive in the meantime, so that the log starts over. Since the file keeps
 * its size, it is given that size early.
 */
export class Checkpointer {
  readonly #database: Database
  readonly #log: LogSize
  #worker: Worker | undefined
  #isWorking = false
  #isClosed = false
  #reserving: Promise<void> | undefined

  constructor(database: Database) {
    this.#database = database
    this.#log = new LogSize(database.path)
  }

  /** Reserves the log, the first time, and starts a checkpoint if the log is large. Called once every `COMMITS_PER_CHECK` commits. */
  check(): void {
    this.#reserving ??= reserveLog(`${this.#database.path}-wal`, () => !this.#isClosed)
    if (this.#isWorking) return
    const bytes = this.#log.bytes()
    if (bytes < CHECKPOINT_BYTES) return
    this.#isWorking = true
    this.#start().postMessage(bytes < TRUNCATE_BYTES ? 'PASSIVE' : 'TRUNCATE')
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#reserving
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

  /** A failed checkpoint is tried again later; until then all changes stay in the log. */
  #finish(worker: Worker): void {
    this.#isWorking = false
    if (this.#worker !== worker) return
    try {
      this.#database.exec('PRAGMA wal_checkpoint(PASSIVE)')
    } catch {
      // The disk is full: no data is lost, commits report the error, and the next checkpoint tries again (rule 11).
    }
  }

  /** If the worker fails, SQLite moves the log itself, which makes some commits slower. */
  #fallBack(worker: Worker): void {
    if (this.#worker === worker) this.#database.exec('PRAGMA wal_autocheckpoint = 1000')
  }
}

/** Small, because a commit in the meantime flushes what is not on the disk yet. */
const RESERVED_AT_ONCE_BYTES = 1024 * 1024

/**
 * Extends the log with zeros to the size that it has later anyway. A flush of a file that grows also writes the file system's own
 * records, and takes about twice as long as one of a file that is overwritten. Zeros are no valid frame, so SQLite ignores them.
 * Each write goes to the end of the file, wherever that is by then, so it never overwrites a frame.
 */
export async function reserveLog(path: string, isWanted: () => boolean): Promise<void> {
  try {
    await using log = await open(path, constants.O_WRONLY | constants.O_APPEND)
    const zeros = Buffer.alloc(RESERVED_AT_ONCE_BYTES)
    while (isWanted() && (await log.stat()).size < CHECKPOINT_BYTES) {
      await log.write(zeros)
      await log.datasync()
    }
  } catch {
    // There is no log, or the disk is full: commits work as before, or report it.
  }
}

/** Offset of the number of the last valid frame in the log's index, fixed by SQLite's file format. */
const LAST_FRAME_OFFSET = 16
const FRAME_BYTES = 4096 + 24

/**
 * How much of the write-ahead log is in use. The log's file does not shrink when the log starts over, so its index file is
 * read instead.
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
      // Without an index, the size of the log's file is the best estimate.
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

/** Converts any error to a `StoreError` with an explanation. */
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
