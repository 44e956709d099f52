import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SafetyTier } from '#kernel/tool/tool'
import type { Store } from '#store/collet-store'
import {
  attemptAt,
  eventsOf,
  failure,
  gistOfRun,
  runThrough,
  sampleCall,
  sampleSession,
  scopeAt,
  success,
} from '../contracts/samples.ts'
import { StoreFolder } from './store-folder.ts'

const FAR = 9e12
const SCOPE = scopeAt('run-a')
const { run: RUN } = SCOPE

let folder: StoreFolder
beforeEach(() => {
  folder = new StoreFolder()
})
afterEach(() => folder.remove())

/** The store that a dead writer left, as the next process opens it. */
async function afterDeath(act: (store: Store) => unknown): Promise<Store> {
  const dead = folder.open()
  await act(dead)
  await folder.leaveBehind(dead)
  return folder.open()
}

async function journalOf(store: Store, type: string) {
  return (await store.readJournal([], 10_000))
    .flatMap(({ events }) => events)
    .filter((event) => event.type === type)
}

describe('recovery of calls outside a session', () => {
  it('rule 8, OWP-50: an interrupted write is ambiguous, and its own run has the pair', async () => {
    const call = sampleCall({ callId: 'caller’s id', argsHash: 'a'.repeat(64) })
    const store = await afterDeath((dead) => dead.claim(call))
    expect(await store.recover(5_000)).toEqual({ deadWriters: 1, ambiguous: 1 })
    const { callId, toolId, transport, argsHash, traceId } = call
    const named = { record: 'record-1', attempt: 1, call: { callId, toolId, transport, argsHash, traceId } }
    expect(await eventsOf(store, 'record-1')).toEqual([
      { type: 'called', ...named, principal: 'key:alice', sequence: 0, atMs: 1_000 },
      { type: 'returned', ...named, code: 'ambiguous', sequence: 1, atMs: 5_000 },
    ])
    expect(store.find(call)).toMatchObject({ state: 'ambiguous', run: 'record-1' })
    expect(await journalOf(store, 'call.ambiguous')).toMatchObject([{ run: 'record-1', sequence: 1 }])
    expect((await store.findRun({ tenant: 'default', run: 'record-1' }))?.open).toBe(0)
    expect((await store.verify()).ok).toBe(true)
  })

  it('rule 8: in a named run an interrupted write is ambiguous, a read ends, and a repeatable call waits', async () => {
    const again = sampleCall({ record: 'again', scope: SCOPE, replay: 'idempotent', rerunUntilMs: FAR })
    const store = await afterDeath(async (dead) => {
      await dead.claim(sampleCall({ record: 'write', scope: SCOPE }))
      await dead.claim(sampleCall({ record: 'read', scope: SCOPE, tier: 'read', rerunUntilMs: FAR }))
      await dead.claim(again)
    })
    await store.recover(5_000)
    const events = await gistOfRun(store, RUN)
    expect(events.slice(0, 3)).toEqual(['called write 1', 'called read 1', 'called again 1'])
    expect(events.slice(3).sort()).toEqual(['returned read 1 cancelled', 'returned write 1 ambiguous'])
    expect((await store.findRun(SCOPE))?.open).toBe(1)
    const previous = await store.find(again)
    if (previous === undefined) throw new Error('no call')
    await store.reclaim(previous, { session: undefined, atMs: 6_000 })
    expect((await gistOfRun(store, RUN)).slice(5)).toEqual(['returned again 1 ambiguous', 'called again 2'])
    expect((await store.verify()).ok).toBe(true)
  })

  it('rule 12: settling as not run removes the own run, and the key begins another', async () => {
    const store = await afterDeath(async (dead) => {
      await dead.claim(sampleCall())
      await dead.claim(sampleCall({ record: 'named', scope: SCOPE }))
    })
    await store.recover(5_000)
    const settlement = { as: 'not-run', valueJson: undefined, error: undefined, who: 'op', why: 'x' } as const
    for (const record of ['record-1', 'named']) await store.settle({ ...settlement, record, atMs: 6_000 })
    expect(store.findRun({ tenant: 'default', run: 'record-1' })).toBeUndefined()
    expect(await eventsOf(store, 'record-1')).toEqual([])
    expect(await gistOfRun(store, RUN)).toEqual(['called named 1', 'returned named 1 ambiguous'])
    await store.claim(sampleCall({ session: { sessionId: 'ses_1', isOwn: true } }))
    expect(await gistOfRun(store, 'record-1')).toEqual(['opened ses_1', 'called record-1 1'])
    expect((await store.verify()).ok).toBe(true)
  })

  it('rule 12: settling otherwise leaves the events of the run', async () => {
    const store = await afterDeath((dead) => dead.claim(sampleCall()))
    await store.recover(5_000)
    const reported = await eventsOf(store, 'record-1')
    const settlement = { as: 'succeeded', valueJson: '1', error: undefined, who: 'op', why: 'x' } as const
    await store.settle({ ...settlement, record: 'record-1', atMs: 6_000 })
    expect(await eventsOf(store, 'record-1')).toEqual(reported)
  })
})

describe('recovery of calls in a session', () => {
  const lost = { state: 'failed', outcome: { ok: false, error: { code: 'session_lost', canRetry: false } } }

  it.each(['pure', 'read', 'write', 'exec'] satisfies SafetyTier[])(
    'rule 30, OWP-41, OWP-53: an interrupted %s call is lost with its session and never runs again',
    async (tier) => {
      const cut = { tier, replay: 'idempotent', rerunUntilMs: FAR } as const
      const named = sampleCall({
        ...cut,
        record: 'named',
        scope: SCOPE,
        session: { sessionId: 'ses_1', isOwn: false },
      })
      const own = sampleCall({ ...cut, record: 'own', session: { sessionId: 'ses_2', isOwn: true } })
      const store = await afterDeath(async (dead) => {
        await dead.openSession(sampleSession('ses_1'))
        await dead.claim(named)
        await dead.claim(own)
      })
      expect(await store.recover(5_000)).toEqual({ deadWriters: 1, ambiguous: 0 })
      for (const [call, run, sessionId] of [
        [named, RUN, 'ses_1'],
        [own, 'own', 'ses_2'],
      ] as const) {
        const found = await store.find(call)
        expect(found).toMatchObject(lost)
        const error = found?.outcome?.ok === false ? found.outcome.error : undefined
        expect(error?.effect).toBe(tier === 'write' || tier === 'exec' ? 'unknown' : undefined)
        expect(await gistOfRun(store, run)).toEqual([
          `opened ${sessionId}`,
          `called ${call.record} 1`,
          `returned ${call.record} 1 session_lost`,
          `closed ${sessionId} failed`,
        ])
        const returned = (await eventsOf(store, run))[2]
        expect(returned).toMatchObject({ sessionId })
        expect(returned).not.toHaveProperty('durationMs')
        expect(store.findSession({ tenant: 'default', sessionId })).toMatchObject({
          state: 'closed',
          outcome: 'failed',
        })
        expect((await store.findRun({ tenant: 'default', run }))?.open).toBe(0)
      }
      expect((await store.verify()).ok).toBe(true)
    },
  )

  it('OWP-41: a process that lost its lease and continues as another writer leaves its old sessions to recovery', async () => {
    const session = { sessionId: 'ses_1', isOwn: false }
    const store = await afterDeath(async (dead) => {
      await dead.openSession(sampleSession('ses_1'))
      await dead.claim(sampleCall({ record: 'in', scope: SCOPE, session }))
    })
    const address = { tenant: 'default', sessionId: 'ses_1' }
    expect(await store.closeSession(address, 'failed', 4_000)).toBe(false)
    expect(store.findSession(address)).toMatchObject({ state: 'open' })
    await store.recover(5_000)
    expect(await gistOfRun(store, RUN)).toEqual([
      ...['opened ses_1', 'called in 1', 'returned in 1 session_lost', 'closed ses_1 failed'],
    ])
  })

  it('OWP-41: sessions of every state close once, also after repeated and concurrent recovery', async () => {
    const store = await afterDeath(async (dead) => {
      for (const id of ['open', 'closing', 'closed']) await dead.openSession(sampleSession(id))
      await dead.beginSessionClose({ tenant: 'default', sessionId: 'closing' })
      await dead.closeSession({ tenant: 'default', sessionId: 'closed' }, 'completed', 2_000)
      await dead.claim(
        sampleCall({ record: 'own', scope: SCOPE, session: { sessionId: 'own', isOwn: true } }),
      )
    })
    const other = folder.open()
    await Promise.all([store.recover(5_000), other.recover(5_000), store.recover(5_001)])
    expect(await other.recover(6_000)).toEqual({ deadWriters: 0, ambiguous: 0 })
    const events = await gistOfRun(store, RUN)
    expect(events.filter((event) => event.startsWith('closed')).sort()).toEqual([
      'closed closed completed',
      'closed closing failed',
      'closed open failed',
      'closed own failed',
    ])
    expect(events.filter((event) => event.startsWith('returned'))).toEqual(['returned own 1 session_lost'])
    expect(await journalOf(store, 'session.closed')).toHaveLength(4)
    expect((await store.findRun(SCOPE))?.open).toBe(0)
    expect((await store.verify()).ok).toBe(true)
  })

  it.each([500, 1_100])('OWP-41: %i sessions and calls of one writer all end in order', async (count) => {
    const ids = Array.from({ length: count }, (_, index) => `s${String(index).padStart(5, '0')}`)
    // Calls and sessions are in opposite order, so no first page of one is the first page of the other.
    const calls = ids.map((sessionId, index) =>
      sampleCall({ record: `r${ids.at(-1 - index)}`, scope: SCOPE, session: { sessionId, isOwn: false } }),
    )
    const store = await afterDeath(async (dead) => {
      await Promise.all(ids.map((sessionId) => dead.openSession(sampleSession(sessionId))))
      await Promise.all(calls.toReversed().map((call) => dead.claim(call)))
    })
    await store.recover(5_000)
    const events = await gistOfRun(store, RUN)
    expect(events).toHaveLength(4 * count)
    const positions = new Map(events.map((event, index) => [event, index]))
    expect(positions.size).toBe(events.length)
    for (const { record, session } of calls) {
      const order = [
        `opened ${session?.sessionId}`,
        `called ${record} 1`,
        `returned ${record} 1 session_lost`,
        `closed ${session?.sessionId} failed`,
      ].map((event) => positions.get(event) ?? -1)
      expect(order).toEqual(order.toSorted((left, right) => left - right))
      expect(order).not.toContain(-1)
    }
    expect(await store.recover(6_000)).toEqual({ deadWriters: 0, ambiguous: 0 })
    expect((await store.findRun(SCOPE))?.open).toBe(0)
    expect((await store.verify()).ok).toBe(true)
  })

  it('rule 14: damaged sealed text does not keep a server from recovering', async () => {
    const dead = folder.open()
    await dead.openSession(sampleSession('ses_1'))
    await dead.claim(sampleCall({ record: 'alone' }))
    await dead.claim(
      sampleCall({ record: 'in', scope: SCOPE, session: { sessionId: 'ses_1', isOwn: false } }),
    )
    await folder.leaveBehind(dead)
    folder.tamper('UPDATE commit_groups SET callers = zeroblob(64), payload = zeroblob(64)')
    const store = folder.open()
    expect(await store.recover(5_000)).toEqual({ deadWriters: 1, ambiguous: 1 })
    expect(await gistOfRun(store, RUN)).toEqual([
      'opened ses_1',
      'called in 1',
      'returned in 1 session_lost',
      'closed ses_1 failed',
    ])
    expect(await gistOfRun(store, 'alone')).toEqual(['called alone 1', 'returned alone 1 ambiguous'])
  })

  it.each([
    ['succeeded', undefined],
    ['succeeded', '1'],
    ['failed', undefined],
  ] as const)(
    'rule 12: the actor and reason of settling a call as %s (value %s) are kept, also after its result is purged',
    async (as, valueJson) => {
      const store = await afterDeath((dead) => dead.claim(sampleCall()))
      await store.recover(5_000)
      const error =
        as === 'failed'
          ? ({ code: 'tool_failed', message: 'It failed.', canRetry: false } as const)
          : undefined
      const settlement = { record: 'record-1', as, valueJson, error, who: 'key:ops', why: 'I looked.' }
      expect(await store.settle({ ...settlement, atMs: 6_000 })).toBe('settled')
      const settled = async () =>
        (await store.journalOf('record-1'))
          .flatMap(({ events }) => events)
          .filter(({ type }) => type === 'call.settled')
      const settlements = [{ at: 6_000, as, who: 'key:ops', why: 'I looked.' }]
      expect(await settled()).toMatchObject(settlements)
      // The time until a person settled it is not its run time.
      expect((await store.usage({})).rows).toMatchObject([{ state: as, tookMs: undefined, calls: 1 }])
      expect((await store.findByRecord('record-1'))?.outcome?.ok).toBe(
        as === 'failed' ? false : valueJson === undefined ? undefined : true,
      )
      await store.purge(20_000, { resultsMs: 1_000, journalMs: FAR })
      expect(await store.findByRecord('record-1')).toMatchObject({ expired: true, outcome: undefined })
      expect(await settled()).toMatchObject(settlements)
      expect((await store.verify()).ok).toBe(true)
    },
  )

  it('rule 17: sessions of a living writer stay open', async () => {
    const alive = folder.open()
    await alive.openSession(sampleSession('ses_1'))
    const other = folder.open()
    expect(await other.recover(5_000)).toEqual({ deadWriters: 0, ambiguous: 0 })
    expect((await other.findSession({ tenant: 'default', sessionId: 'ses_1' }))?.state).toBe('open')
  })
})

describe('a recovered run', () => {
  it('continues: the next calls take the next sequences', async () => {
    const store = await afterDeath((dead) => dead.claim(sampleCall({ record: 'cut', scope: SCOPE })))
    await store.recover(5_000)
    await runThrough(store, sampleCall({ record: 'next', scope: SCOPE, atMs: 6_000 }))
    expect(await gistOfRun(store, RUN)).toEqual([
      'called cut 1',
      'returned cut 1 ambiguous',
      'called next 1',
      'returned next 1 ok',
    ])
  })

  it('rule 10: an attempt declared dead changes nothing when its process resumes', async () => {
    const call = sampleCall({ scope: SCOPE, session: { sessionId: 'ses_1', isOwn: true } })
    const store = await afterDeath((dead) => dead.claim(call))
    await store.recover(5_000)
    const reported = await eventsOf(store, RUN)
    for (const outcome of [success('1'), failure(false)]) {
      const state = outcome.ok ? 'succeeded' : 'failed'
      const late = await store.finish({ run: attemptAt(call, 1), state, outcome, atMs: 6_000 })
      expect(late).toMatchObject({ kind: 'found', record: { state: 'failed' } })
    }
    expect(await eventsOf(store, RUN)).toEqual(reported)
  })
})
