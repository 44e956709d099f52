import assert from 'node:assert/strict'
import { Secret } from '#kernel/base/secret'
import type { ChallengeNeed } from '#kernel/call/stages'
import { RUN_IDLE_MS } from '#kernel/run/runs'
import type { Store } from '#store/collet-store'
import { CONSENT_STAGES, type Consent, type ConsentRequest } from '#store/consents'
import type { NewCredential, VaultEntry } from '#store/vault'
import type { ContractCase } from './contract-case.ts'
import { gistOfRun, it, POLICY, sampleCall, scopeAt } from './samples.ts'

const SCOPE = scopeAt('run-a')
const { run: RUN } = SCOPE
const NEED: ChallengeNeed = {
  tenant: 'default',
  principal: 'key:alice',
  user: '',
  provider: 'mailer',
  scopes: ['mail.read'],
}
const GIVEN = {
  as: 'completed',
  credential: { ref: 'cred_1', scopes: ['mail.read'] },
  atMs: 2_000,
} as const

function asked(changes: Partial<ConsentRequest> = {}): ConsentRequest {
  return {
    tenant: 'default',
    record: 'record-1',
    principal: 'key:alice',
    callId: 'call-1',
    toolId: 'openwop:Mail.Read',
    transport: 'native',
    argsHash: '0'.repeat(64),
    scope: SCOPE,
    traceId: 'trace-1',
    userId: undefined,
    challenge: 'challenge-1',
    need: NEED,
    url: 'http://127.0.0.1/challenges/challenge-1',
    hasExpired: false,
    expiresAtMs: 601_000,
    atMs: 1_000,
    ...changes,
  }
}

const QUESTION = ['consent asked record-1 mailer call-1', 'consent suspended record-1']

/** The contract of every store for consents that calls wait for. */
export const CONSENT_RUN_CONTRACT: readonly ContractCase<Store>[] = [
  it('OWP-64, OWP-65: a run records one event per challenge and call, also for concurrent requests', async (store) => {
    const answers = await Promise.all(Array.from({ length: 8 }, () => store.consents.runs.ask(asked())))
    assert.deepEqual(new Set(answers), new Set([true]))
    assert.deepEqual(await gistOfRun(store, RUN), QUESTION)
    const journal = (await store.readJournal([], 1_000)).flatMap((group) => group.events)
    const askEvents = journal.filter(({ type }) => type === 'challenge.asked')
    assert.deepEqual(
      askEvents.map((event) => 'sequence' in event && [event.run, event.sequence]),
      [[RUN, 0]],
    )
  }),
  it('OWP-79: the end is recorded once for every waiting call, with the reference of the credential', async (store) => {
    const { runs } = store.consents
    await runs.ask(asked())
    await runs.ask(asked({ record: 'record-2', callId: 'call-2', scope: scopeAt('run-b') }))
    await runs.ask(asked({ record: 'record-3', challenge: 'other', need: { ...NEED, user: 'bob' } }))
    const answers = await runs.resolve(NEED, GIVEN)
    assert.deepEqual([...answers].sort(), [RUN, scopeAt('run-b').run].sort())
    assert.deepEqual(await runs.resolve(NEED, GIVEN), [])
    assert.deepEqual((await gistOfRun(store, scopeAt('run-b').run)).slice(2), [
      'authorized mailer cred_1',
      'consent accept record-2',
    ])
    assert.ok(!(await gistOfRun(store, RUN)).includes('consent accept record-3'))
  }),
  it('OWP-71, OWP-78: a denial, a refused renewal and a timeout are recorded as such', async (store) => {
    const { runs } = store.consents
    await runs.ask(asked({ hasExpired: true }))
    assert.deepEqual(await runs.expire(600_999), [])
    assert.deepEqual(await runs.expire(601_000), [RUN])
    await runs.ask(asked({ challenge: 'challenge-2', atMs: 602_000, expiresAtMs: 700_000 }))
    await runs.resolve(NEED, { as: 'failed', reason: 'denied', atMs: 603_000 })
    assert.deepEqual(await gistOfRun(store, RUN), [
      'auth expired mailer',
      ...QUESTION,
      'consent reject record-1 timeout',
      ...QUESTION,
      'consent reject record-1 denied',
    ])
  }),
  it('OWP-79: a token from the caller is recorded without a credential reference', async (store) => {
    await store.consents.runs.ask(asked())
    await store.consents.runs.resolve(NEED, { as: 'completed', atMs: 2_000 })
    assert.deepEqual(await gistOfRun(store, RUN), [...QUESTION, 'consent accept record-1'])
  }),
  it('a run that has ended records nothing more', async (store) => {
    const { runs } = store.consents
    await runs.ask(asked())
    await store.endRun({ tenant: 'default', run: RUN }, 1_500)
    assert.equal(await runs.ask(asked({ record: 'record-2', atMs: 1_600 })), false)
    assert.deepEqual(await runs.resolve(NEED, GIVEN), [])
    assert.deepEqual(await gistOfRun(store, RUN), QUESTION)
  }),
  it('rule 20: the own run of a call records events before the call exists, which then runs at any time', async (store) => {
    const { runs } = store.consents
    const scope = scopeAt('run_record-1', { run: 'record-1' })
    assert.equal(await runs.ask(asked({ scope })), true)
    const atMs = 2_000 + RUN_IDLE_MS
    assert.equal((await store.claim(sampleCall({ atMs }))).kind, 'claimed')
    assert.deepEqual(await runs.resolve(NEED, { ...GIVEN, atMs }), [])
    assert.equal(await runs.ask(asked({ scope, challenge: 'challenge-2', atMs })), false)
    assert.deepEqual(await gistOfRun(store, 'record-1'), QUESTION)
  }),
]

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

/** The contract of every store for credentials and consents (rules 24 to 26). */
export const VAULT_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('rule 24: a credential is found only by its complete address', async (store) => {
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
  }),
  it('a replaced credential has another reference and a later version', async (store) => {
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
  }),
  it('rule 26: of many that would refresh one version exactly one may, until its lease ends', async (store) => {
    await store.vault.put(TOKEN)
    const entry = await mustFind(store)
    const tries = await Promise.all(Array.from({ length: 8 }, () => store.vault.lease(entry, 1_000, 2_000)))
    assert.equal(tries.filter(Boolean).length, 1)
    assert.equal(await store.vault.lease(entry, 1_999, 3_000), false)
    assert.equal(await store.vault.lease(entry, 2_000, 3_000), true)
    await store.vault.unlease(entry)
    assert.equal(await store.vault.lease(entry, 2_100, 3_000), true)
  }),
  it('rule 26: a refresh is accepted only for the version it has read', async (store) => {
    await store.vault.put(TOKEN)
    const entry = await mustFind(store)
    const renewed = { value: new Secret('renewed'), scopes: ['mail.read'], expiresAtMs: 9_000, atMs: 2_000 }
    assert.equal(await store.vault.renew(entry, renewed), true)
    assert.equal(await store.vault.renew(entry, { ...renewed, value: new Secret('late') }), false)
    assert.equal(await store.vault.spend(entry, 2_000), false)
    const now = await mustFind(store)
    assert.equal(now.value?.reveal(), 'renewed')
    assert.deepEqual(
      [now.version, now.expiresAtMs, now.createdAtMs, now.updatedAtMs],
      [2, 9_000, 1_000, 2_000],
    )
    assert.equal(await store.vault.lease(entry, 2_000, 3_000), false)
    await store.vault.put({ ...TOKEN, ref: 'cred_2' })
    assert.equal(await store.vault.renew(now, renewed), false)
    assert.equal((await mustFind(store)).value?.reveal(), 'first-value')
  }),
  it('OWP-78: a spent credential has no value and keeps its scopes', async (store) => {
    await store.vault.put(TOKEN)
    assert.equal(await store.vault.spend(await mustFind(store), 2_000), true)
    const spent = await mustFind(store)
    assert.deepEqual([spent.value, spent.isSpent, spent.scopes], [undefined, true, ['mail.read']])
    assert.equal(await store.vault.spend(spent, 2_000), false)
    await store.vault.put({ ...TOKEN, ref: 'cred_2' })
    assert.equal((await mustFind(store)).isSpent, false)
  }),
  it('a credential is removed by its reference, so never a newer one', async (store) => {
    await store.vault.put(TOKEN)
    await store.vault.put({ ...TOKEN, ref: 'cred_2' })
    assert.equal(await store.vault.remove(TOKEN, 'cli:bob', 2_000), false)
    assert.equal(await store.vault.remove({ ...TOKEN, ref: 'cred_2' }, 'cli:bob', 2_000), true)
    assert.equal(await store.vault.remove({ ...TOKEN, ref: 'cred_2' }, 'cli:bob', 2_000), false)
    assert.equal(await store.vault.find(TOKEN), undefined)
  }),
  it('OWP-74: a list has metadata without values, of one tenant or of all, newest first', async (store) => {
    await store.vault.put(TOKEN)
    await store.vault.put({ ...TOKEN, ref: 'cred_2', kind: 'secret', provider: 'KEY', scopes: [] })
    await store.vault.put({ ...TOKEN, ref: 'cred_3', tenant: 'other' })
    const refs = async (filter: { tenant?: string; limit: number }) =>
      (await store.vault.list(filter)).map(({ ref }) => ref)
    assert.deepEqual(await refs({ limit: 10 }), ['cred_3', 'cred_2', 'cred_1'])
    assert.deepEqual(await refs({ limit: 2 }), ['cred_3', 'cred_2'])
    assert.deepEqual(await refs({ tenant: 'default', limit: 10 }), ['cred_2', 'cred_1'])
    await store.vault.put({ ...TOKEN, ref: 'cred_4', user: 'digest of u' })
    await store.vault.put({ ...TOKEN, ref: 'cred_5', principal: 'key:bob' })
    const owned = await store.vault.listOf({ tenant: 'default', principal: TOKEN.principal, user: '' })
    assert.deepEqual(
      owned.map(({ ref }) => ref),
      ['cred_2', 'cred_1'],
    )
    const all = await store.vault.list({ limit: 10 })
    assert.ok(!JSON.stringify(all).includes('first-value'))
    assert.ok(all.every((facts) => !('value' in facts)))
  }),
  it('OWP-79: every change is journaled with its reference, and without the value', async (store) => {
    await store.vault.put({ ...TOKEN, user: 'digest of u' })
    const entry = await mustFind(store, { ...TOKEN, user: 'digest of u' })
    await store.vault.renew(entry, {
      value: new Secret('renewed'),
      scopes: ['mail.read'],
      expiresAtMs: 9_000,
      atMs: 2_000,
    })
    await store.vault.spend(await mustFind(store, { ...TOKEN, user: 'digest of u' }), 3_000)
    await store.vault.remove(entry, 'cli:bob', 4_000)
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
  }),
  it('a rotation changes no value', async (store) => {
    await store.vault.put(TOKEN)
    await store.vault.put({ ...TOKEN, ref: 'cred_2', tenant: 'other', value: new Secret('other-value') })
    assert.deepEqual(await store.vault.rotate('cli:ann', 2_000), { tenants: 2, entries: 2 })
    assert.deepEqual(await store.vault.rotate('cli:ann', 3_000), { tenants: 2, entries: 2 })
    assert.equal((await mustFind(store)).value?.reveal(), 'first-value')
    assert.equal((await mustFind(store, { ...TOKEN, tenant: 'other' })).value?.reveal(), 'other-value')
    assert.equal((await mustFind(store)).ref, 'cred_1')
  }),
  it('rule 25: a consent is consumed once', async (store) => {
    await store.consents.begin(CONSENT, 10)
    const found = await store.consents.find('state-1')
    assert.equal(found?.held.reveal(), 'verifier')
    assert.deepEqual({ ...found, held: undefined }, { ...CONSENT, held: undefined })
    assert.equal(await store.consents.find('state-2'), undefined)
    const taken = await Promise.all(Array.from({ length: 8 }, () => store.consents.take('state-1')))
    assert.equal(taken.filter(Boolean).length, 1)
    assert.equal(await store.consents.find('state-1'), undefined)
  }),
  it('rules 23, 25: consents of every stage are stored', async (store) => {
    for (const stage of CONSENT_STAGES) {
      await store.consents.begin({ ...CONSENT, id: stage, stage }, 10)
      assert.equal((await store.consents.find(stage))?.stage, stage)
    }
  }),
  it('rule 25: opening a link evicts no consent that is already at the provider', async (store) => {
    await store.consents.begin({ ...CONSENT, id: 'at provider', stage: 'provider' }, 3)
    for (let index = 0; index < 5; index += 1)
      await store.consents.begin({ ...CONSENT, id: `opened-${index}`, stage: 'sign_in' }, 3)
    assert.equal((await store.consents.find('at provider'))?.stage, 'provider')
    assert.equal(await store.consents.find('opened-0'), undefined)
  }),
  it('consents of one challenge are limited, and purged when they expire', async (store) => {
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
  }),
]
