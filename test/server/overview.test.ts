import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { readRange } from '#server/overview/overview-routes'
import { sampleTool } from '../contracts/samples.ts'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const UNLIMITED = Number.MAX_SAFE_INTEGER
const PATIENCE = { timeout: 10_000, interval: 50 }

describe('the overview', () => {
  let server: PrincipalsServer
  const call = (credential: string, tool: string, input: object = {}) =>
    server.ask('/tools/call', {
      method: 'POST',
      key: credential,
      body: { request: { tool_id: tool, input } },
    })
  const overview = async (credential: string, query = '') =>
    (await server.ask(`/admin/overview${query}`, { key: credential })).json
  const startToken = () => readFileSync(server.startTokenFile, 'utf8').trim()

  beforeAll(async () => {
    const fails = () => {
      throw new Error('Broken.')
    }
    server = await startPrincipalsServer(
      {
        tools: [
          sampleTool('Mail.Read@1.0.0', () => 'read', { policy: { safetyTier: 'read' } }),
          sampleTool('Mail.Send@1.0.0', fails),
          sampleTool('Mail.Send@2.0.0', fails),
          sampleTool('Bank.Pay@1.0.0', () => 'paid', { policy: { approval: 'always' } }),
        ],
        auth: {
          apiKeys: [
            key('ann', []),
            key('watch', ['admin:calls']),
            key('inbox', ['admin:calls', 'approvals:read']),
            key('ben', [], { tenant: 'beta' }),
            key('root', ['*'], { tenant: 'default' }),
          ],
          jwt: undefined,
        },
        budgets: [
          {
            ...{ for: 'tenant', of: new Set(['beta']), windowMs: DAY_MS },
            limit: { calls: 5, milliseconds: UNLIMITED, cost: UNLIMITED },
          },
        ],
      },
      'sqlite',
    )
    for (const tool of ['Mail.Read', 'Mail.Read', 'Mail.Send', 'Mail.Send@1.0.0']) await call('k-ann', tool)
    await call('k-ann', 'Bank.Pay')
    await call('k-ann', 'Mail.Unknown')
    for (let nth = 0; nth < 8; nth += 1) await call('k-ben', 'Mail.Read')
    await vi.waitUntil(async () => (await overview(startToken())).rejected === 4, PATIENCE)
  })
  afterAll(() => server.stop())

  it('counts the calls that ended, their errors, and requests that were rejected, of its own tenant', async () => {
    const found = await overview('k-watch', '?range=1h&tenant=beta')
    expect(found).toMatchObject({ calls: 4, errors: 2, rejected: 1, step_seconds: 60 })
    expect(found.states).toEqual({ succeeded: 2, failed: 2 })
    expect(found.rejections).toEqual([{ code: 'tool_not_found', requests: 1 }])
    expect(found.failing_tools).toEqual([{ tool: 'Mail.Send', calls: 2, errors: 2 }])
    expect(found.callers).toEqual([
      { tenant: 'acme', principal: 'key:ann', calls: 4, errors: 2, rejected: 1 },
    ])
    expect(found.p50_ms).not.toBeNull()
    const sum = (member: string) =>
      found.buckets.reduce(
        (total: number, bucket: Record<string, number>) => total + (bucket[member] ?? 0),
        0,
      )
    expect([sum('calls'), sum('errors'), sum('rejected')]).toEqual([4, 2, 1])
    expect([60, 61]).toContain(found.buckets.length)
  })

  it('shows a caller whose requests are rejected, and the budget that is the reason', async () => {
    const found = await overview(startToken())
    expect(found.callers).toContainEqual({
      tenant: 'beta',
      principal: 'key:ben',
      calls: 5,
      errors: 0,
      rejected: 3,
    })
    expect(found.rejections).toContainEqual({ code: 'budget_exceeded', requests: 3 })
    expect(found.attention.budgets).toMatchObject([
      { tenant: 'beta', principal: null, unit: 'calls', limit: 5, used: 5 },
    ])
    const other = await overview('k-watch')
    expect(other.attention.budgets).toEqual([])
    expect(JSON.stringify(other)).not.toContain('beta')
  })

  it('shows parts that need a further scope only with that scope', async () => {
    expect((await overview('k-watch')).attention).toMatchObject({
      approvals: null,
      held: null,
      sources: null,
      ambiguous: 0,
    })
    expect((await overview('k-inbox')).attention).toMatchObject({ approvals: 1, held: null, sources: null })
    expect((await overview('k-root')).attention).toMatchObject({ approvals: 0, held: [], sources: [] })
    expect((await overview(startToken())).attention).toMatchObject({ approvals: 1, held: [], sources: [] })
    const refused = await server.ask('/admin/overview', { key: 'k-ann' })
    expect([refused.status, refused.json.message]).toEqual([
      403,
      'This needs a credential with the scope admin:calls.',
    ])
  })

  it('refuses a range that it cannot read', async () => {
    for (const query of [
      'range=soon',
      'range=0h',
      'since=2030-01-01T00:00:00Z&until=2029-01-01T00:00:00Z',
      'since=now',
    ])
      expect((await server.ask(`/admin/overview?${query}`, { key: 'k-watch' })).status).toBe(400)
  })
})

describe('the intervals of the overview', () => {
  const nowMs = 1_000 * DAY_MS + 12_345
  const stepOf = (query: Parameters<typeof readRange>[0]) => readRange(query, nowMs).stepMs / 60_000
  const at = (ms: number) => new Date(ms).toISOString()

  it('are as short as the length of the range allows', () => {
    expect(['1h', '4h', '24h', '7d', '30d'].map((range) => stepOf({ range }))).toEqual([1, 1, 15, 180, 180])
    expect(readRange({}, nowMs)).toEqual({ stepMs: 900_000, sinceMs: 999 * DAY_MS, untilMs: nowMs })
  })

  it('are as short as the counts that are still kept', () => {
    const hourAt = (daysAgo: number) => {
      const sinceMs = nowMs - daysAgo * DAY_MS
      return { since: at(sinceMs), until: at(sinceMs + HOUR_MS) }
    }
    expect([1, 3, 7, 9].map((days) => stepOf(hourAt(days)))).toEqual([1, 15, 15, 180])
  })
})
