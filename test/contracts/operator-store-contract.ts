import assert from 'node:assert/strict'
import type { NewCall } from '#kernel/call/call-record'
import { type CallFilter, type CallSearch, matchesExceptState } from '#store/call-filter'
import type { Store } from '#store/collet-store'
import type { ContractCase } from './contract-case.ts'
import { attemptAt, DAY_MS, it, POLICY, purgeAll, sampleCall, success } from './samples.ts'

const MINUTE_MS = 60_000

/** Five calls, a day apart, of two tenants, three principals and two tools. */
async function record(store: Store): Promise<void> {
  const calls: readonly Partial<NewCall>[] = [
    { record: 'a1' },
    { record: 'a2', principal: 'key:bob' },
    { record: 'b1', tenant: 'team1', principal: 'key:carol', tool: 'Crm.Find@1.0.0' },
    { record: 'b2', tenant: 'team1', principal: 'key:carol', tool: 'Crm.Find@2.0.0' },
    { record: 'c1', tool: 'Crm.FindAll@1.0.0' },
  ]
  for (const [day, changes] of calls.entries()) {
    const call = sampleCall({ ...changes, atMs: day * DAY_MS })
    await store.claim(call)
    if (call.record === 'c1') continue
    // The approval of each took an hour; the tool ran for as many minutes as days have passed.
    const durationMs = (day + 1) * MINUTE_MS
    const outcome = { ...success('1'), durationMs }
    const atMs = call.atMs + 60 * MINUTE_MS + durationMs
    await store.finish({ run: attemptAt(call, 1), state: 'succeeded', outcome, atMs })
  }
}

/** The day that buckets are counted from. */
function firstDay({ sinceMs = 0 }: Omit<CallFilter, 'limit'>): number {
  return sinceMs / DAY_MS
}

/** The contract of every store for operators who read calls. */
export const OPERATOR_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('operators find calls by tenant, principal, tool in any spelling, time and duration', async (store) => {
    await record(store)
    const nowMs = 4 * DAY_MS + MINUTE_MS
    const expected: readonly (readonly [Omit<CallFilter, 'limit'>, readonly string[]])[] = [
      [{}, ['c1', 'b2', 'b1', 'a2', 'a1']],
      [{ tenant: 'team1' }, ['b2', 'b1']],
      [{ principal: 'key:bob' }, ['a2']],
      [{ tool: 'Crm.Find' }, ['b2', 'b1']],
      [{ tool: 'Crm_Find' }, ['b2', 'b1']],
      [{ tool: 'openwop:Crm.Find' }, ['b2', 'b1']],
      [{ tool: 'Crm.Find@2.0.0' }, ['b2']],
      [{ tool: 'Crm.Fin' }, []],
      [{ tool: '%' }, []],
      [{ sinceMs: 3 * DAY_MS }, ['c1', 'b2']],
      [{ untilMs: DAY_MS }, ['a1']],
      [{ sinceMs: DAY_MS, untilMs: 3 * DAY_MS }, ['b1', 'a2']],
      [{ tool: 'crm.find' }, ['b2', 'b1']],
      [{ tool: 'Crm.*' }, ['c1', 'b2', 'b1']],
      [{ tool: '*.Find*' }, ['c1', 'b2', 'b1']],
      [{ tool: 'Crm.*@2.*' }, ['b2']],
      [{ tool: '*' }, ['c1', 'b2', 'b1', 'a2', 'a1']],
      [{ tool: 'C_m.*' }, []],
      [{ took: { minMs: 3 * MINUTE_MS, nowMs } }, ['b2', 'b1']],
      [{ took: { belowMs: 3 * MINUTE_MS, nowMs } }, ['c1', 'a2', 'a1']],
      [{ took: { minMs: 2 * MINUTE_MS, belowMs: 4 * MINUTE_MS, nowMs } }, ['b1', 'a2']],
      [{ took: { minMs: MINUTE_MS, nowMs }, states: ['running'] }, ['c1']],
      [{ states: ['succeeded'], tenant: 'team1', tool: 'Crm.Find', sinceMs: 3 * DAY_MS }, ['b2']],
      [{ states: ['running', 'failed'] }, ['c1']],
      [{ states: ['parked'] }, []],
      [{ states: ['ambiguous'], tool: 'Crm.Find' }, []],
    ]
    const all = await store.summaries(['a1', 'a2', 'b1', 'b2', 'c1', 'nobody'])
    for (const [filter, records] of expected) {
      const { calls, next } = await store.list({ ...filter, limit: 10 })
      const found = calls.map((call) => call.record)
      assert.deepEqual({ filter, found, next }, { filter, found: records, next: undefined })
      const followed = all
        .filter((call) => filter.states?.includes(call.state) ?? true)
        .filter((call) => matchesExceptState(filter, call, nowMs))
        .map(({ record }) => record)
      assert.deepEqual({ filter, followed: followed.sort() }, { filter, followed: records.toSorted() })
      const tally = await store.tally({ ...filter, sinceMs: filter.sinceMs ?? 0, bucketMs: DAY_MS })
      const counted = tally.rows.flatMap(({ bucket, calls }) => Array<number>(calls).fill(bucket))
      const days = records.map((record) => ['a1', 'a2', 'b1', 'b2', 'c1'].indexOf(record) - firstDay(filter))
      assert.deepEqual({ filter, counted: counted.sort() }, { filter, counted: days.sort() })
    }
  }),
  it('the commits of a call are shown, with the actor and the reason of its settlement', async (store) => {
    await record(store)
    const groups = await store.journalOf('a1')
    assert.deepEqual(
      groups.flatMap(({ events }) => events.map(({ type }) => type)),
      ['call.claimed', 'call.succeeded'],
    )
    assert.deepEqual(await store.journalOf('nobody'), [])
    const chains = await store.journalChains()
    const own = chains.find(({ writer }) => writer === store.writer)
    assert.equal(own?.hasEnded, false)
    const last = (await store.readJournal([], 1_000)).at(-1)
    assert.deepEqual([own?.writer, own?.group], [last?.writer, last?.group])
    assert.deepEqual(await store.readJournal(chains, 100), [])
  }),
  it('pages of calls have no gaps, with any filter', async (store) => {
    await record(store)
    const found: string[] = []
    let before: number | undefined
    for (let pages = 0; pages < 10; pages += 1) {
      const cursor = before === undefined ? {} : { before }
      const page = await store.list({ states: ['succeeded'], limit: 1, ...cursor })
      found.push(...page.calls.map((call) => call.record))
      before = page.next
      if (before === undefined) break
    }
    assert.deepEqual(found, ['b2', 'b1', 'a2', 'a1'])
  }),
  it('calls are counted by principal and duration, and open budgets are listed', async (store) => {
    await record(store)
    const { rows, next } = await store.usage({ sinceMs: DAY_MS, tenant: 'team1' })
    assert.equal(next, undefined)
    assert.deepEqual(
      rows.map(({ principal, tool, state, tookMs, calls }) => [principal, tool, state, tookMs, calls]).sort(),
      [
        ['key:carol', 'Crm.Find@1.0.0', 'succeeded', 3 * MINUTE_MS, 1],
        ['key:carol', 'Crm.Find@2.0.0', 'succeeded', 4 * MINUTE_MS, 1],
      ],
    )
    const all = await store.usage({})
    assert.equal(
      all.rows.reduce((total, { calls }) => total + calls, 0),
      5,
    )
    const daily = await store.usage({ tool: 'Crm.Find', sinceMs: DAY_MS, bucketMs: DAY_MS })
    assert.deepEqual(daily.rows.map(({ tool, bucket, calls }) => [tool, bucket, calls]).sort(), [
      ['Crm.Find@1.0.0', 1, 1],
      ['Crm.Find@2.0.0', 2, 1],
    ])
    const { rows: newer } = await store.usage({ tool: 'Crm.Find@2.0.0', sinceMs: 0, bucketMs: DAY_MS })
    assert.deepEqual(
      newer.map(({ tool, bucket }) => [tool, bucket]),
      [['Crm.Find@2.0.0', 3]],
    )
    const window = { tenant: 'team1', principal: undefined, lengthMs: DAY_MS, startMs: 0 }
    const spent = { calls: 3, milliseconds: 400, cost: 5 }
    await store.budgets.lease(window, spent, { calls: 10, milliseconds: 1_000, cost: 10 }, 1_000)
    assert.deepEqual(await store.openBudgets(1, undefined, 5), [{ window, used: spent }])
    assert.deepEqual(await store.openBudgets(1, 'other', 5), [])
    assert.deepEqual(await store.openBudgets(DAY_MS, 'team1', 5), [])
  }),
  it('calls are found by a prefix of their record id, and steps by their workflow', async (store) => {
    await record(store)
    const step = { parent: 'a1', root: 'a1' }
    await store.claim(sampleCall({ record: 's1', step }))
    await store.claim(sampleCall({ record: 's2', step }))
    const named = async (prefix: string) => (await store.findByPrefix(prefix, 2)).map((call) => call.record)
    assert.deepEqual(await named('b'), ['b1', 'b2'])
    assert.deepEqual(await named('b2'), ['b2'])
    assert.deepEqual(await named('x'), [])
    assert.deepEqual(await named('%'), [])
    assert.deepEqual(
      (await store.stepsOf('a1', 5)).map((call) => call.record),
      ['s1', 's2'],
    )
  }),
  it('reading the input of a call records the reader in the journal, and the input is purged with the results', async (store) => {
    await record(store)
    const look = { by: 'key:boss', atMs: 5 * DAY_MS }
    assert.deepEqual(await store.readInput({ record: 'a1', ...look }), { json: sampleCall().inputJson })
    const shown = (await store.readJournal([], 100))
      .flatMap(({ events }) => events)
      .filter(({ type }) => type === 'call.shown')
    assert.deepEqual(
      shown.map((event) => ('by' in event && 'record' in event ? [event.record, event.by, event.at] : [])),
      [['a1', 'key:boss', 5 * DAY_MS]],
    )
    assert.equal(await store.readInput({ record: 'none', ...look }), 'not_found')
    await purgeAll(store, POLICY.resultsMs + 5 * DAY_MS)
    assert.equal(await store.readInput({ record: 'a1', ...look }), 'gone')
  }),
  it('calls are found by any text that identifies them, and by their errors', async (store) => {
    const caller = { callId: 'order-1042', traceId: 'f'.repeat(32), userId: 'ann', protocol: 'mcp' } as const
    const named = sampleCall({ record: 'n1', ...caller, atMs: DAY_MS })
    const failing = sampleCall({ record: 'n2', callId: 'other', atMs: 2 * DAY_MS })
    const step = sampleCall({ record: 'n3', step: { parent: 'n1', root: 'n1' }, atMs: 3 * DAY_MS })
    for (const call of [named, failing, step]) await store.claim(call)
    const error = { code: 'tool_failed', message: 'Order A-1042 was not found.', canRetry: false } as const
    const outcome = { ok: false, error, durationMs: 1 } as const
    await store.finish({ run: attemptAt(failing, 1), state: 'failed', outcome, atMs: 2 * DAY_MS })
    const expected: readonly (readonly [CallSearch, readonly string[]])[] = [
      [{ id: 'order-1042' }, ['n1']],
      [{ id: 'f'.repeat(32) }, ['n1']],
      [{ id: 'ann' }, ['n1']],
      [{ id: 'n1' }, ['n3', 'n1']],
      [{ id: 'run_n2' }, ['n2']],
      [{ id: 'nothing' }, []],
      [{ callId: 'order-1042' }, ['n1']],
      [{ traceId: 'f'.repeat(32) }, ['n1']],
      [{ userId: 'ann', protocol: 'mcp' }, ['n1']],
      [{ userId: 'ann', protocol: 'otc' }, []],
      [{ runId: 'run_n3' }, ['n3']],
      [{ parent: 'n1' }, ['n3']],
      [{ sessionId: 'none' }, []],
      [{ code: 'tool_failed' }, ['n2']],
      [{ code: 'cancelled' }, []],
      [{ message: 'WAS NOT found' }, ['n2']],
      [{ message: 'Order … was not found.' }, ['n2']],
      [{ message: 'order B-7' }, []],
    ]
    for (const [search, records] of expected) {
      const { calls, next } = await store.list({ search, limit: 10 })
      assert.deepEqual(
        { search, next, found: calls.map(({ record }) => record) },
        { search, next: undefined, found: records },
      )
      const { rows } = await store.tally({ search, sinceMs: 0, bucketMs: DAY_MS })
      assert.deepEqual(
        rows.map(({ bucket }) => `n${bucket}`),
        records,
      )
    }
    const first = await store.list({ search: { id: 'n1' }, limit: 1 })
    assert.deepEqual(
      first.calls.map(({ record }) => record),
      ['n3'],
    )
    const second = await store.list({ search: { id: 'n1' }, limit: 1, before: first.next })
    assert.deepEqual(
      second.calls.map(({ record }) => record),
      ['n1'],
    )
    const { rows } = await store.failures({ sinceMs: DAY_MS })
    assert.deepEqual(
      rows.map(({ record, error: { code, message } }) => [record, code, message]),
      [['n2', 'tool_failed', 'Order A-1042 was not found.']],
    )
    assert.deepEqual((await store.failures({ search: { message: 'no' }, tool: 'Nothing.*' })).rows, [])
    assert.deepEqual(await store.newestCallers(undefined, 10), [
      { tenant: 'default', principal: 'key:alice' },
    ])
    assert.deepEqual((await store.findByRecords(['n3', 'none', 'n1'])).map(({ record }) => record).sort(), [
      'n1',
      'n3',
    ])
  }),
  it('the inputs of several calls are read together, and each reading is journaled', async (store) => {
    await record(store)
    const access = { by: 'key:boss', atMs: 5 * DAY_MS }
    const inputs = await store.readInputs({ records: ['a1', 'b1', 'none'], ...access })
    assert.deepEqual([...inputs].sort(), [
      ['a1', sampleCall().inputJson],
      ['b1', sampleCall().inputJson],
    ])
    const shown = (await store.readJournal([], 100))
      .flatMap(({ events }) => events)
      .filter(({ type }) => type === 'call.shown')
    assert.deepEqual(
      shown
        .map((event) => ('part' in event && 'record' in event ? [event.record, event.part, event.at] : []))
        .sort(),
      [
        ['a1', 'summary', 5 * DAY_MS],
        ['b1', 'summary', 5 * DAY_MS],
      ],
    )
    await purgeAll(store, POLICY.resultsMs + 5 * DAY_MS)
    assert.deepEqual([...(await store.readInputs({ records: ['a1'], ...access }))], [])
  }),
  it('the log of a call is kept in order, and deleted with the results', async (store) => {
    const line = (text: string) => ({ atMs: 5, level: 'warn', text }) as const
    await store.callLogs.add([
      { record: 'a1', atMs: 5, lines: [line('one'), line('two')] },
      { record: 'a2', atMs: 5, lines: [line('other')] },
    ])
    await store.callLogs.add([{ record: 'a1', atMs: 6, lines: [line('three')] }])
    assert.deepEqual(await store.callLogs.read('a1'), [line('one'), line('two'), line('three')])
    assert.deepEqual(await store.callLogs.read('none'), [])
    await purgeAll(store, POLICY.resultsMs + DAY_MS)
    assert.deepEqual(await store.callLogs.read('a1'), [])
  }),
]
