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

  release(): void {
    this.#connection.close()
    rmSync(this.#file, { force: true })
  }
}

/** Whether somebody holds the writer's lock. A writer without a lock file has ended. */
export function isWriterLocked(folder: string, writer: string): boolean {
  const file = lockFile(folder, writer)
  if (!existsSync(file)) return false
  try {
    lockedConnection(file).close()
    return false
  } catch (error) {
    if (isBusy(error)) return true
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
