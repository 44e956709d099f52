import { describe, expect, it } from 'vitest'
import type { Reply } from '../crash/call-history.ts'
import { judgeNeighbours } from './neighbours.ts'

const SUCCESS: Reply = {
  ...{
    protocol: 'otc',
    status: 200,
    asksForRetry: false,
    canRetry: false,
    errorCode: undefined,
    runId: undefined,
  },
  ...{ success: true, body: '{}', value: 'its own' },
}
const OWN = { key: 'neighbour:call-1', nonce: 'its own' }
const FIRST = { key: 'call-1', nonce: 'of the first' }

/** One call of the neighbour that ran once, except for what the test changes. */
async function breaches({
  value = 'its own',
  effects = [FIRST, OWN],
  mixed = (_sql: string): readonly unknown[] => [],
}): Promise<readonly string[]> {
  const replies = new Map([['call-1', { ...SUCCESS, value }]])
  return (await judgeNeighbours(replies, effects, async (sql) => mixed(sql))).map(({ breach }) => breach)
}

describe('the judge of tenants', () => {
  it('finds nothing if each tenant has its own effect under the shared id', async () => {
    expect(await breaches({})).toEqual([])
  })

  it('finds the outcome of the other tenant, and an effect that happened twice', async () => {
    expect(await breaches({ value: 'of the first' })).toEqual(['tenants mixed'])
    expect(await breaches({ effects: [FIRST] })).toEqual(['tenants mixed'])
    expect(await breaches({ effects: [FIRST, OWN, { ...OWN, nonce: 'again' }] })).toEqual(['effect twice'])
  })

  it.each(['runs r', 'approvals a', 'sessions s JOIN', 'sessions s ON', 'calls p'])(
    'finds a row of one tenant that points at one of the other: %s',
    async (table) => {
      const mixed = (sql: string) => (sql.includes(table) ? [{ key: 'row' }] : [])
      expect(new Set(await breaches({ mixed }))).toEqual(new Set(['tenants mixed']))
    },
  )
})
