import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Database } from './engine.ts'
import { Checkpointer } from './files.ts'

/** A database on a full disk: moving the log into it fails. */
class FullDatabase extends Database {
  readonly tried = Promise.withResolvers<string>()

  override exec(sql: string): void {
    this.tried.resolve(sql)
    throw new Error('disk I/O error')
  }
}

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-checkpoint-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

describe('Checkpointer', () => {
  it('rule 11: a failed checkpoint does not fail a commit; later commits try again', async () => {
    const path = join(folder, 'collet.db')
    const connection = new DatabaseSync(path)
    connection.exec('PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x)')
    connection.exec('INSERT INTO t VALUES (zeroblob(20000000))')
    const database = new FullDatabase(path, connection, {})
    const checkpointer = new Checkpointer(database)
    checkpointer.check()
    expect(await database.tried.promise).toContain('wal_checkpoint')
    await new Promise(setImmediate)
    await checkpointer.close()
    connection.close()
  })
})
