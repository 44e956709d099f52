import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SILENT_LOGGER } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import { Registry } from '#kernel/tool/catalog'
import type { PastSearch } from '#store/past-searches'
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

/** What a caller finds that has not searched before. */
async function found(rows: readonly PastSearch[], text: string): Promise<readonly string[]> {
  const registry = new Registry(TOOLS)
  const clock = { nowMs: () => 1_000_000, monotonicMs: () => 0 }
  const store = { remember: () => undefined, list: () => rows }
  const search = openToolSearch({
    ...{ clock, log: SILENT_LOGGER, past: openLearning({ store, clock, log: SILENT_LOGGER }) },
    catalogFor: (principal) => registry.catalogFor(principal),
  })
  return (await search.find(caller('key:new'), text)).found.map((each) => each.tool.parts.base)
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

  it('changes no order for others if only one caller searches', async () => {
    const { use, namesFor } = stage()
    const before = await namesFor(caller('key:bob'), TEXT)
    const last = before.at(-1) ?? ''
    for (let time = 0; time < 20; time += 1) await use(caller('key:ann'), TEXT, last)
    expect(await namesFor(caller('key:bob'), TEXT)).toEqual(before)
  })

  it('moves the tool that most callers chose up by one place for each further caller', async () => {
    const { use, namesFor } = stage()
    const text = 'mail and files of messages'
    const before = await namesFor(caller('key:bob'), text)
    expect(before).toHaveLength(TOOLS.length)
    const last = before.at(-1) ?? ''
    const places: number[] = []
    for (const id of ['key:a', 'key:b', 'key:c', 'key:d']) {
      await use(caller(id), text, last)
      places.push((await namesFor(caller('key:bob'), text)).indexOf(last))
    }
    expect(places).toEqual([3, 2, 1, 0])
  })

  it('one caller moves no tool by more than one place for others, whatever it searches for and however often', async () => {
    const tool = fc.constantFrom(...TOOLS.map(({ parts }) => parts.base))
    const text = fc.constantFrom(TEXT, 'send messages', 'read files', 'bell of mail', 'list files of mail')
    const ask = fc.record({ tool, text })
    const honest = fc.array(fc.record({ tool, text, by: fc.integer({ min: 0, max: 6 }) }), { maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(honest, fc.array(ask, { maxLength: 60 }), text, async (asked, poison, query) => {
        const rows = asked.map(({ by, ...each }) => ({ ...each, tenant: 'acme', principal: `key:${by}` }))
        const added = poison.map((each) => ({ ...each, tenant: 'acme', principal: 'key:poisoner' }))
        const [before, after] = await Promise.all([found(rows, query), found([...rows, ...added], query)])
        const places = new Map(before.map((name, place) => [name, place]))
        for (const [place, name] of after.entries())
          expect(Math.abs(place - (places.get(name) ?? before.length))).toBeLessThanOrEqual(1)
      }),
      { numRuns: 300 },
    )
  })

  it('keeps tenants apart', async () => {
    const { use, namesFor } = stage()
    const before = await namesFor(caller('key:ann', 'other'), TEXT)
    for (const id of ['key:ann', 'key:bob', 'key:cid']) await use(caller(id), TEXT, before.at(-1) ?? '')
    expect(await namesFor(caller('key:ann', 'other'), TEXT)).toEqual(before)
  })
})
