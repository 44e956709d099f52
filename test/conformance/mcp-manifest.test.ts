import { describe, expect, it } from 'vitest'
import { citedIds, type Ledger, requiredIds } from './cited-ids.ts'

const LEDGER: Ledger = { prefix: 'MCP', file: 'mcp.md', vectors: 'mcp.jsonl' }

/** Rows about MCP servers behind us: they come with the source, whose tests cite them. */
const comingWithTheSource: Readonly<Record<string, string>> = {
  'MCP-57': 'annotations of upstream servers are read by the source',
  'MCP-88': 'time limits of requests to upstreams are the source’s',
  'MCP-95': 'the official client authorizes itself at upstreams',
  'MCP-101': 'launching and ending upstream processes is the source’s',
}

describe('the MCP ledger', () => {
  const required = requiredIds(LEDGER)
  const cited = citedIds(LEDGER)

  it('has as many rows as it had', () => {
    expect(required).toHaveLength(95)
  })

  it('has no row without a test, but those said to come', () => {
    expect(required.filter((id) => !cited.has(id) && !(id in comingWithTheSource))).toEqual([])
  })

  it('says of real rows only, and of each without a test, that it comes', () => {
    const said = Object.keys(comingWithTheSource)
    expect(said.filter((id) => !required.includes(id) || cited.has(id))).toEqual([])
  })
})
