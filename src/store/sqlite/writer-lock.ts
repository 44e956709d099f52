import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { isBusy } from './sqlite-errors.ts'

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
export type LockState = 'locked' | 'free' | 'missing'

export function lockStateOf(folder: string, writer: string): LockState {
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
