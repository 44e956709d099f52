import { afterEach, describe, expect, it } from 'vitest'
import { StoreError } from '#core/errors'
import { SILENT_LOGGER } from '#core/runtime'
import { MemoryStore } from '#store/memory/memory'
import { FakeClock } from '#testing/test-gateway'
import { type MadeKey, makeKey } from './api-keys.ts'
import { StoredKeys } from './stored-keys.ts'

/** A real store that counts what is read of it, and fails when told. */
class WatchedStore extends MemoryStore {
  readonly reads = { epoch: 0, findKey: 0 }
  isDown = false
  readonly watched = new Proxy(this.keys, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...parameters: unknown[]): unknown => {
        if (name === 'epoch' || name === 'findKey') this.reads[name] += 1
        if (this.isDown) throw new StoreError('unreadable', 'the disk is gone')
        return Reflect.apply(value, target, parameters)
      }
    },
  })
}

const opened: StoredKeys[] = []
afterEach(async () => {
  for (const keys of opened.splice(0)) await keys.close()
})

function open() {
  const store = new WatchedStore()
  const clock = new FakeClock()
  const keys = new StoredKeys({
    keys: store.watched,
    digest: (text) => store.digest(text),
    roles: new Map([['viewer', ['fs:read', 'mail:*']]]),
    clock,
    log: SILENT_LOGGER,
  })
  opened.push(keys)
  const make = (
    changes: { name?: string; expiresAtMs?: number; tools?: string[]; roles?: string[] } = {},
  ) => {
    const made = makeKey((text) => store.digest(text))
    const { name = 'alice', expiresAtMs, tools, roles = [] } = changes
    const grant = { scopes: ['own:scope'], roles, tools }
    const secret = { keyId: made.keyId, digest: made.digest, label: undefined, expiresAtMs }
    store.keys.createKey({ tenant: 'acme', name, ...grant, ...secret, by: 'test', atMs: clock.nowMs() })
    return made
  }
  const revoke = ({ keyId }: MadeKey) =>
    store.keys.revokeKey({ tenant: 'acme', keyId, by: 'test', atMs: clock.nowMs() })
  return { store, clock, keys, make, revoke }
}

describe('StoredKeys', () => {
  it('OTC-100, OWP-60, OWP-61: finds a key with the scopes of its roles, and unknown roles add nothing', () => {
    const { keys, make } = open()
    const { key } = make({ roles: ['viewer', 'nobody-seeded-this'], tools: ['openwop:Mail.Send'] })
    expect(keys.find(key.reveal())).toEqual({
      id: 'key:alice',
      tenant: 'acme',
      scopes: ['own:scope', 'fs:read', 'mail:*'],
      tools: ['openwop:Mail.Send'],
    })
    expect(keys.find(key.reveal())).toBe(keys.find(key.reveal()))
  })

  it('OTC-102, OWP-12: a wrong secret, an unknown key and a revoked one are not found', () => {
    const { keys, clock, make, revoke } = open()
    const made = make()
    const text = made.key.reveal()
    expect(keys.find(`${text.slice(0, -1)}${text.endsWith('A') ? 'B' : 'A'}`)).toBeUndefined()
    expect(keys.find('clt_nothing')).toBeUndefined()
    revoke(made)
    clock.advance(1_000)
    expect(keys.find(text)).toBeUndefined()
  })

  it('a key stops at its end, remembered or not', () => {
    const { keys, clock, make } = open()
    const { key } = make({ expiresAtMs: clock.nowMs() + 10_000 })
    expect(keys.find(key.reveal())).toBeDefined()
    clock.advance(9_999)
    expect(keys.find(key.reveal())).toBeDefined()
    clock.advance(1)
    expect(keys.find(key.reveal())).toBeUndefined()
  })

  it('rule 26: a revocation by another process is seen within a second', () => {
    const { keys, clock, make, revoke } = open()
    const made = make()
    expect(keys.find(made.key.reveal())).toBeDefined()
    revoke(made)
    clock.advance(1_000)
    expect(keys.find(made.key.reveal())).toBeUndefined()
  })

  it('rule 26: what was verified counts a second after the last good read of the epoch, and no longer', () => {
    const { store, keys, clock, make } = open()
    const { key } = make()
    expect(keys.find(key.reveal())).toBeDefined()
    store.isDown = true
    clock.advance(999)
    expect(keys.find(key.reveal())).toBeDefined()
    clock.advance(1)
    expect(() => keys.find(key.reveal())).toThrow(expect.objectContaining({ code: 'not_ready' }))
    store.isDown = false
    expect(keys.find(key.reveal())).toBeDefined()
  })

  it('rule 26: an epoch that never could be read lets nobody in', () => {
    const { store, keys, make } = open()
    const { key } = make()
    store.isDown = true
    expect(() => keys.find(key.reveal())).toThrow(expect.objectContaining({ code: 'not_ready' }))
  })

  it('rule 14: a key that cannot be read is not a wrong one, and lets nobody in', () => {
    const { store, keys, clock, make } = open()
    const [first, second] = [make(), make({ name: 'bob' })]
    keys.find(first.key.reveal())
    clock.advance(100)
    store.isDown = true
    expect(() => keys.find(second.key.reveal())).toThrow(expect.objectContaining({ code: 'not_ready' }))
    store.isDown = false
    expect(keys.find(second.key.reveal())).toMatchObject({ id: 'key:bob' })
  })

  it('a million wrong keys read nothing of the store and leave nothing behind', () => {
    const { store, keys, make } = open()
    const { key, keyId } = make()
    keys.find(key.reveal())
    const before = { ...store.reads }
    for (let count = 0; count < 20_000; count += 1) {
      const digits = count.toString(16).padStart(12, '0')
      expect(keys.find(`clt_${digits}${digits}_${'A'.repeat(43)}`)).toBeUndefined()
      expect(keys.find(`clt_${keyId}_${String(count).padStart(43, 'A')}`)).toBeUndefined()
    }
    expect(store.reads).toEqual(before)
    expect(keys.find(key.reveal())).toBeDefined()
    expect(store.reads).toEqual(before)
  })

  it('writes the last use late and together, and keeps it when the store is down', async () => {
    const { store, keys, clock, make } = open()
    const { key, keyId } = make()
    const usedAtMs = clock.nowMs()
    keys.find(key.reveal())
    expect(store.keys.findKey(keyId)?.lastUsedAtMs).toBeUndefined()
    store.isDown = true
    await keys.close()
    store.isDown = false
    await keys.close()
    expect(store.keys.findKey(keyId)?.lastUsedAtMs).toBe(usedAtMs)
  })
})
