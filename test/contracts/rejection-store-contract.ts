import assert from 'node:assert/strict'
import type { Store } from '#store/collet-store'
import type { RejectedRequests } from '#store/rejections'
import type { ContractCase } from './contract-case.ts'
import { DAY_MS, it, purgeAll } from './samples.ts'

const MINUTE_MS = 60_000

function sample(changes: Partial<RejectedRequests> = {}): RejectedRequests {
  return {
    ...{ tenant: 'acme', principal: 'key:alice', tool: 'Mail.Send@1.0.0', code: 'input_invalid' },
    ...{ minuteMs: 0, requests: 1, lastAtMs: 1_000, message: 'n must be a number' },
    ...changes,
  }
}

/** The contract of every store for rejected requests: each is counted once, by caller, tool, code and minute. */
export const REJECTION_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('rejected requests of one kind and minute add up, and keep the last message', async (store) => {
    await store.rejections.add([sample()])
    await store.rejections.add([sample({ requests: 4, lastAtMs: 2_000, message: 'm is required' })])
    const [row, ...others] = await store.rejections.list({ limit: 10 })
    assert.deepEqual(others, [])
    assert.deepEqual(
      { ...row, no: 0 },
      {
        ...sample({ requests: 5, lastAtMs: 2_000, message: 'm is required' }),
        no: 0,
      },
    )
  }),
  it('rejected requests are counted separately by caller, tool, code and minute, and found by each', async (store) => {
    const rows = [
      sample(),
      sample({ tenant: 'beta' }),
      sample({ principal: 'key:bob' }),
      sample({ tool: '', code: 'tool_not_found' }),
      sample({ code: 'budget_exceeded' }),
      sample({ minuteMs: MINUTE_MS, lastAtMs: MINUTE_MS + 5 }),
    ]
    await store.rejections.add(rows)
    const found = async (filter: object) => (await store.rejections.list({ limit: 10, ...filter })).length
    assert.equal(await found({}), 6)
    assert.equal(await found({ tenant: 'beta' }), 1)
    assert.equal(await found({ principal: 'key:bob' }), 1)
    assert.equal(await found({ tool: 'mail_send' }), 5)
    assert.equal(await found({ code: 'budget_exceeded' }), 1)
    assert.equal(await found({ sinceMs: MINUTE_MS }), 1)
    assert.equal(await found({ untilMs: MINUTE_MS }), 5)
    const [first, second] = await store.rejections.list({ limit: 2 })
    assert.ok(first !== undefined && second !== undefined && first.no > second.no)
    assert.equal(await found({ before: second.no }), 4)
  }),
  it('counts of rejected requests are summed over a period', async (store) => {
    await store.rejections.add([
      sample({ requests: 2 }),
      sample({ minuteMs: MINUTE_MS, lastAtMs: MINUTE_MS, requests: 3 }),
      sample({ minuteMs: 2 * MINUTE_MS, lastAtMs: 2 * MINUTE_MS, requests: 4 }),
    ])
    const counted = await store.rejections.count({ sinceMs: 0, bucketMs: 2 * MINUTE_MS })
    const parts = counted.map(({ bucket, requests }) => [bucket, requests])
    assert.deepEqual(
      parts.toSorted(([one = 0], [other = 0]) => one - other),
      [
        [0, 5],
        [1, 4],
      ],
    )
  }),
  it('retention purges rejected requests with the journal', async (store) => {
    await store.rejections.add([sample()])
    await purgeAll(store, 400 * DAY_MS)
    assert.deepEqual(await store.rejections.list({ limit: 10 }), [])
  }),
]
