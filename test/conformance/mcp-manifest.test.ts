import { describe, expect, it } from 'vitest'
import { citedIds, type Ledger, requiredIds } from './cited-ids.ts'

const LEDGER: Ledger = { prefix: 'MCP', file: 'mcp.md', vectors: 'mcp.jsonl' }

describe('the MCP ledger', () => {
  const required = requiredIds(LEDGER)
  const cited = citedIds(LEDGER)

  it('loses no row', () => {
    expect(required.length).toBeGreaterThanOrEqual(112)
  })

  it('has no id twice', () => {
    expect(required.filter((id, at) => required.indexOf(id) !== at)).toEqual([])
  })

  it('has no row without a test', () => {
    expect(required.filter((id) => !cited.has(id))).toEqual([])
  })
})
