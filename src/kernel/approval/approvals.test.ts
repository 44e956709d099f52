import { describe, expect, it } from 'vitest'
import { ToolError } from '#kernel/base/errors'
import type { Principal } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import type { ToolPolicy } from '#kernel/tool/tool'
import { type LimitSettings, NO_LIMITS } from '#stages/limits/settings'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, errorOf, FakeClock, gist, openTestGateway } from '#testing/test-gateway'
import { allCommitted } from '../../../test/all-committed.ts'
import { sampleTool } from '../../../test/contracts/samples.ts'
import type { Approver } from './approvals.ts'
import { type ApprovalRules, DEFAULT_APPROVAL_RULES } from './approvals.ts'

const RING = 'Bell.Ring@1.0.0'
const BOB: Approver = { id: 'key:bob', tenant: 'default', scopes: ['approvals:respond'] }
const YES = { action: 'grant', reason: undefined } as const
const NO = { action: 'reject', reason: 'wrong door' } as const

interface Stage {
  readonly policy?: Partial<ToolPolicy>
  readonly rules?: Partial<ApprovalRules>
  readonly end?: (run: number) => unknown
  readonly limits?: LimitSettings
  readonly requirements?: Parameters<typeof sampleTool>[2]
}

/** A gateway with one tool that needs approval, and a clock that does not advance. */
function stage({
  policy = {},
  rules = {},
  end = (run) => run,
  requirements = {},
  limits = NO_LIMITS,
}: Stage = {}) {
  const state = { runs: 0 }
  const clock = new FakeClock()
  const store = openMemoryStore()
  const run = () => {
    state.runs += 1
    return end(state.runs)
  }
  const tool = sampleTool(RING, run, { ...requirements, policy: { approval: 'always', ...policy } })
  const approvalRules = { ...DEFAULT_APPROVAL_RULES, ...rules }
  const gateway = openTestGateway([tool], { store, clock, approvalRules, limits })
  const newest = async () => (await store.approvals.list({ limit: 1 }))[0]
  const decide = async (approver: Approver, decision: Parameters<typeof gateway.approvals.decide>[2]) =>
    (await gateway.approvals.decide(approver, await newest(), decision)).kind
  const ring = (changes: Parameters<typeof callRequest>[1] = {}, principal: Principal = ALICE) =>
    gateway.call(principal, callRequest(RING, { key: 'k', ...changes }))
  return { gateway, store, clock, state, newest, decide, ring }
}

describe('a call that needs approval', () => {
  it('OWP-35, rule 6: is parked, returns the approval URL, and runs once after approval', async () => {
    const { ring, state, decide, newest, gateway } = stage()
    const first = await ring()
    const { id } = (await newest()) ?? expect.fail('no approval was requested')
    expect(errorOf(first)).toMatchObject({
      code: 'approval_required',
      details: {
        missing: {
          approval: {
            id,
            url: `http://127.0.0.1:4100/approvals/${id}`,
            checkUrl: `http://127.0.0.1:4100/approvals/${id}/status`,
          },
        },
      },
    })
    expect(first.runId).toMatch(/^run_/)
    expect(await gateway.readCall(ALICE, 'k')).toMatchObject({ state: 'parked', outcome: undefined })
    expect(gist(await ring())).toBe('approval_required')
    expect(await decide(BOB, YES)).toBe('decided')
    expect(state.runs).toBe(0)
    expect(gist(await ring())).toBe('ok 1')
    expect(await ring()).toMatchObject({ replayed: true })
    expect(state.runs).toBe(1)
  })

  it('rule 20: keeps its key: another input is a conflict', async () => {
    const { ring } = stage()
    await ring({ input: { a: 1 } })
    expect(gist(await ring({ input: { a: 2 } }))).toBe('key_conflict')
  })

  it('OWP-73: never runs after a rejection, and reports the reason', async () => {
    const { ring, state, decide, clock } = stage()
    await ring()
    expect(await decide(BOB, NO)).toBe('decided')
    const refused = await ring()
    expect(errorOf(refused)).toMatchObject({ code: 'approval_rejected', canRetry: false })
    expect(errorOf(refused).message).toContain('wrong door')
    expect(await decide(BOB, YES)).toBe('resolved')
    clock.advance(10 * 3_600_000)
    expect(gist(await ring())).toBe('approval_rejected')
    expect(state.runs).toBe(0)
  })

  it('OWP-71: is refused after the approval timed out, even before the timer has ended it', async () => {
    const { ring, decide, clock, state } = stage()
    await ring()
    clock.advance(30 * 60_000)
    expect(await decide(BOB, YES)).toBe('expired')
    expect(gist(await ring())).toBe('approval_rejected')
    expect(state.runs).toBe(0)
  })

  it('rule 20: an approval that is not used in time expires', async () => {
    const { ring, decide, clock, state } = stage()
    await ring()
    await decide(BOB, YES)
    clock.advance(30 * 60_000)
    expect(gist(await ring())).toBe('approval_rejected')
    expect(state.runs).toBe(0)
  })

  it('rule 20: one grant covers one attempt', async () => {
    const { ring, decide, state } = stage({
      end: (run) => {
        if (run === 1) throw new ToolError('Not now.', { canRetry: true })
        return run
      },
    })
    await ring()
    await decide(BOB, YES)
    expect(gist(await ring())).toBe('tool_failed')
    expect(gist(await ring())).toBe('approval_required')
    expect(state.runs).toBe(1)
    await decide(BOB, YES)
    expect(gist(await ring())).toBe('ok 2')
  })

  it('rule 21: an approval covers only the credentials that were sent', async () => {
    const requirements = { requirements: { secrets: [{ id: 'pin' }] } }
    const { ring, decide, state } = stage({ requirements })
    const sent = (value: string) => ({ secrets: new Map([['pin', new Secret(value)]]) })
    await ring(sent('1234'))
    await decide(BOB, YES)
    expect(gist(await ring(sent('9999')))).toBe('key_conflict')
    expect(state.runs).toBe(0)
    expect(gist(await ring(sent('1234')))).toBe('ok 1')
  })

  it('rule 21: an input that parses to a different value each time cannot be approved', async () => {
    let reads = 0
    const parseInput = () => {
      reads += 1
      return { ok: true, input: { nonce: reads } } as const
    }
    const { ring, decide, state } = stage({ requirements: { parseInput } })
    await ring()
    await decide(BOB, YES)
    expect(gist(await ring())).toBe('key_conflict')
    expect(state.runs).toBe(0)
  })

  it('rule 20: resuming checks again whether the caller may see the tool', async () => {
    const scopes = ['bell:ring']
    const { ring, decide, state } = stage({ policy: { scopes } })
    await ring({}, { ...ALICE, scopes })
    await decide(BOB, YES)
    expect(gist(await ring({}, ALICE))).toBe('tool_not_found')
    expect(state.runs).toBe(0)
    expect(gist(await ring({}, { ...ALICE, scopes }))).toBe('ok 1')
  })

  it('rule 5, rule 21: an approval for an earlier definition does not run the new one', async () => {
    const { ring, decide, store, clock } = stage()
    await ring()
    await decide(BOB, YES)
    const changed = sampleTool(RING, () => 'other', {
      definitionHash: 'changed',
      policy: { approval: 'always' },
    })
    const gateway = openTestGateway([changed], { store, clock })
    expect(gist(await gateway.call(ALICE, callRequest(RING, { key: 'k' })))).toBe('approval_rejected')
    const reported = errorOf(await gateway.call(ALICE, callRequest(RING, { key: 'k' })))
    expect(reported.message).toContain('has changed since approval was requested')
    expect(gist(await gateway.call(ALICE, callRequest(RING)))).toBe('approval_required')
  })

  it('rule 21: a request for an earlier definition is stale: it can be rejected but not approved', async () => {
    const { ring, newest, store, clock } = stage()
    await ring()
    const changed = sampleTool(RING, () => 'other', { definitionHash: 'changed' })
    const { approvals } = openTestGateway([changed], { store, clock })
    const approval = (await newest()) ?? expect.fail('no approval was requested')
    expect(approvals.isStale(approval)).toBe(true)
    expect(await approvals.decide(BOB, approval, YES)).toMatchObject({ kind: 'stale' })
    expect((await newest())?.state).toBe('pending')
    expect(await approvals.decide(BOB, approval, NO)).toMatchObject({ kind: 'decided' })
    expect(approvals.isStale((await newest()) ?? approval)).toBe(false)
    // An unknown tool is not stale: nothing is known about its definition.
    expect(openTestGateway([], { store, clock }).approvals.isStale(approval)).toBe(false)
  })

  it('rule 23: a caller cannot approve its own call by a link, under any name or sign-in', async () => {
    for (const quorum of [1, 2]) {
      const { ring, newest, gateway } = stage({ rules: { quorum } })
      await ring()
      const approval = (await newest()) ?? expect.fail('no approval was requested')
      const mint = (approver: string) => gateway.approvals.mint(BOB, approval, { approver, power: 'decide' })
      // ALICE is key:alice. A link contains only a name, and `alice` names her.
      for (const name of ['alice', 'Alice', 'key:alice']) expect(await mint(name)).toEqual({ kind: 'own' })
      const minted = await mint('carol')
      const token = minted.kind === 'minted' ? minted.token : expect.fail(minted.kind)
      const view = (await gateway.approvals.readLink(token)) ?? expect.fail('no link')
      const signedIn = { principal: ALICE.id }
      expect(await gateway.approvals.decideByLink(view, YES, signedIn)).toEqual({ kind: 'own' })
      expect((await newest())?.decisions).toEqual([])
      const carol = await gateway.approvals.decideByLink(view, YES, { principal: 'jwt:i#carol' })
      expect(carol.kind).toBe(quorum === 1 ? 'decided' : 'counted')
    }
  })

  it('rule 6: a request without a key resumes an equal call, before and after approval', async () => {
    const { gateway, decide, state } = stage()
    const ask = (input: object) => gateway.call(ALICE, callRequest(RING, { input: { ...input } }))
    const first = await ask({ a: 1 })
    const again = await ask({ a: 1 })
    expect(again.callId).toBe(first.callId)
    expect((await ask({ a: 2 })).callId).not.toBe(first.callId)
    const [, older] = await gateway.store.approvals.list({ limit: 5 })
    await gateway.approvals.decide(BOB, older, YES)
    const done = await ask({ a: 1 })
    expect([done.callId, gist(done)]).toEqual([first.callId, 'ok 1'])
    expect(gist(await ask({ a: 1 }))).toBe('approval_required')
    expect(state.runs).toBe(1)
    expect(await decide(BOB, YES)).toBe('decided')
  })

  it('rule 6: simultaneous equal requests without a key are one call', async () => {
    const { gateway, store } = stage()
    const all = await Promise.all(Array.from({ length: 10 }, () => gateway.call(ALICE, callRequest(RING))))
    expect(new Set(all.map(({ callId }) => callId)).size).toBe(1)
    expect(await store.approvals.list({ limit: 50 })).toHaveLength(1)
  })

  it('a request with `waitMs` is held until the decision', async () => {
    const { ring, decide, state, store } = stage()
    await ring()
    const waiting = ring({ waitMs: 60_000 })
    await allCommitted(store)
    expect(state.runs).toBe(0)
    await decide(BOB, YES)
    expect(gist(await waiting)).toBe('ok 1')
  })

  it('is answered at once if no waiting slot is free, and waits no longer than the limit', async () => {
    const waiting = { perPrincipal: 1, total: undefined, maxMs: 500 }
    const { ring, store } = stage({ limits: { ...NO_LIMITS, waiting } })
    const first = ring({ waitMs: 60_000 })
    await allCommitted(store)
    let isFirst = false
    const second = ring({ waitMs: 60_000, key: 'other' }).then((reply) => {
      expect(isFirst).toBe(false)
      return reply
    })
    const answered = first.then((reply) => {
      isFirst = true
      return reply
    })
    expect([gist(await second), gist(await answered)]).toEqual(['approval_required', 'approval_required'])
    expect(gist(await ring({ waitMs: 10 }))).toBe('approval_required')
  })

  it('stops waiting and frees its slot when the caller disconnects', async () => {
    const waiting = { perPrincipal: 1, total: undefined, maxMs: undefined }
    const { ring, decide, store } = stage({ limits: { ...NO_LIMITS, waiting } })
    const client = new AbortController()
    const left = ring({ waitMs: 60_000, gone: client.signal })
    await allCommitted(store)
    client.abort()
    expect(gist(await left)).toBe('approval_required')
    const stays = ring({ waitMs: 60_000 })
    await allCommitted(store)
    await decide(BOB, YES)
    expect(gist(await stays)).toBe('ok 1')
  })

  it('stops waiting when the server drains', async () => {
    const { ring, gateway, store } = stage()
    const waiting = ring({ waitMs: 60_000 })
    await allCommitted(store)
    await gateway.drain(0)
    expect(gist(await waiting)).toBe('approval_required')
  })

  it('rule 10: ends when its caller cancels it', async () => {
    const { ring, gateway, decide } = stage()
    await ring()
    expect(await gateway.cancelCall(ALICE, 'k')).toMatchObject({ state: 'failed' })
    expect(gist(await ring())).toBe('cancelled')
    expect(await decide(BOB, YES)).toBe('cancelled')
  })

  it('OWP-68: ends when its run ends', async () => {
    const { ring, gateway, decide } = stage()
    await ring({ runId: 'my run' })
    expect(await gateway.endRun(ALICE, 'my run')).toBe(true)
    expect(await decide(BOB, YES)).toBe('cancelled')
    expect(gist(await ring({ runId: 'my run' }))).toBe('cancelled')
  })

  it('rule 22: a principal may have only a limited number of them', async () => {
    const { ring, store } = stage({ rules: { maxParkedPerPrincipal: 2 } })
    for (const key of ['a', 'b']) await ring({ key })
    expect(errorOf(await ring({ key: 'c' }))).toMatchObject({ code: 'rate_limited', retryAfterMs: 60_000 })
    expect(gist(await ring({ key: 'c' }, { ...ALICE, id: 'key:carol' }))).toBe('approval_required')
    expect(await store.approvals.list({ limit: 10 })).toHaveLength(3)
  })
})

describe('the stored request for approval', () => {
  it('contains no credential of the call, even if the input repeats it', async () => {
    const canary = 'canary-9f2c41'
    const requirements = { requirements: { secrets: [{ id: 'pin' }], authorization: [{ id: 'bank' }] } }
    const { ring, decide, gateway, store, newest } = stage({ requirements })
    const credentials = {
      secrets: new Map([['pin', new Secret(canary)]]),
      tokens: new Map([['bank', new Secret(`${canary}-token`)]]),
    }
    const input = { note: `my pin is ${canary}`, [canary]: { password: 'x', deep: [`${canary}-token`] } }
    const parked = await ring({ input, ...credentials })
    // Two texts and a member name are hidden, so an approval must accept hidden values.
    expect((await newest())?.subject.hidden).toBe(3)
    expect(await decide(BOB, YES)).toBe('hidden')
    expect(await decide(BOB, { ...YES, acceptsHidden: true })).toBe('decided')
    const { runId = '' } = parked
    const kept = JSON.stringify([
      parked,
      await store.approvals.list({ limit: 10 }),
      await gateway.readRun(ALICE, { runId, after: -1, waitMs: 0 }),
      store.readJournal([], 100),
    ])
    expect(kept).toContain('[redacted]')
    expect(kept).not.toContain(canary)
    expect(gist(await ring({ input, ...credentials }))).toBe('ok 1')
  })
})

describe('an approver', () => {
  it('OWP-69, rule 3: needs the scopes, is not anonymous, and is not the caller', async () => {
    const { ring, decide, gateway, newest } = stage({ rules: { requiredScope: 'bell:approve' } })
    await ring()
    const all = ['approvals:respond', 'bell:approve']
    const kinds = [
      await decide({ ...BOB, scopes: [] }, YES),
      await decide({ ...BOB, scopes: ['approvals:respond'] }, YES),
      await decide({ ...BOB, scopes: ['bell:approve'] }, YES),
      await decide({ ...BOB, id: 'anonymous', scopes: all }, YES),
      await decide({ ...BOB, id: ALICE.id, scopes: all }, YES),
    ]
    expect(kinds).toEqual(['forbidden', 'forbidden', 'forbidden', 'unauthenticated', 'own'])
    expect(
      await gateway.approvals.find({ ...BOB, tenant: 'other' }, (await newest())?.id ?? ''),
    ).toBeUndefined()
    expect((await newest())?.state).toBe('pending')
    expect(await decide({ ...BOB, scopes: all }, YES)).toBe('decided')
  })

  it('may be the caller if the operator allows it; a caller may always reject its own call', async () => {
    const lax = stage({ rules: { selfApproval: true } })
    await lax.ring()
    expect(await lax.decide({ ...BOB, id: ALICE.id }, YES)).toBe('decided')
    const strict = stage()
    await strict.ring()
    expect(await strict.decide({ ...BOB, id: ALICE.id }, NO)).toBe('decided')
  })

  it('OWP-70: needs a further scope to override', async () => {
    const rules = { quorum: 3, overrideBypassesQuorum: true }
    const { ring, decide } = stage({ rules })
    await ring()
    const override = { action: 'override', reason: 'an emergency' } as const
    expect(await decide(BOB, override)).toBe('forbidden')
    expect(await decide({ ...BOB, scopes: ['approvals:*'] }, override)).toBe('decided')
    expect(gist(await ring())).toBe('ok 1')
  })

  it('is one of as many as the quorum requires', async () => {
    const perTool = new Map([['Bell.Ring', { quorum: 2, expiresAfterMs: 1_000 }]])
    const { ring, newest, clock } = stage({ rules: { perTool } })
    await ring()
    expect(await newest()).toMatchObject({ quorum: 2, expiresAtMs: clock.nowMs() + 1_000 })
  })
})
