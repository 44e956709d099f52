import assert from 'node:assert/strict'
import type { NewChallenge } from '#kernel/call/stages'
import type { SafetyTier } from '#kernel/tool/tool'
import type { Store } from '#store/collet-store'
import { ALERT_STORE_CONTRACT } from './alert-store-contract.ts'
import { APPROVAL_STORE_CONTRACT } from './approval-store-contract.ts'
import type { ContractCase } from './contract-case.ts'
import { PIN_STORE_CONTRACT, SOURCE_STORE_CONTRACT } from './import-store-contract.ts'
import { JOURNAL_STORE_CONTRACT } from './journal-store-contract.ts'
import { KEY_STORE_CONTRACT, LIMIT_STORE_CONTRACT } from './key-store-contract.ts'
import { NOTICE_STORE_CONTRACT } from './notice-store-contract.ts'
import { OPERATOR_STORE_CONTRACT } from './operator-store-contract.ts'
import { PAST_SEARCHES_CONTRACT } from './past-searches-store-contract.ts'
import { CALLER_STORE_CONTRACT, REQUEST_STORE_CONTRACT } from './protocol-store-contract.ts'
import { RECEIPT_STORE_CONTRACT } from './receipt-store-contract.ts'
import { REJECTION_STORE_CONTRACT } from './rejection-store-contract.ts'
import { ROLLUP_STORE_CONTRACT } from './rollup-store-contract.ts'
import { RUN_STORE_CONTRACT } from './run-store-contract.ts'
import { attemptAt, DAY_MS, failure, it, mustFind, POLICY, purgeAll, sampleCall, success } from './samples.ts'
import { SESSION_STORE_CONTRACT } from './session-store-contract.ts'
import { STANDING_RULE_STORE_CONTRACT } from './standing-rule-store-contract.ts'
import { TASK_STORE_CONTRACT } from './task-store-contract.ts'
import { CONSENT_RUN_CONTRACT, VAULT_STORE_CONTRACT } from './vault-store-contract.ts'
import { WORKFLOW_STORE_CONTRACT } from './workflow-store-contract.ts'

async function eventTypes(store: Store): Promise<string[]> {
  const groups = await store.readJournal([], 1_000)
  return groups
    .flatMap(({ events }) => events.map(({ type }) => type))
    .filter((type) => !type.startsWith('writer.'))
}

const CHALLENGE: NewChallenge = {
  id: 'challenge-1',
  tenant: 'default',
  principal: 'key:alice',
  user: '',
  provider: 'google',
  scopes: ['mail.read'],
  tool: 'Gmail.GetEmails@1.2.0',
  atMs: 1_000,
  expiresAtMs: 61_000,
}

const TIERS = ['pure', 'read', 'write', 'exec'] as const satisfies readonly SafetyTier[]

/** The contract of every store for the call pipeline. */
export const STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('rule 7: a claim takes a free key once and returns the holder to all others', async (store) => {
    assert.deepEqual(await store.claim(sampleCall()), { kind: 'claimed', attempt: 1 })
    const second = await store.claim(sampleCall({ fingerprint: 'other' }))
    assert.equal(second.kind, 'found')
    assert.equal(second.kind === 'found' && second.record.fingerprint, 'fingerprint-1')
    assert.equal((await mustFind(store)).state, 'running')
  }),
  it('rule 19: of many claims of one key in one commit exactly one wins', async (store) => {
    const results = await Promise.all(Array.from({ length: 50 }, () => store.claim(sampleCall())))
    assert.equal(results.filter(({ kind }) => kind === 'claimed').length, 1)
  }),
  it('a record is found only with its own tenant', async (store) => {
    await store.claim(sampleCall())
    assert.equal(await store.find({ tenant: 'other', record: 'record-1' }), undefined)
    assert.equal(await store.find({ tenant: 'default', record: 'nobody' }), undefined)
  }),
  it('an outcome is returned with the same bytes, and a second one changes nothing', async (store) => {
    const call = sampleCall({ userId: 'user ✓', callId: 'caller’s id' })
    await store.claim(call)
    const outcome = success('{"text":"naïve ✓ \\ud83d\\ude00","n":[1,2.5]}')
    const run = attemptAt(call, 1)
    assert.deepEqual(await store.finish({ run, state: 'succeeded', outcome, atMs: 2_000 }), {
      kind: 'recorded',
    })
    const again = await store.finish({ run, state: 'failed', outcome: failure(false), atMs: 3_000 })
    assert.equal(again.kind, 'found')
    const found = await mustFind(store)
    assert.deepEqual(found.outcome, outcome)
    assert.equal(found.state, 'succeeded')
    assert.equal(found.finishedAtMs, 2_000)
    assert.deepEqual([found.callId, found.traceId, found.userId], ['caller’s id', 'trace-1', 'user ✓'])
  }),
  it('rule 7: of two outcomes inserted without a claim the first stays', async (store) => {
    const call = sampleCall({ tier: 'pure', replay: 'deterministic' })
    const first = { state: 'succeeded', outcome: success('1'), atMs: 2_000 } as const
    assert.deepEqual(await store.insertFinished(call, first), { kind: 'recorded' })
    const second = await store.insertFinished(call, { ...first, outcome: success('2') })
    assert.deepEqual(second.kind === 'found' && second.record.outcome, success('1'))
  }),
  it('rule 9: a released call is taken for its next attempt once', async (store) => {
    const call = sampleCall()
    await store.claim(call)
    await store.finish({ run: attemptAt(call, 1), state: 'released', outcome: failure(true), atMs: 2_000 })
    const previous = await mustFind(store)
    const results = await Promise.all([
      store.reclaim(previous, { session: undefined, atMs: 3_000 }),
      store.reclaim(previous, { session: undefined, atMs: 3_000 }),
    ])
    assert.deepEqual(results.map(({ kind }) => kind).sort(), ['claimed', 'found'])
    const running = await mustFind(store)
    assert.deepEqual([running.state, running.attempt, running.outcome], ['running', 2, undefined])
    const late = await store.finish({
      run: attemptAt(call, 1),
      state: 'failed',
      outcome: failure(false),
      atMs: 4_000,
    })
    assert.equal(late.kind, 'found')
    await store.finish({
      run: attemptAt(call, 2),
      state: 'succeeded',
      outcome: success('null'),
      atMs: 5_000,
    })
    assert.deepEqual((await mustFind(store)).outcome, success('null'))
  }),
  it('a call with a final outcome is never taken for another attempt', async (store) => {
    for (const state of ['succeeded', 'failed'] as const) {
      const call = sampleCall({ record: state })
      await store.claim(call)
      await store.finish({ run: attemptAt(call, 1), state, outcome: success('1'), atMs: 2_000 })
      assert.equal(
        (await store.reclaim(await mustFind(store, state), { session: undefined, atMs: 3_000 })).kind,
        'found',
      )
      assert.deepEqual((await mustFind(store, state)).outcome, success('1'))
    }
  }),
  it('rule 10: a late result is kept beside the outcome and never replaces it', async (store) => {
    const call = sampleCall()
    await store.claim(call)
    await store.finish({ run: attemptAt(call, 1), state: 'failed', outcome: failure(false), atMs: 2_000 })
    await store.recordLate(attemptAt(call, 1), success('"late"'), 9_000)
    const found = await mustFind(store)
    assert.deepEqual([found.state, found.outcome, found.late], ['failed', failure(false), success('"late"')])
    assert.deepEqual(await eventTypes(store), ['call.claimed', 'call.failed', 'call.late'])
  }),
  it('rule 10: a cancel request reaches only a running call of the same tenant', async (store) => {
    const call = sampleCall()
    await store.claim(call)
    assert.equal(await store.requestCancel({ tenant: 'other', record: call.record }, 'key:bob', 2_000), false)
    assert.equal(await store.requestCancel(call, 'key:alice', 2_000), true)
    assert.deepEqual(
      (await store.cancelRequests()).map(({ record }) => record),
      ['record-1'],
    )
    await store.finish({ run: attemptAt(call, 1), state: 'failed', outcome: failure(false), atMs: 3_000 })
    assert.deepEqual(await store.cancelRequests(), [])
    assert.equal(await store.requestCancel(call, 'key:alice', 4_000), false)
  }),
  it('rule 12: only an ambiguous call can be settled', async (store) => {
    await store.claim(sampleCall())
    const settlement = {
      as: 'failed',
      valueJson: undefined,
      error: undefined,
      who: 'op',
      why: 'test',
      atMs: 2,
    } as const
    assert.equal(await store.settle({ ...settlement, record: 'record-1' }), 'not_ambiguous')
    assert.equal(await store.settle({ ...settlement, record: 'nobody' }), 'not_found')
  }),
  it('the journal has every change in order and no text from callers', async (store) => {
    const call = sampleCall({ callId: 'CALLER-TEXT', traceId: 'TRACE-TEXT', userId: 'USER-TEXT' })
    await store.claim(call)
    await store.finish({
      run: attemptAt(call, 1),
      state: 'succeeded',
      outcome: success('"OUTPUT"'),
      atMs: 2_000,
    })
    assert.deepEqual(await eventTypes(store), ['call.claimed', 'call.succeeded'])
    const text = JSON.stringify(await store.readJournal([], 100))
    for (const secret of ['CALLER-TEXT', 'TRACE-TEXT', 'USER-TEXT', 'OUTPUT', 'doorbell42']) {
      assert.ok(!text.includes(secret), `the journal shows ${secret}`)
    }
  }),
  it('rule 16: a journal reader continues after its positions', async (store) => {
    await store.claim(sampleCall())
    const first = await store.readJournal([], 100)
    await store.claim(sampleCall({ record: 'record-2' }))
    const next = await store.readJournal(first, 100)
    assert.deepEqual(
      next.flatMap(({ events }) => events.map((event) => ('record' in event ? event.record : ''))),
      ['record-2'],
    )
  }),
  it('calls are listed newest first and by state', async (store) => {
    for (const record of ['record-1', 'record-2', 'record-3']) await store.claim(sampleCall({ record }))
    const run = attemptAt(sampleCall({ record: 'record-2' }), 1)
    await store.finish({ run, state: 'succeeded', outcome: success('1'), atMs: 2_000 })
    const records = async (state?: 'running') =>
      (await store.list({ limit: 2, states: state && [state] })).calls.map(({ record }) => record)
    assert.deepEqual(await records(), ['record-3', 'record-2'])
    assert.deepEqual(await records('running'), ['record-3', 'record-1'])
    assert.deepEqual(await store.list({ limit: 5, tenant: 'other' }), { calls: [] })
    assert.equal((await store.list({ limit: 5, tenant: 'default', states: ['running'] })).calls.length, 2)
  }),
  ...NOTICE_STORE_CONTRACT,
  ...PAST_SEARCHES_CONTRACT,
  ...REJECTION_STORE_CONTRACT,
  ...ROLLUP_STORE_CONTRACT,
  ...ALERT_STORE_CONTRACT,
  ...JOURNAL_STORE_CONTRACT,
  ...RECEIPT_STORE_CONTRACT,
  ...OPERATOR_STORE_CONTRACT,
  it('rule 2: lists the calls of one principal, newest first, page by page, with the caller’s texts, and without steps', async (store) => {
    const step = { parent: 'r1', root: 'r1' }
    await store.claim(sampleCall({ record: 'r1', callId: 'first', protocol: 'mcp', traceId: 't1' }))
    await store.claim(sampleCall({ record: 'r2', principal: 'key:bob' }))
    await store.claim(sampleCall({ record: 'r3', tenant: 'other' }))
    await store.claim(sampleCall({ record: 'r4', step }))
    await store.claim(sampleCall({ record: 'r5', callId: 'second', protocol: undefined }))
    const { tenant, principal } = sampleCall()
    const listed: string[] = []
    let before: number | undefined
    for (let pages = 0; pages < 10; pages += 1) {
      const cursor = before === undefined ? {} : { before }
      const page = await store.listOwn({ tenant, principal, limit: 1, ...cursor })
      listed.push(...page.calls.map((call) => `${call.callId} ${call.protocol} ${call.traceId}`))
      before = page.next
      if (before === undefined) break
    }
    assert.deepEqual(listed, ['second undefined trace-1', 'first mcp t1'])
    assert.deepEqual(await store.listOwn({ tenant, principal: 'key:nobody', limit: 5 }), { calls: [] })
  }),
  it('rule 13: results expire, the key of a write stays, a read is purged, an open call is unchanged', async (store) => {
    const write = sampleCall()
    const read = sampleCall({ record: 'record-2', tier: 'read' })
    await store.claim(write)
    await store.finish({ run: attemptAt(write, 1), state: 'succeeded', outcome: success('1'), atMs: 2_000 })
    await store.insertFinished(read, { state: 'succeeded', outcome: success('2'), atMs: 2_000 })
    await store.claim(sampleCall({ record: 'record-3' }))
    await purgeAll(store, 2_000 + DAY_MS)
    assert.deepEqual((await mustFind(store)).outcome, success('1'), 'nothing expires a moment early')
    await purgeAll(store, 2_001 + DAY_MS)
    const tombstone = await mustFind(store)
    assert.deepEqual([tombstone.state, tombstone.expired, tombstone.outcome], ['succeeded', true, undefined])
    assert.equal((await store.claim(write)).kind, 'found')
    assert.equal(await store.find({ tenant: 'default', record: 'record-2' }), undefined)
    assert.equal((await mustFind(store, 'record-3')).state, 'running')
  }),
  ...TIERS.map((tier) => ({
    name: `rules 7, 10, 13: a call of tier ${tier} is claimed once, ends once, and never frees its key for a repeated effect`,
    async run(open: () => Promise<Store>) {
      const store = await open()
      const call = sampleCall({ tier })
      assert.deepEqual(await store.claim(call), { kind: 'claimed', attempt: 1 })
      assert.equal((await store.claim(call)).kind, 'found')
      assert.equal(await store.requestCancel(call, 'key:alice', 1_500), true)
      const end = { run: attemptAt(call, 1), state: 'succeeded', outcome: success('1'), atMs: 2_000 } as const
      assert.deepEqual(await store.finish(end), { kind: 'recorded' })
      assert.equal((await store.finish({ ...end, outcome: success('2') })).kind, 'found')
      assert.deepEqual((await mustFind(store)).outcome, success('1'))
      assert.equal(
        (await store.reclaim(await mustFind(store), { session: undefined, atMs: 2_500 })).kind,
        'found',
      )
      await purgeAll(store, 2_001 + DAY_MS)
      const left = await store.find(call)
      const hasEffects = tier === 'write' || tier === 'exec'
      assert.deepEqual(
        [left?.state, left?.expired],
        hasEffects ? ['succeeded', true] : [undefined, undefined],
      )
      assert.equal((await store.claim(call)).kind, hasEffects ? 'found' : 'claimed')
    },
  })),
  it('rule 13: a released call whose result has expired is a tombstone like any other', async (store) => {
    const call = sampleCall()
    await store.claim(call)
    await store.finish({ run: attemptAt(call, 1), state: 'released', outcome: failure(true), atMs: 2_000 })
    await purgeAll(store, 2_001 + DAY_MS)
    const previous = await mustFind(store)
    assert.deepEqual([previous.state, previous.expired], ['released', true])
    assert.equal((await store.reclaim(previous, { session: undefined, atMs: 3_000 + DAY_MS })).kind, 'found')
  }),
  it('rule 13: tombstones are purged with the journal', async (store) => {
    const call = sampleCall()
    await store.claim(call)
    await store.finish({ run: attemptAt(call, 1), state: 'succeeded', outcome: success('1'), atMs: 2_000 })
    await purgeAll(store, 2_001 + DAY_MS)
    await purgeAll(store, 2_001 + POLICY.journalMs)
    assert.equal(await store.find({ tenant: 'default', record: 'record-1' }), undefined)
  }),
  it('rule 22: one open challenge per requirement; an expired one is replaced', async (store) => {
    assert.equal((await store.openChallenge(CHALLENGE)).id, 'challenge-1')
    assert.equal((await store.openChallenge({ ...CHALLENGE, id: 'challenge-2' })).id, 'challenge-1')
    assert.equal(
      (await store.openChallenge({ ...CHALLENGE, id: 'challenge-3', user: 'bob' })).id,
      'challenge-3',
    )
    const later = { ...CHALLENGE, id: 'challenge-4', atMs: 62_000, expiresAtMs: 122_000 }
    assert.equal((await store.openChallenge(later)).id, 'challenge-4')
    await store.endChallenge(CHALLENGE, 'completed', 63_000)
    assert.equal((await store.findChallenge('challenge-4'))?.status, 'completed')
    assert.equal((await store.openChallenge({ ...later, id: 'challenge-5' })).id, 'challenge-5')
    assert.equal(await store.findChallenge('nobody'), undefined)
  }),
  it('digests are equal for equal texts only', async (store) => {
    assert.equal(store.digest('a'), store.digest('a'))
    assert.notEqual(store.digest('a'), store.digest('b'))
  }),
  it('only a reload request changes the reload number', async (store) => {
    const first = await store.reloads.epoch()
    await store.probe()
    assert.equal(await store.reloads.epoch(), first)
    const asked = await store.reloads.request()
    assert.notEqual(asked, first)
    assert.equal(await store.reloads.epoch(), asked)
    assert.equal(await store.keys.epoch(), 0)
  }),

  it('a probe of a healthy store succeeds', async (store) => {
    await store.probe()
  }),
  ...RUN_STORE_CONTRACT,
  ...CONSENT_RUN_CONTRACT,
  ...APPROVAL_STORE_CONTRACT,
  ...PIN_STORE_CONTRACT,
  ...SESSION_STORE_CONTRACT,
  ...KEY_STORE_CONTRACT,
  ...LIMIT_STORE_CONTRACT,
  ...CALLER_STORE_CONTRACT,
  ...VAULT_STORE_CONTRACT,
  ...SOURCE_STORE_CONTRACT,
  ...REQUEST_STORE_CONTRACT,
  ...STANDING_RULE_STORE_CONTRACT,
  ...TASK_STORE_CONTRACT,
  ...WORKFLOW_STORE_CONTRACT,
]
