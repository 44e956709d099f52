import { describe, expect, it, vi } from 'vitest'
import { ToolError } from '#kernel/base/errors'
import type { JsonValue } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import type { Tool, ToolContext } from '#kernel/tool/tool'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, errorOf, FakeClock, gist, openTestGateway } from '#testing/test-gateway'
import { sampleTool } from '../../../test/contracts/samples.ts'

/** A write tool that counts its runs and ends each run as the test specifies. */
function countingTool(
  end: (run: number, context: ToolContext) => unknown,
  changes: Parameters<typeof sampleTool>[2] = {},
) {
  const state = { runs: 0 }
  const tool = sampleTool(
    'Bell.Ring@1.0.0',
    (_input, context) => {
      state.runs += 1
      return end(state.runs, context)
    },
    changes,
  )
  return { tool, state }
}

const RING = 'Bell.Ring@1.0.0'

describe('a call with a key', () => {
  it('rule 1, T-25: runs once and returns the same outcome again', async () => {
    const { tool, state } = countingTool((run) => run)
    const gateway = openTestGateway([tool])
    const first = await gateway.call(ALICE, callRequest(RING, { key: 'k' }))
    const second = await gateway.call(ALICE, callRequest(RING, { key: 'k' }))
    expect(second).toEqual({ ...first, replayed: true })
    expect(state.runs).toBe(1)
  })

  it('T-02: a second request joins the running one', async () => {
    const gate = Promise.withResolvers<number>()
    const { tool, state } = countingTool(() => gate.promise)
    const gateway = openTestGateway([tool])
    const both = [1, 2].map(() => gateway.call(ALICE, callRequest(RING, { key: 'k' })))
    gate.resolve(7)
    expect((await Promise.all(both)).map(gist)).toEqual(['ok 7', 'ok 7'])
    expect(state.runs).toBe(1)
  })

  it('T-03: another input, user, tool version or tool under the same key is a conflict, also while running', async () => {
    const gate = Promise.withResolvers<number>()
    const { tool } = countingTool(() => gate.promise)
    const newer = sampleTool('Bell.Ring@1.1.0', () => 0)
    const gateway = openTestGateway([tool, newer])
    const running = gateway.call(ALICE, callRequest(RING, { key: 'k', input: { a: 1 } }))
    const others = [
      callRequest(RING, { key: 'k', input: { a: 2 } }),
      callRequest(RING, { key: 'k', input: { a: 1 }, userId: 'u' }),
      callRequest('Bell.Ring@1.1.0', { key: 'k', input: { a: 1 } }),
    ]
    for (const other of others) expect(gist(await gateway.call(ALICE, other))).toBe('key_conflict')
    const same = gateway.call(ALICE, callRequest('Bell_Ring', { key: 'k', input: { a: 1 } }))
    gate.resolve(1)
    expect(gist(await running)).toBe(gist(await same))
    for (const other of others) expect(gist(await gateway.call(ALICE, other))).toBe('key_conflict')
  })

  it('rule 5: members in another order, and @1 for @1.0.0, are the same request', async () => {
    const { tool, state } = countingTool((run) => run)
    const gateway = openTestGateway([tool])
    await gateway.call(ALICE, callRequest(RING, { key: 'k', input: { a: 1, b: { c: 1, d: 2 } } }))
    const again = await gateway.call(
      ALICE,
      callRequest('Bell.Ring@1', { key: 'k', input: { b: { d: 2, c: 1 }, a: 1 } }),
    )
    expect(again.replayed).toBe(true)
    expect(state.runs).toBe(1)
  })

  it('rule 10: shows its progress to its caller only while it runs', async () => {
    const gate = Promise.withResolvers<number>()
    const { tool } = countingTool((_, { progress }) => {
      progress(1, 3, 'one of three')
      return gate.promise
    })
    const gateway = openTestGateway([tool])
    const call = gateway.call(ALICE, callRequest(RING, { key: 'k' }))
    await vi.waitFor(async () =>
      expect(await gateway.readCall(ALICE, 'k')).toMatchObject({
        state: 'running',
        progress: { done: 1, total: 3, message: 'one of three' },
      }),
    )
    expect(await gateway.readCall({ ...ALICE, id: 'key:carol' }, 'k')).toBeUndefined()
    gate.resolve(7)
    await call
    expect(await gateway.readCall(ALICE, 'k')).not.toHaveProperty('progress')
  })

  it('rule 3: differs for another principal or tenant', async () => {
    const { tool, state } = countingTool((run) => run)
    const gateway = openTestGateway([tool])
    for (const caller of [ALICE, { ...ALICE, id: 'key:bob' }, { ...ALICE, tenant: 'other' }]) {
      await gateway.call(caller, callRequest(RING, { key: 'k' }))
    }
    expect(state.runs).toBe(3)
    expect(await gateway.readCall({ ...ALICE, id: 'key:carol' }, 'k')).toBeUndefined()
  })

  it('rule 1: returns an earlier outcome even if the input is no longer valid and the version is gone', async () => {
    const { tool } = countingTool(() => 'rung')
    const store = openMemoryStore()
    await openTestGateway([tool], { store }).call(ALICE, callRequest(RING, { key: 'k' }))
    const stricter: Tool = { ...tool, checkInput: () => [{ pointer: '', message: 'no' }] }
    expect(
      gist(await openTestGateway([stricter], { store }).call(ALICE, callRequest(RING, { key: 'k' }))),
    ).toBe('ok "rung"')
    expect(gist(await openTestGateway([], { store }).call(ALICE, callRequest(RING, { key: 'k' })))).toBe(
      'ok "rung"',
    )
  })

  it('rule 1: does not return an earlier outcome of a tool that is now hidden from the principal', async () => {
    const { tool } = countingTool(() => 'rung', { policy: { scopes: ['bell:ring'] } })
    const store = openMemoryStore()
    const gateway = openTestGateway([tool], { store })
    expect(gist(await gateway.call({ ...ALICE, scopes: ['bell:*'] }, callRequest(RING, { key: 'k' })))).toBe(
      'ok "rung"',
    )
    expect(gist(await gateway.call(ALICE, callRequest(RING, { key: 'k' })))).toBe('tool_not_found')
  })

  it('T-04: 400 and 422 do not use up the key', async () => {
    const { tool } = countingTool(() => 'rung')
    const gateway = openTestGateway([{ ...tool, requirements: { secrets: [{ id: 'K' }] } }])
    expect(gist(await gateway.call(ALICE, callRequest(RING, { key: 'k' })))).toBe('requirement_missing')
    const secrets = new Map([['K', new Secret('v')]])
    expect(gist(await gateway.call(ALICE, callRequest(RING, { key: 'k', secrets })))).toBe('ok "rung"')
  })
})

describe('failures', () => {
  it('rule 9: a failure with canRetry is released and runs again, at most three times', async () => {
    const { tool, state } = countingTool(() => {
      throw new ToolError('busy', { canRetry: true, retryAfterMs: 9 })
    })
    const gateway = openTestGateway([tool])
    const reported = []
    for (let round = 0; round < 5; round += 1) {
      reported.push(errorOf(await gateway.call(ALICE, callRequest(RING, { key: 'k' }))))
    }
    expect(reported.map(({ canRetry }) => canRetry)).toEqual([true, true, false, false, false])
    expect(reported.map(({ retryAfterMs }) => retryAfterMs)).toEqual([9, 9, undefined, undefined, undefined])
    for (const { message } of reported.slice(2)) expect(message).toMatch(/^busy\. .*use a new call id/)
    expect(state.runs).toBe(3)
    expect((await gateway.readCall(ALICE, 'k'))?.state).toBe('failed')
  })

  it('rule 9: a released call accepts other input for the same tool from the same user, and both requests are journaled', async () => {
    const inputs: unknown[] = []
    const tool = sampleTool(RING, (input) => {
      inputs.push(input)
      if (inputs.length === 1) throw new ToolError('no such bell', { canRetry: true })
      return 'rung'
    })
    const other = sampleTool('Bell.Stop@1.0.0', () => 0)
    const gateway = openTestGateway([tool, other])
    const ring = (input: JsonValue, more: object = {}) =>
      gateway.call(ALICE, callRequest(RING, { key: 'k', input, ...more })).then(gist)
    expect(await ring({ bell: 1 })).toBe('tool_failed')
    expect(await ring({ bell: 2 }, { userId: 'ann' })).toBe('key_conflict')
    expect(await ring({ bell: 2 }, { tool: { base: 'Bell.Stop', version: 'latest' } })).toBe('key_conflict')
    expect(await ring({ bell: 2 })).toBe('ok "rung"')
    expect(await ring({ bell: 2 })).toBe('ok "rung"')
    expect(await ring({ bell: 1 })).toBe('key_conflict')
    expect(inputs).toEqual([{ bell: 1 }, { bell: 2 }])
    const events = (await gateway.store.readJournal([], 100)).flatMap((group) => group.events)
    const corrected = events.find((event) => event.type === 'call.corrected')
    expect(corrected).toMatchObject({ attempt: 2, before: expect.any(String), after: expect.any(String) })
    expect(corrected?.type === 'call.corrected' && corrected.before !== corrected.after).toBe(true)
  })

  it('rule 13: a released call whose result has expired returns `result_expired` and does not run again', async () => {
    const { tool, state } = countingTool(() => {
      throw new ToolError('busy', { canRetry: true })
    })
    const store = openMemoryStore()
    const clock = new FakeClock()
    const gateway = openTestGateway([tool], { store, clock })
    await gateway.call(ALICE, callRequest(RING, { key: 'k' }))
    clock.advance(1_001)
    store.purge(clock.nowMs(), { resultsMs: 1_000, journalMs: 1_000_000 })
    expect(gist(await gateway.call(ALICE, callRequest(RING, { key: 'k' })))).toBe('result_expired')
    expect(state.runs).toBe(1)
  })

  it('rule 5: a released call waits for the definition it began with', async () => {
    const { tool } = countingTool(() => {
      throw new ToolError('busy', { canRetry: true })
    })
    const store = openMemoryStore()
    await openTestGateway([tool], { store }).call(ALICE, callRequest(RING, { key: 'k' }))
    const changed = openTestGateway([{ ...tool, definitionHash: 'another' }], { store })
    expect(gist(await changed.call(ALICE, callRequest(RING, { key: 'k' })))).toBe('not_ready')
  })

  it('T-20: an uncaught error is not described to the caller; the text of a ToolError is', async () => {
    const crash = sampleTool('Bell.Crash@1.0.0', () => {
      throw new Error('password is hunter2')
    })
    const reported = sampleTool('Bell.Told@1.0.0', () => {
      throw new ToolError('No such bell', {
        developerMessage: 'bell 7',
        additionalPromptContent: 'bells: 1, 2',
      })
    })
    const gateway = openTestGateway([crash, reported])
    expect(JSON.stringify(await gateway.call(ALICE, callRequest('Bell.Crash')))).not.toContain('hunter2')
    expect(errorOf(await gateway.call(ALICE, callRequest('Bell.Told')))).toEqual({
      code: 'tool_failed',
      message: 'No such bell',
      developerMessage: 'bell 7',
      additionalPromptContent: 'bells: 1, 2',
      canRetry: false,
    })
  })

  it('T-20: credentials of the call are removed from the text of its error', async () => {
    const tool = sampleTool(
      'Bell.Leak@1.0.0',
      (_input, context) => {
        const key = context.secret('K').reveal()
        throw new ToolError(`bad key ${key}`, {
          developerMessage: `tried ${key}`,
          additionalPromptContent: key,
        })
      },
      { requirements: { secrets: [{ id: 'K' }] } },
    )
    const secrets = new Map([['K', new Secret('s3cr3t-value')]])
    expect(
      JSON.stringify(await openTestGateway([tool]).call(ALICE, callRequest('Bell.Leak', { secrets }))),
    ).not.toContain('s3cr3t')
  })

  it('T-21: a tool gets only the credentials it declared', async () => {
    const tool = sampleTool('Bell.Peek@1.0.0', (_input, context) => context.secret('OTHER').reveal())
    const secrets = new Map([['OTHER', new Secret('not yours')]])
    expect(gist(await openTestGateway([tool]).call(ALICE, callRequest('Bell.Peek', { secrets })))).toBe(
      'tool_failed',
    )
  })

  it('T-14: a result outside the output schema is a tool error; a tool without output has its value dropped', async () => {
    const wrong = sampleTool('Bell.Wrong@1.0.0', () => 'text', { checkOutput: () => ['must be a number'] })
    const none = sampleTool('Bell.None@1.0.0', () => 'dropped', { outputSchema: null })
    const endless = sampleTool('Bell.Endless@1.0.0', () => Number.NaN)
    const gateway = openTestGateway([wrong, none, endless])
    const error = errorOf(await gateway.call(ALICE, callRequest('Bell.Wrong')))
    expect([error.code, error.message.includes('number'), error.developerMessage]).toEqual([
      'output_invalid',
      false,
      expect.stringContaining('must be a number'),
    ])
    expect(gist(await gateway.call(ALICE, callRequest('Bell.None')))).toBe('ok null')
    expect(gist(await gateway.call(ALICE, callRequest('Bell.Endless')))).toBe('output_invalid')
  })

  it('a result over the limit has a clear error', async () => {
    const tool = sampleTool('Bell.Big@1.0.0', () => 'x'.repeat(200))
    const error = errorOf(
      await openTestGateway([tool], { maxResultBytes: 100 }).call(ALICE, callRequest('Bell.Big')),
    )
    expect(error.code).toBe('result_too_large')
    expect(error.message).toContain('202 bytes and this server keeps at most 100')
  })

  it.each([
    ['write', 'Do not repeat it to get the result.'],
    ['read', 'Ask for less.'],
  ] as const)(
    'a %s tool whose result is too large is reported as finished, with the setting to change',
    async (safetyTier, advice) => {
      const big = sampleTool('Bell.Big@1.0.0', () => 'x'.repeat(200), { policy: { safetyTier } })
      const gateway = openTestGateway([big], { maxResultBytes: 100 })
      const request = callRequest('Bell.Big', { key: 'once' })
      const error = errorOf(await gateway.call(ALICE, request))
      expect(error.message).toBe(
        `Bell_Big ran to its end. Its result has 202 bytes and this server keeps at most 100, so it is not shown. ${advice} An operator can raise \`calls.maxResultBytes\`.`,
      )
      // The effect is known, so no operator has to settle the call.
      expect([error.canRetry, error.effect]).toEqual([false, undefined])
      // A repeated request returns the same outcome, and nothing runs again.
      expect(errorOf(await gateway.call(ALICE, request))).toEqual(error)
    },
  )

  it('OTC-70: for an unknown tool, only similar names in the caller’s own catalog are suggested', async () => {
    const hidden = sampleTool('Bell.Rong@1.0.0', () => 1, { policy: { scopes: ['x'] } })
    const gateway = openTestGateway([countingTool(() => 1).tool, hidden])
    expect(errorOf(await gateway.call(ALICE, callRequest('Bell.Rin'))).message).toContain(
      "Did you mean 'Bell.Ring'?",
    )
    expect(errorOf(await gateway.call(ALICE, callRequest('Bell.Ring@2.0.0'))).message).toContain(
      'Versions served: 1.0.0',
    )
    expect(errorOf(await gateway.call(ALICE, callRequest('Bell.Rong'))).message).not.toContain('Rong@')
  })

  it('a tool that needs approval does not run without it', async () => {
    const { tool, state } = countingTool(() => 1, { policy: { approval: 'always' } })
    expect(gist(await openTestGateway([tool]).call(ALICE, callRequest(RING)))).toBe('approval_required')
    expect(state.runs).toBe(0)
  })
})
