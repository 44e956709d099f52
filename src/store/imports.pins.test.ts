import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { Pins } from '#sources/kit/pins'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { FakeClock } from '#testing/test-gateway'
import { sampleOffer } from '../../test/contracts/source-contract.ts'
import { sampleDiscovery, sampleSource } from '../../test/samples/sources.ts'
import type { Store } from './collet-store.ts'

let folder: string
const stores: Store[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-pins-'))
})

afterEach(async () => {
  for (const store of stores.splice(0)) await store.close()
  rmSync(folder, { recursive: true })
})

function replica(): { readonly store: Store; readonly pins: Pins } {
  const store = openSqliteStore({ path: join(folder, 'collet.db'), masterKey: Buffer.alloc(32, 9) })
  stores.push(store)
  return { store, pins: new Pins({ store, clock: new FakeClock(), log: SILENT_LOGGER }) }
}

const served = async (pins: Pins) => (await pins.accepted('files')).map(({ offered }) => offered.description)

describe('pins of two processes on one file', () => {
  it('rule 32: the first pin wins, and both processes serve it', async () => {
    const [left, right] = [replica(), replica()]
    const offers = ['Left.', 'Right.'].map((description) =>
      sampleDiscovery([sampleOffer('a', { description })]),
    )
    const [first, second] = await Promise.all(
      [left, right].map(({ pins }, index) =>
        pins.observe(sampleSource(), offers[index] ?? sampleDiscovery([])),
      ),
    )
    expect([first?.changed, second?.changed].filter((changed) => changed === true)).toHaveLength(1)
    expect((first?.waiting ?? 0) + (second?.waiting ?? 0)).toBe(1)
    expect(await served(left.pins)).toEqual(await served(right.pins))
  })

  it('both processes see a decision by one of them, by the epoch and by the served definition, and it survives a restart', async () => {
    const [left, right] = [replica(), replica()]
    await left.pins.observe(sampleSource(), sampleDiscovery([sampleOffer('a')]))
    expect(await served(right.pins)).toEqual(['Does a.'])
    await left.pins.observe(sampleSource(), sampleDiscovery([sampleOffer('a', { description: 'New.' })]))
    const before = await right.store.pins.epoch()
    await left.pins.accept('files.a', { by: 'alice' })
    expect(await right.store.pins.epoch()).toBe(before + 1)
    expect(await served(right.pins)).toEqual(['New.'])
    expect(await served(replica().pins)).toEqual(['New.'])
  })

  it('reuse the objects of unchanged definitions, whichever process decides', async () => {
    const [left, right] = [replica(), replica()]
    await left.pins.observe(sampleSource(), sampleDiscovery([sampleOffer('a'), sampleOffer('b')]))
    const first = await left.pins.accepted('files')
    const changed = sampleDiscovery([sampleOffer('a', { title: 'A' }), sampleOffer('b')])
    for (const pins of [right.pins, left.pins]) await pins.observe(sampleSource(), changed)
    await right.pins.accept('files.a', { by: 'alice' })
    const second = await left.pins.accepted('files')
    expect(second[0]?.offered.title).toBe('A')
    expect(second[1]?.offered).toBe(first[1]?.offered)
  })
})
