import { describe, expect, it } from 'vitest'
import { SILENT_LOGGER } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import { Registry } from '#kernel/tool/catalog'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { sampleTool } from '../../test/contracts/samples.ts'
import { openLearning } from './learning.ts'
import { openToolSearch } from './tool-search.ts'

const caller = (id: string, tenant = 'acme'): Principal => ({ id, tenant, scopes: ['*'] })
const TOOLS = ['Mail.Send', 'Mail.List', 'Files.Read', 'Files.Write'].map((id) =>
  sampleTool(`${id}@1.0.0`, () => null, { description: `Does ${id} of messages.` }),
)

function stage() {
  let nowMs = 1_000_000
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const store = openMemoryStore()
  const registry = new Registry(TOOLS)
  const learning = openLearning({ store: store.pastSearches, clock, log: SILENT_LOGGER })
  const search = openToolSearch({
    ...{ clock, log: SILENT_LOGGER, past: learning },
    catalogFor: (principal) => registry.catalogFor(principal),
  })
  const namesFor = async (who: Principal, text: string) =>
    (await search.find(who, text)).found.map(({ tool }) => tool.parts.base)
  return {
    ...{ store, namesFor, learning },
    /** Searches, and then calls a tool. */
    async use(who: Principal, text: string, base: string, afterMs = 0) {
      await search.find(who, text)
      nowMs += afterMs
      const before = (await store.pastSearches.list(who.tenant)).length
      await learning.noteCall(who, base)
      return (await store.pastSearches.list(who.tenant)).length - before
    },
  }
}

describe('learning from searches', () => {
  const TEXT = 'ring the bell about messages'

  it('stores a query with the tool that was called after it, and ranks that tool higher', async () => {
    const { use, namesFor } = stage()
    const before = await namesFor(caller('key:ann'), TEXT)
    const last = before.at(-1) ?? ''
    expect(await use(caller('key:ann'), TEXT, last)).toBe(1)
    expect((await namesFor(caller('key:ann'), 'ring the bell'))[0]).toBe(last)
  })

  it('stores nothing for a tool that was not found, a late call or a second call', async () => {
    const { use } = stage()
    expect(await use(caller('key:ann'), TEXT, 'Other.Tool')).toBe(0)
    expect(await use(caller('key:ann'), TEXT, 'Mail.Send', 11 * 60_000)).toBe(0)
    expect(await use(caller('key:ann'), TEXT, 'Mail.Send')).toBe(1)
  })

  it('does not change the results of others if only one caller searches, however often; two callers do', async () => {
    const { use, namesFor } = stage()
    const before = await namesFor(caller('key:bob'), TEXT)
    const last = before.at(-1) ?? ''
    for (let time = 0; time < 20; time += 1) await use(caller('key:ann'), TEXT, last)
    expect(await namesFor(caller('key:bob'), TEXT)).toEqual(before)
    await use(caller('key:cid'), TEXT, last)
    expect((await namesFor(caller('key:bob'), TEXT))[0]).toBe(last)
  })

  it('keeps tenants apart', async () => {
    const { use, namesFor } = stage()
    const before = await namesFor(caller('key:ann', 'other'), TEXT)
    for (const id of ['key:ann', 'key:bob', 'key:cid']) await use(caller(id), TEXT, before.at(-1) ?? '')
    expect(await namesFor(caller('key:ann', 'other'), TEXT)).toEqual(before)
  })
})
