import { afterEach, describe, expect, it } from 'vitest'
import { StoreError } from '#kernel/base/errors'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { FakeClock } from '#testing/test-gateway'
import { type MadeKey, makeKey, StoredKeys } from './api-keys.ts'

/** A real store that counts reads of its keys, and fails on demand. */
function openWatchedStore() {
  const memory = openMemoryStore()
  const store = {
    keys: memory.keys,
    digest: (text: string) => memory.digest(text),
    reads: { epoch: 0, findKey: 0 },
    isDown: false,
  }
  const watched = new Proxy(memory.keys, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...parameters: unknown[]): unknown => {
        if (name === 'epoch' || name === 'findKey') store.reads[name] += 1
        if (store.isDown) throw new StoreError('unreadable', 'the disk is gone')
        return Reflect.apply(value, target, parameters)
      }
    },
  })
  return { store, watched }
}

const opened: StoredKeys[] = []
afterEach(async () => {
  for (const keys of opened.splice(0)) await keys.close()
})

function open() {
  const { store, watched } = openWatchedStore()
  const clock = new FakeClock()
  const keys = new StoredKeys({
    keys: watched,
    digest: (text) => store.digest(text),
    roles: new Map([['viewer', { scopes: ['fs:read', 'mail:*'] }]]),
    clock,
    log: SILENT_LOGGER,
  })
  opened.push(keys)
  const make = async (
    changes: { name?: string; expiresAtMs?: number; tools?: string[]; roles?: string[] } = {},
  ) => {
    const made = makeKey((text) => store.digest(text))
    const { name = 'alice', expiresAtMs, tools, roles = [] } = changes
    const grant = { scopes: ['own:scope'], roles, tools }
    const secret = { keyId: made.keyId, digest: made.digest, label: undefined, expiresAtMs }
    await store.keys.createKey({ tenant: 'acme', name, ...grant, ...secret, by: 'test', atMs: clock.nowMs() })
    return made
  }
  const revoke = ({ keyId }: MadeKey) =>
    store.keys.revokeKey({ tenant: 'acme', keyId, by: 'test', atMs: clock.nowMs() })
  return { store, clock, keys, make, revoke }
}

describe('StoredKeys', () => {
  it('OTC-100, OWP-60, OWP-61: finds a key with the scopes of its roles; unknown roles add no scopes', async () => {
    const { keys, make } = open()
    const { key } = await make({ roles: ['viewer', 'unknown-role'], tools: ['openwop:Mail.Send'] })
    expect(await keys.find(key.reveal())).toEqual({
      id: 'key:alice',
      tenant: 'acme',
      scopes: ['own:scope', 'fs:read', 'mail:*'],
      tools: ['openwop:Mail.Send'],
    })
    expect(await keys.find(key.reveal())).toBe(await keys.find(key.reveal()))
  })

  it('OTC-102, OWP-12: a wrong secret, an unknown key and a revoked one are not found', async () => {
    const { keys, clock, make, revoke } = open()
    const made = await make()
    const text = made.key.reveal()
    expect(await keys.find(`${text.slice(0, -1)}${text.endsWith('A') ? 'B' : 'A'}`)).toBeUndefined()
    expect(await keys.find('clt_nothing')).toBeUndefined()
    await revoke(made)
    clock.advance(1_000)
    expect(await keys.find(text)).toBeUndefined()
  })

  it('a key stops working when it expires, cached or not', async () => {
    const { keys, clock, make } = open()
    const { key } = await make({ expiresAtMs: clock.nowMs() + 10_000 })
    expect(await keys.find(key.reveal())).toBeDefined()
    clock.advance(9_999)
    expect(await keys.find(key.reveal())).toBeDefined()
    clock.advance(1)
    expect(await keys.find(key.reveal())).toBeUndefined()
  })

  it('rule 26: a revocation by another process is seen within a second', async () => {
    const { keys, clock, make, revoke } = open()
    const made = await make()
    expect(await keys.find(made.key.reveal())).toBeDefined()
    await revoke(made)
    clock.advance(1_000)
    expect(await keys.find(made.key.reveal())).toBeUndefined()
  })

  it('rule 26: a verified key is accepted for one second after the last successful read of the epoch', async () => {
    const { store, keys, clock, make } = open()
    const { key } = await make()
    expect(await keys.find(key.reveal())).toBeDefined()
    store.isDown = true
    clock.advance(999)
    expect(await keys.find(key.reveal())).toBeDefined()
    clock.advance(1)
    await expect(async () => keys.find(key.reveal())).rejects.toThrow(
      expect.objectContaining({ code: 'not_ready' }),
    )
    store.isDown = false
    expect(await keys.find(key.reveal())).toBeDefined()
  })

  it('rule 26: no key is accepted if the epoch was never read', async () => {
    const { store, keys, make } = open()
    const { key } = await make()
    store.isDown = true
    await expect(async () => keys.find(key.reveal())).rejects.toThrow(
      expect.objectContaining({ code: 'not_ready' }),
    )
  })

  it('rule 14: a key that cannot be read is an error, not a wrong key, and is not accepted', async () => {
    const { store, keys, clock, make } = open()
    const [first, second] = [await make(), await make({ name: 'bob' })]
    await keys.find(first.key.reveal())
    clock.advance(100)
    store.isDown = true
    await expect(async () => keys.find(second.key.reveal())).rejects.toThrow(
      expect.objectContaining({ code: 'not_ready' }),
    )
    store.isDown = false
    expect(await keys.find(second.key.reveal())).toMatchObject({ id: 'key:bob' })
  })

  it('wrong keys cause no reads of the store and use no memory', async () => {
    const { store, keys, make } = open()
    const { key, keyId } = await make()
    await keys.find(key.reveal())
    const before = { ...store.reads }
    for (let count = 0; count < 20_000; count += 1) {
      const digits = count.toString(16).padStart(12, '0')
      expect(await keys.find(`clt_${digits}${digits}_${'A'.repeat(43)}`)).toBeUndefined()
      expect(await keys.find(`clt_${keyId}_${String(count).padStart(43, 'A')}`)).toBeUndefined()
    }
    expect(store.reads).toEqual(before)
    expect(await keys.find(key.reveal())).toBeDefined()
    expect(store.reads).toEqual(before)
  })

  it('writes the times of last use later in one batch, and keeps them while the store is down', async () => {
    const { store, keys, clock, make } = open()
    const { key, keyId } = await make()
    const usedAtMs = clock.nowMs()
    await keys.find(key.reveal())
    expect((await store.keys.findKey(keyId))?.lastUsedAtMs).toBeUndefined()
    store.isDown = true
    await keys.close()
    store.isDown = false
    await keys.close()
    expect((await store.keys.findKey(keyId))?.lastUsedAtMs).toBe(usedAtMs)
  })
})
