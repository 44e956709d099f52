import { describe, expect, it } from 'vitest'
import { ToolError } from '#kernel/base/errors'
import { tool, workflow } from '#kernel/tool/define'
import { ALICE, callRequest, errorOf, gist, openTestGateway } from '#testing/test-gateway'
import { noting, PLAIN, workflowStage as stage, TEXT } from '../../../test/samples/workflows.ts'

describe('a workflow', () => {
  it('rule 31: calls its steps as the same caller, reports them in its own run, and replays its outcome', async () => {
    const effects: string[] = []
    const one = noting('Note.One@1.0.0', effects)
    const two = noting('Note.Two@1.0.0', effects)
    const both = workflow({
      id: 'Flow.Both@1.0.0',
      description: 'Both.',
      input: TEXT,
      output: { type: 'string' },
      uses: [one, 'Note.Two'],
      run: async ({ text }, { call }) => {
        const first = await call(one, { text })
        return String(await call('Note.Two', { text: String(first) }))
      },
    })
    const { call, gateway, store } = stage([one, two, both])
    const reply = await call('Flow.Both')
    expect(gist(reply)).toBe('ok "a!!"')
    expect(effects).toEqual(['Note.One a', 'Note.Two a!'])
    expect(await call('Flow.Both')).toMatchObject({ replayed: true })
    expect(effects).toHaveLength(2)
    const run = await gateway.readRun(ALICE, { runId: reply.runId ?? '', after: -1, waitMs: 0 })
    expect(run?.isComplete).toBe(true)
    expect(
      run?.events.map((event) =>
        'call' in event ? `${event.type} ${event.call.toolId} ${event.call.callId}` : '',
      ),
    ).toEqual([
      'called workflow:Flow.Both k',
      'called openwop:Note.One k/Note.One',
      'returned openwop:Note.One k/Note.One',
      'called openwop:Note.Two k/Note.Two',
      'returned openwop:Note.Two k/Note.Two',
      'returned workflow:Flow.Both k',
    ])
    const journal = (await store.readJournal([], 100)).flatMap(({ events }) => events)
    const claims = journal.filter((event) => event.type === 'call.claimed')
    expect(claims.map(({ tool, parent }) => [tool, parent === undefined])).toEqual([
      ['Flow.Both@1.0.0', true],
      ['Note.One@1.0.0', false],
      ['Note.Two@1.0.0', false],
    ])
  })

  it('calls its steps by any of their names, which are the same step in the record', async () => {
    const effects: string[] = []
    const one = noting('Note.One@1.0.0', effects)
    const two = noting('Note.Two@1.0.0', effects)
    const newer = noting('Note.Two@2.0.0', effects)
    const both = workflow({
      id: 'Flow.Both@1.0.0',
      description: 'Both.',
      input: TEXT,
      output: { type: 'string' },
      uses: ['Note_One', 'openwop:Note.Two@1', 'Note.One@1.0.0'],
      run: async ({ text }, { call }) => {
        const first = await call('openwop:Note.One', { text })
        return String(await call('Note_Two', { text: String(first) }))
      },
    })
    const { call, gateway } = stage([one, two, newer, both])
    const reply = await call('Flow.Both')
    expect(gist(reply)).toBe('ok "a!!"')
    const run = await gateway.readRun(ALICE, { runId: reply.runId ?? '', after: -1, waitMs: 0 })
    expect(run?.events.flatMap((event) => ('call' in event ? [event.call.callId] : []))).toEqual([
      'k',
      'k/Note.One',
      'k/Note.One',
      'k/Note.Two',
      'k/Note.Two',
      'k',
    ])
    expect(effects).toEqual(['Note.One a', 'Note.Two a!'])
  })

  it('rule 6: no caller can name the call of a step', async () => {
    const effects: string[] = []
    const one = noting('Note.One@1.0.0', effects)
    const only = workflow({
      ...PLAIN,
      id: 'Flow.Only@1.0.0',
      uses: [one],
      run: (input, { call }) => call(one, input),
    })
    const { call, gateway } = stage([one, only])
    await call('Flow.Only')
    expect(await gateway.readCall(ALICE, 'k/Note.One')).toBeUndefined()
    expect(gist(await call('Note.One', 'k/Note.One'))).toBe('ok "a!"')
    expect(effects).toHaveLength(2)
  })

  it('is parked while a step waits for approval, uses no attempt when called again, and continues after approval', async () => {
    const effects: string[] = []
    const one = noting('Note.One@1.0.0', effects)
    const asked = noting('Note.Asked@1.0.0', effects, { approval: 'always' })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Ask@1.0.0',
      uses: [one, asked],
      run: async (input, { call }) => {
        try {
          await call(one, input)
          return [await call(asked, input), await call(one, { text: 'last' })]
        } catch {
          return 'no code can catch that it waits'
        }
      },
    })
    const { call, gateway, approve, store } = stage([one, asked, flow])
    const first = await call('Flow.Ask')
    expect(errorOf(first)).toMatchObject({
      code: 'approval_required',
      details: { missing: { approval: {} } },
    })
    expect(await gateway.readCall(ALICE, 'k')).toMatchObject({ state: 'parked', attempt: 1 })
    const before = (await store.readJournal([], 1_000)).length
    expect(gist(await call('Flow.Ask'))).toBe('approval_required')
    expect((await store.readJournal([], 1_000)).length).toBe(before)
    // A client without keys resumes the call too (rule 6).
    expect((await call('Flow.Ask', undefined)).callId).toBe('k')
    expect(effects).toEqual(['Note.One a'])
    expect(await approve()).toBe('decided')
    expect(gist(await call('Flow.Ask'))).toBe('ok ["a!","last!"]')
    expect(effects).toEqual(['Note.One a', 'Note.Asked a', 'Note.One last'])
    expect(await gateway.readCall(ALICE, 'k')).toMatchObject({ state: 'succeeded', attempt: 1 })
  })

  it('rule 5: if its definition changed while it was suspended, the error states this and mentions no approval; it continues with the old definition', async () => {
    const effects: string[] = []
    const one = noting('Note.One@1.0.0', effects)
    const asked = noting('Note.Asked@1.0.0', effects, { approval: 'always' })
    const flow = (description: string) =>
      workflow({
        id: 'Flow.Ask@1.0.0',
        description,
        input: TEXT,
        output: {},
        uses: [one, asked],
        run: async (input, { call }) => [await call(one, input), await call(asked, input)],
      })
    const { call, approve, store } = stage([one, asked, flow('As it was.')])
    await call('Flow.Ask')
    await approve()
    const other = openTestGateway([one, asked, flow('Another one.')], { store })
    const reported = errorOf(
      await other.call(ALICE, callRequest('Flow.Ask', { key: 'k', input: { text: 'a' } })),
    )
    expect(reported).toMatchObject({ code: 'not_ready', retryAfterMs: 5_000 })
    expect(reported.message).toContain('Flow.Ask@1.0.0 has changed since this call began')
    expect(reported.message).toContain('finished steps are kept')
    expect(gist(await call('Flow.Ask'))).toBe('ok ["a!","a!"]')
    expect(effects).toEqual(['Note.One a', 'Note.Asked a'])
  })

  it('waits for the approval of a step as long as its caller requests', async () => {
    const effects: string[] = []
    const asked = noting('Note.Asked@1.0.0', effects, { approval: 'always' })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Ask@1.0.0',
      uses: [asked],
      run: (input, { call }) => call(asked, input),
    })
    const { gateway, approve, store } = stage([asked, flow])
    const waiting = gateway.call(
      ALICE,
      callRequest('Flow.Ask', { key: 'k', input: { text: 'a' }, waitMs: 10_000 }),
    )
    await expect.poll(async () => (await store.approvals.list({ state: 'pending', limit: 1 })).length).toBe(1)
    await approve()
    expect(gist(await waiting)).toBe('ok "a!"')
  })

  it('a rejected step fails for good, and the workflow may catch it', async () => {
    const effects: string[] = []
    const one = noting('Note.One@1.0.0', effects)
    const asked = noting('Note.Asked@1.0.0', effects, { approval: 'always' })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Ask@1.0.0',
      uses: [one, asked],
      run: async (input, { call }) => {
        try {
          return await call(asked, input)
        } catch (error) {
          return await call(one, { text: error instanceof ToolError ? error.code : 'other' })
        }
      },
    })
    const { call, approve } = stage([one, asked, flow])
    await call('Flow.Ask')
    await approve('reject')
    expect(gist(await call('Flow.Ask'))).toBe('ok "approval_rejected!"')
  })

  it('is parked while a step lacks a secret, and continues when the secret is sent', async () => {
    const effects: string[] = []
    const one = noting('Note.One@1.0.0', effects)
    const secret = tool({
      ...PLAIN,
      id: 'Note.Secret@1.0.0',
      requirements: { secrets: [{ id: 'pin' }] },
      run: (_, context) => context.secret('pin').reveal().length,
    })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Secret@1.0.0',
      uses: [one, secret],
      run: async (input, { call }) => [await call(one, input), await call(secret, input)],
    })
    const { gateway } = stage([one, secret, flow])
    const send = (secrets = {}) =>
      gateway.call(ALICE, callRequest('Flow.Secret', { key: 'k', input: { text: 'a' }, ...secrets }))
    expect(errorOf(await send())).toMatchObject({
      code: 'requirement_missing',
      details: { missing: { secrets: [{ id: 'pin' }] } },
    })
    const { Secret } = await import('#kernel/base/secret')
    expect(gist(await send({ secrets: new Map([['pin', new Secret('1234')]]) }))).toBe('ok ["a!",4]')
    expect(effects).toEqual(['Note.One a'])
  })

  it('rule 31: stops with workflow_diverged if it makes a call that differs from the recorded step', async () => {
    const effects: string[] = []
    let round = 0
    const one = noting('Note.One@1.0.0', effects)
    const asked = noting('Note.Asked@1.0.0', effects, { approval: 'always' })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Random@1.0.0',
      uses: [one, asked],
      run: async (input, { call }) => {
        round += 1
        try {
          await call(one, { text: `round ${round}` })
        } catch {
          return 'not caught'
        }
        return await call(asked, input)
      },
    })
    const { call, approve } = stage([one, asked, flow])
    await call('Flow.Random')
    await approve()
    const stopped = await call('Flow.Random')
    expect(errorOf(stopped)).toMatchObject({ code: 'workflow_diverged', canRetry: false })
    expect(errorOf(stopped).message).toContain("'Note.One'")
    expect(await call('Flow.Random')).toMatchObject({ replayed: true })
    expect(effects).toEqual(['Note.One round 1'])
  })

  it('runs named steps concurrently, and reports an error if two steps cannot be distinguished', async () => {
    const effects: string[] = []
    const one = noting('Note.One@1.0.0', effects)
    const uses = [one]
    const fan = (id: string, name: (text: string) => { step?: string }) =>
      workflow({
        id,
        description: 'F.',
        input: TEXT,
        output: {},
        uses,
        run: (_, { call }) => Promise.all(['x', 'y'].map((text) => call(one, { text }, name(text)))),
      })
    const { call } = stage([
      one,
      fan('Flow.Named@1.0.0', (text) => ({ step: text })),
      fan('Flow.Bare@1.0.0', () => ({})),
    ])
    expect(gist(await call('Flow.Named'))).toBe('ok ["x!","y!"]')
    const bare = errorOf(await call('Flow.Bare', 'other'))
    expect(bare.code).toBe('tool_failed')
    expect(bare.developerMessage).toContain("call(tool, input, { step: 'send-1' })")
  })

  it('cannot call a tool that it does not list', async () => {
    const effects: string[] = []
    const one = noting('Note.One@1.0.0', effects)
    const two = noting('Note.Two@1.0.0', effects)
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Sly@1.0.0',
      uses: [one],
      run: (input, { call }) => call(two, input),
    })
    const { call } = stage([one, two, flow])
    expect(errorOf(await call('Flow.Sly')).developerMessage).toContain('is not in its `uses`')
    expect(effects).toEqual([])
  })

  it('retries a step whose author states that nothing took effect, and sees only the final outcome', async () => {
    const effects: string[] = []
    let left = 2
    const flaky = noting('Note.Flaky@1.0.0', effects, {}, (text) => {
      if (left-- > 0) throw new ToolError('Not now.', { canRetry: true, retryAfterMs: 1 })
      return text
    })
    const flow = workflow({
      ...PLAIN,
      id: 'Flow.Flaky@1.0.0',
      uses: [flaky],
      run: (input, { call }) => call(flaky, input),
    })
    const { call } = stage([flaky, flow])
    expect(gist(await call('Flow.Flaky'))).toBe('ok "a"')
    left = 3
    expect(errorOf(await call('Flow.Flaky', 'again'))).toMatchObject({ code: 'tool_failed', canRetry: false })
  })

  it('can be nested, and continues at all levels after the approval of an inner step', async () => {
    const effects: string[] = []
    const asked = noting('Note.Asked@1.0.0', effects, { approval: 'always' })
    const inner = workflow({
      ...PLAIN,
      id: 'Flow.Inner@1.0.0',
      uses: [asked],
      run: (input, { call }) => call(asked, input),
    })
    const outer = workflow({
      ...PLAIN,
      id: 'Flow.Outer@1.0.0',
      uses: [inner],
      run: async (input, { call }) => [await call(inner, input)],
    })
    const { call, approve } = stage([asked, inner, outer])
    expect(gist(await call('Flow.Outer'))).toBe('approval_required')
    await approve()
    expect(gist(await call('Flow.Outer'))).toBe('ok ["a!"]')
    expect(effects).toEqual(['Note.Asked a'])
  })
})
