import assert from 'node:assert/strict'
import type { NewApproval, NewDecision, Parking, Resumption } from '#kernel/approval/approval'
import { MIN_USE_MS } from '#kernel/approval/decisions'
import type { CallRecord } from '#kernel/call/call-record'
import type { Store } from '#store/collet-store'
import type { ContractCase } from './contract-case.ts'
import {
  attemptAt,
  failure,
  gistOfRun,
  it,
  mustFind,
  POLICY,
  purgeAll,
  sampleCall,
  sampleSession,
  scopeAt,
  success,
} from './samples.ts'

const GRANT: Resumption = {
  ...{ approvalId: 'approval-1', binding: 'binding-1', rerunUntilMs: 0, session: undefined, atMs: 3_000 },
}

/** Parks call `n` with question `n`. */
async function park(
  store: Store,
  changes: Parameters<typeof sampleParking>[0] = {},
  n = 1,
): Promise<CallRecord> {
  const call = sampleCall({ record: `record-${n}`, callId: `call-${n}` })
  const parked = await store.approvals.park(call, sampleParking({ id: `approval-${n}`, ...changes }))
  assert.equal(parked.kind, 'parked')
  return await mustFind(store, call.record)
}

async function decide(store: Store, by: string, changes: Partial<NewDecision> = {}): Promise<string> {
  return (await store.approvals.decide(yesOf(by, changes))).kind
}

async function stateOf(store: Store, id = 'approval-1'): Promise<string | undefined> {
  return (await store.approvals.find({ tenant: 'default', id }))?.state
}

/** The contract of every store for calls that wait for approval. */
export const APPROVAL_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('rule 20: a parked call owns its key, and its approval request is returned unchanged', async (store) => {
    const parked = await park(store)
    assert.equal(parked.state, 'parked')
    const taken = await store.claim(sampleCall({ fingerprint: 'other' }))
    assert.equal(taken.kind, 'found')
    const again = await store.approvals.park(sampleCall(), sampleParking({ id: 'approval-2' }))
    assert.equal(again.kind, 'found')
    assert.equal((await store.reclaim(parked, { session: undefined, atMs: 2_000 })).kind, 'found')
    const asked = sampleApproval()
    const found = await store.approvals.findFor(parked)
    assert.deepEqual({ ...found, ...asked }, found)
    assert.equal(found?.state, 'pending')
    assert.equal(found?.attempt, 1)
  }),
  it('rule 20: a grant is consumed by one attempt, which begins with it', async (store) => {
    const parked = await park(store)
    assert.equal((await store.approvals.resume(parked, GRANT)).kind, 'found')
    assert.equal(await decide(store, 'key:bob'), 'decided')
    const wins = await Promise.all(Array.from({ length: 20 }, () => store.approvals.resume(parked, GRANT)))
    assert.equal(wins.filter(({ kind }) => kind === 'claimed').length, 1)
    assert.equal(await stateOf(store), 'used')
    const run = { ...attemptAt(sampleCall(), 1), run: parked.record }
    await store.finish({ run, state: 'succeeded', outcome: success('1'), atMs: 4_000 })
    assert.equal((await mustFind(store)).state, 'succeeded')
    // Neither the time until the approval at 2,000 nor the time until the caller's retry counts as tool time.
    const { rows } = await store.usage({})
    assert.deepEqual(
      rows.map(({ state, tookMs, isWithdrawn }) => [state, tookMs, isWithdrawn]),
      [['succeeded', 2, false]],
    )
    assert.equal((await store.approvals.resume(parked, GRANT)).kind, 'found')
    assert.deepEqual(await gistOfRun(store, parked.record), [
      'called record-1 1',
      'asked record-1 1',
      'suspended record-1 1',
      'approval.granted by prn_key:bob',
      'resolved record-1 accept',
      'returned record-1 1 ok',
    ])
  }),
  it('rule 21: a grant for another call or another time is not used', async (store) => {
    const parked = await park(store)
    await decide(store, 'key:bob')
    const others: Partial<Resumption>[] = [
      { binding: 'binding-2' },
      { approvalId: 'approval-2' },
      { atMs: 2_000 + MIN_USE_MS },
    ]
    for (const other of others) {
      assert.equal((await store.approvals.resume(parked, { ...GRANT, ...other })).kind, 'found')
    }
    assert.equal((await store.approvals.resume({ ...parked, attempt: 2 }, GRANT)).kind, 'found')
    assert.equal(await stateOf(store), 'granted')
  }),
  it('OWP-68: of many concurrent decisions exactly one wins', async (store) => {
    await park(store)
    const kinds = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        decide(store, `key:${index}`, index % 2 === 0 ? {} : { action: 'reject' }),
      ),
    )
    assert.equal(kinds.filter((kind) => kind === 'decided').length, 1)
    assert.equal(kinds.filter((kind) => kind === 'closed').length, 19)
  }),
  it('OWP-72: a quorum counts distinct approvers, and a repeated decision changes nothing', async (store) => {
    const parked = await park(store, { quorum: 2 })
    assert.deepEqual(
      [await decide(store, 'key:bob'), await decide(store, 'key:bob'), await decide(store, 'key:eve')],
      ['counted', 'repeated', 'decided'],
    )
    const found = await store.approvals.findFor(parked)
    assert.deepEqual(
      found?.decisions.map(({ by }) => by),
      ['key:bob', 'key:eve'],
    )
  }),
  it('OWP-70: an override needs no quorum only where the gate allows it', async (store) => {
    await park(store, { quorum: 3 })
    const override = { action: 'override', reason: 'fire' } as const
    assert.equal(await decide(store, 'key:bob', override), 'counted')
    await park(store, { quorum: 3, overrideBypassesQuorum: true }, 2)
    assert.equal(await decide(store, 'key:bob', { ...override, id: 'approval-2' }), 'decided')
    assert.equal(await stateOf(store, 'approval-2'), 'granted')
  }),
  it('OWP-73: a rejection ends the call permanently, without an execution and without a duration', async (store) => {
    const parked = await park(store)
    assert.equal(await decide(store, 'key:bob', { action: 'reject', reason: 'no' }), 'decided')
    const record = await mustFind(store)
    assert.equal(record.state, 'failed')
    assert.equal(record.outcome?.ok === false && record.outcome.error.code, 'approval_rejected')
    assert.equal((await store.approvals.resume(parked, GRANT)).kind, 'found')
    const events = await store.readRun({ tenant: 'default', run: parked.record }, -1, 100)
    const returned = events.find(({ type }) => type === 'returned')
    assert.ok(returned !== undefined && !('durationMs' in returned))
    assert.deepEqual((await gistOfRun(store, parked.record)).slice(3), [
      'approval.rejected by prn_key:bob',
      'resolved record-1 reject no',
      'returned record-1 1 approval_rejected',
    ])
    // Every store lets permitted readers read it.
    const groups = await store.readJournal([], 100)
    const journaled = groups.flatMap((group) => group.events).find(({ type }) => type === 'approval.rejected')
    assert.equal(journaled !== undefined && 'reason' in journaled && journaled.reason, 'no')
    const [word] = (await store.approvals.find({ tenant: 'default', id: 'approval-1' }))?.decisions ?? []
    assert.equal(word?.reason, 'no')
  }),
  it('OWP-71: a timeout is a rejection, also of an unused approval, and a late decision changes nothing', async (store) => {
    const parked = await park(store)
    assert.deepEqual(await store.approvals.expire(9_999), [])
    assert.deepEqual(await store.approvals.expire(10_000), [{ record: 'record-1', run: 'record-1' }])
    assert.equal(await decide(store, 'key:bob', { atMs: 10_001 }), 'closed')
    assert.deepEqual((await gistOfRun(store, parked.record)).slice(3), [
      'resolved record-1 reject timeout',
      'returned record-1 1 approval_rejected',
    ])
    await park(store, {}, 2)
    await decide(store, 'key:bob', { id: 'approval-2' })
    assert.deepEqual(await store.approvals.expire(2_000 + MIN_USE_MS - 1), [])
    assert.equal((await store.approvals.expire(2_000 + MIN_USE_MS)).length, 1)
    assert.equal((await mustFind(store, 'record-2')).state, 'failed')
    await park(store, {}, 3)
    assert.equal(await decide(store, 'key:bob', { id: 'approval-3', atMs: 10_000 }), 'closed')
    assert.equal((await mustFind(store, 'record-3')).state, 'failed')
  }),
  it('rule 20: a released call is parked again for its next attempt, with its own approval request', async (store) => {
    const first = await park(store)
    await decide(store, 'key:bob')
    await store.approvals.resume(first, GRANT)
    const run = { ...attemptAt(sampleCall(), 1), run: first.record }
    await store.finish({ run, state: 'released', outcome: failure(true), atMs: 4_000 })
    const released = await mustFind(store)
    const next = { session: undefined, atMs: 5_000 }
    const parking = sampleParking({ id: 'approval-2' })
    assert.equal((await store.approvals.parkAgain(released, next, parking)).kind, 'parked')
    const parked = await mustFind(store)
    assert.deepEqual([parked.state, parked.attempt], ['parked', 2])
    assert.equal((await store.approvals.resume(parked, GRANT)).kind, 'found')
    await decide(store, 'key:bob', { id: 'approval-2', atMs: 5_500 })
    const resumed = await store.approvals.resume(parked, {
      ...GRANT,
      approvalId: 'approval-2',
      atMs: 6_000,
    })
    assert.deepEqual(resumed, { kind: 'claimed', attempt: 2 })
  }),
  it('rule 6: a call without a key adopts an equal call, but no other, and none of another definition', async (store) => {
    await park(store)
    const like = {
      ...{ tenant: 'default', principal: 'key:alice' },
      ...{ fingerprint: 'fingerprint-1', definitionHash: 'definition-1' },
    }
    assert.equal((await store.approvals.findParked(like))?.record, 'record-1')
    for (const other of [
      { ...like, principal: 'key:bob' },
      { ...like, tenant: 'other' },
      { ...like, fingerprint: 'other' },
      { ...like, definitionHash: 'other' },
    ]) {
      assert.equal(await store.approvals.findParked(other), undefined)
    }
    const second = sampleCall({ record: 'record-2', callId: 'call-2' })
    const parking = sampleParking({ id: 'approval-2' }, { keyed: false })
    const found = await store.approvals.park(second, parking)
    assert.equal(found.kind === 'found' && found.record.record, 'record-1')
    await decide(store, 'key:bob')
    assert.equal((await store.approvals.findParked(like))?.record, 'record-1')
  }),
  it('rule 22: a principal has a limited number of parked calls', async (store) => {
    await park(store)
    const second = sampleCall({ record: 'record-2', callId: 'call-2' })
    const parking = sampleParking({ id: 'approval-2' }, { maxParked: 1 })
    assert.deepEqual(await store.approvals.park(second, parking), { kind: 'full', parked: 1 })
    const other = { ...second, principal: 'key:bob' }
    assert.equal((await store.approvals.park(other, parking)).kind, 'parked')
  }),
  it('rule 13: nothing of a parked call is purged; decisions are purged with their call', async (store) => {
    await park(store, { expiresAtMs: 1_000 * POLICY.journalMs })
    await purgeAll(store, 10 * POLICY.journalMs)
    assert.equal((await mustFind(store)).state, 'parked')
    const { subject } = (await store.approvals.findById('approval-1')) ?? {}
    assert.deepEqual([subject?.callId, subject?.definitionJson], ['call-1', '{"description":"Rings."}'])
    const atMs = 10 * POLICY.journalMs
    await decide(store, 'key:bob', { action: 'reject', atMs })
    for (let step = 1; step < 5; step += 1) await purgeAll(store, atMs + step * POLICY.journalMs + 1)
    assert.equal(await store.find({ tenant: 'default', record: 'record-1' }), undefined)
    assert.equal(await store.approvals.findById('approval-1'), undefined)
    assert.equal((await store.approvals.park(sampleCall(), sampleParking())).kind, 'parked')
  }),
  it('rule 10, OWP-68: a cancelled call has ended, and can no longer be decided', async (store) => {
    const parked = await park(store)
    assert.deepEqual(await store.approvals.cancel({ tenant: 'other', record: 'record-1' }, 'x', 2_000), [])
    const ended = await store.approvals.cancel({ tenant: 'default', record: 'record-1' }, 'key:alice', 2_000)
    assert.equal(ended.length, 1)
    assert.equal(await decide(store, 'key:bob'), 'closed')
    assert.equal(await stateOf(store), 'cancelled')
    const { rows } = await store.usage({})
    assert.deepEqual(
      rows.map(({ state, tookMs, isWithdrawn }) => [state, tookMs, isWithdrawn]),
      [['failed', undefined, true]],
    )
    assert.deepEqual((await gistOfRun(store, parked.record)).slice(3), [
      'resolved record-1 cancel cancelled',
      'returned record-1 1 cancelled',
    ])
  }),
  it('rule 30, OWP-41: a session that closes first ends the calls parked in it', async (store) => {
    const scope = scopeAt('run-a')
    await store.openSession(sampleSession('ses_1'))
    const session = { sessionId: 'ses_1', isOwn: false }
    const inSession = sampleCall({ scope, session })
    await store.approvals.park(inSession, sampleParking())
    assert.equal(await store.approvals.isParkedIn({ tenant: 'default', sessionId: 'ses_1' }), true)
    assert.equal(await store.approvals.isParkedIn({ tenant: 'other', sessionId: 'ses_1' }), false)
    await store.beginSessionClose(sampleSession('ses_1'))
    await store.closeSession(sampleSession('ses_1'), 'completed', 2_000)
    assert.deepEqual((await gistOfRun(store, scope.run)).slice(-3), [
      'resolved record-1 cancel session',
      'returned record-1 1 session_lost',
      'closed ses_1 completed',
    ])
    assert.equal(await decide(store, 'key:bob'), 'closed')
  }),
  it('OWP-45: the session of a single attempt is open while it waits, and closes with its end', async (store) => {
    const session = { sessionId: 'ses_own', isOwn: true }
    await store.approvals.park(sampleCall({ session }), sampleParking())
    const parked = await mustFind(store)
    await decide(store, 'key:bob')
    await store.approvals.resume(parked, { ...GRANT, session })
    const run = { ...attemptAt(sampleCall({ session }), 1), run: parked.record }
    await store.finish({ run, state: 'succeeded', outcome: success('1'), atMs: 4_000 })
    const events = await gistOfRun(store, parked.record)
    assert.deepEqual(
      [events[0], events[1], events.at(-2), events.at(-1)],
      ['opened ses_own', 'called record-1 1', 'returned record-1 1 ok', 'closed ses_own completed'],
    )
  }),
  it('an approval is found only with its own tenant; operators list all', async (store) => {
    await park(store)
    assert.equal(await store.approvals.find({ tenant: 'other', id: 'approval-1' }), undefined)
    assert.equal(await store.approvals.findFor({ tenant: 'other', record: 'record-1' }), undefined)
    assert.equal(await decide(store, 'key:bob', { tenant: 'other' }), 'not_found')
    assert.equal((await store.approvals.list({ limit: 10 })).length, 1)
    assert.equal((await store.approvals.list({ limit: 10, tenant: 'other' })).length, 0)
    assert.equal((await store.approvals.list({ limit: 10, state: 'granted' })).length, 0)
  }),
  it('signatures are equal for equal texts of one purpose only', async (store) => {
    assert.equal(store.sign('link', 'a'), store.sign('link', 'a'))
    assert.notEqual(store.sign('link', 'a'), store.sign('link', 'b'))
    assert.notEqual(store.sign('link', 'a'), store.sign('grant', 'a'))
  }),
]

/** An approval request as the pipeline would create it, for store tests. */
function sampleApproval(changes: Partial<NewApproval> = {}): NewApproval {
  return {
    tenant: 'default',
    id: 'approval-1',
    subject: {
      callId: 'call-1',
      runId: 'run_record-1',
      argsHash: '0'.repeat(64),
      userId: undefined,
      isUserProven: false,
      summaryJson: '{"doorbell_id":"doorbell42"}',
      inputJson: '{"doorbell_id":"doorbell42"}',
      hidden: 0,
      definitionJson: '{"description":"Rings."}',
    },
    binding: 'binding-1',
    quorum: 1,
    requiredScope: 'approvals:respond',
    selfApproval: false,
    overrideBypassesQuorum: false,
    expiresAtMs: 10_000,
    ...changes,
  }
}

export function sampleParking(changes: Partial<NewApproval> = {}, parking: Partial<Parking> = {}): Parking {
  return { approval: sampleApproval(changes), maxParked: 100, keyed: true, ...parking }
}

export function yesOf(by: string, changes: Partial<NewDecision> = {}): NewDecision {
  return {
    ...{ tenant: 'default', id: 'approval-1', by, action: 'grant', reason: undefined },
    ...{ atMs: 2_000, opaque: `prn_${by}` },
    ...changes,
  }
}
