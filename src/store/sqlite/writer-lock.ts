import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { isBusy } from './database.ts'

/**
 * Rule 17: a living writer holds an exclusive lock on its own small file. The lock is SQLite's own, on an empty
 * database: the operating system frees it when the process ends, however it ends.
 */
export class WriterLock {
  readonly #file: string
  readonly #connection: DatabaseSync

  constructor(folder: string, writer: string) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    this.#file = lockFile(folder, writer)
    this.#connection = lockedConnection(this.#file)
  }

  /** False when somebody removed the file: the lock is then held on nothing others can see. */
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

/** For a writer that is dead and has nothing left to recover. */
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

/** A living writer puts a removed lock file back well within this time. */
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
