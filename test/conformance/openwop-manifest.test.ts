import { describe, expect, it } from 'vitest'
import { citedIds, type Ledger, requiredIds } from './cited-ids.ts'
import { startOpenwopServer } from './openwop-server.ts'

/** It has no vectors of its own, and OTC's name none of its rows. */
const LEDGER: Ledger = { prefix: 'OWP', file: 'openwop.md', vectors: 'otc.jsonl' }

/** Rows that apply only with an advertised capability, with that capability and the reason for not advertising it. */
const notAdvertised: Readonly<Record<string, { readonly family: string; readonly why: string }>> = {
  'OWP-84': {
    family: 'egressPolicy',
    why: 'a credential is handed to the tool that declared it and not attached by the guarded fetch, so nothing decides by audience',
  },
}

const unadvertised = new Set(Object.keys(notAdvertised))

describe('the openwop ledger', () => {
  const required = requiredIds(LEDGER)
  const cited = citedIds(LEDGER)

  it('has 104 rows', () => {
    expect(required).toHaveLength(104)
  })

  it('has no row without a test, except rows of capabilities that are not advertised', () => {
    expect(required.filter((id) => !cited.has(id) && !unadvertised.has(id))).toEqual([])
  })

  it('excuses no row that has a test', () => {
    expect([...unadvertised].filter((id) => cited.has(id))).toEqual([])
  })

  it('advertises no capability whose rows are excused', async () => {
    const server = await startOpenwopServer()
    const { json } = await server.ask('/.well-known/openwop')
    await server.close()
    for (const { family } of Object.values(notAdvertised)) expect(json).not.toHaveProperty(family)
  })

  it('excuses real rows only', () => {
    expect([...unadvertised].filter((id) => !required.includes(id))).toEqual([])
  })
})
