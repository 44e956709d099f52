import { describe, expect, it } from 'vitest'
import { POLICY, placeAt, sampleCall, sampleSession } from '#testing/samples'
import { STORE_CONTRACT } from '#testing/store-contract'
import { MemoryStore } from './memory.ts'

describe('the memory store', () => {
  for (const { name, run } of STORE_CONTRACT) it(name, () => run(async () => new MemoryStore()))

  it('rule 13: refuses new calls when full and evicts nothing', () => {
    const store = new MemoryStore({ mostBytes: 1_000 })
    store.claim(sampleCall())
    expect(() => store.claim(sampleCall({ record: 'record-2' }))).toThrow(/takes no more/)
    expect(store.find({ tenant: 'default', record: 'record-1' })).toBeDefined()
  })

  it('rule 13: refuses new sessions when full, closes those it has, and has room again when they are forgotten', () => {
    const store = new MemoryStore({ mostBytes: 1_000 })
    store.openSession(sampleSession('ses_1'))
    expect(() => store.openSession(sampleSession('ses_2', { place: placeAt('run-b') }))).toThrow(
      /takes no more/,
    )
    const inRun = sampleCall({ place: placeAt('run-b') })
    expect(() => store.claim(inRun)).toThrow(/takes no more/)
    expect(store.findRun(placeAt('run-b'))).toBeUndefined()
    expect(store.closeSession(sampleSession('ses_1'), 'completed', 2_000)).toBe(true)
    store.purge(2_001 + POLICY.journalMs, POLICY)
    expect(store.openSession(sampleSession('ses_2'))).toBe('opened')
  })
})
