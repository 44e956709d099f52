import assert from 'node:assert/strict'
import type { Denial, KeyRotation, NewKey } from '#core/ports/key-store'
import type { Store } from '#core/ports/store'
import type { ContractCase } from './contract.ts'
import { POLICY, purgeAll } from './contract-steps.ts'

function newKey(changes: Partial<NewKey> = {}): NewKey {
  return {
    tenant: 'default',
    name: 'alice',
    keyId: 'key-1',
    digest: 'DIGEST-1',
    label: 'laptop',
    scopes: ['mail:*'],
    roles: ['viewer'],
    tools: ['openwop:Mail.Send'],
    expiresAtMs: undefined,
    by: 'operator',
    atMs: 1_000,
    ...changes,
  }
}

function rotation(changes: Partial<KeyRotation> = {}): KeyRotation {
  const {
    scopes: _scopes,
    roles: _roles,
    tools: _tools,
    ...key
  } = newKey({ keyId: 'key-2', digest: 'DIGEST-2' })
  return { ...key, label: undefined, oldEndAtMs: undefined, atMs: 2_000, ...changes }
}

const DENIAL: Denial = {
  atMs: 1_000,
  tenant: 'default',
  principal: 'prn_1',
  action: 'tool.call',
  resource: 'openwop:Mail.Send',
  reason: 'scope',
  count: 1,
}

async function keyEvents(store: Store): Promise<string[]> {
  const groups = await store.readJournal([], 1_000)
  return groups
    .flatMap(({ events }) => events)
    .flatMap((event) =>
      'key' in event
        ? [`${event.type} ${event.principal} ${event.key} by ${event.by}`]
        : event.type === 'principal.ended'
          ? [`${event.type} ${event.principal} by ${event.by}`]
          : [],
    )
}

/** What every store promises about API keys and the audit stream. */
export const KEY_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  {
    name: 'a key is found by its id with all it was made with, and lists never show its digest',
    async run(open) {
      const { keys } = await open()
      assert.equal(await keys.createKey(newKey({ expiresAtMs: 9_000 })), 'created')
      const { by: _by, atMs: _atMs, ...facts } = newKey({ expiresAtMs: 9_000 })
      const rest = { createdAtMs: 1_000, revokedAtMs: undefined, lastUsedAtMs: undefined }
      assert.deepEqual(await keys.findKey('key-1'), { ...facts, ...rest })
      const { digest: _digest, ...shown } = { ...facts, ...rest }
      assert.deepEqual(await keys.listKeys({ limit: 10 }), [shown])
      assert.deepEqual(await keys.keysOf({ tenant: 'default', name: 'alice' }), [shown])
      assert.deepEqual(await keys.keysOf({ tenant: 'other', name: 'alice' }), [])
      assert.deepEqual(await keys.listKeys({ tenant: 'other', limit: 10 }), [])
      assert.equal(await keys.findKey('nobody'), undefined)
    },
  },
  {
    name: 'an absent allow-list and an empty one stay different',
    async run(open) {
      const { keys } = await open()
      await keys.createKey(newKey({ tools: undefined }))
      await keys.createKey(newKey({ name: 'bob', keyId: 'key-2', tools: [] }))
      assert.equal((await keys.findKey('key-1'))?.tools, undefined)
      assert.deepEqual((await keys.findKey('key-2'))?.tools, [])
    },
  },
  {
    name: 'rule 3: a principal is made once, rotated to the same rights, and its name is never given again',
    async run(open) {
      const { keys } = await open()
      const owner = { tenant: 'default', name: 'alice' }
      assert.equal(await keys.rotateKey(rotation()), 'not_found')
      await keys.createKey(newKey())
      assert.equal(await keys.createKey(newKey({ keyId: 'key-9' })), 'exists')
      assert.equal(await keys.createKey(newKey({ keyId: 'key-8', tenant: 'other' })), 'created')
      assert.equal(await keys.rotateKey(rotation()), 'rotated')
      const made = await keys.findKey('key-2')
      assert.deepEqual(
        [made?.scopes, made?.roles, made?.tools],
        [['mail:*'], ['viewer'], ['openwop:Mail.Send']],
      )
      assert.equal((await keys.findKey('key-1'))?.expiresAtMs, undefined)
      assert.equal(await keys.isEnded(owner), false)
      assert.equal(await keys.endPrincipal({ ...owner, by: 'operator', atMs: 3_000 }), true)
      assert.equal(await keys.endPrincipal({ ...owner, by: 'operator', atMs: 3_000 }), false)
      assert.equal(await keys.isEnded(owner), true)
      assert.equal(await keys.isEnded({ ...owner, tenant: 'other' }), false)
      assert.equal(await keys.createKey(newKey({ keyId: 'key-9' })), 'ended')
      assert.equal(await keys.rotateKey(rotation({ keyId: 'key-9' })), 'ended')
      assert.deepEqual(
        (await keys.keysOf(owner)).map(({ keyId, revokedAtMs }) => [keyId, revokedAtMs]),
        [
          ['key-2', 3_000],
          ['key-1', 3_000],
        ],
      )
    },
  },
  {
    name: 'rotating ends older keys when told, never later than they would have',
    async run(open) {
      const { keys } = await open()
      await keys.createKey(newKey({ expiresAtMs: 4_000 }))
      await keys.rotateKey(rotation({ oldEndAtMs: 5_000, expiresAtMs: 9_000 }))
      await keys.rotateKey(rotation({ keyId: 'key-3', oldEndAtMs: 5_000 }))
      const ends = (await keys.keysOf({ tenant: 'default', name: 'alice' })).map(
        ({ expiresAtMs }) => expiresAtMs,
      )
      assert.deepEqual(ends, [undefined, 5_000, 4_000])
    },
  },
  {
    name: 'a key is revoked once, and only with its own tenant',
    async run(open) {
      const { keys } = await open()
      await keys.createKey(newKey())
      const revocation = { keyId: 'key-1', by: 'operator', atMs: 2_000 }
      assert.equal(await keys.revokeKey({ ...revocation, tenant: 'other' }), false)
      assert.equal(await keys.revokeKey({ ...revocation, tenant: 'default' }), true)
      assert.equal(await keys.revokeKey({ ...revocation, tenant: 'default' }), false)
      assert.equal((await keys.findKey('key-1'))?.revokedAtMs, 2_000)
      assert.equal(await keys.rotateKey(rotation()), 'rotated')
      assert.deepEqual((await keys.findKey('key-2'))?.scopes, ['mail:*'])
    },
  },
  {
    name: 'rule 26: every change raises the epoch, and a refused one does not',
    async run(open) {
      const { keys } = await open()
      const seen = [await keys.epoch()]
      await keys.createKey(newKey())
      seen.push(await keys.epoch())
      await keys.rotateKey(rotation())
      seen.push(await keys.epoch())
      await keys.revokeKey({ tenant: 'default', keyId: 'key-2', by: 'operator', atMs: 3_000 })
      seen.push(await keys.epoch())
      await keys.endPrincipal({ tenant: 'default', name: 'alice', by: 'operator', atMs: 4_000 })
      seen.push(await keys.epoch())
      assert.equal(seen[0], 0)
      assert.deepEqual(
        seen.map((epoch, place) => place === 0 || epoch > (seen[place - 1] ?? 0)),
        seen.map(() => true),
      )
      await keys.createKey(newKey())
      await keys.noteUses([{ keyId: 'key-1', atMs: 5_000 }])
      assert.equal(await keys.epoch(), seen.at(-1))
    },
  },
  {
    name: 'every change of a key is journaled, with who did it and without any digest',
    async run(open) {
      const store = await open()
      const { keys } = store
      await keys.createKey(newKey())
      await keys.rotateKey(rotation())
      await keys.revokeKey({ tenant: 'default', keyId: 'key-1', by: 'key:root', atMs: 3_000 })
      await keys.endPrincipal({ tenant: 'default', name: 'alice', by: 'operator', atMs: 4_000 })
      assert.deepEqual(await keyEvents(store), [
        'key.created key:alice key-1 by operator',
        'key.rotated key:alice key-2 by operator',
        'key.revoked key:alice key-1 by key:root',
        'key.revoked key:alice key-2 by operator',
        'principal.ended key:alice by operator',
      ])
      assert.doesNotMatch(JSON.stringify(await store.readJournal([], 100)), /DIGEST/)
    },
  },
  {
    name: 'the last use of a key goes forward only, and is not journaled',
    async run(open) {
      const store = await open()
      await store.keys.createKey(newKey())
      const before = (await store.readJournal([], 100)).length
      await store.keys.noteUses([
        { keyId: 'key-1', atMs: 7_000 },
        { keyId: 'nobody', atMs: 7_000 },
      ])
      await store.keys.noteUses([{ keyId: 'key-1', atMs: 6_000 }])
      assert.equal((await store.keys.findKey('key-1'))?.lastUsedAtMs, 7_000)
      assert.equal((await store.readJournal([], 100)).length, before)
    },
  },
  {
    name: 'rule 30a: denials are read in order, by tenant, journaled, and forgotten with the journal',
    async run(open) {
      const store = await open()
      await store.audit.recordDenials([DENIAL, { ...DENIAL, tenant: 'other', count: 7 }])
      await store.audit.recordDenials([{ ...DENIAL, resource: 'openwop:Mail.Read', reason: 'allowlist' }])
      const all = await store.audit.readDenials({ after: 0, limit: 10 })
      assert.deepEqual(
        all.map(({ tenant, resource, reason, count }) => [tenant, resource, reason, count]),
        [
          ['default', 'openwop:Mail.Send', 'scope', 1],
          ['other', 'openwop:Mail.Send', 'scope', 7],
          ['default', 'openwop:Mail.Read', 'allowlist', 1],
        ],
      )
      const mine = await store.audit.readDenials({ tenant: 'default', after: all[0]?.no ?? 0, limit: 10 })
      assert.deepEqual(
        mine.map(({ resource }) => resource),
        ['openwop:Mail.Read'],
      )
      assert.equal((await store.audit.readDenials({ after: 0, limit: 1 })).length, 1)
      const types = (await store.readJournal([], 100)).flatMap(({ events }) => events.map(({ type }) => type))
      assert.equal(types.filter((type) => type === 'authorization.decided').length, 3)
      await purgeAll(store, 1_001 + POLICY.journalMs)
      assert.deepEqual(await store.audit.readDenials({ after: 0, limit: 10 }), [])
    },
  },
]
