import { randomBytes } from 'node:crypto'
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Database } from '#kernel/store/sqlite/engine'
import type { Store } from '#store/collet-store'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { sampleCall } from '../../../test/contracts/samples.ts'

let folder: string
let path: string
let store: Store

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-commit-'))
  path = join(folder, 'collet.db')
})

afterEach(async () => {
  vi.restoreAllMocks()
  await store.close()
  rmSync(folder, { recursive: true })
})

const ioError = (): Error =>
  Object.assign(new Error('disk I/O error'), {
    code: 'ERR_SQLITE_ERROR',
    errcode: 10,
    errstr: 'disk I/O error',
  })

/** The next commit reports an error: before it happens, or after it has happened. */
function failNextCommit(when: 'before' | 'after'): void {
  const { commit } = Database.prototype
  vi.spyOn(Database.prototype, 'commit').mockImplementationOnce(function (this: Database) {
    if (when === 'after') commit.call(this)
    throw ioError()
  })
}

/** The next read of the chain's head fails too, so that the result of the commit stays unknown. */
function failNextLookAtHead(): void {
  const { answer } = Database.prototype
  let isDue = true
  vi.spyOn(Database.prototype, 'answer').mockImplementation(function (this: Database, ask) {
    if (ask.query === 'headOf' && isDue) {
      isDue = false
      throw ioError()
    }
    answer.call(this, ask)
  })
}

/** A chain is forked if two groups of one writer have the same position. */
function forks(): number {
  const database = new DatabaseSync(path, { readOnly: true })
  try {
    const row = database
      .prepare(
        'SELECT count(*) AS forks FROM (SELECT 1 FROM commit_groups GROUP BY writer, n HAVING count(*) > 1)',
      )
      .get()
    return Number(row?.forks)
  } finally {
    database.close()
  }
}

describe('a commit that reports an error', () => {
  beforeEach(async () => {
    store = openSqliteStore({ path, masterKey: randomBytes(32) })
    await store.claim(sampleCall({ record: 'first' }))
  })

  it('rule 15: happened if the chain contains it, and the chain continues from it', async () => {
    failNextCommit('after')
    expect(await store.claim(sampleCall())).toEqual({ kind: 'claimed', attempt: 1 })
    expect(await store.claim(sampleCall({ record: 'next' }))).toEqual({ kind: 'claimed', attempt: 1 })
    expect([forks(), (await store.verify()).ok]).toEqual([0, true])
  })

  it('rule 11: failed if the chain does not contain it, and leaves nothing behind', async () => {
    failNextCommit('before')
    await expect(store.claim(sampleCall())).rejects.toThrow('cannot write')
    expect(store.find(sampleCall())).toBeUndefined()
    expect(await store.claim(sampleCall())).toEqual({ kind: 'claimed', attempt: 1 })
    expect([forks(), (await store.verify()).ok]).toEqual([0, true])
  })

  it.each(['before', 'after'] as const)(
    'rule 15: when the outcome is unknown (%s), the head is read again before the next group',
    async (when) => {
      failNextCommit(when)
      failNextLookAtHead()
      await expect(store.claim(sampleCall())).rejects.toThrow('cannot write')
      expect((await store.claim(sampleCall())).kind).toBe(when === 'after' ? 'found' : 'claimed')
      await store.claim(sampleCall({ record: 'next' }))
      expect([forks(), (await store.verify()).ok]).toEqual([0, true])
    },
  )

  it('rule 14: no two writers seal a group with the same nonce', async () => {
    for (let record = 0; record < 20; record += 1)
      await store.claim(sampleCall({ record: `record-${record}` }))
    const database = new DatabaseSync(path, { readOnly: true })
    const rows = database.prepare('SELECT callers, payload FROM commit_groups').all()
    database.close()
    const sealed = rows
      .flatMap((row) => [row.callers, row.payload])
      .filter((blob) => blob instanceof Uint8Array)
    const nonces = sealed.map((blob) => Buffer.from(blob).subarray(0, 12).toString('hex'))
    expect(nonces.length).toBeGreaterThan(20)
    expect(new Set(nonces).size).toBe(nonces.length)
  })
})

describe('the connection for calls', () => {
  it('syncs every commit to disk, and has its own write-ahead log', async () => {
    const connections = new Set<DatabaseSync>()
    const { prepare } = DatabaseSync.prototype
    vi.spyOn(DatabaseSync.prototype, 'prepare').mockImplementation(function (this: DatabaseSync, sql) {
      // Other test files share this process, and their stores may still be open.
      if (this.location() === realpathSync(path)) connections.add(this)
      return prepare.call(this, sql)
    })
    store = openSqliteStore({ path, masterKey: randomBytes(32) })
    await store.claim(sampleCall())
    vi.restoreAllMocks()
    expect(connections.size).toBe(1)
    for (const connection of connections) {
      const pragma = (name: string): unknown => connection.prepare(`PRAGMA ${name}`).get()?.[name]
      // FULL makes commits durable before they are acknowledged; killing the process would not reveal another setting.
      expect([pragma('synchronous'), pragma('journal_mode')]).toEqual([2, 'wal'])
    }
  })
})
