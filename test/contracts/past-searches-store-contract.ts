import assert from 'node:assert/strict'
import type { Store } from '#store/collet-store'
import type { ContractCase } from './contract-case.ts'
import { DAY_MS, it, purgeAll } from './samples.ts'

/** Past searches: limited in number, visible to their tenant only, and deleted with the journal. */
export const PAST_SEARCHES_CONTRACT: readonly ContractCase<Store>[] = [
  it('past searches are read by their tenant only, at most a hundred per tool', async (store) => {
    const search = { tenant: 'acme', tool: 'Mail.Send', principal: 'key:ann' }
    for (let at = 0; at < 103; at += 1)
      await store.pastSearches.remember({ ...search, text: `text ${at}` }, at)
    await store.pastSearches.remember({ ...search, tool: 'Mail.Read', text: 'read' }, 200)
    await store.pastSearches.remember({ ...search, tenant: 'other', text: 'secret' }, 200)
    const texts = (await store.pastSearches.list('acme')).map(({ text }) => text)
    assert.equal(texts.length, 101)
    assert.equal(texts[0], 'text 3')
    assert.equal(texts.at(-1), 'read')
    assert.deepEqual(await store.pastSearches.list('other'), [{ ...search, tenant: 'other', text: 'secret' }])
  }),
  it('a caller that searches often displaces its own searches, not those of others', async (store) => {
    const search = { tenant: 'acme', tool: 'Mail.Send', principal: 'key:ann', text: 'first' }
    for (let at = 0; at < 30; at += 1)
      await store.pastSearches.remember({ ...search, principal: `key:${at}` }, at)
    for (let at = 0; at < 120; at += 1)
      await store.pastSearches.remember({ ...search, text: `text ${at}` }, at)
    const rows = await store.pastSearches.list('acme')
    assert.equal(rows.length, 100)
    assert.equal(rows.filter(({ principal }) => principal !== 'key:ann').length, 30)
    assert.equal(rows.at(-1)?.text, 'text 119')
  }),
  it('past searches are deleted with the journal', async (store) => {
    await store.pastSearches.remember(
      { tenant: 'acme', tool: 'Mail.Send', principal: 'key:ann', text: 'old' },
      0,
    )
    await purgeAll(store, 1_000 * DAY_MS)
    assert.deepEqual(await store.pastSearches.list('acme'), [])
  }),
]
