import assert from 'node:assert/strict'
import type { Store } from '#store/collet-store'
import { ROLLUP_KINDS, type RollupKind } from '#store/rollups/call-counts'
import type { ContractCase } from './contract-case.ts'
import { attemptAt, DAY_MS, failure, it, purgeAll, runThrough, sampleCall, success } from './samples.ts'

const MINUTE_MS = 60_000
const ALL = { sinceMs: 0, untilMs: DAY_MS }

/** Calls and errors by kind and name over a day, as `name calls errors`. */
async function countsOf(store: Store, kinds: readonly RollupKind[], tenant?: string): Promise<string[]> {
  const range = { ...ALL, stepMs: MINUTE_MS, bucketMs: DAY_MS, tenant } as const
  const rows = await store.rollups.series({ ...range, kinds })
  return rows.map(({ kind, name, calls, errors }) => `${kind} ${name} ${calls} ${errors}`).sort()
}

/** Makes one call of alice that succeeds, one of bob that fails, and returns what they count as. */
async function makeCalls(store: Store): Promise<readonly string[]> {
  await runThrough(store, sampleCall({ record: 'good', tool: 'Mail.Send@1.0.0', atMs: 1_000 }))
  const bad = sampleCall({ record: 'bad', principal: 'key:bob', tool: 'Mail.Send@2.0.0', atMs: 2_000 })
  await store.claim(bad)
  await store.finish({ run: attemptAt(bad, 1), state: 'failed', outcome: failure(false), atMs: 2_000 })
  return [
    'caller key:alice 1 0',
    'caller key:bob 1 1',
    'state failed 1 0',
    'state succeeded 1 0',
    'tool Mail.Send 2 1',
  ]
}

const WITHOUT_TIMES = ROLLUP_KINDS.filter((kind) => kind !== 'time')

/** The contract of every store for rollups: each call that ended counts once, whatever happens to the process that ran it. */
export const ROLLUP_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('calls are counted by state, tool and caller when they end, and are visible after a flush', async (store) => {
    store.rollups.collect()
    const expected = await makeCalls(store)
    assert.deepEqual(await countsOf(store, WITHOUT_TIMES), [])
    await store.rollups.flush()
    assert.deepEqual(await countsOf(store, WITHOUT_TIMES), expected)
    await store.rollups.flush()
    await store.rollups.catchUp()
    assert.deepEqual(await countsOf(store, WITHOUT_TIMES), expected)
  }),
  it('calls that were not counted while they ran are counted from the journal, once', async (store) => {
    const expected = await makeCalls(store)
    await store.rollups.flush()
    assert.deepEqual(await countsOf(store, WITHOUT_TIMES), [])
    await store.rollups.catchUp()
    assert.deepEqual(await countsOf(store, WITHOUT_TIMES), expected)
    await store.rollups.catchUp()
    assert.deepEqual(await countsOf(store, WITHOUT_TIMES), expected)
  }),
  it('counts that begin in the middle of a chain are not written before what precedes them', async (store) => {
    const before = await makeCalls(store)
    store.rollups.collect()
    await runThrough(store, sampleCall({ record: 'later', tool: 'Mail.Send@1.0.0', atMs: 3_000 }))
    await store.rollups.flush()
    assert.deepEqual(await countsOf(store, WITHOUT_TIMES), [])
    await store.rollups.catchUp()
    const both = [
      'caller key:alice 2 0',
      'caller key:bob 1 1',
      'state failed 1 0',
      'state succeeded 2 0',
      'tool Mail.Send 3 1',
    ]
    assert.deepEqual(await countsOf(store, WITHOUT_TIMES), both)
    assert.equal(before.length, both.length)
    await runThrough(store, sampleCall({ record: 'last', tool: 'Mail.Send@1.0.0', atMs: 4_000 }))
    await store.rollups.flush()
    assert.deepEqual(await countsOf(store, ['tool']), ['tool Mail.Send 4 1'])
  }),
  it('run times are counted to two digits; a call that never started has none', async (store) => {
    store.rollups.collect()
    const end = async (record: string, durationMs: number) => {
      const call = sampleCall({ record })
      await store.insertFinished(call, {
        state: 'succeeded',
        outcome: { ...success('1'), durationMs },
        atMs: 1_000,
      })
    }
    await end('one', 0.3)
    await end('two', 1_234)
    await end('three', 1_151)
    const refused = sampleCall({ record: 'four' })
    const outcome = { ...failure(false), durationMs: 0, neverStarted: true } as const
    await store.insertFinished(refused, { state: 'failed', outcome, atMs: 1_000 })
    await store.rollups.flush()
    assert.deepEqual(await countsOf(store, ['time']), ['time 0 1 0', 'time 1200 2 0'])
  }),
  it('intervals of every length have the same sums, and are read by tenant', async (store) => {
    store.rollups.collect()
    for (const [nth, atMs] of [0, 59_999, 60_000, 16 * MINUTE_MS, 200 * MINUTE_MS].entries()) {
      const tenant = nth === 0 ? 'acme' : 'beta'
      await runThrough(store, sampleCall({ record: `call ${nth}`, tenant, atMs }))
    }
    await store.rollups.flush()
    const buckets = async (stepMs: 60_000 | 900_000 | 10_800_000, tenant?: string) => {
      const rows = await store.rollups.series({ ...ALL, stepMs, bucketMs: stepMs, kinds: ['state'], tenant })
      return rows
        .toSorted((one, other) => one.bucket - other.bucket)
        .map(({ bucket, calls }) => [bucket, calls])
    }
    assert.deepEqual(await buckets(60_000), [
      [0, 2],
      [1, 1],
      [16, 1],
      [200, 1],
    ])
    assert.deepEqual(await buckets(900_000), [
      [0, 3],
      [1, 1],
      [13, 1],
    ])
    assert.deepEqual(await buckets(10_800_000), [
      [0, 4],
      [1, 1],
    ])
    assert.deepEqual(await buckets(10_800_000, 'acme'), [[0, 1]])
    const range = { ...ALL, stepMs: 60_000, kind: 'state' } as const
    assert.deepEqual(await store.rollups.total({ ...range, name: 'succeeded', tenant: 'beta' }), {
      calls: 4,
      errors: 0,
    })
    assert.deepEqual(await store.rollups.total({ ...range, sinceMs: 60_000 }), { calls: 3, errors: 0 })
  }),
  it('the names with the most calls or errors come first', async (store) => {
    store.rollups.collect()
    const call = async (record: string, tool: string, state: 'succeeded' | 'failed') => {
      const outcome = state === 'failed' ? failure(false) : success('1')
      await store.insertFinished(sampleCall({ record, tool }), { state, outcome, atMs: 1_000 })
    }
    for (const nth of [1, 2, 3]) await call(`a${nth}`, 'A.A@1.0.0', 'succeeded')
    await call('b1', 'B.B@1.0.0', 'failed')
    await call('b2', 'B.B@1.0.0', 'succeeded')
    await call('c1', 'C.C@1.0.0', 'succeeded')
    await store.rollups.flush()
    const range = { ...ALL, stepMs: 60_000, kind: 'tool', limit: 2 } as const
    assert.deepEqual(await store.rollups.top({ ...range, by: 'calls' }), [
      { tenant: 'default', name: 'A.A', calls: 3, errors: 0 },
      { tenant: 'default', name: 'B.B', calls: 2, errors: 1 },
    ])
    assert.deepEqual(await store.rollups.top({ ...range, by: 'errors' }), [
      { tenant: 'default', name: 'B.B', calls: 2, errors: 1 },
    ])
  }),
  it('rejected requests are counted by code, tool and caller', async (store) => {
    const one = { tenant: 'acme', principal: 'key:alice', tool: 'Mail.Send@1.0.0', message: 'no' } as const
    await store.rejections.add([
      { ...one, code: 'input_invalid', minuteMs: 0, requests: 3, lastAtMs: 1_000 },
      { ...one, tool: '', code: 'tool_not_found', minuteMs: 0, requests: 2, lastAtMs: 1_000 },
    ])
    await store.rejections.add([{ ...one, code: 'input_invalid', minuteMs: 0, requests: 1, lastAtMs: 2_000 }])
    assert.deepEqual(await countsOf(store, ROLLUP_KINDS), [
      'code input_invalid 4 0',
      'code tool_not_found 2 0',
      'rejected caller key:alice 6 0',
      'rejected tool  2 0',
      'rejected tool Mail.Send 4 0',
    ])
  }),
  it('retention removes short intervals first, and all of them with the journal', async (store) => {
    store.rollups.collect()
    await makeCalls(store)
    await store.rollups.flush()
    const left = async (stepMs: 60_000 | 900_000 | 10_800_000) =>
      (await store.rollups.total({ ...ALL, stepMs, kind: 'tool' })).calls
    await purgeAll(store, 3 * DAY_MS)
    assert.deepEqual([await left(60_000), await left(900_000), await left(10_800_000)], [0, 2, 2])
    await purgeAll(store, 40 * DAY_MS)
    assert.deepEqual([await left(900_000), await left(10_800_000)], [0, 2])
    await purgeAll(store, 400 * DAY_MS)
    assert.equal(await left(10_800_000), 0)
  }),
]
