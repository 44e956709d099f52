import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import type { Store } from '#store/collet-store'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { sampleCall } from '../contracts/samples.ts'
import { FakeIo } from './fake-io.ts'

const masterKey = Buffer.alloc(32, 7)

describe('collet backup', () => {
  let folder = ''
  let store: Store
  const copy = () => join(folder, 'copy.db')
  const run = (io: FakeIo) => io.run('backup', 'copy.db', '--store', 'sqlite:collet.db')
  const here = (changes = {}) => new FakeIo(REAL_SERVICES, { workingFolder: folder, ...changes })

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-backup-'))
    store = openSqliteStore({ path: join(folder, 'collet.db'), masterKey })
  })
  afterEach(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })

  it('copies the write-ahead log too, while the store is in use, and writes nothing to the store', async () => {
    const call = sampleCall()
    await store.claim(call)
    const before = store.readJournal([], 10)
    const io = here()
    expect(await run(io)).toBe(0)
    expect(io.stdout).toBe(`${copy()}\n`)
    expect(io.stderr).toContain(`Back up the key (${join(folder, 'key')}) as well`)
    expect(statSync(copy()).mode & 0o777).toBe(0o600)
    const copied = openSqliteStore({ path: copy(), masterKey })
    expect(copied.find(call)).toEqual(store.find(call))
    expect(copied.verify()).toMatchObject({ ok: true, groups: 2 })
    await copied.close()
    expect(store.readJournal([], 10)).toEqual(before)
  })

  it('overwrites nothing', async () => {
    writeFileSync(copy(), '')
    const io = here()
    expect(await run(io)).toBe(2)
    expect(io.stderr).toContain('already exists')
    await expect(
      REAL_SERVICES.backUp(
        { url: `sqlite:${join(folder, 'collet.db')}`, dataFolder: folder, masterKey },
        copy(),
      ),
    ).rejects.toThrow(/EEXIST/)
    expect(readFileSync(copy(), 'utf8')).toBe('')
  })

  it('leaves no file behind if the store is not a database', async () => {
    writeFileSync(
      join(folder, 'other.db'),
      'this is not a database, but it is long enough to be one'.repeat(9),
    )
    const io = here()
    expect(await io.run('backup', 'copy.db', '--store', 'sqlite:other.db')).toBe(3)
    expect(io.stderr).toContain('not a SQLite database')
    expect(statSync(copy(), { throwIfNoEntry: false })).toBeUndefined()
  })

  it('names COLLET_KEY if the key comes from that variable', async () => {
    const environment = readEnvironment({ COLLET_KEY: masterKey.toString('base64') })
    const io = here({ environment })
    await run(io)
    expect(io.stderr).toContain('Back up the key (COLLET_KEY) as well')
  })
})
