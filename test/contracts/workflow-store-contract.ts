import assert from 'node:assert/strict'
import type { NewCall } from '#kernel/call/call-record'
import type { Store } from '#store/collet-store'
import type { ContractCase } from './contract-case.ts'
import {
  attemptAt,
  DAY_MS,
  eventsOf,
  it,
  mustFind,
  purgeAll,
  sampleCall,
  scopeAt,
  success,
} from './samples.ts'

const SCOPE = scopeAt('run-w')

function flow(changes: Partial<NewCall> = {}): NewCall {
  return sampleCall({ scope: SCOPE, resumable: true, rerunUntilMs: 10_000, ...changes })
}

function step(record: string, changes: Partial<NewCall> = {}): NewCall {
  const of = { parent: 'record-1', root: 'record-1' }
  return sampleCall({ record, callId: `call-1/${record}`, scope: SCOPE, step: of, ...changes })
}

async function suspend(store: Store, waitsFor = 'step-1'): Promise<void> {
  await store.claim(flow())
  const suspended = await store.workflows.suspend(attemptAt(flow(), 1), { waitsFor, atMs: 2_000 })
  assert.equal(suspended.kind, 'recorded')
}

/** The contract of every store for workflows (rule 31). */
export const WORKFLOW_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('rule 31: a workflow is suspended and resumed once, as the same attempt and recorded as one call', async (store) => {
    await suspend(store)
    const found = await mustFind(store)
    assert.deepEqual([found.state, found.waitsFor, found.attempt], ['parked', 'step-1', 1])
    const next = { atMs: 3_000, rerunUntilMs: 20_000 }
    const both = await Promise.all([store.workflows.resume(found, next), store.workflows.resume(found, next)])
    assert.deepEqual(both.map(({ kind }) => kind).sort(), ['claimed', 'found'])
    const running = await mustFind(store)
    assert.deepEqual([running.state, running.waitsFor, running.attempt], ['running', undefined, 1])
    const run = attemptAt(flow(), 1)
    await store.finish({ run, state: 'succeeded', outcome: success('1'), atMs: 4_000 })
    const events = await eventsOf(store, SCOPE.run)
    assert.deepEqual(
      events.map(({ type }) => type),
      ['called', 'returned'],
    )
  }),
  it('rule 10: a cancel that arrives just before a workflow is suspended does not end the resumed workflow', async (store) => {
    await store.claim(flow())
    assert.equal(
      await store.requestCancel({ tenant: 'default', record: 'record-1' }, 'key:alice', 1_500),
      true,
    )
    assert.equal((await store.cancelRequests()).length, 1)
    await store.workflows.suspend(attemptAt(flow(), 1), { waitsFor: 'step-1', atMs: 2_000 })
    assert.deepEqual(await store.cancelRequests(), [])
    const resumed = await store.workflows.resume(await mustFind(store), { atMs: 3_000, rerunUntilMs: 20_000 })
    assert.equal(resumed.kind, 'claimed')
    assert.deepEqual(await store.cancelRequests(), [])
  }),
  it('rule 31: only a running workflow is suspended, and only by its runner', async (store) => {
    await store.claim(sampleCall())
    const plain = await store.workflows.suspend(attemptAt(sampleCall(), 1), { waitsFor: '', atMs: 2_000 })
    assert.equal(plain.kind, 'found')
    const other = flow({ record: 'record-2' })
    await store.claim(other)
    const late = await store.workflows.suspend(attemptAt(other, 2), { waitsFor: '', atMs: 2_000 })
    assert.equal(late.kind, 'found')
    assert.equal((await mustFind(store, 'record-2')).state, 'running')
  }),
  it('rule 31: a suspended workflow ends when its caller cancels it or it is not resumed in time', async (store) => {
    await suspend(store)
    const address = { tenant: 'default', record: 'record-1' }
    assert.deepEqual(await store.workflows.cancel({ ...address, tenant: 'other' }, 'key:alice', 3_000), [])
    assert.deepEqual(await store.workflows.expire(9_999), [])
    const [ended] = await store.workflows.expire(10_000)
    assert.deepEqual(ended, { record: 'record-1', run: SCOPE.run })
    assert.deepEqual(await store.workflows.cancel(address, 'key:alice', 11_000), [])
    const found = await mustFind(store)
    assert.equal(found.state, 'failed')
    assert.equal(found.outcome?.ok === false && found.outcome.error.code, 'cancelled')
    assert.equal((await store.findRun(SCOPE))?.open, 0)
  }),
  it('rule 31: lists the open steps of a workflow, and names the workflow of a step', async (store) => {
    await store.claim(flow())
    await store.claim(step('step-1'))
    await store.claim(step('step-2'))
    const run = attemptAt(step('step-2'), 1)
    await store.finish({ run, state: 'succeeded', outcome: success('1'), atMs: 2_000 })
    const parent = { tenant: 'default', record: 'record-1' }
    assert.deepEqual(await store.workflows.openSteps(parent), [{ tenant: 'default', record: 'step-1' }])
    assert.deepEqual(await store.workflows.openSteps({ ...parent, tenant: 'other' }), [])
    const found = await mustFind(store, 'step-2')
    assert.deepEqual([found.parent, found.root, found.resumable], ['record-1', 'record-1', false])
    const events = (await store.readJournal([], 100)).flatMap((group) => group.events)
    const claims = events.filter((event) => event.type === 'call.claimed')
    assert.deepEqual(
      claims.map((event) => event.parent),
      [undefined, 'record-1', 'record-1'],
    )
  }),
  it('rule 6: a step is never adopted', async (store) => {
    await store.claim(flow())
    const like = {
      tenant: 'default',
      principal: 'key:alice',
      fingerprint: 'fingerprint-1',
      definitionHash: 'definition-1',
    }
    await store.workflows.suspend(attemptAt(flow(), 1), { waitsFor: '', atMs: 2_000 })
    assert.equal((await store.approvals.findParked(like))?.record, 'record-1')
    const inner = step('step-1', { resumable: true, fingerprint: 'inner' })
    await store.claim(inner)
    await store.workflows.suspend(attemptAt(inner, 1), { waitsFor: '', atMs: 2_000 })
    assert.equal(await store.approvals.findParked({ ...like, fingerprint: 'inner' }), undefined)
  }),
  it('rule 13: the results of steps are kept until the root call is final, and as long after', async (store) => {
    await store.claim(flow({ rerunUntilMs: Number.MAX_SAFE_INTEGER }))
    await store.claim(step('step-1'))
    const run = attemptAt(step('step-1'), 1)
    await store.finish({ run, state: 'succeeded', outcome: success('1'), atMs: 2_000 })
    await purgeAll(store, 10 * DAY_MS)
    assert.deepEqual((await mustFind(store, 'step-1')).outcome, success('1'))
    const root = attemptAt(flow(), 1)
    await store.finish({ run: root, state: 'succeeded', outcome: success('2'), atMs: 10 * DAY_MS })
    await purgeAll(store, 10.5 * DAY_MS)
    assert.deepEqual((await mustFind(store, 'step-1')).outcome, success('1'))
    await purgeAll(store, 12 * DAY_MS)
    assert.deepEqual(
      [(await mustFind(store, 'step-1')).expired, (await mustFind(store)).expired],
      [true, true],
    )
  }),
]
