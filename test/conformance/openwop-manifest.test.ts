import { describe, expect, it } from 'vitest'
import { citedIds, type Ledger, requiredIds } from './cited-ids.ts'

/** It has no vectors of its own, and OTC's name none of its rows. */
const LEDGER: Ledger = { prefix: 'OWP', file: 'openwop.md', vectors: 'otc.jsonl' }

/** Rows that cannot be met before principals, credentials, approvals and the guarded fetch are there, and why. */
const comingWithTrust: Readonly<Record<string, string>> = {
  'OWP-84': 'only if `egressPolicy` is advertised: no credential is bound to audiences yet',
  'OWP-103': 'the seam drives scopes and rate limits of runs',
  'OWP-106': 'the seam drives roles',
}

/** Rows that speak of sources other than code, or of mutating endpoints that come with them, and why. */
const comingWithSources: Readonly<Record<string, string>> = {
  'OWP-58': 'no tool output comes from an upstream yet',
  'OWP-86': 'ids of exec tools come from the command source',
  'OWP-87': 'no command runs before there is a command source',
  'OWP-92': 'Layer 1 keys on mutating endpoints belong to the rows of the sources',
  'OWP-93': 'there is no connector yet',
}

const coming = new Set([...Object.keys(comingWithTrust), ...Object.keys(comingWithSources)])

describe('the openwop ledger', () => {
  const required = requiredIds(LEDGER)
  const cited = citedIds(LEDGER)

  it('has 104 rows', () => {
    expect(required).toHaveLength(104)
  })

  it('has no row without a test, but those said to come', () => {
    expect(required.filter((id) => !cited.has(id) && !coming.has(id))).toEqual([])
  })

  it('says of no row that it comes once it has a test', () => {
    expect([...coming].filter((id) => cited.has(id))).toEqual([])
  })

  it('says of each row once why it comes, and of real rows only', () => {
    const said = [...Object.keys(comingWithTrust), ...Object.keys(comingWithSources)]
    expect(said).toHaveLength(coming.size)
    expect(said.filter((id) => !required.includes(id))).toEqual([])
  })
})
