import { closeSync, fsyncSync, openSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { storeErrorOf } from './sqlite-errors.ts'

/**
 * One consistent copy of a database that may be in use, with what is still only in its write-ahead log. The target is
 * made here, exclusively and private: SQLite writes into an empty file and nothing is ever overwritten.
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
