import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Approver } from '#kernel/approval/approvals'
import { ALICE, callRequest, gist, openTestGateway } from '#testing/test-gateway'
import { allCommitted } from '../../../test/all-committed.ts'
import { sampleTool } from '../../../test/contracts/samples.ts'

const IDLE_MS = 1_000
const BOB: Approver = { id: 'key:bob', tenant: 'default', scopes: ['approvals:respond'] }

function stage(idleMs = IDLE_MS) {
  const closed: number[] = []
  const tool = sampleTool('Note.Write@1.0.0', (_input, { session }) => session, {
    policy: { approval: 'always' },
    session: { open: () => 'state', close: () => void closed.push(1), idleMs },
  })
  const gateway = openTestGateway([tool])
  const call = (sessionId?: string) =>
    gateway.call(
      ALICE,
      callRequest('Note.Write', { key: 'k', ...(sessionId === undefined ? {} : { sessionId }) }),
    )
  const decide = async () => {
    const [approval] = await gateway.store.approvals.list({ limit: 1 })
    return (await gateway.approvals.decide(BOB, approval, { action: 'grant', reason: undefined })).kind
  }
  const eventsOf = async (runId: string) =>
    (await gateway.readRun(ALICE, { runId, after: -1, waitMs: 0 }))?.events.map(({ type }) => type)
  return { gateway, closed, call, decide, eventsOf }
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
})
afterEach(() => {
  vi.useRealTimers()
})

describe('a call in a session that waits for approval', () => {
  it('rule 30: keeps its session open beyond its idle time, and uses its state after approval', async () => {
    const { gateway, call, decide, closed } = stage()
    const { sessionId } = await gateway.openSession(ALICE, { toolId: 'openwop:Note.Write' })
    expect(gist(await call(sessionId))).toBe('approval_required')
    await vi.advanceTimersByTimeAsync(IDLE_MS * 20)
    expect(closed).toEqual([])
    expect(await decide()).toBe('decided')
    expect(gist(await call(sessionId))).toBe('ok "state"')
    await vi.advanceTimersByTimeAsync(IDLE_MS * 2)
    await allCommitted(gateway.store)
    expect(closed).toEqual([1])
  })

  it('rule 30: is lost when the session reaches the maximum age', async () => {
    const { gateway, call, decide, closed } = stage(3_600_000)
    const { sessionId } = await gateway.openSession(ALICE, { toolId: 'openwop:Note.Write' })
    await call(sessionId)
    await vi.advanceTimersByTimeAsync(24 * 3_600_000 + 1)
    expect(closed).toEqual([1])
    await allCommitted(gateway.store)
    expect(gist(await call(sessionId))).toBe('session_lost')
    expect(await decide()).toBe('cancelled')
  })

  it('OWP-40, OWP-41, OWP-45: its session opens before it and closes after it, with the request for approval in between', async () => {
    const { call, decide, eventsOf } = stage()
    const { runId = '' } = await call()
    await decide()
    expect(gist(await call())).toBe('ok "state"')
    expect(await eventsOf(runId)).toEqual([
      ...['session.opened', 'called', 'interrupt.requested', 'node.suspended', 'approval.granted'],
      ...['interrupt.resolved', 'returned', 'session.closed'],
    ])
  })
})
