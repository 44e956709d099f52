import assert from 'node:assert/strict'
import type { Denial } from '#kernel/journal/events'
import type { BudgetWindow, Spending } from '#kernel/journal/notices'
import { NO_LIMIT } from '#stages/limits/budgets'
import type { Store } from '#store/collet-store'
import type { KeyRotation, NewKey } from '#store/keys'
import type { ContractCase } from './contract-case.ts'
import {
  DAY_MS,
  eventsOf,
  it,
  POLICY,
  purgeAll,
  runThrough,
  sampleCall,
  sampleRefusal,
  scopeAt,
} from './samples.ts'

const HOUR_MS = 3_600_000
const WINDOW: BudgetWindow = { tenant: 'acme', principal: 'key:alice', lengthMs: HOUR_MS, startMs: 0 }
const LIMIT: Spending = { calls: 10, milliseconds: 5_000, cost: 1_500 }

function spending(calls: number, milliseconds = 0, cost = 0): Spending {
  return { calls, milliseconds, cost }
}

/** Three at once, and one more each 100 ms. */
const rateAt = (nowMs: number) => ({ perMs: 1 / 100, burst: 3, nowMs })

/** The contract of every store for shared rates, budgets, and calls that a limit refused. */
export const LIMIT_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('a shared bucket grants its tokens, then those that time adds, and reports when', async ({ rates }) => {
    assert.deepEqual(await rates.take('a', 2, rateAt(1_000)), { tokens: 2, waitMs: 0 })
    assert.deepEqual(await rates.take('a', 2, rateAt(1_000)), { tokens: 1, waitMs: 0 })
    assert.deepEqual(await rates.take('a', 2, rateAt(1_000)), { tokens: 0, waitMs: 100 })
    assert.deepEqual(await rates.take('a', 2, rateAt(1_060)), { tokens: 0, waitMs: 40 })
    assert.deepEqual(await rates.take('a', 2, rateAt(1_100)), { tokens: 1, waitMs: 0 })
    assert.deepEqual(await rates.take('a', 3, rateAt(9_999)), { tokens: 3, waitMs: 0 })
    assert.deepEqual(await rates.take('b', 3, rateAt(1_100)), { tokens: 3, waitMs: 0 })
  }),
  it('a slow clock gains no tokens from a shared bucket', async ({ rates }) => {
    assert.deepEqual(await rates.take('a', 3, rateAt(5_000)), { tokens: 3, waitMs: 0 })
    assert.deepEqual(await rates.take('a', 1, rateAt(4_000)), { tokens: 0, waitMs: 1_100 })
  }),
  it('concurrent takers from a shared bucket get exactly its tokens', async ({ rates }) => {
    const taken = await Promise.all(
      Array.from({ length: 40 }, async () => await rates.take('a', 2, rateAt(1_000))),
    )
    assert.equal(
      taken.reduce((sum, { tokens }) => sum + tokens, 0),
      3,
    )
  }),
  it('only full buckets are purged', async (store) => {
    await store.rates.take('a', 3, rateAt(100_000))
    await purgeAll(store, 100_000)
    assert.deepEqual(await store.rates.take('a', 1, rateAt(100_000)), { tokens: 0, waitMs: 100 })
    await purgeAll(store, 200_000)
    assert.deepEqual(await store.rates.take('a', 3, rateAt(200_000)), { tokens: 3, waitMs: 0 })
  }),
  it('a lease takes at most the rest of each unit', async ({ budgets }) => {
    assert.deepEqual(
      await budgets.lease(WINDOW, spending(6, 4_000, 500), LIMIT, 1_000),
      spending(6, 4_000, 500),
    )
    assert.deepEqual(
      await budgets.lease(WINDOW, spending(6, 4_000, 500), LIMIT, 1_000),
      spending(4, 1_000, 500),
    )
    assert.deepEqual(await budgets.lease(WINDOW, spending(1, 1, 1_000), LIMIT, 1_000), spending(0, 0, 500))
    assert.deepEqual(await budgets.read(WINDOW), LIMIT)
  }),
  it('concurrent leases together grant the limit once', async ({ budgets }) => {
    const granted = await Promise.all(
      Array.from({ length: 40 }, async () => await budgets.lease(WINDOW, spending(3), LIMIT, 1_000)),
    )
    assert.equal(
      granted.reduce((sum, { calls }) => sum + calls, 0),
      LIMIT.calls,
    )
  }),
  it('a returned amount can be leased again', async ({ budgets }) => {
    await budgets.lease(WINDOW, LIMIT, LIMIT, 1_000)
    await budgets.returnUnspent(WINDOW, spending(2, 700, 0))
    assert.deepEqual(await budgets.lease(WINDOW, LIMIT, LIMIT, 1_000), spending(2, 700, 0))
  }),
  it('tenants, principals, whole tenants, lengths and windows each have their own', async ({ budgets }) => {
    await budgets.lease(WINDOW, LIMIT, LIMIT, 1_000)
    for (const other of [
      { tenant: 'globex' },
      { principal: 'key:bob' },
      { principal: undefined },
      { lengthMs: 2 * HOUR_MS },
      { startMs: HOUR_MS },
    ]) {
      assert.deepEqual(await budgets.lease({ ...WINDOW, ...other }, spending(1), LIMIT, 1_000), spending(1))
    }
  }),
  it('a lowered limit counts amounts already leased, and a raised one grants more', async ({ budgets }) => {
    await budgets.lease(WINDOW, spending(8), LIMIT, 1_000)
    assert.deepEqual(await budgets.lease(WINDOW, spending(1), { ...LIMIT, calls: 5 }, 1_000), spending(0))
    assert.deepEqual(await budgets.lease(WINDOW, spending(20), { ...LIMIT, calls: 20 }, 1_000), spending(12))
    const endless = { calls: NO_LIMIT, milliseconds: NO_LIMIT, cost: NO_LIMIT }
    assert.deepEqual(await budgets.lease(WINDOW, spending(1, 2, 3), endless, 1_000), spending(1, 2, 3))
  }),
  it('windows are purged a day after they end, and not before', async (store) => {
    await store.budgets.lease(WINDOW, spending(1), LIMIT, 1_000)
    await purgeAll(store, HOUR_MS + DAY_MS)
    assert.deepEqual(await store.budgets.read(WINDOW), spending(1))
    await purgeAll(store, HOUR_MS + DAY_MS + 1)
    assert.deepEqual(await store.budgets.read(WINDOW), spending(0))
  }),
  it('a refused call is recorded in an existing run, as a pair without a duration (C10, OWP-53)', async (store) => {
    const scope = scopeAt('run-a')
    assert.equal(await store.noteRefusal(sampleRefusal({ scope })), false)
    assert.equal(await store.findRun(scope), undefined)
    await runThrough(store, sampleCall({ record: 'record-0', scope }))
    assert.equal(await store.noteRefusal(sampleRefusal({ scope })), true)
    const [, , called, returned] = await eventsOf(store, scope.run)
    const call = {
      callId: 'call-1',
      toolId: 'openwop:Doorbell.Ring',
      transport: 'native',
      argsHash: '0'.repeat(64),
      traceId: sampleRefusal({ scope }).traceId,
    }
    const both = { record: 'record-1', attempt: 1, call, atMs: 1_000 }
    assert.deepEqual(called, { type: 'called', ...both, principal: 'key:alice', sequence: 2 })
    assert.deepEqual(returned, { type: 'returned', ...both, code: 'rate_limited', sequence: 3 })
    assert.equal((await store.findRun(scope))?.open, 0)
    assert.equal(await store.find({ tenant: 'default', record: 'record-1' }), undefined)
  }),
  it('a refused call is recorded in no run that has ended or belongs to another tenant', async (store) => {
    const scope = scopeAt('run-a')
    await runThrough(store, sampleCall({ record: 'record-0', scope }))
    assert.equal(await store.noteRefusal(sampleRefusal({ scope: { ...scope, tenant: 'other' } })), false)
    await store.endRun(scope, 2_000)
    assert.equal(await store.noteRefusal(sampleRefusal({ scope, atMs: 2_001 })), false)
    assert.equal((await eventsOf(store, scope.run)).length, 2)
  }),
]

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

/** The contract of every store for API keys and the audit stream. */
export const KEY_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('a key is found by its id with all its members, and lists never show its digest', async ({ keys }) => {
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
  }),
  it('an absent allow-list and an empty one stay different', async ({ keys }) => {
    await keys.createKey(newKey({ tools: undefined }))
    await keys.createKey(newKey({ name: 'bob', keyId: 'key-2', tools: [] }))
    assert.equal((await keys.findKey('key-1'))?.tools, undefined)
    assert.deepEqual((await keys.findKey('key-2'))?.tools, [])
  }),
  it('rule 3: a principal is created once, keeps its rights on rotation, and its name is never reused', async ({
    keys,
  }) => {
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
  }),
  it('rotation expires older keys at the requested time, never later than before', async ({ keys }) => {
    await keys.createKey(newKey({ expiresAtMs: 4_000 }))
    await keys.rotateKey(rotation({ oldEndAtMs: 5_000, expiresAtMs: 9_000 }))
    await keys.rotateKey(rotation({ keyId: 'key-3', oldEndAtMs: 5_000 }))
    const ends = (await keys.keysOf({ tenant: 'default', name: 'alice' })).map(
      ({ expiresAtMs }) => expiresAtMs,
    )
    assert.deepEqual(ends, [undefined, 5_000, 4_000])
  }),
  it('a key is revoked once, and only with its own tenant', async ({ keys }) => {
    await keys.createKey(newKey())
    const revocation = { keyId: 'key-1', by: 'operator', atMs: 2_000 }
    assert.equal(await keys.revokeKey({ ...revocation, tenant: 'other' }), false)
    assert.equal(await keys.revokeKey({ ...revocation, tenant: 'default' }), true)
    assert.equal(await keys.revokeKey({ ...revocation, tenant: 'default' }), false)
    assert.equal((await keys.findKey('key-1'))?.revokedAtMs, 2_000)
    assert.equal(await keys.rotateKey(rotation()), 'rotated')
    assert.deepEqual((await keys.findKey('key-2'))?.scopes, ['mail:*'])
  }),
  it('rule 26: every change raises the epoch, and a refused one does not', async ({ keys }) => {
    const epochs = [await keys.epoch()]
    await keys.createKey(newKey())
    epochs.push(await keys.epoch())
    await keys.rotateKey(rotation())
    epochs.push(await keys.epoch())
    await keys.revokeKey({ tenant: 'default', keyId: 'key-2', by: 'operator', atMs: 3_000 })
    epochs.push(await keys.epoch())
    await keys.endPrincipal({ tenant: 'default', name: 'alice', by: 'operator', atMs: 4_000 })
    epochs.push(await keys.epoch())
    assert.equal(epochs[0], 0)
    assert.deepEqual(
      epochs.map((epoch, index) => index === 0 || epoch > (epochs[index - 1] ?? 0)),
      epochs.map(() => true),
    )
    await keys.createKey(newKey())
    await keys.noteUses([{ keyId: 'key-1', atMs: 5_000 }])
    assert.equal(await keys.epoch(), epochs.at(-1))
  }),
  it('every change of a key is journaled, with its actor and without any digest', async (store) => {
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
  }),
  it('the last use of a key goes forward only, and is not journaled', async (store) => {
    await store.keys.createKey(newKey())
    const before = (await store.readJournal([], 100)).length
    await store.keys.noteUses([
      { keyId: 'key-1', atMs: 7_000 },
      { keyId: 'nobody', atMs: 7_000 },
    ])
    await store.keys.noteUses([{ keyId: 'key-1', atMs: 6_000 }])
    assert.equal((await store.keys.findKey('key-1'))?.lastUsedAtMs, 7_000)
    assert.equal((await store.readJournal([], 100)).length, before)
  }),
  it('rule 30a: denials are read in order, by tenant, journaled, and purged with the journal', async (store) => {
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
  }),
]
