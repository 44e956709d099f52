import { describe, expect, it } from 'vitest'
import { sampleCall } from '#testing/sample-call'
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
})
