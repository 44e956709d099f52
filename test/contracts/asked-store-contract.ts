import assert from 'node:assert/strict'
import type { Store } from '#store/collet-store'
import type { ContractCase } from './contract-case.ts'
import { DAY_MS, it, purgeAll } from './samples.ts'

/** What was asked before successful calls: bounded, of one tenant, and deleted with the journal. */
export const ASKED_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('what was asked is read by its tenant only, at most a hundred texts for a tool', async (store) => {
    const asked = { tenant: 'acme', tool: 'Mail.Send', principal: 'key:ann' }
    for (let at = 0; at < 103; at += 1) await store.asked.remember({ ...asked, text: `text ${at}` }, at)
    await store.asked.remember({ ...asked, tool: 'Mail.Read', text: 'read' }, 200)
    await store.asked.remember({ ...asked, tenant: 'other', text: 'secret' }, 200)
    const texts = (await store.asked.list('acme')).map(({ text }) => text)
    assert.equal(texts.length, 101)
    assert.equal(texts[0], 'text 3')
    assert.equal(texts.at(-1), 'read')
    assert.deepEqual(await store.asked.list('other'), [{ ...asked, tenant: 'other', text: 'secret' }])
  }),
  it('what was asked is forgotten with the journal', async (store) => {
    await store.asked.remember({ tenant: 'acme', tool: 'Mail.Send', principal: 'key:ann', text: 'old' }, 0)
    await purgeAll(store, 1_000 * DAY_MS)
    assert.deepEqual(await store.asked.list('acme'), [])
  }),
]
