import { copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Database } from './engine.ts'
import { Checkpointer, reserveLog } from './files.ts'

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

/** Opens the files as they are now, without the index that a living process shares. */
function rowsAfterCrash(path: string): unknown {
  const crashed = join(mkdtempSync(join(folder, 'crashed-')), 'collet.db')
  for (const end of ['', '-wal']) copyFileSync(`${path}${end}`, `${crashed}${end}`)
  using opened = new DatabaseSync(crashed)
  expect(opened.prepare('PRAGMA integrity_check').get()).toEqual({ integrity_check: 'ok' })
  return opened.prepare('SELECT count(*) AS n FROM t').get()?.n
}

describe('a log that gets its size early', () => {
  const MIB = 1024 * 1024

  it('rule 11: keeps every commit made in the meantime, also for a process that opens the files after a crash', async () => {
    const path = join(folder, 'collet.db')
    const connection = new DatabaseSync(path)
    connection.exec('PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x)')
    const insert = connection.prepare('INSERT INTO t VALUES (zeroblob(3000))')
    let isReserving = true
    const reserving = reserveLog(`${path}-wal`, () => true).then(() => {
      isReserving = false
    })
    let commits = 0
    for (; isReserving; commits += 1) {
      insert.run()
      await new Promise(setImmediate)
    }
    await reserving
    insert.run()
    expect(commits).toBeGreaterThan(0)
    const { size } = statSync(`${path}-wal`)
    expect(size).toBeGreaterThanOrEqual(16 * MIB)
    expect(size).toBeLessThan(18 * MIB)
    expect(rowsAfterCrash(path)).toBe(commits + 1)
    connection.close()
  })

  it('may be truncated first: zeros in place of its header are an empty log', async () => {
    const path = join(folder, 'collet.db')
    const connection = new DatabaseSync(path)
    connection.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1)')
    connection.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    expect(statSync(`${path}-wal`).size).toBe(0)
    await reserveLog(`${path}-wal`, () => true)
    expect(rowsAfterCrash(path)).toBe(1)
    connection.exec('INSERT INTO t VALUES (2)')
    expect(rowsAfterCrash(path)).toBe(2)
    connection.close()
  })

  it('stays unchanged without a log, and when the store closes', async () => {
    const path = join(folder, 'collet.db')
    await reserveLog(`${path}-wal`, () => true)
    expect(statSync(`${path}-wal`, { throwIfNoEntry: false })).toBeUndefined()
    const connection = new DatabaseSync(path)
    connection.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (x)')
    const { size } = statSync(`${path}-wal`)
    await reserveLog(`${path}-wal`, () => false)
    expect(statSync(`${path}-wal`).size).toBe(size)
    connection.close()
  })
})
