import { describe, expect, it } from 'vitest'
import type { Principal } from '#kernel/base/principal'
import type { RunningGatewayOptions } from '#stages/open-gateway'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import {
  ALICE,
  callRequest,
  errorOf,
  FakeClock,
  faultyStore,
  gist,
  openTestGateway,
} from '#testing/test-gateway'
import { sampleTool } from '../../../test/contracts/samples.ts'
import type { BudgetRule } from './budgets.ts'
import { Budgets, NO_LIMIT } from './budgets.ts'

const HOUR_MS = 3_600_000
const BOB: Principal = { id: 'key:bob', tenant: 'default', scopes: [] }
const CAROL: Principal = { id: 'key:carol', tenant: 'other', scopes: [] }

function rule(who: BudgetRule['for'], limit: Partial<BudgetRule['limit']>, more: Partial<BudgetRule> = {}) {
  const unlimited = { calls: NO_LIMIT, milliseconds: NO_LIMIT, cost: NO_LIMIT }
  return { for: who, of: undefined, windowMs: HOUR_MS, ...more, limit: { ...unlimited, ...limit } }
}

const clockAt = () => new FakeClock(480_000 * HOUR_MS)

function open(budgets: readonly BudgetRule[], changes: Partial<RunningGatewayOptions> = {}) {
  const clock = clockAt()
  const tools = [
    sampleTool('Echo.Say@1.0.0', (input) => input),
    sampleTool('Dear.Call@1.0.0', () => 1, { policy: { cost: 2.5 } }),
    sampleTool('Free.Call@1.0.0', () => 1, { policy: { cost: 0 } }),
    sampleTool('Bad.Call@1.0.0', () => {
      throw new Error('no')
    }),
  ]
  return { gateway: openTestGateway(tools, { clock, budgets, ...changes }), clock }
}

async function gists(gateway: ReturnType<typeof open>['gateway'], tools: readonly string[], who = ALICE) {
  const outcomes: string[] = []
  for (const tool of tools) outcomes.push(gist(await gateway.call(who, callRequest(tool))))
  return outcomes
}

describe('budgets', () => {
  it('a principal makes as many calls as its budget allows, and again in the next window', async () => {
    const { gateway, clock } = open([rule('principal', { calls: 2 })])
    expect(await gists(gateway, ['Echo.Say', 'Bad.Call', 'Echo.Say'])).toEqual([
      'ok {}',
      'tool_failed',
      'budget_exceeded',
    ])
    clock.advance(HOUR_MS / 4)
    const error = errorOf(await gateway.call(ALICE, callRequest('Echo.Say')))
    expect(error).toMatchObject({ details: { scope: 'key' }, retryAfterMs: (HOUR_MS * 3) / 4 })
    expect(await gists(gateway, ['Echo.Say'], BOB)).toEqual(['ok {}'])
    clock.advance((HOUR_MS * 3) / 4)
    expect(await gists(gateway, ['Echo.Say', 'Echo.Say', 'Echo.Say'])).toEqual([
      'ok {}',
      'ok {}',
      'budget_exceeded',
    ])
    await gateway.drain(0)
  })

  it('C6: all principals of a tenant share its budget, and other tenants have their own', async () => {
    const { gateway } = open([rule('tenant', { calls: 2 })])
    await gists(gateway, ['Echo.Say'], BOB)
    await gists(gateway, ['Echo.Say'], ALICE)
    const error = errorOf(await gateway.call(BOB, callRequest('Echo.Say')))
    expect([error.code, error.details]).toEqual(['budget_exceeded', { scope: 'tenant' }])
    expect(await gists(gateway, ['Echo.Say'], CAROL)).toEqual(['ok {}'])
    await gateway.drain(0)
  })

  it("counts the tool's cost, by default 1", async () => {
    const { gateway } = open([rule('principal', { cost: 4_000 })])
    expect(await gists(gateway, ['Dear.Call', 'Echo.Say', 'Dear.Call', 'Free.Call', 'Echo.Say'])).toEqual([
      'ok 1',
      'ok {}',
      'budget_exceeded',
      'ok 1',
      'budget_exceeded',
    ])
    await gateway.drain(0)
  })

  it('spends no cost for a tool that costs nothing, however often it is called', async () => {
    const { gateway } = open([rule('principal', { cost: 1_000 })])
    const free = await gists(gateway, Array<string>(1_001).fill('Free.Call'))
    expect(new Set(free)).toEqual(new Set(['ok 1']))
    expect(await gists(gateway, ['Echo.Say', 'Echo.Say'])).toEqual(['ok {}', 'budget_exceeded'])
    await gateway.drain(0)
  })

  it('reserves the timeout while a call runs, and counts the time that it took', async () => {
    const clock = clockAt()
    const runs: PromiseWithResolvers<number>[] = []
    const slow = sampleTool(
      'Slow.Run@1.0.0',
      () => {
        const run = Promise.withResolvers<number>()
        runs.push(run)
        return run.promise
      },
      { policy: { timeoutMs: 1_000 } },
    )
    const gateway = openTestGateway([slow], { clock, budgets: [rule('principal', { milliseconds: 1_500 })] })
    const first = gateway.call(ALICE, callRequest('Slow.Run'))
    while (runs.length === 0) await new Promise((resolve) => setImmediate(resolve))
    // 500 ms are left, but only until the first call ends.
    expect(errorOf(await gateway.call(ALICE, callRequest('Slow.Run')))).toMatchObject({
      code: 'budget_exceeded',
      retryAfterMs: 1_000,
    })
    clock.advance(200)
    runs[0]?.resolve(1)
    await first
    const second = gateway.call(ALICE, callRequest('Slow.Run'))
    while (runs.length === 1) await new Promise((resolve) => setImmediate(resolve))
    clock.advance(600)
    runs[1]?.resolve(2)
    expect(gist(await second)).toBe('ok 2')
    // 200 + 600 ms are spent: less than one timeout is left, and no running call can return any.
    const error = errorOf(await gateway.call(ALICE, callRequest('Slow.Run')))
    expect(error.retryAfterMs).toBeGreaterThan(HOUR_MS / 2)
    await gateway.drain(0)
  })

  it('rule 1: replays, joined requests and calls that do not run spend nothing', async () => {
    const { gateway } = open([rule('principal', { calls: 1 })])
    await gateway.call(ALICE, callRequest('Echo.Say', { runId: 'run-x', key: 'other' }))
    await gateway.drain(0)
    const fresh = open([rule('principal', { calls: 2 })])
    const keyed = callRequest('Echo.Say', { key: 'k', runId: 'run-x' })
    const replies = await Promise.all(Array.from({ length: 10 }, () => fresh.gateway.call(ALICE, keyed)))
    expect(new Set(replies.map(gist))).toEqual(new Set(['ok {}']))
    await fresh.gateway.endRun(ALICE, 'run-x')
    expect(gist(await fresh.gateway.call(ALICE, callRequest('Echo.Say', { runId: 'run-x' })))).toBe(
      'request_invalid',
    )
    expect(await gists(fresh.gateway, ['Unknown.Tool', 'Echo.Say', 'Echo.Say'])).toEqual([
      'tool_not_found',
      'ok {}',
      'budget_exceeded',
    ])
    expect(gist(await fresh.gateway.call(ALICE, keyed))).toBe('ok {}')
    await fresh.gateway.drain(0)
  })

  it('applies the tightest of several rules for one budget, and each of several budgets', async () => {
    const { gateway, clock } = open([
      rule('principal', { calls: 100 }),
      rule('principal', { calls: 2 }, { of: new Set(['key:alice']) }),
      rule('principal', { calls: 3 }, { windowMs: 24 * HOUR_MS }),
      rule('tenant', { calls: 1 }, { of: new Set(['other']) }),
    ])
    expect(await gists(gateway, ['Echo.Say', 'Echo.Say', 'Echo.Say'])).toEqual([
      'ok {}',
      'ok {}',
      'budget_exceeded',
    ])
    clock.advance(HOUR_MS)
    expect(await gists(gateway, ['Echo.Say', 'Echo.Say'])).toEqual(['ok {}', 'budget_exceeded'])
    expect(await gists(gateway, ['Echo.Say', 'Echo.Say', 'Echo.Say'], BOB)).toEqual([
      'ok {}',
      'ok {}',
      'ok {}',
    ])
    expect(await gists(gateway, ['Echo.Say', 'Echo.Say'], CAROL)).toEqual(['ok {}', 'budget_exceeded'])
    await gateway.drain(0)
  })

  it('holds across restarts, and returns leased amounts that were not spent', async () => {
    const store = openMemoryStore()
    const rules = [rule('principal', { calls: 200 })]
    const first = open(rules, { store })
    await gists(first.gateway, Array<string>(150).fill('Echo.Say'))
    await first.gateway.drain(0)
    const second = open(rules, { store })
    const outcomes = await gists(second.gateway, Array<string>(60).fill('Echo.Say'))
    expect(outcomes.filter((one) => one === 'ok {}')).toHaveLength(50)
    await second.gateway.drain(0)
  })

  it('returns unused amounts, so that other processes can spend them', async () => {
    const store = openMemoryStore()
    const options = { store: store.budgets, rules: [rule('principal', { calls: 100 })], clock: clockAt() }
    const first = new Budgets({ ...options, onRefused: () => undefined })
    const tool = sampleTool('Echo.Say@1.0.0', () => 1)
    const reservation = await first.reserve(ALICE, tool)
    const window = {
      tenant: 'default',
      principal: ALICE.id,
      lengthMs: HOUR_MS,
      startMs: options.clock.nowMs(),
    }
    expect((await store.budgets.read(window)).calls).toBe(2)
    for (let time = 0; time < 3; time += 1) await first.tidy()
    expect((await store.budgets.read(window)).calls).toBe(2)
    reservation?.settle(1)
    await first.tidy()
    expect([(await store.budgets.read(window)).calls, first.size]).toEqual([1, 0])
  })

  it('asks the store once per lease, and not at all for calls that it has to refuse', async () => {
    const store = openMemoryStore()
    let leases = 0
    const { lease } = store.budgets
    store.budgets.lease = (...asked) => {
      leases += 1
      return lease.apply(store.budgets, asked)
    }
    const { gateway } = open([rule('principal', { calls: 500 })], { store })
    await Promise.all(Array.from({ length: 500 }, () => gateway.call(ALICE, callRequest('Echo.Say'))))
    expect(leases).toBeLessThanOrEqual(51)
    const before = leases
    for (let time = 0; time < 50; time += 1) {
      expect(gist(await gateway.call(ALICE, callRequest('Echo.Say')))).toBe('budget_exceeded')
    }
    expect(leases - before).toBeLessThanOrEqual(1)
    await gateway.drain(0)
  })

  it('fails closed while the store does not answer', async () => {
    const store = openMemoryStore()
    store.budgets.lease = () => {
      throw new Error('the store is gone')
    }
    const { gateway } = open([rule('principal', { calls: 5 })], { store: faultyStore(store, new Set()) })
    expect(await gists(gateway, ['Echo.Say'])).toEqual(['internal'])
    await gateway.drain(0)
  })
})
