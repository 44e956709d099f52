import assert from 'node:assert/strict'
import type { Store } from '#core/ports/store'
import { CONSENT_STAGES, type Consent, type NewCredential, type VaultEntry } from '#core/ports/vault-store'
import { Secret } from '#core/secret'
import type { ContractCase } from './contract.ts'
import { POLICY } from './contract-steps.ts'

const TOKEN: NewCredential = {
  tenant: 'default',
  principal: 'key:alice',
  user: '',
  provider: 'google',
  kind: 'token',
  ref: 'cred_1',
  value: new Secret('first-value'),
  scopes: ['mail.read'],
  expiresAtMs: 5_000,
  by: 'cli:ann',
  atMs: 1_000,
}

const CONSENT: Consent = {
  id: 'state-1',
  tenant: 'default',
  challenge: 'challenge-1',
  stage: 'provider',
  browser: 'browser-1',
  held: new Secret('verifier'),
  expiresAtMs: 61_000,
}

async function mustFind(store: Store, at = TOKEN): Promise<VaultEntry> {
  const found = await store.vault.find(at)
  assert.ok(found, 'the credential is gone')
  return found
}

async function vaultEvents(store: Store): Promise<readonly unknown[]> {
  const groups = await store.readJournal([], 1_000)
  return groups.flatMap(({ events }) => events).filter(({ type }) => type.startsWith('vault.'))
}

/** What every store promises about credentials and consents (rules 24 to 26). */
export const VAULT_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  {
    name: 'rule 24: a credential is found by its whole address and by no other',
    async run(open) {
      const store = await open()
      await store.vault.put(TOKEN)
      assert.equal((await mustFind(store)).value?.reveal(), 'first-value')
      for (const other of [
        { tenant: 'other' },
        { principal: 'key:bob' },
        { user: 'digest of u' },
        { provider: 'github' },
        { kind: 'secret' },
      ] as const) {
        assert.equal(await store.vault.find({ ...TOKEN, ...other }), undefined, JSON.stringify(other))
      }
    },
  },
  {
    name: 'a credential that is set anew has another reference and a later version',
    async run(open) {
      const store = await open()
      await store.vault.put(TOKEN)
      const before = await mustFind(store)
      await store.vault.put({
        ...TOKEN,
        ref: 'cred_2',
        value: new Secret('second'),
        scopes: [],
        expiresAtMs: undefined,
      })
      const after = await mustFind(store)
      assert.equal(after.value?.reveal(), 'second')
      assert.equal(after.ref, 'cred_2')
      assert.equal(after.version, before.version + 1)
      assert.equal(after.expiresAtMs, undefined)
      assert.equal(await store.vault.findByRef('cred_1'), undefined)
      assert.equal((await store.vault.findByRef('cred_2'))?.provider, 'google')
    },
  },
  {
    name: 'rule 26: of many that would refresh one version exactly one may, until its lease ends',
    async run(open) {
      const store = await open()
      await store.vault.put(TOKEN)
      const seen = await mustFind(store)
      const tries = await Promise.all(Array.from({ length: 8 }, () => store.vault.lease(seen, 1_000, 2_000)))
      assert.equal(tries.filter(Boolean).length, 1)
      assert.equal(await store.vault.lease(seen, 1_999, 3_000), false)
      assert.equal(await store.vault.lease(seen, 2_000, 3_000), true)
      await store.vault.unlease(seen)
      assert.equal(await store.vault.lease(seen, 2_100, 3_000), true)
    },
  },
  {
    name: 'rule 26: a refresh counts only for the version it has seen',
    async run(open) {
      const store = await open()
      await store.vault.put(TOKEN)
      const seen = await mustFind(store)
      const renewed = { value: new Secret('renewed'), scopes: ['mail.read'], expiresAtMs: 9_000, atMs: 2_000 }
      assert.equal(await store.vault.renew(seen, renewed), true)
      assert.equal(await store.vault.renew(seen, { ...renewed, value: new Secret('late') }), false)
      assert.equal(await store.vault.spend(seen, 2_000), false)
      const now = await mustFind(store)
      assert.equal(now.value?.reveal(), 'renewed')
      assert.deepEqual(
        [now.version, now.expiresAtMs, now.createdAtMs, now.updatedAtMs],
        [2, 9_000, 1_000, 2_000],
      )
      assert.equal(await store.vault.lease(seen, 2_000, 3_000), false)
      await store.vault.put({ ...TOKEN, ref: 'cred_2' })
      assert.equal(await store.vault.renew(now, renewed), false)
      assert.equal((await mustFind(store)).value?.reveal(), 'first-value')
    },
  },
  {
    name: 'OWP-78: a spent credential has no value and keeps its scopes',
    async run(open) {
      const store = await open()
      await store.vault.put(TOKEN)
      assert.equal(await store.vault.spend(await mustFind(store), 2_000), true)
      const spent = await mustFind(store)
      assert.deepEqual([spent.value, spent.isSpent, spent.scopes], [undefined, true, ['mail.read']])
      assert.equal(await store.vault.spend(spent, 2_000), false)
      await store.vault.put({ ...TOKEN, ref: 'cred_2' })
      assert.equal((await mustFind(store)).isSpent, false)
    },
  },
  {
    name: 'a credential is removed by its reference, so never one that was set meanwhile',
    async run(open) {
      const store = await open()
      await store.vault.put(TOKEN)
      await store.vault.put({ ...TOKEN, ref: 'cred_2' })
      assert.equal(await store.vault.remove(TOKEN, 'cli:bob', 2_000), false)
      assert.equal(await store.vault.remove({ ...TOKEN, ref: 'cred_2' }, 'cli:bob', 2_000), true)
      assert.equal(await store.vault.remove({ ...TOKEN, ref: 'cred_2' }, 'cli:bob', 2_000), false)
      assert.equal(await store.vault.find(TOKEN), undefined)
    },
  },
  {
    name: 'OWP-74: a list has facts and no values, of one tenant or of all, newest first',
    async run(open) {
      const store = await open()
      await store.vault.put(TOKEN)
      await store.vault.put({ ...TOKEN, ref: 'cred_2', kind: 'secret', provider: 'KEY', scopes: [] })
      await store.vault.put({ ...TOKEN, ref: 'cred_3', tenant: 'other' })
      const refs = async (filter: { tenant?: string; limit: number }) =>
        (await store.vault.list(filter)).map(({ ref }) => ref)
      assert.deepEqual(await refs({ limit: 10 }), ['cred_3', 'cred_2', 'cred_1'])
      assert.deepEqual(await refs({ limit: 2 }), ['cred_3', 'cred_2'])
      assert.deepEqual(await refs({ tenant: 'default', limit: 10 }), ['cred_2', 'cred_1'])
      const all = await store.vault.list({ limit: 10 })
      assert.ok(!JSON.stringify(all).includes('first-value'))
      assert.ok(all.every((facts) => !('value' in facts)))
    },
  },
  {
    name: 'OWP-79: every change is journaled with its reference, and with nothing of the value',
    async run(open) {
      const store = await open()
      await store.vault.put({ ...TOKEN, user: 'digest of u' })
      const seen = await mustFind(store, { ...TOKEN, user: 'digest of u' })
      await store.vault.renew(seen, {
        value: new Secret('renewed'),
        scopes: ['mail.read'],
        expiresAtMs: 9_000,
        atMs: 2_000,
      })
      await store.vault.spend(await mustFind(store, { ...TOKEN, user: 'digest of u' }), 3_000)
      await store.vault.remove(seen, 'cli:bob', 4_000)
      const facts = {
        ref: 'cred_1',
        tenant: 'default',
        principal: 'key:alice',
        provider: 'google',
        kind: 'token',
      }
      const scopes = ['mail.read']
      assert.deepEqual(await vaultEvents(store), [
        { type: 'vault.set', at: 1_000, ...facts, by: 'cli:ann', scopes },
        { type: 'vault.renewed', at: 2_000, ...facts, scopes },
        { type: 'vault.spent', at: 3_000, ...facts, scopes },
        { type: 'vault.removed', at: 4_000, ...facts, by: 'cli:bob', scopes },
      ])
    },
  },
  {
    name: 'a rotation changes no value',
    async run(open) {
      const store = await open()
      await store.vault.put(TOKEN)
      await store.vault.put({ ...TOKEN, ref: 'cred_2', tenant: 'other', value: new Secret('other-value') })
      assert.deepEqual(await store.vault.rotate('cli:ann', 2_000), { tenants: 2, entries: 2 })
      assert.deepEqual(await store.vault.rotate('cli:ann', 3_000), { tenants: 2, entries: 2 })
      assert.equal((await mustFind(store)).value?.reveal(), 'first-value')
      assert.equal((await mustFind(store, { ...TOKEN, tenant: 'other' })).value?.reveal(), 'other-value')
      assert.equal((await mustFind(store)).ref, 'cred_1')
    },
  },
  {
    name: 'rule 25: a consent is taken once',
    async run(open) {
      const store = await open()
      await store.consents.begin(CONSENT, 10)
      const found = await store.consents.find('state-1')
      assert.equal(found?.held.reveal(), 'verifier')
      assert.deepEqual({ ...found, held: undefined }, { ...CONSENT, held: undefined })
      assert.equal(await store.consents.find('state-2'), undefined)
      const taken = await Promise.all(Array.from({ length: 8 }, () => store.consents.take('state-1')))
      assert.equal(taken.filter(Boolean).length, 1)
      assert.equal(await store.consents.find('state-1'), undefined)
    },
  },
  {
    name: 'rules 23, 25: a way out of every stage is kept',
    async run(open) {
      const store = await open()
      for (const stage of CONSENT_STAGES) {
        await store.consents.begin({ ...CONSENT, id: stage, stage }, 10)
        assert.equal((await store.consents.find(stage))?.stage, stage)
      }
    },
  },
  {
    name: 'rule 25: whoever only opens a link pushes out nobody who is at the provider',
    async run(open) {
      const store = await open()
      await store.consents.begin({ ...CONSENT, id: 'at provider', stage: 'provider' }, 3)
      for (let index = 0; index < 5; index += 1)
        await store.consents.begin({ ...CONSENT, id: `opened-${index}`, stage: 'sign_in' }, 3)
      assert.equal((await store.consents.find('at provider'))?.stage, 'provider')
      assert.equal(await store.consents.find('opened-0'), undefined)
    },
  },
  {
    name: 'consents of one challenge are few, and are forgotten when they are over',
    async run(open) {
      const store = await open()
      for (let index = 0; index < 5; index += 1)
        await store.consents.begin({ ...CONSENT, id: `state-${index}` }, 3)
      await store.consents.begin({ ...CONSENT, id: 'else', challenge: 'challenge-2', expiresAtMs: 90_000 }, 3)
      const there = async () => {
        const found: string[] = []
        for (const id of ['state-0', 'state-1', 'state-2', 'state-3', 'state-4', 'else'])
          if ((await store.consents.find(id)) !== undefined) found.push(id)
        return found
      }
      assert.deepEqual(await there(), ['state-2', 'state-3', 'state-4', 'else'])
      await store.purge(70_000, POLICY)
      assert.deepEqual(await there(), ['else'])
    },
  },
]
