import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { isToolError } from '#kernel/base/errors'
import type { Tool } from '#kernel/tool/tool'
import type { RunningGateway } from '#stages/open-gateway'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, FakeClock, gist, openTestGateway } from '#testing/test-gateway'
import { allCommitted } from '../../../test/all-committed.ts'
import { sampleTool } from '../../../test/contracts/samples.ts'

const IDLE_MS = 60_000
const DAY_MS = 24 * 3_600_000
const TOOL_ID = 'openwop:Box.Push'

const done: string[] = []

function statefulTool(session: Partial<NonNullable<Tool['session']>> = {}, run?: Tool['run']): Tool {
  return sampleTool('Box.Push@1.0.0', run ?? (() => done.push('run')), {
    session: {
      open: () => done.push('open'),
      close: () => {
        done.push('close')
      },
      idleMs: IDLE_MS,
      ...session,
    },
  })
}

let gateway: RunningGateway

/** A gateway whose timers and clock the test controls. */
function start(tool: Tool): RunningGateway {
  gateway = openTestGateway([tool])
  return gateway
}

async function typesOf(runId: string): Promise<readonly string[] | undefined> {
  const page = await gateway.readRun(ALICE, { runId, after: -1, waitMs: 0 })
  return page?.events.map((event) => (event.type === 'session.closed' ? event.outcome : event.type))
}

async function codeOf(refused: Promise<unknown>): Promise<string> {
  const error: unknown = await refused.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  return isToolError(error) ? error.code : 'none'
}

beforeEach(() => {
  done.length = 0
  // Only timers and the clock are replaced; the rest of the event loop works as usual.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
})

afterEach(async () => {
  vi.useRealTimers()
  await gateway.drain(0)
})

describe('the lifetime of a session', () => {
  it('OWP-41, OWP-44: an unused session closes by itself, as completed', async () => {
    const { sessionId, runId } = await start(statefulTool()).openSession(ALICE, { toolId: TOOL_ID })
    await vi.advanceTimersByTimeAsync(IDLE_MS - 1)
    expect(gist(await gateway.call(ALICE, callRequest('Box.Push', { sessionId })))).toBe('ok 2')
    await vi.advanceTimersByTimeAsync(IDLE_MS - 1)
    expect(done).toEqual(['open', 'run'])
    await vi.advanceTimersByTimeAsync(1)
    await allCommitted(gateway.store)
    expect(done).toEqual(['open', 'run', 'close'])
    expect(await typesOf(runId)).toEqual(['session.opened', 'called', 'returned', 'completed'])
    expect(gist(await gateway.call(ALICE, callRequest('Box.Push', { sessionId })))).toBe('session_not_found')
    expect(await gateway.closeSession(ALICE, sessionId)).toBe(false)
  })

  it('openwop §7.3: optional state is opened only for sessions; other calls run without it', async () => {
    const tool = statefulTool({ isOptional: true }, (_input, { session }) => session ?? 'none')
    start(tool)
    expect(gist(await gateway.call(ALICE, callRequest('Box.Push')))).toBe('ok "none"')
    expect(gist(await gateway.call(ALICE, callRequest('Box.Push', { runId: 'watched' })))).toBe('ok "none"')
    expect(await typesOf('watched')).toEqual(['session.opened', 'called', 'returned', 'completed'])
    expect(done).toEqual([])
    const { sessionId } = await gateway.openSession(ALICE, { toolId: TOOL_ID })
    expect(gist(await gateway.call(ALICE, callRequest('Box.Push', { sessionId })))).toBe('ok 1')
  })

  it('a call that takes longer than the idle time keeps its session', async () => {
    const gate = Promise.withResolvers<number>()
    const tool = { ...statefulTool({}, () => gate.promise) }
    const slow = { ...tool, policy: { ...tool.policy, timeoutMs: 10 * IDLE_MS } }
    const { sessionId, runId } = await start(slow).openSession(ALICE, { toolId: TOOL_ID })
    const call = gateway.call(ALICE, callRequest('Box.Push', { sessionId }))
    await vi.advanceTimersByTimeAsync(3 * IDLE_MS)
    gate.resolve(1)
    expect(gist(await call)).toBe('ok 1')
    expect(await typesOf(runId)).toEqual(['session.opened', 'called', 'returned'])
    await gateway.closeSession(ALICE, sessionId)
  })

  it('rule 30: no session lives longer than a day, however busy it is', async () => {
    const { sessionId, runId } = await start(statefulTool({ idleMs: 3 * DAY_MS })).openSession(ALICE, {
      toolId: TOOL_ID,
    })
    await vi.advanceTimersByTimeAsync(DAY_MS - 1)
    expect(gist(await gateway.call(ALICE, callRequest('Box.Push', { sessionId })))).toBe('ok 2')
    await vi.advanceTimersByTimeAsync(1)
    await allCommitted(gateway.store)
    expect(done).toEqual(['open', 'run', 'close'])
    expect(await typesOf(runId)).toEqual(['session.opened', 'called', 'returned', 'failed'])
  })

  it('OWP-44, C2: a shutdown closes it as failed, and closes its state', async () => {
    const { runId } = await start(statefulTool()).openSession(ALICE, { toolId: TOOL_ID })
    await gateway.drain(0)
    expect(done).toEqual(['open', 'close'])
    expect(await typesOf(runId)).toEqual(['session.opened', 'failed'])
    expect(await codeOf(Promise.resolve().then(() => gateway.openSession(ALICE, { toolId: TOOL_ID })))).toBe(
      'not_ready',
    )
  })

  it('OWP-41: a close that hangs is waited for only for a limited time', async () => {
    const never = new Promise<void>(() => undefined)
    const { sessionId, runId } = await start(statefulTool({ close: () => never })).openSession(ALICE, {
      toolId: TOOL_ID,
    })
    const closed = gateway.closeSession(ALICE, sessionId)
    await vi.advanceTimersByTimeAsync(9_000)
    expect(await typesOf(runId)).toEqual(['session.opened'])
    await vi.advanceTimersByTimeAsync(1_000)
    expect(await closed).toBe(true)
    expect(await typesOf(runId)).toEqual(['session.opened', 'completed'])
  })

  it('OWP-41: two simultaneous closes close it once', async () => {
    const { sessionId, runId } = await start(statefulTool()).openSession(ALICE, { toolId: TOOL_ID })
    const both = await Promise.all([
      gateway.closeSession(ALICE, sessionId),
      gateway.closeSession(ALICE, sessionId),
      gateway.endRun(ALICE, runId),
    ])
    expect(both).toEqual([true, true, true])
    expect(done).toEqual(['open', 'close'])
    expect(await typesOf(runId)).toEqual(['session.opened', 'completed'])
  })

  it('if it is closed while its state is being opened, the state is closed', async () => {
    const gate = Promise.withResolvers<string>()
    start(statefulTool({ open: () => gate.promise }))
    const opening = codeOf(gateway.openSession(ALICE, { toolId: TOOL_ID, runId: 'opening' }))
    await allCommitted(gateway.store)
    const page = await gateway.readRun(ALICE, { runId: 'opening', after: -1, waitMs: 0 })
    const [opened] = page?.events ?? []
    const sessionId = opened?.type === 'session.opened' ? opened.sessionId : ''
    // The event reveals its id, but it accepts no calls yet.
    expect(gist(await gateway.call(ALICE, callRequest('Box.Push', { sessionId })))).toBe('session_not_found')
    expect(await gateway.closeSession(ALICE, sessionId)).toBe(true)
    expect(done).toEqual([])
    gate.resolve('state')
    expect(await opening).toBe('session_not_found')
    expect(done).toEqual(['close'])
    expect(await typesOf('opening')).toEqual(['session.opened', 'completed'])
  })

  it('a closed session is not kept in memory for a day', async () => {
    const { sessionId } = await start(statefulTool()).openSession(ALICE, { toolId: TOOL_ID })
    const before = vi.getTimerCount()
    await gateway.closeSession(ALICE, sessionId)
    expect(vi.getTimerCount()).toBeLessThanOrEqual(before - 2)
  })
})

describe('a call with a session of its own', () => {
  it('OWP-41: its session ends with it, as failed if the tool failed', async () => {
    const tool = statefulTool({}, () => {
      throw new Error('no')
    })
    const { runId = '' } = await start(tool).call(ALICE, callRequest('Box.Push'))
    expect(await typesOf(runId)).toEqual(['session.opened', 'called', 'returned', 'failed'])
    expect(done).toEqual(['open', 'close'])
  })

  it('OWP-41: if the state cannot be opened, the call fails and nothing is closed', async () => {
    const tool = statefulTool({ open: () => Promise.reject(new Error('no')) })
    const reply = await start(tool).call(ALICE, callRequest('Box.Push'))
    expect(gist(reply)).toBe('tool_failed')
    expect(await typesOf(reply.runId ?? '')).toEqual(['session.opened', 'called', 'returned', 'failed'])
    expect(done).toEqual([])
  })
})

describe('a call that ends before it starts', () => {
  it('OWP-53: has both events, without a duration', async () => {
    const store = openMemoryStore()
    const claim = store.claim.bind(store)
    store.claim = async (call) => {
      const claimed = await claim(call)
      void gateway.cancelCall(ALICE, 'early')
      return claimed
    }
    gateway = openTestGateway([statefulTool()], { store })
    const reply = await gateway.call(ALICE, callRequest('Box.Push', { key: 'early' }))
    expect([gist(reply), done]).toEqual(['cancelled', []])
    const page = await gateway.readRun(ALICE, { runId: reply.runId ?? '', after: -1, waitMs: 0 })
    expect(page?.events[2]).toMatchObject({ type: 'returned', code: 'cancelled' })
    expect(page?.events[2]).not.toHaveProperty('durationMs')
    expect(await typesOf(reply.runId ?? '')).toEqual(['session.opened', 'called', 'returned', 'cancelled'])
  })
})

describe('the lifetime of a named run', () => {
  it('ends after 15 minutes without events and without open calls or sessions', async () => {
    const clock = new FakeClock()
    gateway = openTestGateway([statefulTool(), sampleTool('Echo.Say@1.0.0', () => 1)], { clock })
    const say = () => gateway.call(ALICE, callRequest('Echo.Say', { runId: 'r' }))
    const isComplete = async () =>
      (await gateway.readRun(ALICE, { runId: 'r', after: 99, waitMs: 0 }))?.isComplete
    expect(gist(await say())).toBe('ok 1')
    clock.advance(15 * 60_000 - 1)
    expect([gist(await say()), await isComplete()]).toEqual(['ok 1', false])
    const kept = { key: 'kept', runId: 'r' }
    const first = await gateway.call(ALICE, callRequest('Echo.Say', kept))
    clock.advance(15 * 60_000)
    expect([gist(await say()), await isComplete()]).toEqual(['request_invalid', true])
    expect(await gateway.call(ALICE, callRequest('Echo.Say', kept))).toEqual({ ...first, replayed: true })
    expect(await codeOf(gateway.openSession(ALICE, { toolId: TOOL_ID, runId: 'r' }))).toBe('request_invalid')
  })

  it('does not end while a session in it is open', async () => {
    const clock = new FakeClock()
    gateway = openTestGateway([statefulTool(), sampleTool('Echo.Say@1.0.0', () => 1)], { clock })
    const { sessionId } = await gateway.openSession(ALICE, { toolId: TOOL_ID, runId: 'r' })
    clock.advance(DAY_MS)
    expect(gist(await gateway.call(ALICE, callRequest('Echo.Say', { runId: 'r' })))).toBe('ok 1')
    await gateway.closeSession(ALICE, sessionId)
    clock.advance(15 * 60_000)
    expect(gist(await gateway.call(ALICE, callRequest('Echo.Say', { runId: 'r' })))).toBe('request_invalid')
  })
})
