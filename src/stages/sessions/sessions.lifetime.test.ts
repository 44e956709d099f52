import { afterEach, describe, expect, it, vi } from 'vitest'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import {
  ALICE,
  callRequest,
  faultyStore,
  gist,
  openTestGateway,
  type StoreMethod,
} from '#testing/test-gateway'
import { sampleTool } from '../../../test/contracts/samples.ts'

const REQUEST = { toolId: 'openwop:Slow.State', runId: 'r' }

/** A tool whose state is ready when the test makes it ready. */
function slowState() {
  const state = Promise.withResolvers<object>()
  const opening = Promise.withResolvers<void>()
  const closed: unknown[] = []
  const session = {
    open: () => {
      opening.resolve()
      return state.promise
    },
    close: (held: unknown) => {
      closed.push(held)
    },
    idleMs: 60_000,
  }
  const tool = sampleTool('Slow.State@1.0.0', () => 1, { session })
  return { tool, state, opening: opening.promise, closed }
}

describe('a session that is closed while its state is being opened', () => {
  it('rule 30: closes exactly the state that was opened, and is not returned to the caller', async () => {
    const { tool, state, opening, closed } = slowState()
    const store = openMemoryStore()
    const gateway = openTestGateway([tool], { store })
    const opened = gateway.openSession(ALICE, REQUEST)
    await opening
    await gateway.endRun(ALICE, 'r')
    const made = {}
    state.resolve(made)

    await expect(opened).rejects.toMatchObject({ code: 'session_not_found' })
    expect(closed).toEqual([made])
    const groups = await store.readJournal([], 10)
    const types = groups.flatMap(({ events }) => events.map(({ type }) => type))
    expect(types).toEqual(['writer.started', 'session.opened', 'run.ended', 'session.closed'])
  })

  it('rule 30: closes nothing if its state could not be opened', async () => {
    const { tool, state, opening, closed } = slowState()
    const gateway = openTestGateway([tool])
    const opened = gateway.openSession(ALICE, REQUEST)
    await opening
    await gateway.drain(0)
    state.reject(new Error('no room'))

    await expect(opened).rejects.toMatchObject({ code: 'tool_failed' })
    expect(closed).toEqual([])
  })
})

describe('a closed session', () => {
  afterEach(() => {
    vi.useRealTimers()
  })

  it('rule 30: leaves no timer behind that would keep its state in memory', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { tool, state } = slowState()
    state.resolve({})
    const gateway = openTestGateway([tool])
    const { sessionId } = await gateway.openSession(ALICE, REQUEST)
    expect(vi.getTimerCount()).toBe(2)
    await gateway.closeSession(ALICE, sessionId)
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('a session with a call whose outcome could not be stored yet', () => {
  const ENDED = ['session.opened', 'called', 'returned', 'session.closed']

  async function typesAfterOutage(mendedBeforeClose: boolean): Promise<readonly string[]> {
    const { tool, state } = slowState()
    state.resolve({})
    const failing = new Set<StoreMethod>()
    const gateway = openTestGateway([tool], { store: faultyStore(openMemoryStore(), failing) })
    const { sessionId } = await gateway.openSession(ALICE, REQUEST)
    failing.add('finish').add('probe')
    const request = callRequest('Slow.State', { key: 'k', sessionId })
    expect(gist(await gateway.call(ALICE, request))).toBe('outcome_unknown')
    if (mendedBeforeClose) failing.clear()
    await gateway.closeSession(ALICE, sessionId)
    failing.clear()
    await gateway.drain(0)
    const page = await gateway.readRun(ALICE, { runId: 'r', after: -1, waitMs: 0 })
    return page?.events.map(({ type }) => type) ?? []
  }

  it('OWP-41: closes after the end of the call, whether or not the store works again by then', async () => {
    expect(await typesAfterOutage(true)).toEqual(ENDED)
    expect(await typesAfterOutage(false)).toEqual(ENDED)
  })
})
