import { describe, expect, it, vi } from 'vitest'
import type { Principal } from '#kernel/base/principal'
import type { RunningGatewayOptions } from '#stages/open-gateway'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, errorOf, FakeClock, gist, openTestGateway } from '#testing/test-gateway'
import { sampleTool } from '../../../test/contracts/samples.ts'
import { type CallLimit, type LimitSettings, NO_LIMITS, UNLIMITED } from './settings.ts'

const BOB: Principal = { id: 'key:bob', tenant: 'default', scopes: [] }
const MALLORY: Principal = { id: ALICE.id, tenant: 'other', scopes: [] }
const ONE_A_SECOND: CallLimit = { ...UNLIMITED, rate: { perMs: 1 / 1_000, burst: 1 } }
const ONE_AT_ONCE: CallLimit = { ...UNLIMITED, concurrent: 1 }

const say = sampleTool('Echo.Say@1.0.0', (input) => input)
const other = sampleTool('Echo.Other@1.0.0', (input) => input)
const hidden = sampleTool('Vault.Open@1.0.0', () => 1, { policy: { scopes: ['vault:open'] } })

function open(
  limits: Partial<LimitSettings>,
  more: Partial<RunningGatewayOptions> & { tools?: (typeof say)[] } = {},
) {
  const { tools = [say, other, hidden], ...changes } = more
  const clock = new FakeClock()
  const refused: string[] = []
  const gateway = openTestGateway(tools, {
    clock,
    limits: { ...NO_LIMITS, ...limits },
    onLimitRefused: (name) => void refused.push(name),
    ...changes,
  })
  return { gateway, clock, refused }
}

/** A tool whose runs end when the test ends them. */
function held(timeoutMs = 60_000) {
  const runs: PromiseWithResolvers<number>[] = []
  const tool = sampleTool(
    'Slow.Run@1.0.0',
    () => {
      const run = Promise.withResolvers<number>()
      runs.push(run)
      return run.promise
    },
    { policy: { timeoutMs } },
  )
  return { tool, runs }
}

/** A store whose number of waiting writes the test sets. */
function busyStore() {
  const busy = { store: openMemoryStore(), waiting: 0 }
  vi.spyOn(busy.store, 'pendingWrites', 'get').mockImplementation(() => busy.waiting)
  return busy
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve))
}

describe('rates', () => {
  it('OWP-56: a call that another limit refuses takes no token from the bucket of caller and tool', async () => {
    const perPrincipal: CallLimit = { ...UNLIMITED, rate: { perMs: 1 / 3_600_000, burst: 1 } }
    for (const scarce of ['tool', 'total'] as const) {
      const { gateway, clock, refused } = open({
        perTool: { ...(scarce === 'tool' ? ONE_A_SECOND : UNLIMITED), perPrincipal },
        total: { ...NO_LIMITS.total, ...(scarce === 'total' ? ONE_A_SECOND : UNLIMITED) },
      })
      expect(gist(await gateway.call(BOB, callRequest('Echo.Say')))).toBe('ok {}')
      // Ann has a token; the tool has none left.
      for (let time = 0; time < 3; time += 1) {
        expect(errorOf(await gateway.call(ALICE, callRequest('Echo.Say'))).code).toBe('rate_limited')
      }
      expect(refused).toEqual([1, 2, 3].map(() => `${scarce}_rate`))
      clock.advance(1_000)
      expect(gist(await gateway.call(ALICE, callRequest('Echo.Say')))).toBe('ok {}')
    }
  })

  it('C6: a principal that is too fast is refused with the time to wait, and others are not affected', async () => {
    const { gateway, clock, refused } = open({ perPrincipal: ONE_A_SECOND })
    expect(gist(await gateway.call(ALICE, callRequest('Echo.Say')))).toBe('ok {}')
    const error = errorOf(await gateway.call(ALICE, callRequest('Echo.Other')))
    expect(error).toMatchObject({ code: 'rate_limited', retryAfterMs: 1_000, details: { scope: 'key' } })
    expect(gist(await gateway.call(BOB, callRequest('Echo.Say')))).toBe('ok {}')
    expect(gist(await gateway.call(MALLORY, callRequest('Echo.Say')))).toBe('ok {}')
    clock.advance(1_000)
    expect(gist(await gateway.call(ALICE, callRequest('Echo.Say')))).toBe('ok {}')
    expect(refused).toEqual(['principal_rate'])
    await gateway.drain(0)
  })

  it('OWP-56: the bucket is per principal and tool: other tools and principals proceed', async () => {
    const { gateway } = open({ perTool: { ...UNLIMITED, perPrincipal: ONE_A_SECOND } })
    await gateway.call(ALICE, callRequest('Echo.Say'))
    const error = errorOf(await gateway.call(ALICE, callRequest('Echo.Say')))
    expect(error).toMatchObject({ code: 'rate_limited', details: { scope: 'tool' } })
    expect(gist(await gateway.call(ALICE, callRequest('Echo.Other')))).toBe('ok {}')
    expect(gist(await gateway.call(BOB, callRequest('Echo.Say')))).toBe('ok {}')
    await gateway.drain(0)
  })

  it('a tool may have a rate for all principals together, and the server one for all calls', async () => {
    const ofTool = open({ perTool: { ...ONE_A_SECOND, perPrincipal: UNLIMITED } })
    await ofTool.gateway.call(ALICE, callRequest('Echo.Say'))
    expect(errorOf(await ofTool.gateway.call(BOB, callRequest('Echo.Say'))).details).toEqual({
      scope: 'tool',
    })
    await ofTool.gateway.drain(0)
    const inAll = open({ total: { ...NO_LIMITS.total, rate: ONE_A_SECOND.rate } })
    await inAll.gateway.call(ALICE, callRequest('Echo.Say'))
    const error = errorOf(await inAll.gateway.call(BOB, callRequest('Echo.Other')))
    expect([error.code, error.details]).toEqual(['rate_limited', { scope: 'global' }])
    await inAll.gateway.drain(0)
  })

  it.each(['Echo.Other', 'Echo_Other', 'openwop:Echo.Other'])(
    'an entry for a tool or principal, by any of its names, replaces the general limit: %s',
    async (name) => {
      const { gateway } = open({
        perPrincipal: ONE_A_SECOND,
        byPrincipal: new Map([[BOB.id, UNLIMITED]]),
        byTool: new Map([[name, { ...ONE_A_SECOND, perPrincipal: UNLIMITED }]]),
      })
      const gists: string[] = []
      for (const tool of ['Echo.Say', 'Echo.Say', 'Echo.Other', 'Echo.Other']) {
        gists.push(gist(await gateway.call(BOB, callRequest(tool))))
      }
      expect(gists).toEqual(['ok {}', 'ok {}', 'ok {}', 'rate_limited'])
      await gateway.drain(0)
    },
  )

  it('rule 1: a replay is never refused and takes no token; a conflicting request takes one like any other', async () => {
    const { gateway, clock } = open({
      perPrincipal: ONE_A_SECOND,
      perTool: { ...ONE_A_SECOND, perPrincipal: UNLIMITED },
    })
    const keyed = callRequest('Echo.Say', { key: 'k' })
    await gateway.call(ALICE, keyed)
    for (let time = 0; time < 5; time += 1) {
      expect(await gateway.call(ALICE, keyed)).toMatchObject({ replayed: true, outcome: { ok: true } })
    }
    const wrong = callRequest('Echo.Other', { key: 'k' })
    expect(gist(await gateway.call(ALICE, wrong))).toBe('rate_limited')
    clock.advance(1_000)
    expect(gist(await gateway.call(ALICE, wrong))).toBe('key_conflict')
    clock.advance(1_000)
    await gateway.call(ALICE, keyed)
    expect(gist(await gateway.call(ALICE, callRequest('Echo.Say', { key: 'k2' })))).toBe('ok {}')
    await gateway.drain(0)
  })

  it('rule 2: a hidden tool with a limit answers exactly like an unknown tool', async () => {
    const never: CallLimit = { rate: { perMs: 1e-9, burst: 1 }, concurrent: 1 }
    const { gateway } = open({
      perTool: { ...never, perPrincipal: never },
      byTool: new Map([['Vault.Open', { ...never, perPrincipal: never }]]),
    })
    const unknown = async (name: string) => {
      const { code, message, retryAfterMs, details } = errorOf(await gateway.call(ALICE, callRequest(name)))
      return { code, message: message.replace(name, 'X'), retryAfterMs, details }
    }
    const root: Principal = { id: 'key:root', tenant: 'default', scopes: ['*'] }
    expect(gist(await gateway.call(root, callRequest('Vault.Open')))).toBe('ok 1')
    expect(gist(await gateway.call(root, callRequest('Vault.Open')))).toBe('rate_limited')
    for (let time = 0; time < 3; time += 1) {
      expect(await unknown('Vault.Open')).toEqual(await unknown('Unknown.Tool'))
    }
    await gateway.drain(0)
  })

  it('unknown tools cost the caller a token, so that names cannot be guessed without limit', async () => {
    const { gateway } = open({ perPrincipal: ONE_A_SECOND })
    expect(gist(await gateway.call(ALICE, callRequest('Vault.Open')))).toBe('tool_not_found')
    expect(gist(await gateway.call(ALICE, callRequest('Unknown.Tool')))).toBe('rate_limited')
    await gateway.drain(0)
  })

  it('a refused call takes no token from other buckets and does not use up its key', async () => {
    const { gateway, clock } = open({
      perTool: { ...UNLIMITED, perPrincipal: ONE_A_SECOND },
      total: { ...NO_LIMITS.total, rate: { perMs: 1 / 1_000, burst: 2 } },
    })
    await gateway.call(ALICE, callRequest('Echo.Say'))
    for (let time = 0; time < 5; time += 1) {
      expect(gist(await gateway.call(ALICE, callRequest('Echo.Say', { key: 'k' })))).toBe('rate_limited')
    }
    expect(gist(await gateway.call(BOB, callRequest('Echo.Say')))).toBe('ok {}')
    clock.advance(1_000)
    expect(await gateway.call(ALICE, callRequest('Echo.Say', { key: 'k' }))).toMatchObject({
      replayed: false,
    })
    await gateway.drain(0)
  })
})

describe('concurrent runs', () => {
  it.each([
    ['a principal', { perPrincipal: ONE_AT_ONCE }, 'rate_limited', 'key'],
    ['a tool', { perTool: { ...ONE_AT_ONCE, perPrincipal: UNLIMITED } }, 'rate_limited', 'tool'],
    ['both', { perTool: { ...UNLIMITED, perPrincipal: ONE_AT_ONCE } }, 'rate_limited', 'tool'],
    ['the server', { total: { ...NO_LIMITS.total, concurrent: 1 } }, 'overloaded', 'global'],
  ])('rule 10: of %s: an ended run keeps its slot until it settles', async (_of, limits, code, scope) => {
    const { tool, runs } = held(500)
    const { gateway } = open(limits, { tools: [tool] })
    const first = gateway.call(ALICE, callRequest('Slow.Run', { key: 'k' }))
    await until(() => runs.length === 1)
    const refused = errorOf(await gateway.call(ALICE, callRequest('Slow.Run')))
    expect(refused).toMatchObject({ code, details: { scope }, retryAfterMs: 1_000 })
    expect(gist(await first)).toBe('tool_timeout')
    expect(errorOf(await gateway.call(ALICE, callRequest('Slow.Run'))).code).toBe(code)
    runs[0]?.resolve(1)
    await until(() => gateway.running.slots === 0)
    const second = gateway.call(ALICE, callRequest('Slow.Run'))
    await until(() => runs.length === 2)
    runs[1]?.resolve(2)
    expect(gist(await second)).toBe('ok 2')
    await gateway.drain(0)
  })

  it('rule 1: a request that joins a running call takes no slot', async () => {
    const { tool, runs } = held()
    const { gateway } = open(
      { perPrincipal: ONE_AT_ONCE, total: { ...NO_LIMITS.total, concurrent: 1 } },
      { tools: [tool] },
    )
    const calls = Array.from({ length: 20 }, () => gateway.call(ALICE, callRequest('Slow.Run', { key: 'k' })))
    await until(() => runs.length === 1)
    const late = gateway.call(ALICE, callRequest('Slow.Run', { key: 'k' }))
    runs[0]?.resolve(7)
    expect(new Set((await Promise.all([...calls, late])).map(gist))).toEqual(new Set(['ok 7']))
    expect(runs).toHaveLength(1)
    await gateway.drain(0)
  })

  it.each([
    ['a rate', { perPrincipal: ONE_A_SECOND }],
    ['a rate of the tool', { perTool: { ...ONE_A_SECOND, perPrincipal: UNLIMITED } }],
    ['a number of runs', { perPrincipal: ONE_AT_ONCE }],
    ['a number of runs in all', { total: { ...NO_LIMITS.total, concurrent: 1 } }],
  ])('rule 1: simultaneous requests with one key run once and are all answered: %s', async (_of, limits) => {
    const { gateway } = open(limits)
    const keyed = callRequest('Echo.Say', { key: 'k', runId: 'run-x' })
    const replies = await Promise.all(Array.from({ length: 30 }, () => gateway.call(ALICE, keyed)))
    expect(new Set(replies.map(gist))).toEqual(new Set(['ok {}']))
    expect(replies.filter(({ replayed }) => !replayed)).toHaveLength(1)
    const page = await gateway.readRun(ALICE, { runId: 'run-x', after: -1, waitMs: 0 })
    expect(page?.events).toHaveLength(2)
    await gateway.drain(0)
  })

  it('simultaneous requests with one key are all refused if a limit is reached', async () => {
    const { gateway } = open({ perPrincipal: ONE_A_SECOND })
    await gateway.call(ALICE, callRequest('Echo.Say'))
    const keyed = callRequest('Echo.Say', { key: 'k' })
    const replies = await Promise.all(Array.from({ length: 30 }, () => gateway.call(ALICE, keyed)))
    expect(new Set(replies.map(gist))).toEqual(new Set(['rate_limited']))
    await gateway.drain(0)
  })

  it('calls that fail, and calls that cannot be claimed, free their slots', async () => {
    const failing = sampleTool('Bad.Tool@1.0.0', () => {
      throw new Error('no')
    })
    const { gateway } = open(
      { perPrincipal: ONE_AT_ONCE, perTool: { ...ONE_AT_ONCE, perPrincipal: ONE_AT_ONCE } },
      { tools: [failing] },
    )
    for (let time = 0; time < 3; time += 1) {
      expect(gist(await gateway.call(ALICE, callRequest('Bad.Tool')))).toBe('tool_failed')
    }
    const ended = { runId: 'run-x' }
    await gateway.call(ALICE, callRequest('Bad.Tool', ended))
    await gateway.endRun(ALICE, 'run-x')
    expect(gist(await gateway.call(ALICE, callRequest('Bad.Tool', ended)))).toBe('request_invalid')
    expect(gist(await gateway.call(ALICE, callRequest('Bad.Tool')))).toBe('tool_failed')
    await gateway.drain(0)
  })
})

describe('overload', () => {
  it('late event loop: new calls are refused early; replays, reads and health checks are answered', async () => {
    let delayMs = 0
    const total = { ...NO_LIMITS.total, delayMs: 100 }
    const { tool, runs } = held()
    const { gateway, refused } = open({ total }, { tools: [say, tool], delayMs: () => delayMs })
    const keyed = callRequest('Echo.Say', { key: 'k' })
    await gateway.call(ALICE, keyed)
    delayMs = 101
    // Tools that compute delay the event loop too, so a single caller is not refused.
    expect(gist(await gateway.call(ALICE, callRequest('Echo.Say')))).toBe('ok {}')
    const others = Array.from({ length: 10 }, () => gateway.call(BOB, callRequest('Slow.Run')))
    await until(() => runs.length === 10)
    expect(errorOf(await gateway.call(ALICE, callRequest('Echo.Say')))).toMatchObject({
      code: 'overloaded',
      retryAfterMs: 2_000,
      details: { scope: 'global' },
    })
    expect(gist(await gateway.call(ALICE, callRequest('Unknown.Tool')))).toBe('overloaded')
    expect(await gateway.call(ALICE, keyed)).toMatchObject({ replayed: true })
    expect(await gateway.readCall(ALICE, 'k')).toMatchObject({ state: 'succeeded' })
    expect(gateway.isReady()).toBe(true)
    expect(refused).toEqual(['delay', 'delay'])
    delayMs = 100
    expect(gist(await gateway.call(ALICE, callRequest('Echo.Say')))).toBe('ok {}')
    for (const run of runs) run.resolve(1)
    await Promise.all(others)
    await gateway.drain(0)
  })

  it('waiting writes: new calls are refused while the maximum number of changes waits', async () => {
    const busy = busyStore()
    const { gateway, refused } = open({ total: { ...NO_LIMITS.total, pendingWrites: 3 } }, busy)
    busy.waiting = 3
    expect(errorOf(await gateway.call(ALICE, callRequest('Echo.Say')))).toMatchObject({
      code: 'overloaded',
      retryAfterMs: 2_000,
      details: { scope: 'global' },
    })
    busy.waiting = 2
    expect(gist(await gateway.call(ALICE, callRequest('Echo.Say')))).toBe('ok {}')
    expect(refused).toEqual(['pending_writes'])
    await gateway.drain(0)
  })
})
