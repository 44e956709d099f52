import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LogSize } from './files.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-log-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

describe('LogSize', () => {
  it('reports the bytes in use, also after the log started over in a file that stays large', () => {
    const path = join(folder, 'collet.db')
    const connection = new DatabaseSync(path)
    connection.exec('PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x)')
    const log = new LogSize(path)
    connection.exec('INSERT INTO t VALUES (zeroblob(1000000))')
    const full = statSync(`${path}-wal`).size
    expect(log.bytes()).toBeGreaterThan(full - 10_000)
    expect(log.bytes()).toBeLessThanOrEqual(full)
    connection.exec('PRAGMA wal_checkpoint(PASSIVE)')
    connection.exec('INSERT INTO t VALUES (1)')
    expect(log.bytes()).toBeLessThan(20_000)
    expect(statSync(`${path}-wal`).size).toBe(full)
    log.close()
    connection.close()
  })

  it('uses the size of the file if there is no index', () => {
    expect(new LogSize(join(folder, 'nothing.db')).bytes()).toBe(0)
  })
})
