import { describe, expect, it } from 'vitest'
import { citedIds, type Ledger, requiredIds } from './cited-ids.ts'
import { startOpenwopServer } from './openwop-server.ts'

/** It has no vectors of its own, and OTC's name none of its rows. */
const LEDGER: Ledger = { prefix: 'OWP', file: 'openwop.md', vectors: 'otc.jsonl' }

/** Rows that bind only who advertises a capability, which one, and why it is not advertised. */
const notAdvertised: Readonly<Record<string, { readonly family: string; readonly why: string }>> = {
  'OWP-84': {
    family: 'egressPolicy',
    why: 'a credential is handed to the tool that declared it and not attached by the guarded fetch, so nothing decides by audience',
  },
}

/** Rows that speak of sources other than code, or of mutating endpoints that come with them, and why. */
const comingWithSources: Readonly<Record<string, string>> = {
  'OWP-58': 'no tool output comes from an upstream yet',
  'OWP-89': 'no request of a call reaches an upstream yet, so no key is sent with one (rule 27)',
  'OWP-92': 'Layer 1 keys on mutating endpoints belong to the rows of the sources',
}

const coming = new Set(Object.keys(comingWithSources))
const excused = new Set([...coming, ...Object.keys(notAdvertised)])

describe('the openwop ledger', () => {
  const required = requiredIds(LEDGER)
  const cited = citedIds(LEDGER)

  it('has 104 rows', () => {
    expect(required).toHaveLength(104)
  })

  it('has no row without a test, but those said to come or to bind others', () => {
    expect(required.filter((id) => !cited.has(id) && !excused.has(id))).toEqual([])
  })

  it('says of no row that it comes once it has a test', () => {
    expect([...excused].filter((id) => cited.has(id))).toEqual([])
  })

  it('advertises nothing whose rows it leaves out', async () => {
    const server = await startOpenwopServer()
    const { json } = await server.ask('/.well-known/openwop')
    await server.close()
    for (const { family } of Object.values(notAdvertised)) expect(json).not.toHaveProperty(family)
  })

  it('says of each row once why it comes, and of real rows only', () => {
    const said = [...Object.keys(notAdvertised), ...Object.keys(comingWithSources)]
    expect(said).toHaveLength(excused.size)
    expect(said.filter((id) => !required.includes(id))).toEqual([])
  })
})
