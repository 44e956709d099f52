import { describe, expect, it } from 'vitest'
import { citedIds, type Ledger, requiredIds } from './cited-ids.ts'

const LEDGERS: readonly (Ledger & { readonly rows: number })[] = [
  { prefix: 'OTC', file: 'otc.md', vectors: 'otc.jsonl', rows: 115 },
  { prefix: 'OTS', file: 'opentool.md', vectors: 'opentool.jsonl', rows: 75 },
]

describe.each(LEDGERS)('the ledger $file', (ledger) => {
  const required = requiredIds(ledger)

  it('has the expected number of rows', () => {
    expect(required).toHaveLength(ledger.rows)
  })

  it('has no row without a test', () => {
    const cited = citedIds(ledger)
    expect(required.filter((id) => !cited.has(id))).toEqual([])
  })
})
