import assert from 'node:assert/strict'
import { canonicalJson } from '#kernel/base/json'
import type { PinChanged } from '#kernel/journal/events'
import type { Store } from '#store/collet-store'
import type { NewSource, PinRecord, PinWrite } from '#store/imports'
import type { ContractCase } from './contract-case.ts'
import { it } from './samples.ts'
import { sampleOffer } from './source-contract.ts'

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

/** The contract of every store for sources that are added while a server runs. */
export const SOURCE_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('a source is kept with its options, and listed by key', async (store) => {
    assert.deepEqual(await store.sources.list(), [])
    assert.equal(await store.sources.put(WEATHER), 'added')
    assert.equal(await store.sources.put({ ...WEATHER, key: 'Mail', addedMs: 2_000 }), 'added')
    const { replace: _, ...stored } = WEATHER
    assert.deepEqual(await store.sources.list(), [{ ...stored, key: 'Mail', addedMs: 2_000 }, stored])
  }),
  it('a used key keeps its source, unless a replacement is requested', async (store) => {
    const other = { ...WEATHER, options: { type: 'mcp' }, addedBy: 'cli:bob', addedMs: 3_000 }
    await store.sources.put(WEATHER)
    assert.equal(await store.sources.put(other), 'exists')
    assert.deepEqual((await store.sources.list())[0]?.options, WEATHER.options)
    assert.equal(await store.sources.put({ ...other, replace: true }), 'replaced')
    assert.deepEqual(await store.sources.list(), [
      { key: 'Weather', options: { type: 'mcp' }, addedBy: 'cli:bob', addedMs: 3_000 },
    ])
  }),
  it('of many concurrent additions of one key exactly one succeeds', async (store) => {
    const results = await Promise.all(Array.from({ length: 20 }, () => store.sources.put(WEATHER)))
    assert.equal(results.filter((result) => result === 'added').length, 1)
    assert.equal(results.filter((result) => result === 'exists').length, 19)
  }),
  it('a source is removed once', async (store) => {
    await store.sources.put(WEATHER)
    const removal = { key: 'Weather', by: 'cli:ann', atMs: 2_000 }
    assert.equal(await store.sources.remove(removal), true)
    assert.equal(await store.sources.remove(removal), false)
    assert.deepEqual(await store.sources.list(), [])
  }),
  it('every change raises the epoch, and only a change', async (store) => {
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
  }),
  it('the journal records who changed which source, its target and its new rules, without secrets', async (store) => {
    await store.sources.put(WEATHER)
    const options = { ...WEATHER.options, policy: { approval: 'never' } }
    await store.sources.put({ ...WEATHER, options, replace: true, addedBy: 'cli:bob', addedMs: 2_000 })
    await store.sources.remove({ key: 'Weather', by: 'key:root', atMs: 3_000 })
    await store.sources.recordProbe({ target: 'npx server-files', by: 'key:root', atMs: 4_000 })
    const named = { source: 'Weather', sourceType: 'otc', target: 'https://weather.example' }
    const [first, second] = [WEATHER.options, options].map((each) => store.digest(canonicalJson(each)))
    const changes = { 'policy.approval': 'never' }
    assert.deepEqual(await sourceEvents(store), [
      { type: 'source.added', at: 1_000, ...named, options: first, by: 'cli:ann' },
      { type: 'source.replaced', at: 2_000, ...named, options: second, changes, by: 'cli:bob' },
      { type: 'source.removed', at: 3_000, source: 'Weather', by: 'key:root' },
      { type: 'source.probed', at: 4_000, target: 'npx server-files', by: 'key:root' },
    ])
  }),
]

function pin(nativeName: string, changes: Partial<PinRecord> = {}): PinRecord {
  const identity = { origin: 'https://tools.example', "odd key '\u{1F600}": [1, null, { a: true }] }
  const definition = { hash: `hash of ${nativeName}`, offered: sampleOffer(nativeName), identity }
  return {
    nativeName,
    local: nativeName,
    accepted: { ...definition, version: '1.0.0', by: 'first sight', atMs: 1_000 },
    isServed: true,
    waiting: {
      kind: 'change',
      definition: { ...definition, hash: 'another' },
      class: 'breaking',
      reasons: ['because'],
      seenAtMs: 2_000,
      rejected: { by: 'alice', atMs: 3_000 },
    },
    ...changes,
  }
}

function change(seen: number, pins: readonly PinRecord[], other: Partial<PinWrite> = {}): PinWrite {
  return { source: 'files', seen, pins, changesServed: true, events: [], ...other }
}

const EVENT: PinChanged = {
  type: 'pin.accepted',
  at: 1_000,
  source: 'files',
  tool: 'files.a',
  hash: 'h',
  class: 'wording',
  version: '1.0.1',
  by: 'alice',
}

/** The contract of every store for imported definitions. */
export const PIN_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('rule 32: returns definitions unchanged, by native name', async (store) => {
    assert.deepEqual(await store.pins.read('files'), { source: 'files', revision: 0, pins: [] })
    const gone = pin('b', { waiting: undefined, isServed: false })
    const held = pin('c', { accepted: undefined, isServed: false })
    assert.equal(await store.pins.write(change(0, [held, gone, pin('a')])), 'written')
    const { revision, pins } = await store.pins.read('files')
    assert.equal(revision, 1)
    assert.deepEqual(pins, [pin('a'), gone, held])
    assert.deepEqual(await store.pins.sources(), ['files'])
  }),
  it('rule 32: the first pin wins, and a write based on a stale read is refused', async (store) => {
    const first = await Promise.all([
      store.pins.write(change(0, [pin('a', { local: 'first' })])),
      store.pins.write(change(0, [pin('a', { local: 'second' })])),
    ])
    assert.deepEqual(first, ['written', 'stale'])
    assert.equal(await store.pins.write(change(7, [])), 'stale')
    assert.equal(
      await store.pins.write(change(1, [pin('a', { local: 'first', waiting: undefined })])),
      'written',
    )
    const { pins } = await store.pins.read('files')
    assert.deepEqual(pins, [pin('a', { local: 'first', waiting: undefined })])
    assert.equal(await store.pins.revision('files'), 2)
    assert.equal(await store.pins.revision('others'), 0)
  }),
  it('rule 32: a first import in several parts counts as one until its last part', async (store) => {
    const part = { isPartial: true, changesServed: false }
    assert.equal(await store.pins.write(change(0, [pin('a')], part)), 'written')
    assert.equal(await store.pins.write(change(0, [pin('a')], part)), 'stale')
    const begun = await store.pins.read('files')
    assert.deepEqual([begun.revision, begun.pins.length], [-1, 1])
    assert.equal(await store.pins.write(change(-1, [pin('b')], part)), 'written')
    assert.equal(await store.pins.write(change(-2, [pin('c')])), 'written')
    const { revision, pins } = await store.pins.read('files')
    assert.deepEqual([revision, pins.length], [1, 3])
  }),
  it('rule 32: raises the epoch only when served definitions change', async (store) => {
    const before = await store.pins.epoch()
    await store.pins.write(change(0, [pin('a')]))
    await store.pins.write(change(1, [pin('a')], { changesServed: false }))
    await store.pins.write(change(1, [pin('a')]))
    assert.equal(await store.pins.epoch(), before + 1)
  }),
  it('rule 32: journals who accepted a definition together with the change, and nothing for a stale one', async (store) => {
    await store.pins.write(change(0, [pin('a')], { events: [EVENT] }))
    await store.pins.write(change(0, [pin('a')], { events: [{ ...EVENT, by: 'mallory' }] }))
    const groups = await store.readJournal([], 100)
    const events = groups
      .flatMap(({ events: inGroup }) => inGroup)
      .filter(({ type }) => type.startsWith('pin.'))
    assert.deepEqual(events, [EVENT])
  }),
]
