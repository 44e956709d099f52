import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { DEFINITION } from '#store/collet-store'

/** Statements that may read every row, each with the reason. */
const SCANS: Readonly<Record<string, string>> = {
  openWriters: 'one row per process that has written, and an index of running calls only',
  allWriters: 'one row per process that has written',
  oldChains: 'one row per process that has written',
  chainEnds: 'one row per process that has written',
  newHeads: 'one row per process that has written',
  uncountedChains: 'one row per process that has written',
  chains: 'one row per process that has written',
  chainsWithoutBlocks: 'one row per process that has written',
  newestBlocks: 'one row per process that has written',
  forgetBlocks: 'one row per process that has written',
  activeAlerts: 'one row per alert that is active',
  receiptKeys: 'one row per key that signs receipts',
  listParkedCalls: 'a small index of parked calls',
  countAmbiguous: 'a small index of ambiguous calls',
  listRunningCalls: 'an index of running calls only',
  vaultTenants: 'one row per tenant that has a vault',
  listCredentials: 'for operators, newest first, stopped by its limit',
  listApprovals: 'for operators, newest first, stopped by its limit',
  deleteChallenges: 'a few rows, and stopped by its limit',
  pinSources: 'one row per source that was discovered',
  listKeys: 'for operators, newest first, stopped by its limit',
  'approvals all': 'a check of the whole store',
  'approval_decisions all': 'a check of the whole store',
  'key_owners all': 'a check of the whole store',
  'api_keys all': 'a check of the whole store',
  'pins all': 'a check of the whole store',
  keyGenerations: 'one row per change of the key',
  newestGeneration: 'one row per change of the key, the newest first',
  unendedWriters: 'one row per process that has written',
  triggers: 'about ten rows that describe the tables',
  listenersOfNotices: 'for operators, over the notices of a week',
  listStandingRules: 'for operators, newest first, stopped by its limit',
  'standing_rules all': 'a check of the whole store',
  listSources: 'one row per source, and all are needed',
}

describe('the queries', () => {
  it('use an index, and never scan a table', () => {
    const database = new DatabaseSync(':memory:')
    for (const step of DEFINITION.migrations) database.exec(step)
    const scanning = Object.entries(DEFINITION.queries)
      .filter(([, sql]) => !sql.startsWith('INSERT'))
      .filter(([, sql]) => {
        const values = Array.from(sql.matchAll(/\?/g), () => null)
        const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values)
        return plan.some(({ detail }) => /^SCAN (?!CONSTANT ROW)/.test(String(detail)))
      })
      .map(([name]) => name)
    expect(scanning.filter((name) => !(name in SCANS))).toEqual([])
    database.close()
  })
})
