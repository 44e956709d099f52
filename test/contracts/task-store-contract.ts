import assert from 'node:assert/strict'
import type { Store } from '#store/collet-store'
import type { NewTask } from '#store/tasks'
import type { ContractCase } from './contract-case.ts'
import { it, POLICY, purgeAll } from './samples.ts'

const TASK: NewTask = {
  tenant: 'acme',
  principal: 'key:alice',
  callId: 'call-1',
  request: { name: 'Mail_Send', input: { text: 'hello' } },
  atMs: 1_000,
}

/** The contract of every store for tasks of MCP clients. */
export const TASK_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('MCP-123: a task is found by its own principal only, with the request of the first who began it', async ({
    tasks,
  }) => {
    assert.equal(await tasks.find(TASK), undefined)
    await tasks.begin(TASK)
    await tasks.begin({ ...TASK, request: { name: 'other' }, atMs: 2_000 })
    const { atMs: createdAtMs, ...kept } = TASK
    assert.deepEqual(await tasks.find(TASK), { ...kept, createdAtMs, refusal: undefined })
    assert.equal(await tasks.find({ ...TASK, principal: 'key:bob' }), undefined)
    assert.equal(await tasks.find({ ...TASK, tenant: 'globex' }), undefined)
  }),
  it('MCP-127: the tasks of a principal are listed newest first, page by page', async ({ tasks }) => {
    for (const callId of ['call-1', 'call-2', 'call-3']) await tasks.begin({ ...TASK, callId })
    await tasks.begin({ ...TASK, principal: 'key:bob', callId: 'call-4' })
    const page = async (before?: string) =>
      (await tasks.list(TASK, { before, limit: 2 })).map(({ callId }) => callId)
    assert.deepEqual(await page(), ['call-3', 'call-2'])
    assert.deepEqual(await page('call-2'), ['call-1'])
    assert.deepEqual(await page('call-1'), [])
  }),
  it('MCP-124: the first end of a task counts, and retention counts from it', async (store) => {
    await store.tasks.begin(TASK)
    await store.tasks.begin({ ...TASK, callId: 'call-2' })
    await store.tasks.end(TASK, { refusal: { code: 'cancelled' }, atMs: 3_000 })
    await store.tasks.end(TASK, { refusal: { code: 'internal' }, atMs: 9_000 })
    assert.deepEqual((await store.tasks.find(TASK))?.refusal, { code: 'cancelled' })
    await purgeAll(store, 3_000 + POLICY.resultsMs)
    assert.notEqual(await store.tasks.find(TASK), undefined)
    await purgeAll(store, 3_001 + POLICY.resultsMs)
    assert.equal(await store.tasks.find(TASK), undefined)
    assert.notEqual(await store.tasks.find({ ...TASK, callId: 'call-2' }), undefined)
    await purgeAll(store, 1_001 + POLICY.journalMs)
    assert.equal(await store.tasks.find({ ...TASK, callId: 'call-2' }), undefined)
  }),
]
