import assert from 'node:assert/strict'
import type { NewSource } from '#core/ports/import-store'
import type { Store } from '#core/ports/store'
import type { ContractCase } from './contract.ts'

const WEATHER: NewSource = {
  key: 'Weather',
  options: { type: 'otc', url: 'https://weather.example', apiKey: 'canary-key' },
  addedBy: 'cli:ann',
  addedMs: 1_000,
  replace: false,
}

async function sourceEvents(store: Store): Promise<readonly unknown[]> {
  const groups = await store.readJournal([], 1_000)
  return groups.flatMap(({ events }) => events).filter(({ type }) => type.startsWith('source.'))
}

/** What every store promises about sources that were added while a server runs. */
export const SOURCE_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  {
    name: 'a source is kept with its options, and listed by key',
    async run(open) {
      const store = await open()
      assert.deepEqual(await store.sources.list(), [])
      assert.equal(await store.sources.put(WEATHER), 'added')
      assert.equal(await store.sources.put({ ...WEATHER, key: 'Mail', addedMs: 2_000 }), 'added')
      const { replace: _, ...stored } = WEATHER
      assert.deepEqual(await store.sources.list(), [{ ...stored, key: 'Mail', addedMs: 2_000 }, stored])
    },
  },
  {
    name: 'a key that is taken stays as it is, unless it is to be replaced',
    async run(open) {
      const store = await open()
      const other = { ...WEATHER, options: { type: 'mcp' }, addedBy: 'cli:bob', addedMs: 3_000 }
      await store.sources.put(WEATHER)
      assert.equal(await store.sources.put(other), 'exists')
      assert.deepEqual((await store.sources.list())[0]?.options, WEATHER.options)
      assert.equal(await store.sources.put({ ...other, replace: true }), 'replaced')
      assert.deepEqual(await store.sources.list(), [
        { key: 'Weather', options: { type: 'mcp' }, addedBy: 'cli:bob', addedMs: 3_000 },
      ])
    },
  },
  {
    name: 'of many who add one key at once exactly one does',
    async run(open) {
      const store = await open()
      const results = await Promise.all(Array.from({ length: 20 }, () => store.sources.put(WEATHER)))
      assert.equal(results.filter((result) => result === 'added').length, 1)
      assert.equal(results.filter((result) => result === 'exists').length, 19)
    },
  },
  {
    name: 'a source is taken away once',
    async run(open) {
      const store = await open()
      await store.sources.put(WEATHER)
      const removal = { key: 'Weather', by: 'cli:ann', atMs: 2_000 }
      assert.equal(await store.sources.remove(removal), true)
      assert.equal(await store.sources.remove(removal), false)
      assert.deepEqual(await store.sources.list(), [])
    },
  },
  {
    name: 'every change raises the epoch, and only a change',
    async run(open) {
      const store = await open()
      const { sources } = store
      const epochs = [await sources.epoch()]
      for (const change of [
        () => sources.put(WEATHER),
        () => sources.put(WEATHER),
        () => sources.put({ ...WEATHER, replace: true }),
        () => sources.remove({ key: 'Nobody', by: 'cli:ann', atMs: 2_000 }),
        () => sources.remove({ key: 'Weather', by: 'cli:ann', atMs: 2_000 }),
      ]) {
        await change()
        epochs.push(await sources.epoch())
      }
      assert.deepEqual(epochs, [0, 1, 1, 2, 2, 3])
    },
  },
  {
    name: 'the journal says who changed which source, and nothing of its options',
    async run(open) {
      const store = await open()
      await store.sources.put(WEATHER)
      await store.sources.put({ ...WEATHER, replace: true, addedBy: 'cli:bob', addedMs: 2_000 })
      await store.sources.remove({ key: 'Weather', by: 'key:root', atMs: 3_000 })
      const named = { source: 'Weather', sourceType: 'otc' }
      assert.deepEqual(await sourceEvents(store), [
        { type: 'source.added', at: 1_000, ...named, by: 'cli:ann' },
        { type: 'source.replaced', at: 2_000, ...named, by: 'cli:bob' },
        { type: 'source.removed', at: 3_000, source: 'Weather', by: 'key:root' },
      ])
    },
  },
]
