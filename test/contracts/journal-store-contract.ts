import assert from 'node:assert/strict'
import type { JournalEvent } from '#kernel/journal/events'
import type { JournalCursor, JournalSearch } from '#store/audit/journal-reader'
import type { Store } from '#store/collet-store'
import { sampleParking } from './approval-store-contract.ts'
import type { ContractCase } from './contract-case.ts'
import { it, runThrough, sampleCall } from './samples.ts'

const EVERYTHING: JournalSearch = { sight: { tenant: undefined } }

async function pagesOf(store: Store, search: JournalSearch, limit: number): Promise<readonly JournalEvent[]> {
  const events: JournalEvent[] = []
  let before: JournalCursor | undefined
  for (let page = 0; page < 1_000; page += 1) {
    const { entries, next } = await store.journal.readPage({ ...search, before }, limit)
    events.push(...entries.map(({ event }) => event))
    if (next === undefined) return events
    before = next
  }
  return assert.fail('the pages do not end')
}

async function allOf(store: Store, search: JournalSearch): Promise<readonly JournalEvent[]> {
  const events: JournalEvent[] = []
  for await (const batch of store.journal.readAll(search, new AbortController().signal))
    events.push(...batch.map(({ event }) => event))
  return events
}

const newKey = (name: string, tenant: string, atMs: number) => ({
  ...{
    tenant,
    name,
    keyId: `id-${name}`,
    digest: `digest-${name}`,
    label: undefined,
    expiresAtMs: undefined,
  },
  ...{ scopes: ['tools:*'], roles: [], tools: undefined, by: 'operator', atMs },
})

async function fill(store: Store): Promise<void> {
  for (let n = 1; n <= 7; n += 1)
    await runThrough(store, sampleCall({ record: `record-${n}`, callId: `call-${n}`, atMs: 1_000 + n }))
  await store.keys.createKey(newKey('alice', 'default', 2_000))
  await store.keys.createKey(newKey('bob', 'acme', 3_000))
}

/** The contract of every store for the journal as auditors read it: newest first, in pages, by filter and tenant. */
export const JOURNAL_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('pages of any size contain every event of the journal once, newest first', async (store) => {
    await fill(store)
    const groups = await store.readJournal([], 1_000)
    const expected = groups.flatMap(({ events }) => events).reverse()
    for (const limit of [1, 2, 3, 5, 500]) assert.deepEqual(await pagesOf(store, EVERYTHING, limit), expected)
    assert.deepEqual(await allOf(store, EVERYTHING), expected)
  }),
  it('a page states how far it searched, and the last page states nothing', async (store) => {
    await fill(store)
    const first = await store.journal.readPage(EVERYTHING, 2)
    assert.equal(first.searchedToMs, first.next?.atMs)
    const { next, searchedToMs } = await store.journal.readPage(EVERYTHING, 500)
    assert.deepEqual([next, searchedToMs], [undefined, undefined])
  }),
  it('events are found by action, person, object and tenant', async (store) => {
    await fill(store)
    const found = async (filter: Partial<JournalSearch>) =>
      (await allOf(store, { ...EVERYTHING, ...filter })).map(({ type }) => type)
    assert.deepEqual(await found({ actions: ['key'] }), ['key.created', 'key.created'])
    assert.deepEqual(await found({ actions: ['key.created'], tenant: 'acme' }), ['key.created'])
    assert.deepEqual(await found({ actions: ['ke'] }), [])
    assert.equal((await found({ person: 'key:alice' })).length, 15)
    assert.equal((await found({ person: 'operator' })).length, 2)
    assert.deepEqual(await found({ object: 'RECORD-3' }), ['call.succeeded', 'call.claimed'])
    assert.deepEqual(await found({ object: '50%"_' }), [])
  }),
  it("a tenant's auditor sees the events of that tenant alone, and the default tenant those of the server", async (store) => {
    await fill(store)
    await store.audit.recordDenials([
      {
        atMs: 4_000,
        tenant: 'acme',
        principal: 'prn_x',
        action: 'tool.call',
        resource: 'A.B',
        reason: 'scope',
        count: 1,
      },
      {
        atMs: 4_000,
        tenant: 'acme',
        principal: 'prn_x',
        action: 'tool.call',
        resource: 'C.D',
        reason: 'tenant',
        count: 1,
      },
    ])
    const seen = async (tenant: string) => (await allOf(store, { sight: { tenant } })).map(({ type }) => type)
    assert.deepEqual(await seen('acme'), ['authorization.decided', 'key.created'])
    assert.deepEqual(await seen('nobody'), [])
    assert.ok((await seen('default')).includes('writer.started'))
    assert.ok(!(await seen('default')).includes('authorization.decided'))
  }),
  it('an export is journaled with its filter', async (store) => {
    const filter = { action: 'key', since: '2026-01-01T00:00:00Z' }
    const record = { what: 'journal', format: 'csv', filter, by: 'key:ann', tenant: 'acme', atMs: 5_000 }
    await store.journal.recordExport(record)
    const { atMs, ...facts } = record
    assert.deepEqual(await allOf(store, { ...EVERYTHING, actions: ['data'] }), [
      { type: 'data.exported', at: atMs, ...facts },
    ])
  }),
  it('approvals are listed in pages', async (store) => {
    for (const n of [1, 2, 3]) {
      const call = sampleCall({ record: `record-${n}`, atMs: 1_000 + n })
      await store.approvals.park(call, sampleParking({ id: `approval-${n}` }))
    }
    const ids: string[] = []
    for (let before: number | undefined; ; ) {
      const page = await store.approvals.listPage({ ...(before !== undefined && { before }), limit: 2 })
      ids.push(...page.approvals.map(({ id }) => id))
      if (page.next === undefined) break
      before = page.next
    }
    assert.deepEqual(ids, ['approval-3', 'approval-2', 'approval-1'])
  }),
]
