import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import type { Store } from './collet-store.ts'

const masterKey = Buffer.alloc(32, 9)
let folder: string
const opened: Store[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-key-store-'))
})

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
  rmSync(folder, { recursive: true })
})

function open(): Store {
  const store = openSqliteStore({ path: join(folder, 'collet.db'), masterKey })
  opened.push(store)
  return store
}

const KEY = {
  tenant: 'default',
  name: 'alice',
  keyId: 'key-1',
  digest: 'd',
  label: undefined,
  scopes: [],
  roles: [],
  tools: undefined,
  expiresAtMs: undefined,
  by: 'operator',
  atMs: 1_000,
}

describe('SqliteKeys', () => {
  it('rule 26: a change by one process is seen by another on the same file', async () => {
    const [first, second] = [open(), open()]
    expect(second.keys.epoch()).toBe(0)
    await first.keys.createKey(KEY)
    const epoch = await second.keys.epoch()
    expect(epoch).toBeGreaterThan(0)
    expect((await second.keys.findKey('key-1'))?.name).toBe('alice')
    await second.keys.revokeKey({ tenant: 'default', keyId: 'key-1', by: 'operator', atMs: 2_000 })
    expect(await first.keys.epoch()).toBeGreaterThan(epoch)
    expect((await first.verify()).ok).toBe(true)
  })

  it('rule 3: if many processes create the same principal at once, one succeeds', async () => {
    const stores = [open(), open(), open()]
    const results = await Promise.all(
      stores.map((store, index) => store.keys.createKey({ ...KEY, keyId: `key-${index}` })),
    )
    expect(results.toSorted()).toEqual(['created', 'exists', 'exists'])
  })

  it('keys survive a restart; a damaged allow-list is an error and never means every tool', async () => {
    await open().keys.createKey({ ...KEY, tools: ['openwop:Mail.Send'] })
    await opened.pop()?.close()
    expect((await open().keys.findKey('key-1'))?.tools).toEqual(['openwop:Mail.Send'])
    const database = new DatabaseSync(join(folder, 'collet.db'))
    database.exec(`UPDATE api_keys SET tools = '"all"'`)
    database.close()
    expect(() => open().keys.findKey('key-1')).toThrow(expect.objectContaining({ code: 'unreadable' }))
  })
})
