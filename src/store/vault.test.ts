import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { openStoreFolder } from '../../test/store/store-folder.ts'

const CANARY = 'canary-value-of-the-vault-5d41402a'
const ENTRY = {
  tenant: 'default',
  principal: 'key:alice',
  user: '',
  provider: 'KEY',
  kind: 'secret',
  ref: 'cred_1',
  value: new Secret(CANARY),
  scopes: [],
  expiresAtMs: undefined,
  by: 'cli:ann',
  atMs: 1_000,
} as const

describe('the vault in SQLite', () => {
  it('OWP-75, rule 14: the file contains no value in plain text, even after a rotation', async () => {
    const folder = openStoreFolder(Date.now)
    const store = folder.open()
    await store.vault.put(ENTRY)
    await store.consents.begin(
      {
        id: 's',
        tenant: 'default',
        challenge: 'c',
        stage: 'provider',
        browser: 'b',
        held: new Secret(CANARY),
        expiresAtMs: 1e15,
      },
      3,
    )
    expect(folder.bytes()).not.toContain(CANARY)
    expect(folder.bytes()).toContain('cred_1')
    await store.vault.rotate('cli:ann', 2_000)
    expect((await store.vault.find(ENTRY))?.value?.reveal()).toBe(CANARY)
    await store.close()
    expect(folder.bytes()).not.toContain(CANARY)
    const again = folder.open()
    expect((await again.vault.find(ENTRY))?.value?.reveal()).toBe(CANARY)
    await again.close()
  })

  it.each([
    ['a changed value', "UPDATE vault SET value = CAST(x'00' || substr(value, 2) AS BLOB)"],
    [
      'a value moved to another principal',
      "UPDATE vault SET principal = 'key:bob' WHERE ref = 'cred_2'; DELETE FROM vault WHERE ref = 'cred_1'; UPDATE vault SET principal = 'key:alice'",
    ],
    ['a key that is gone', 'DELETE FROM vault_keys'],
    ['a key of another tenant', "UPDATE vault_keys SET tenant = 'other'"],
    ['a changed key', "UPDATE vault_keys SET wrapped = CAST(x'ff' || substr(wrapped, 2) AS BLOB)"],
  ])('rule 14: %s is an error for the operator, not "not found"', async (_title, sql) => {
    const folder = openStoreFolder(Date.now)
    const store = folder.open()
    await store.vault.put(ENTRY)
    await store.vault.put({ ...ENTRY, ref: 'cred_2', principal: 'key:carol' })
    await store.close()
    folder.tamper(sql)
    const again = folder.open()
    expect(() => again.vault.find(ENTRY)).toThrow(expect.objectContaining({ code: 'unreadable' }))
    // Unreadable entries can still be listed and removed.
    expect((await again.vault.list({ limit: 10 })).length).toBeGreaterThan(0)
    await again.close()
  })

  it('a rotation by another process is seen at once', async () => {
    const folder = openStoreFolder(Date.now)
    const [server, cli] = [folder.open(), folder.open()]
    await server.vault.put(ENTRY)
    await cli.vault.rotate('cli:ann', 2_000)
    expect((await server.vault.find(ENTRY))?.value?.reveal()).toBe(CANARY)
    await server.vault.put({ ...ENTRY, ref: 'cred_2', provider: 'OTHER' })
    expect((await cli.vault.find({ ...ENTRY, provider: 'OTHER' }))?.value?.reveal()).toBe(CANARY)
    await server.close()
    await cli.close()
  })

  it('each tenant has its own data key, and a rotation leaves one key for each', async () => {
    const folder = openStoreFolder(Date.now)
    const store = folder.open()
    await store.vault.put(ENTRY)
    await store.vault.put({ ...ENTRY, tenant: 'other', ref: 'cred_2' })
    await store.vault.rotate('cli:ann', 2_000)
    const database = new DatabaseSync(folder.path)
    expect(
      database
        .prepare('SELECT tenant, count(*) AS n FROM vault_keys GROUP BY tenant')
        .all()
        .map((row) => ({ ...row })),
    ).toEqual([
      { tenant: 'default', n: 1 },
      { tenant: 'other', n: 1 },
    ])
    database.close()
    await store.close()
  })
})
