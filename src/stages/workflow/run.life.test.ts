import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Approver } from '#kernel/approval/approvals'
import { ToolError } from '#kernel/base/errors'
import { stepRecord } from '#kernel/call/step-origin'
import { ApprovalWaits, RunFeed, StoreChanges } from '#kernel/run/runs'
import { LiveRegistry } from '#kernel/tool/catalog'
import { type DefinedTool, tool, workflow } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { NO_LIMIT } from '#stages/limits/budgets'
import { type CallLimit, type LimitSettings, NO_LIMITS } from '#stages/limits/settings'
import type { RunningGatewayOptions } from '#stages/open-gateway'
import type { Store } from '#store/collet-store'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, errorOf, FakeClock, gist, openTestGateway } from '#testing/test-gateway'
import { attemptAt, sampleCall, success } from '../../../test/contracts/samples.ts'
import { noting, PLAIN } from '../../../test/samples/workflows.ts'
import { findStep, makeStep } from './step.ts'

const BOB: Approver = { id: 'key:bob', tenant: 'default', scopes: ['approvals:respond'] }

function open(tools: readonly DefinedTool[], store: Store, changes: Partial<RunningGatewayOptions> = {}) {
  const gateway = openTestGateway(tools, { store, ...changes })
  const call = (id: string, key = 'k', input = { text: 'a' }) =>
    gateway.call(ALICE, callRequest(id, { key, input }))
  return { gateway, call }
}

/** A rate limit for `Note.One`. */
function limitsOf(rate: NonNullable<CallLimit['rate']>): LimitSettings {
  const ofTool = { rate, concurrent: undefined, perPrincipal: { rate: undefined, concurrent: undefined } }
  return { ...NO_LIMITS, byTool: new Map([['Note.One', ofTool]]) }
}

describe('the lifetime of a workflow', () => {
  it('rule 13: steps of an inner workflow are kept until the outermost call is final', async () => {
    const effects: string[] = []
    const store = openMemoryStore()
    const clock = new FakeClock(1_000)
    const one = noting('Note.One@1.0.0', effects)
    const asking = noting('Note.Asks@1.0.0', effects, { approval: 'always' })
    const inner = workflow({
      ...PLAIN,
      id: 'Flow.Inner@1.0.0',
      uses: [one],
      run: (input, { call }) => call(one, input),
    })
    const outer = workflow({
      ...PLAIN,
      id: 'Flow.Outer@1.0.0',
      uses: [inner, asking],
      run: async (input, { call }) => [await call(inner, input), await call(asking, input)],
    })
    const { gateway, call } = open([one, asking, inner, outer], store, { clock })
    expect(gist(await call('Flow.Outer'))).toBe('approval_required')
    clock.advance(600_000)
    await store.purge(clock.nowMs(), { resultsMs: 60_000, journalMs: 86_400_000 })
    const { calls } = await store.list({ limit: 10 })
    expect(calls.map(({ tool, expired }) => [tool, expired])).toContainEqual(['Note.One@1.0.0', false])
    const [waiting] = await store.approvals.list({ state: 'pending', limit: 1 })
    await gateway.approvals.decide(BOB, waiting, { action: 'grant', reason: undefined })
    expect(gist(await call('Flow.Outer'))).toBe('ok ["a!","a!"]')
    expect(effects).toEqual(['Note.One a', 'Note.Asks a'])
    await gateway.drain(0)
  })

  it('rule 31: a shutdown suspends it, and another process continues after its last finished step', async () => {
    const effects: string[] = []
    const store = openMemoryStore()
    const started = Promise.withResolvers<void>()
    const one = noting('Note.One@1.0.0', effects)
    const slow = tool({
      ...PLAIN,
      id: 'Note.Slow@1.0.0',
      policy: { safetyTier: 'read' },
      run: async () => {
        started.resolve()
        return await new Promise<never>(() => {})
      },
    })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Stop@1.0.0',
      uses: [one, slow],
      run: async (input, { call }) => {
        const first = await call(one, input)
        try {
          return [first, await call(slow, input)]
        } catch (error) {
          return [first, error instanceof ToolError ? error.code : 'other']
        }
      },
    })
    const tools = [one, slow, flow]
    const before = open(tools, store)
    const cut = before.call('Flow.Stop')
    await started.promise
    await before.gateway.drain(0)
    expect(errorOf(await cut)).toMatchObject({ code: 'outcome_unknown', canRetry: false })
    expect((await store.list({ states: ['parked'], limit: 1 })).calls).toMatchObject([
      { tool: 'Flow.Stop@1.0.0' },
    ])
    const after = open(tools, store)
    // The step keeps the outcome with which it was cut; the workflow continues from there.
    expect(gist(await after.call('Flow.Stop'))).toBe('ok ["a!","cancelled"]')
    expect(effects).toEqual(['Note.One a'])
  })

  it('rule 11: a store failure during its suspension does not end it', async () => {
    const effects: string[] = []
    const asked = noting('Note.Asked@1.0.0', effects, { approval: 'always' })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Ask@1.0.0',
      uses: [asked],
      run: (input, { call }) => call(asked, input),
    })
    const store = openMemoryStore()
    const { StoreError } = await import('#kernel/base/errors')
    const suspend = store.workflows.suspend.bind(store.workflows)
    let broken = true
    store.workflows.suspend = (...given) => {
      if (broken) throw new StoreError('not_written', 'the disk is full')
      return suspend(...given)
    }
    const { call, gateway } = open([asked, flow], store)
    expect(gist(await call('Flow.Ask'))).toBe('outcome_unknown')
    broken = false
    await expect.poll(() => gateway.isReady(), { timeout: 5_000 }).toBe(true)
    expect(gist(await call('Flow.Ask'))).toBe('approval_required')
  })

  it('rule 11: a step whose outcome is not stored yet is not final, even for a run that joined it', async () => {
    const one = noting('Note.One@1.0.0', [])
    const run = () => 'not asked for'
    const [, flow] = requireTools([one, workflow({ ...PLAIN, id: 'Flow.Join@1.0.0', uses: [one], run })])
    if (flow === undefined) return expect.fail()
    const store = openMemoryStore()
    const changes = new StoreChanges(store)
    const error = { code: 'outcome_unknown', message: 'It ran.', canRetry: false } as const
    const needs = {
      ...{ store, clock: new FakeClock(), running: new Map() },
      ...{ feed: new RunFeed(changes), waits: new ApprovalWaits(changes) },
      callStep: async () => ({ callId: 'k/one', outcome: { ok: false, error } as const, replayed: true }),
    }
    const request = callRequest('Flow.Join', { key: 'k' })
    const call = { tenant: ALICE.tenant, record: 'k', principal: ALICE, callId: 'k', request }
    const running = { tool: flow, call, scope: { run: undefined }, interruption: undefined }
    const planned = { tool: findStep(flow, 'Note.One'), name: 'one', nth: 1, input: {} }
    const rest = { signal: new AbortController().signal, hasWorkflowEnded: () => false }
    const end = () => makeStep(needs, running, { ...planned, ...rest })
    const record = stepRecord(store, { parent: 'k', name: 'one', nth: 1 })
    await store.claim(sampleCall({ record }))
    expect(await end()).toMatchObject({ kind: 'suspended' })
    // The value has been stored in the meantime, so the next run gets it.
    await store.finish({
      run: attemptAt(sampleCall({ record }), 1),
      state: 'succeeded',
      outcome: success('1'),
      atMs: 2,
    })
    expect(await end()).toMatchObject({ kind: 'suspended' })
  })

  it('steps wait for the limits of their tools, and do not count for other callers', async () => {
    const effects: string[] = []
    const one = noting('Note.One@1.0.0', effects)
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Fan@1.0.0',
      uses: [one],
      run: (_, { call }) => Promise.all(['x', 'y', 'z'].map((text) => call(one, { text }, { step: text }))),
    })
    const limits = {
      ...limitsOf({ perMs: 1 / 50, burst: 1 }),
      perPrincipal: { rate: undefined, concurrent: 1 },
    }
    const { call } = open([one, flow], openMemoryStore(), { limits })
    expect(gist(await call('Flow.Fan'))).toBe('ok ["x!","y!","z!"]')
    expect(effects).toHaveLength(3)
  })

  it('is suspended if a limit is not free in time, and reports when to retry', async () => {
    const effects: string[] = []
    const one = noting('Note.One@1.0.0', effects)
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Two@1.0.0',
      uses: [one],
      run: async (input, { call }) => [await call(one, input), await call(one, input)],
    })
    const limits = limitsOf({ perMs: 1 / 3_600_000, burst: 1 })
    const { call, gateway } = open([one, flow], openMemoryStore(), { limits })
    const held = errorOf(await call('Flow.Two'))
    expect(held).toMatchObject({ code: 'outcome_unknown', canRetry: false })
    expect(held.retryAfterMs).toBeGreaterThan(1_000)
    expect(held.message).toContain('call again with exactly the same arguments')
    expect(await gateway.readCall(ALICE, 'k')).toMatchObject({ state: 'parked' })
    expect(effects).toEqual(['Note.One a'])
  })

  it('is suspended while a budget is exhausted, and continues in the next window', async () => {
    const effects: string[] = []
    const clock = new FakeClock()
    const one = noting('Note.One@1.0.0', effects)
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Two@1.0.0',
      uses: [one],
      run: async (input, { call }) => [await call(one, input), await call(one, input, { step: 'again' })],
    })
    const limit = { calls: 1, milliseconds: NO_LIMIT, cost: NO_LIMIT }
    const budgets = [{ for: 'principal', of: undefined, windowMs: 60_000, limit }] as const
    const { call } = open([one, flow], openMemoryStore(), { budgets, clock })
    expect(errorOf(await call('Flow.Two'))).toMatchObject({ code: 'outcome_unknown', canRetry: false })
    expect(effects).toHaveLength(1)
    clock.advance(60_000)
    expect(gist(await call('Flow.Two'))).toBe('ok ["a!","a!"]')
    expect(effects).toHaveLength(2)
  })

  it('rule 31: a step whose definition is not the pinned one does not run, and the workflow waits for the pinned one', async () => {
    const effects: string[] = []
    const first = noting('Note.First@1.0.0', effects)
    const second = noting('Note.Second@1.0.0', effects)
    const changed = noting('Note.Second@1.0.0', effects, { safetyTier: 'read' })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Pinned@1.0.0',
      uses: [first, second],
      run: async (input, { call }) => {
        await call(first, input)
        await registry.replace(requireTools([first, changed, flow]), new Map())
        return await call(second, input)
      },
    })
    const registry = new LiveRegistry(requireTools([first, second, flow]), new Map())
    const { call, gateway } = open([], openMemoryStore(), { registry })
    expect(errorOf(await call('Flow.Pinned'))).toMatchObject({ code: 'outcome_unknown' })
    expect(await gateway.readCall(ALICE, 'k')).toMatchObject({ state: 'parked' })
    expect(effects).toEqual(['Note.First a'])
  })

  it('ends at its timeout, together with its running steps', async () => {
    const aborted = Promise.withResolvers<void>()
    const slow = tool({
      ...PLAIN,
      id: 'Note.Slow@1.0.0',
      run: async (_, { signal }) => {
        signal.addEventListener('abort', () => aborted.resolve())
        await aborted.promise
        return null
      },
    })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Slow@1.0.0',
      uses: [slow],
      policy: { timeoutMs: 300 },
      run: (input, { call }) => call(slow, input),
    })
    const { call } = open([slow, flow], openMemoryStore())
    expect(errorOf(await call('Flow.Slow'))).toMatchObject({ code: 'tool_timeout', effect: 'unknown' })
    await aborted.promise
  })

  it("OWP-89: a step's upstream key is one per effect, and the same in every attempt", async () => {
    const keys: string[] = []
    let fails = 1
    const send = tool({
      ...PLAIN,
      id: 'Note.Send@1.0.0',
      run: (_, context) => {
        keys.push(context.effectKey(), context.effectKey(1))
        if (fails-- > 0) throw new ToolError('Not now.', { canRetry: true, retryAfterMs: 1 })
        return null
      },
    })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Send@1.0.0',
      uses: [send],
      run: async (input, { call }) => [await call(send, input), await call(send, input)],
    })
    const { call } = open([send, flow], openMemoryStore())
    await call('Flow.Send')
    const [first, second, again, secondAgain, ...other] = keys
    expect([again, secondAgain]).toEqual([first, second])
    expect(new Set([first, second, ...other]).size).toBe(4)
  })

  it('limits the number of its steps', async () => {
    const pure = tool({
      id: 'Note.Pure@1.0.0',
      description: 'P.',
      input: {},
      output: {},
      policy: { safetyTier: 'pure' },
      run: () => 1,
    })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Endless@1.0.0',
      uses: [pure],
      run: async (_, { call }) => {
        for (;;) await call(pure, {})
      },
    })
    const { call } = open([pure, flow], openMemoryStore())
    expect(errorOf(await call('Flow.Endless')).message).toContain('more than 1000 steps')
  })

  it('rule 31: whatever its steps wait for, every effect happens once and in order', async () => {
    const kinds = fc.array(fc.constantFrom('plain', 'asked', 'flaky', 'fan'), { minLength: 1, maxLength: 6 })
    await fc.assert(
      fc.asyncProperty(kinds, async (plan) => {
        const effects: string[] = []
        const failed = new Set<string>()
        const plain = noting('Do.Plain@1.0.0', effects)
        const asked = noting('Do.Asked@1.0.0', effects, { approval: 'always' })
        const flaky = tool({
          ...PLAIN,
          id: 'Do.Flaky@1.0.0',
          run: ({ text }) => {
            if (!failed.has(text)) {
              failed.add(text)
              throw new ToolError('Not now.', { canRetry: true, retryAfterMs: 1 })
            }
            effects.push(`Do.Flaky ${text}`)
            return text
          },
        })
        const flow = workflow({
          ...PLAIN,
          id: 'Flow.Any@1.0.0',
          uses: [plain, asked, flaky],
          run: async (_, { call }) => {
            for (const [index, kind] of plan.entries()) {
              const text = String(index)
              if (kind === 'plain') await call(plain, { text })
              else if (kind === 'asked') await call(asked, { text })
              else if (kind === 'flaky') await call(flaky, { text })
              else {
                await Promise.all([
                  call(asked, { text: `${text}l` }, { step: `l${index}` }),
                  call(plain, { text: `${text}r` }, { step: `r${index}` }),
                ])
              }
            }
            return plan.length
          },
        })
        const store = openMemoryStore()
        const { call, gateway } = open([plain, asked, flaky, flow], store)
        let reply = await call('Flow.Any')
        for (let round = 0; round < 20 && gist(reply) === 'approval_required'; round += 1) {
          const [question] = await store.approvals.list({ state: 'pending', limit: 1 })
          await gateway.approvals.decide(BOB, question, { action: 'grant', reason: undefined })
          reply = await call('Flow.Any')
        }
        expect(gist(reply)).toBe(`ok ${plan.length}`)
        const expected = plan.flatMap((kind, index) => {
          if (kind === 'fan') return [`Do.Plain ${index}r`, `Do.Asked ${index}l`]
          return [`Do.${kind[0]?.toUpperCase()}${kind.slice(1)} ${index}`]
        })
        expect(effects).toEqual(expected)
        await gateway.drain(0)
      }),
      { numRuns: 40 },
    )
  })
})
