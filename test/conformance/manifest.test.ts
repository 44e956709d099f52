import { describe, expect, it } from 'vitest'
import { citedIds, ledgerIds } from './ledger.ts'

describe('the OTC ledger', () => {
  const required = ledgerIds('OTC', 'otc.md')
  const cited = citedIds('OTC', 'otc.jsonl')

  it('has 115 rows', () => {
    expect(required).toHaveLength(115)
  })

  it('has no row without a test', () => {
    expect(required.filter((id) => !cited.has(id))).toEqual([])
  })
})
