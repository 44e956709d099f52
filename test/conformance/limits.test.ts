import { afterEach, describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { NO_LIMIT } from '#stages/limits/budgets'
import { type CallLimit, NO_LIMITS, UNLIMITED } from '#stages/limits/settings'
import { sqliteSettings, testSettings } from '../test-settings.ts'
import { KEYS } from './openwop-fixtures.ts'
import { OPENWOP_CONFORMANCE } from './openwop-host/host.ts'
import { stablePartsOf, startOpenwopServer } from './openwop-server.ts'
import { type RunServer, startRunServer, typesOf } from './run-server.ts'

/** One call, then none for the duration of a test. */
const ONCE: CallLimit = { ...UNLIMITED, rate: { perMs: 1 / 90_000, burst: 1 } }
const PER_TOOL: Settings['limits'] = { ...NO_LIMITS, perTool: { ...UNLIMITED, perPrincipal: ONCE } }
const PER_PRINCIPAL: Settings['limits'] = { ...NO_LIMITS, perPrincipal: ONCE }

const servers: RunServer[] = []

async function start(options: Parameters<typeof startRunServer>[0]): Promise<RunServer> {
  const server = await startRunServer(options)
  servers.push(server)
  return server
}

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close()
})

/** `Retry-After` equals the milliseconds, in whole seconds. */
function expectRetryAfter(headers: Readonly<Record<string, string>>, retryAfterMs: number): void {
  expect(Number(headers['retry-after'])).toBe(Math.ceil(retryAfterMs / 1_000))
  expect(Number(headers['retry-after'])).toBeGreaterThan(0)
}

describe('a limited call', () => {
  it('OTC: is 400 with Retry-After and x-should-retry, and is not recorded', async () => {
    const server = await start({ limits: PER_TOOL })
    expect((await server.otc('Echo.Write')).status).toBe(200)
    const refused = await server.otc('Echo.Write', {}, { id: 'k' })
    expect([refused.status, refused.headers['collet-error-code']]).toEqual([400, 'rate_limited'])
    expect(refused.headers['x-should-retry']).toBe('true')
    const seconds = Number(refused.headers['retry-after'])
    expect(seconds).toBeGreaterThan(80)
    expect(seconds).toBeLessThanOrEqual(90)
    expect(server.done).toEqual(['Echo.Write'])
    const call = await server.ask('/calls/k', { key: KEYS.root, isUndocumented: true })
    expect(call.status).toBe(404)
  })

  it('OpenTool: is error 500 inside 200, with Retry-After and the milliseconds', async () => {
    const server = await start({ limits: PER_TOOL })
    await server.opentool('Echo_Write')
    const refused = await server.opentool('Echo_Write')
    expect(refused.status).toBe(200)
    expect(refused.json.error).toMatchObject({ code: 500, data: { code: 'rate_limited' } })
    expectRetryAfter(refused.headers, refused.json.error.data.retry_after_ms)
    expect(refused.headers['collet-error-code']).toBe('rate_limited')
  })

  it.each([
    ['OWP-56, C6: of a tool and a principal', PER_TOOL, 'tool'],
    ['C6: of a principal', PER_PRINCIPAL, 'key'],
    ['C6: of all callers', { ...NO_LIMITS, total: { ...NO_LIMITS.total, rate: ONCE.rate } }, 'global'],
  ])('OWP-96: %s: openwop answers 429 with Retry-After and its scope', async (_of, limits, scope) => {
    const server = await start({ limits })
    expect((await server.open({ toolId: 'openwop:Box.Push' })).status).toBe(201)
    const refused = await server.open({ toolId: 'openwop:Box.Push' })
    expect(refused.status).toBe(429)
    expect(Object.keys(refused.json)).toEqual(['error', 'message', 'details'])
    expect(refused.json).toMatchObject({ error: 'rate_limited', details: { scope } })
    expectRetryAfter(refused.headers, refused.json.details.retryAfterMs)
    expect(server.done).toEqual(['open Box.Push'])
  })

  it('OWP-56: other tools and other principals proceed, on every protocol', async () => {
    const server = await start({ limits: PER_TOOL })
    await server.otc('Echo.Write')
    expect((await server.opentool('Echo_Write')).json.error.data.code).toBe('rate_limited')
    expect((await server.otc('Echo.Write')).status).toBe(400)
    expect((await server.otc('Echo.Say')).status).toBe(200)
    expect((await server.otc('Echo.Write', {}, { key: KEYS.narrow })).status).toBe(200)
    expect((await server.open({ toolId: 'openwop:Box.Push' })).status).toBe(201)
    expect((await server.open({ toolId: 'openwop:Box.Push' }, KEYS.narrow)).status).toBe(201)
  })

  it('rule 1: the replay of a call is not limited', async () => {
    const server = await start({ limits: { ...PER_TOOL, perPrincipal: ONCE } })
    const first = await server.otc('Echo.Say', { text: 'a' }, { id: 'k' })
    const again = await server.otc('Echo.Say', { text: 'a' }, { id: 'k' })
    expect(again.json.result).toEqual(first.json.result)
    expect((await server.otc('Echo.Say', { text: 'a' }, { id: 'k2' })).status).toBe(400)
  })

  it('C6: a tenant over its budget gets 429 on openwop’s conformance routes and 400 on OTC, until the window ends', async () => {
    const limit = { calls: 1, milliseconds: NO_LIMIT, cost: NO_LIMIT }
    const budgets = [{ for: 'tenant', of: undefined, windowMs: 31 * 86_400_000, limit }] as const
    const server = await start({ budgets, conformance: OPENWOP_CONFORMANCE })
    expect((await server.otc('Echo.Say')).status).toBe(200)
    const refused = await server.otc('Echo.Say', {}, { key: KEYS.narrow })
    expect([refused.status, refused.headers['collet-error-code']]).toEqual([400, 'budget_exceeded'])
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
    const answer = await server.ask('/v1/host/sample/tools/session-run', {
      key: KEYS.root,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"toolId":"openwop:Box.Push"}',
      isUndocumented: true,
    })
    expect([answer.status, answer.json.error, answer.json.details.scope]).toEqual([
      429,
      'rate_limited',
      'tenant',
    ])
    expectRetryAfter(answer.headers, answer.json.details.retryAfterMs)
    expect((await server.otc('Echo.Say', {}, { key: KEYS.other })).status).toBe(200)
  })
})

describe('the run of a limited call', () => {
  it.each([
    ['memory', testSettings],
    ['SQLite', sqliteSettings],
  ])('C10, OWP-53: has a pair of events without durationMs (%s)', async (_store, settingsOf) => {
    const server = await start({ limits: PER_TOOL, settingsOf })
    await server.otc('Echo.Say', { text: 'a' }, { run: 'run-a' })
    await server.otc('Echo.Say', { text: 'b' }, { run: 'run-a', id: 'refused' })
    const events = await server.events('run-a')
    expect(typesOf(events)).toEqual([
      'agent.toolCalled',
      'agent.toolReturned ok',
      'agent.toolCalled',
      'agent.toolReturned rate_limited',
    ])
    const [, , called, returned] = events
    expect(called?.payload).toMatchObject({ callId: 'refused', toolName: 'openwop:Echo.Say' })
    expect(returned?.payload).toMatchObject({ callId: 'refused', error: { code: 'rate_limited' } })
    expect(returned?.payload).not.toHaveProperty('durationMs')
    expect(returned?.payload).not.toHaveProperty('outcome')
  })

  it('C10: a flood of refused calls is bounded: a run records twenty and is not created by them', async () => {
    const server = await start({ limits: PER_TOOL })
    await server.otc('Echo.Say', {}, { run: 'run-a' })
    await Promise.all(Array.from({ length: 100 }, () => server.otc('Echo.Say', {}, { run: 'run-a' })))
    const reported = (await server.events('run-a')).length / 2 - 1
    expect(reported).toBeGreaterThanOrEqual(20)
    expect(reported).toBeLessThan(30)
    await server.otc('Echo.Say', {}, { run: 'run-b' })
    expect((await server.ask('/v1/runs/run-b/events/poll', { key: KEYS.root })).status).toBe(404)
  })

  it('rules 2 and 30a: a limited hidden tool has the answer and the events of an unknown tool', async () => {
    const limits = { ...NO_LIMITS, perTool: { ...ONCE, perPrincipal: UNLIMITED } }
    const server = await startOpenwopServer({ limits })
    try {
      const call = (tool: string, key: string, input = {}) =>
        server.ask('/tools/call', {
          key,
          method: 'POST',
          headers: { 'content-type': 'application/json', 'collet-run': 'run-a' },
          body: JSON.stringify({ request: { call_id: `of ${tool}`, tool_id: tool, input } }),
        })
      const codes = [
        await call('Mail.Send', KEYS.root, { to: 'x' }),
        await call('Mail.Send', KEYS.root, { to: 'x' }),
        await call('Calculator.Add', KEYS.narrow, { a: 1, b: 2 }),
      ].map(({ headers }) => headers['collet-error-code'])
      expect(codes).toEqual(['requirement_missing', 'rate_limited', undefined])
      for (let time = 0; time < 3; time += 1) {
        const answers = [await call('Mail.Send', KEYS.narrow), await call('Mail.Sent', KEYS.narrow)]
        const [hidden, unknown] = answers.map((answer) => ({
          ...stablePartsOf(answer),
          headers: { ...answer.headers, date: '', traceparent: '', 'collet-call-id': '' },
          text: answer.text.replaceAll(/Mail\.Sen[dt]/g, 'X'),
        }))
        expect(hidden).toEqual(unknown)
      }
      const { json } = await server.ask('/v1/runs/run-a/events/poll', { key: KEYS.narrow })
      expect(json.events).toHaveLength(2)
    } finally {
      await server.close()
    }
  })
})

describe('the advertisement', () => {
  it.each([
    ['no limits', NO_LIMITS, undefined],
    ['a limit per principal', PER_PRINCIPAL, undefined],
    ['a limit per tool', PER_TOOL, { supported: true, perToolRateLimit: true }],
    [
      'a limit of one tool',
      { ...NO_LIMITS, byTool: new Map([['Echo.Say', { ...ONCE, perPrincipal: UNLIMITED }]]) },
      { supported: true, perToolRateLimit: true },
    ],
  ])('OWP-56, OWP-05: with %s states the limits in force', async (_which, limits, advertised) => {
    const server = await start({ limits })
    const { json } = await server.ask('/.well-known/openwop')
    expect(json.toolHooks).toEqual(advertised)
  })
})
