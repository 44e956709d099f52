import assert from 'node:assert/strict'
import type { AlertFacts, NoticeKind } from '#kernel/journal/notices'
import type { Store } from '#store/collet-store'
import type { ContractCase } from './contract-case.ts'
import { it } from './samples.ts'

const DOWN: AlertFacts & { readonly id: string } = {
  ...{ id: 'rule Files', name: 'source Files' },
  condition: { kind: 'source-down', source: 'Files', sinceMs: 1_000 },
}

async function kinds(store: Store): Promise<readonly NoticeKind[]> {
  const taken = await store.notices.take('ops', 99_000, 1_000, 100)
  return taken.map(({ subject }) => subject.kind)
}

function listen(store: Store): void {
  store.notices.listen([{ target: 'ops', kinds: new Set(['alert.started', 'alert.ended']) }])
}

/** The contract of every store for alerts: each start and each end gives one notice. */
export const ALERT_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('an alert starts once until it ends, also if several processes start it together', async (store) => {
    listen(store)
    const started = await Promise.all([1, 2, 3].map(() => store.alerts.start(DOWN, 2_000)))
    assert.deepEqual(started.toSorted(), [false, false, true])
    assert.equal(await store.alerts.start(DOWN, 3_000), false)
    assert.deepEqual(await kinds(store), ['alert.started'])
    const [active, ...others] = await store.alerts.active()
    assert.deepEqual(others, [])
    assert.deepEqual(active, { ...DOWN, startedAtMs: 2_000, writer: store.writer })
  }),
  it('an alert ends once, and may then start again', async (store) => {
    listen(store)
    await store.alerts.start(DOWN, 2_000)
    const end = { ...DOWN, startedAtMs: 2_000, why: 'recovered' } as const
    const ended = await Promise.all([1, 2].map(() => store.alerts.end(end, 3_000)))
    assert.deepEqual(ended.toSorted(), [false, true])
    assert.deepEqual(await store.alerts.active(), [])
    assert.equal(await store.alerts.start(DOWN, 4_000), true)
    // The end of the earlier alert does not end this one.
    assert.equal(await store.alerts.end(end, 5_000), false)
    assert.deepEqual((await kinds(store)).toSorted(), ['alert.ended', 'alert.started', 'alert.started'])
  }),
]
