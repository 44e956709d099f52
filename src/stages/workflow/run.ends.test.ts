import { describe, expect, it } from 'vitest'
import { tool, workflow } from '#kernel/tool/define'
import { ALICE, gist } from '#testing/test-gateway'
import { noting, PLAIN, workflowStage as stage, TEXT } from '../../../test/samples/workflows.ts'

describe('the end of a workflow', () => {
  it('ends its running and waiting steps when it is cancelled', async () => {
    const effects: string[] = []
    const asked = noting('Note.Asked@1.0.0', effects, { approval: 'always' })
    const started = Promise.withResolvers<void>()
    const aborted = Promise.withResolvers<void>()
    const slow = tool({
      ...PLAIN,
      id: 'Note.Slow@1.0.0',
      run: async (_, { signal }) => {
        signal.addEventListener('abort', () => aborted.resolve())
        started.resolve()
        await aborted.promise
        return null
      },
    })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Slow@1.0.0',
      uses: [asked, slow],
      run: (input, { call }) => Promise.all([call(asked, input), call(slow, input)]),
    })
    const { call, gateway, store } = stage([asked, slow, flow])
    const calling = call('Flow.Slow')
    await started.promise
    await expect.poll(async () => (await store.approvals.list({ state: 'pending', limit: 1 })).length).toBe(1)
    await gateway.cancelCall(ALICE, 'k')
    expect(gist(await calling)).toBe('cancelled')
    await aborted.promise
    await expect
      .poll(async () => (await store.approvals.list({ state: 'cancelled', limit: 1 })).length)
      .toBe(1)
  })

  it('can be cancelled while it is suspended', async () => {
    const effects: string[] = []
    const asked = noting('Note.Asked@1.0.0', effects, { approval: 'always' })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Ask@1.0.0',
      uses: [asked],
      run: (input, { call }) => call(asked, input),
    })
    const outer = workflow({
      ...PLAIN,
      id: 'Flow.Outer@1.0.0',
      uses: [flow],
      run: (input, { call }) => call(flow, input),
    })
    const { call, gateway, store } = stage([asked, flow, outer])
    const first = await call('Flow.Outer')
    expect(gist(first)).toBe('approval_required')
    expect(await gateway.cancelCall(ALICE, 'k')).toMatchObject({ state: 'failed' })
    expect(gist(await call('Flow.Outer'))).toBe('cancelled')
    expect(await store.approvals.list({ state: 'cancelled', limit: 5 })).toHaveLength(1)
    expect(await store.list({ states: ['parked'], limit: 5 })).toEqual({ calls: [] })
    const run = await gateway.readRun(ALICE, { runId: first.runId ?? '', after: -1, waitMs: 0 })
    expect(run?.isComplete).toBe(true)
  })

  it('comes after the steps that its function did not await, and ends waiting steps', async () => {
    const effects: string[] = []
    const asked = noting('Note.Asked@1.0.0', effects, { approval: 'always' })
    const go = Promise.withResolvers<void>()
    const slow = tool({
      id: 'Note.Slow@1.0.0',
      description: 'S.',
      input: TEXT,
      output: { type: 'string' },
      run: async () => {
        await go.promise
        effects.push('slow')
        return 'slow'
      },
    })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Race@1.0.0',
      uses: [asked, slow],
      run: async (input, { call }) => {
        const left = [call(asked, input), call(slow, input)]
        Promise.allSettled(left).catch(() => undefined)
        go.resolve()
        return 'done'
      },
    })
    const { call, store } = stage([asked, slow, flow])
    expect(gist(await call('Flow.Race'))).toBe('ok "done"')
    expect(effects).toEqual(['slow'])
    await expect
      .poll(async () => (await store.approvals.list({ state: 'cancelled', limit: 1 })).length)
      .toBe(1)
  })

  it('rule 31: starts no step after its function has returned, even if a step that it did not await still runs', async () => {
    const effects: string[] = []
    const go = Promise.withResolvers<void>()
    const later = Promise.withResolvers<unknown>()
    const after = noting('Note.After@1.0.0', effects)
    const slow = tool({
      id: 'Note.Slow@1.0.0',
      description: 'S.',
      input: TEXT,
      output: { type: 'string' },
      run: async () => {
        await go.promise
        return 'slow'
      },
    })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Early@1.0.0',
      uses: [after, slow],
      run: (input, { call }) => {
        // The function returns long before the first step ends, which would start another one.
        call(slow, input).catch(() => undefined)
        setImmediate(() => {
          later.resolve(call(after, input).catch((error: unknown) => error))
          go.resolve()
        })
        return Promise.resolve('done')
      },
    })
    const { call } = stage([after, slow, flow])
    expect(gist(await call('Flow.Early'))).toBe('ok "done"')
    expect(await later.promise).toMatchObject({ code: 'cancelled' })
    expect(effects).toEqual([])
  })
})
