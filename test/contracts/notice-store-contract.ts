import assert from 'node:assert/strict'
import type { PinChanged } from '#kernel/journal/events'
import { type BudgetWindow, NOTICE_KINDS, type NoticeKind, type Spending } from '#kernel/journal/notices'
import type { Store } from '#store/collet-store'
import type { DueNotice } from '#store/notices'
import { sampleParking, yesOf } from './approval-store-contract.ts'
import type { ContractCase } from './contract-case.ts'
import { DAY_MS, it, purgeAll, sampleCall } from './samples.ts'

const LEASE_MS = 1_000

function listen(store: Store, ...kinds: readonly NoticeKind[]): void {
  store.notices.listen([{ target: 'ops', kinds: new Set(kinds) }])
}

async function take(store: Store, nowMs: number, target = 'ops'): Promise<readonly DueNotice[]> {
  return await store.notices.take(target, nowMs, LEASE_MS, 100)
}

async function park(store: Store, changes: Parameters<typeof sampleParking>[0] = {}): Promise<void> {
  assert.equal((await store.approvals.park(sampleCall(), sampleParking(changes))).kind, 'parked')
}

const HELD: PinChanged = {
  ...{ type: 'pin.held', at: 1_000, source: 'Mail', tool: 'Mail.Send', hash: 'h1', class: 'breaking' },
}

async function holdPins(store: Store, seen: number, events: readonly PinChanged[]): Promise<string> {
  return await store.pins.write({ source: 'Mail', seen, pins: [], changesServed: false, events })
}

const WINDOW: BudgetWindow = { tenant: 'acme', principal: 'key:alice', lengthMs: 3_600_000, startMs: 0 }
const LIMIT: Spending = { calls: 10, milliseconds: 1_000, cost: 1_000 }

async function spend(store: Store, calls: number, window = WINDOW, limit = LIMIT): Promise<void> {
  await store.budgets.lease(window, { calls, milliseconds: 0, cost: 0 }, limit, 1_000)
}

/** The contract of every store for notices: stored with the change, once, until they are delivered or given up. */
export const NOTICE_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('there is no notice without a subscriber, and none of a kind without a subscription', async (store) => {
    await park(store)
    listen(store, 'pin.held')
    await store.approvals.decide(yesOf('key:bob'))
    assert.deepEqual(await store.notices.due(99_000), [])
    assert.deepEqual(await store.notices.listeners(), [])
  }),
  it('an approval request, its decision and its end cause one notice to each subscriber', async (store) => {
    const kinds = new Set(NOTICE_KINDS)
    store.notices.listen([
      { target: 'ops', kinds },
      { target: 'chat', kinds },
    ])
    await park(store)
    assert.deepEqual([...(await store.notices.due(9_000))].sort(), ['chat', 'ops'])
    await store.approvals.decide(yesOf('key:bob'))
    await store.approvals.decide(yesOf('key:bob'))
    const taken = await take(store, 9_000)
    assert.deepEqual(
      taken.map(({ subject }) => subject).sort((left, right) => (left.kind < right.kind ? -1 : 1)),
      [
        { kind: 'approval.decided', approval: 'approval-1', as: 'granted', by: 'key:bob' },
        { kind: 'approval.requested', approval: 'approval-1' },
      ],
    )
    const other = await take(store, 9_000, 'chat')
    assert.equal(new Set([...taken, ...other].map(({ id }) => id)).size, 4)
  }),
  it('a rejection and a timeout cause a notice; an unused grant causes no second one', async (store) => {
    listen(store, 'approval.decided', 'approval.expired')
    await park(store)
    await store.approvals.decide(yesOf('key:bob', { action: 'reject' }))
    const other = sampleCall({ record: 'record-2', callId: 'call-2', fingerprint: 'fingerprint-2' })
    await store.approvals.park(other, sampleParking({ id: 'approval-2' }))
    await store.approvals.expire(10_000)
    await store.approvals.expire(10_001)
    assert.deepEqual(
      (await take(store, 11_000))
        .map(({ subject }) => ('approval' in subject ? subject.approval : ''))
        .sort(),
      ['approval-1', 'approval-2'],
    )
  }),
  it('an added and a replaced source cause a notice with the actor and the target', async (store) => {
    listen(store, 'source.added')
    const source = {
      ...{ key: 'Shell', options: { type: 'mcp', command: 'sh', args: ['-c', 'secret'] }, addedBy: 'key:a' },
      ...{ addedMs: 1_000, replace: false },
    }
    await store.sources.put(source)
    const options = { ...source.options, policy: { approval: 'never' } }
    await store.sources.put({ ...source, options, replace: true, addedMs: 2_000 })
    const named = { kind: 'source.added', source: 'Shell', sourceType: 'mcp', target: 'sh', by: 'key:a' }
    const taken = (await take(store, 3_000)).map(({ subject }) => subject)
    const byReplaced = taken.sort((left) => ('replaced' in left && left.replaced ? 1 : -1))
    assert.deepEqual(byReplaced, [
      { ...named, replaced: false, changes: {} },
      { ...named, replaced: true, changes: { 'policy.approval': 'never' } },
    ])
  }),
  it('pending definitions cause one notice together, and only for the write that succeeded', async (store) => {
    listen(store, 'pin.held')
    const tools = Array.from({ length: 30 }, (_, nth) => ({ ...HELD, tool: `Mail.T${nth}` }))
    assert.equal(await holdPins(store, 0, tools), 'written')
    assert.equal(await holdPins(store, 0, tools), 'stale')
    assert.equal(await holdPins(store, 1, [{ ...HELD, type: 'pin.returned' }]), 'written')
    const [{ subject } = assert.fail('there is no notice'), ...more] = await take(store, 2_000)
    assert.equal(more.length, 0)
    assert.ok(subject.kind === 'pin.held')
    assert.deepEqual([subject.source, subject.count, subject.tools.length], ['Mail', 30, 20])
    assert.deepEqual(subject.tools[0], { tool: 'Mail.T0', class: 'breaking', hash: 'h1' })
    assert.equal(await holdPins(store, 2, [HELD]), 'written')
    assert.equal((await take(store, 2_000)).length, 1)
  }),
  it('a budget causes a notice at 80 and at 100 of 100, once in each window', async (store) => {
    listen(store, 'budget.80', 'budget.100')
    await spend(store, 7)
    assert.deepEqual(await take(store, 2_000), [])
    await spend(store, 1)
    const [first] = await take(store, 2_000)
    assert.deepEqual(first?.subject, { kind: 'budget.80', window: WINDOW, unit: 'calls', used: 8, limit: 10 })
    await store.budgets.returnUnspent(WINDOW, { calls: 3, milliseconds: 0, cost: 0 })
    await Promise.all(Array.from({ length: 20 }, () => spend(store, 1)))
    assert.deepEqual(
      (await take(store, 2_000)).map(({ subject }) => subject.kind),
      ['budget.100'],
    )
    const next = { ...WINDOW, startMs: WINDOW.lengthMs }
    await spend(store, 8, next)
    // A limit below the current use lets nothing through any more, and causes a notice too.
    await spend(store, 1, next, { ...LIMIT, calls: 5 })
    assert.deepEqual((await take(store, 2_000)).map(({ subject }) => subject.kind).sort(), [
      'budget.100',
      'budget.80',
    ])
  }),
  it('a notice is leased to one process at a time, again after its lease, and not after it is settled', async (store) => {
    listen(store, 'approval.requested')
    await park(store)
    const batches = await Promise.all(Array.from({ length: 8 }, () => take(store, 2_000)))
    const [notice = assert.fail('there is no notice'), ...more] = batches.flat()
    assert.deepEqual([notice.tries, notice.createdAtMs, more.length], [1, 1_000, 0])
    assert.deepEqual(await take(store, 2_999), [])
    const [again = assert.fail('it is lost')] = await take(store, 3_000)
    assert.deepEqual([again.id, again.tries], [notice.id, 2])
    // A process whose lease has expired settles nothing, because another process may be delivering the notice.
    await store.notices.settle(notice, { kind: 'delivered', atMs: 3_100 })
    const [held = assert.fail('it is lost')] = await store.notices.listeners()
    assert.deepEqual([held.waiting, held.delivered], [1, 0])
    await store.notices.settle(again, { kind: 'failed', failure: 'said 500', atMs: 3_200, nextAtMs: 9_000 })
    assert.deepEqual(await store.notices.due(8_999), [])
    const [last = assert.fail('it is lost')] = await take(store, 9_000)
    assert.equal(last.tries, 3)
    const state = { target: 'ops', deliveredAtMs: undefined, failedAtMs: 3_200, failure: 'said 500' }
    const waiting = { waiting: 1, waitingSinceMs: 1_000, delivered: 0, givenUp: 0 }
    assert.deepEqual(await store.notices.listeners(), [{ ...state, ...waiting }])
    await store.notices.settle(last, { kind: 'delivered', atMs: 9_100 })
    assert.deepEqual(await take(store, 99_000), [])
    const over = { waiting: 0, waitingSinceMs: undefined, delivered: 1, givenUp: 0, deliveredAtMs: 9_100 }
    assert.deepEqual(await store.notices.listeners(), [{ ...state, ...over }])
  }),
  it('an abandoned notice stays visible for a week, and is then purged', async (store) => {
    listen(store, 'approval.requested')
    await park(store)
    const [notice = assert.fail('there is no notice')] = await take(store, 2_000)
    await store.notices.settle(notice, { kind: 'given_up', failure: 'said 410', atMs: 2_000 })
    await purgeAll(store, 6 * DAY_MS)
    assert.deepEqual(
      (await store.notices.listeners()).map(({ givenUp, failure }) => [givenUp, failure]),
      [[1, 'said 410']],
    )
    await purgeAll(store, 8 * DAY_MS)
    assert.deepEqual(await store.notices.listeners(), [])
  }),
]
