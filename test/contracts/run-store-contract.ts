import assert from 'node:assert/strict'
import { ownRunEvents } from '#kernel/run/events'
import { RUN_IDLE_MS } from '#kernel/run/runs'
import type { Store } from '#store/collet-store'
import type { ContractCase } from './contract-case.ts'
import {
  attemptAt,
  eventsOf,
  failure,
  gistOf,
  gistOfRun,
  it,
  mustFind,
  POLICY,
  purgeAll,
  runThrough,
  sampleCall,
  sampleSession,
  scopeAt,
  success,
} from './samples.ts'

const SCOPE = scopeAt('run-a')
const { run: RUN } = SCOPE

function callIn(record: string, atMs = 1_000) {
  return sampleCall({ record, callId: `id of ${record}`, scope: SCOPE, atMs })
}

/** Claims a call in a run, or opens a session there; returns the store's refusal, if any. */
async function begin(store: Store, name: string, atMs: number): Promise<readonly string[]> {
  const claimed = await store.claim(callIn(name, atMs))
  const opened = await store.openSession(sampleSession(`ses of ${name}`, { atMs }))
  return [claimed.kind, opened]
}

/** The contract of every store for runs. */
export const RUN_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('rule 16, OWP-99: concurrent calls share one sequence from 0 without gaps, read in pages of any size', async (store) => {
    const calls = Array.from({ length: 60 }, (_, index) => callIn(`record-${index}`))
    await Promise.all(calls.map((call) => runThrough(store, call)))
    const events = await eventsOf(store, RUN, 7)
    assert.equal(events.length, 120)
    assert.deepEqual(await eventsOf(store, RUN), events)
    const journal = (await store.readJournal([], 1_000)).flatMap((group) => group.events)
    const positions = journal.flatMap((event) =>
      'sequence' in event && event.run === RUN ? [event.sequence] : [],
    )
    assert.deepEqual(
      positions,
      events.map(({ sequence }) => sequence),
    )
  }),
  it('OWP-50, OWP-51: each call is a pair of events with its own label, first called, then returned', async (store) => {
    const calls = ['a', 'b', 'c'].map((record) => ({
      ...callIn(record),
      argsHash: record.repeat(64),
      transport: 'mcp' as const,
    }))
    await Promise.all(calls.map((call) => store.claim(call)))
    for (const call of calls.toReversed()) {
      const outcome = call.record === 'b' ? failure(false) : success('1')
      const state = outcome.ok ? 'succeeded' : 'failed'
      await store.finish({ run: attemptAt(call, 1), state, outcome, atMs: 2_000 })
    }
    const events = await eventsOf(store, RUN)
    for (const { record, callId, toolId, transport, argsHash, traceId } of calls) {
      const own = events.filter((event) => 'record' in event && event.record === record)
      const named = { record, attempt: 1, call: { callId, toolId, transport, argsHash, traceId } }
      const [called, returned] = own.map(({ sequence: _sequence, ...fact }) => fact)
      assert.equal(own.length, 2)
      assert.deepEqual(called, { type: 'called', ...named, principal: 'key:alice', atMs: 1_000 })
      const end = record === 'b' ? { code: 'tool_failed', durationMs: 2 } : { durationMs: 2 }
      assert.deepEqual(returned, { type: 'returned', ...named, ...end, atMs: 2_000 })
    }
  }),
  it('a single call has no stored run until its second attempt; then its events begin with those from its record', async (store) => {
    const call = sampleCall({ callId: 'caller’s id', argsHash: 'f'.repeat(64) })
    await store.claim(call)
    assert.equal(await store.findRun({ tenant: 'default', run: call.record }), undefined)
    await store.finish({ run: attemptAt(call, 1), state: 'released', outcome: failure(true), atMs: 2_000 })
    const previous = await mustFind(store)
    assert.equal(previous.run, undefined)
    const own = ownRunEvents(previous)
    await store.reclaim(previous, { session: undefined, atMs: 3_000 })
    assert.equal((await mustFind(store)).run, call.record)
    assert.deepEqual((await eventsOf(store, call.record)).slice(0, 2), own)
    await store.finish({
      run: attemptAt(call, 2),
      state: 'succeeded',
      outcome: success('1'),
      atMs: 4_000,
    })
    assert.deepEqual(await gistOfRun(store, call.record), [
      'called record-1 1',
      'returned record-1 1 tool_failed',
      'called record-1 2',
      'returned record-1 2 ok',
    ])
    assert.equal((await store.findRun({ tenant: 'default', run: call.record }))?.open, 0)
  }),
  it('rule 9: the next attempt of a released call may be another request, once; its events name the request each time', async (store) => {
    const call = sampleCall({ argsHash: 'a'.repeat(64) })
    await store.claim(call)
    await store.finish({ run: attemptAt(call, 1), state: 'released', outcome: failure(true), atMs: 2_000 })
    const previous = await mustFind(store)
    const corrected = sampleCall({
      ...{ argsHash: 'b'.repeat(64), fingerprint: 'fingerprint-2', traceId: 'trace-2' },
      inputJson: '{"doorbell_id":"doorbell84"}',
    })
    const next = { session: undefined, atMs: 3_000, corrected }
    assert.equal((await store.reclaim(previous, next)).kind, 'claimed')
    assert.equal((await store.reclaim(previous, next)).kind, 'found')
    const running = await mustFind(store)
    assert.deepEqual(
      [running.fingerprint, running.argsHash, running.traceId, running.callId, running.attempt],
      ['fingerprint-2', 'b'.repeat(64), 'trace-2', call.callId, 2],
    )
    await store.finish({
      run: attemptAt(call, 2),
      state: 'succeeded',
      outcome: success('1'),
      atMs: 4_000,
    })
    const events = await eventsOf(store, call.record)
    assert.deepEqual(
      events.map((event) => ('call' in event ? event.call.argsHash : '')),
      ['a', 'a', 'b', 'b'].map((letter) => letter.repeat(64)),
    )
    const journal = (await store.readJournal([], 100)).flatMap((group) => group.events)
    const [event, ...others] = journal.filter(({ type }) => type === 'call.corrected')
    assert.ok(event?.type === 'call.corrected' && others.length === 0)
    assert.deepEqual([event.before, event.after, event.attempt], ['fingerprint-1', 'fingerprint-2', 2])
    await purgeAll(store, 4_000 + POLICY.resultsMs + 1)
    assert.deepEqual([(await mustFind(store)).expired, (await mustFind(store)).outcome], [true, undefined])
  }),
  it('a run records the end of an abandoned attempt before the next one begins', async (store) => {
    await store.claim(sampleCall({ rerunUntilMs: 9e12 }))
    await store.reclaim(await mustFind(store), { session: undefined, atMs: 3_000 })
    const events = await eventsOf(store, 'record-1')
    assert.deepEqual(events.map(gistOf), [
      'called record-1 1',
      'returned record-1 1 ambiguous',
      'called record-1 2',
    ])
    assert.deepEqual(
      events.map(({ atMs }) => atMs),
      [1_000, 3_000, 3_000],
    )
    assert.equal((await store.findRun({ tenant: 'default', run: 'record-1' }))?.open, 1)
  }),
  it('an ended run accepts no call, no session and no next attempt, and still records the end of its calls', async (store) => {
    const [released, running] = [callIn('released'), callIn('running')]
    await store.claim(released)
    await store.claim(running)
    const end = { state: 'released', outcome: failure(true), atMs: 2_000 } as const
    await store.finish({ run: attemptAt(released, 1), ...end })
    assert.equal(await store.endRun(SCOPE, 3_000), true)
    assert.equal(await store.endRun(SCOPE, 3_001), false)
    assert.deepEqual(await begin(store, 'late', 3_002), ['run_ended', 'run_ended'])
    assert.equal(await store.find({ tenant: 'default', record: 'late' }), undefined)
    const previous = await mustFind(store, 'released')
    assert.equal((await store.reclaim(previous, { session: undefined, atMs: 3_003 })).kind, 'run_ended')
    assert.deepEqual(await mustFind(store, 'released'), previous)
    await store.finish({
      run: attemptAt(running, 1),
      state: 'succeeded',
      outcome: success('1'),
      atMs: 4_000,
    })
    assert.equal((await gistOfRun(store, RUN)).at(-1), 'returned running 1 ok')
    const { open: left, endedAtMs } = (await store.findRun(SCOPE)) ?? {}
    assert.deepEqual([left, endedAtMs], [0, 3_000])
  }),
  it('a run ends automatically after nothing was open in it for a while, and not before', async (store) => {
    await runThrough(store, callIn('first'))
    assert.deepEqual(await begin(store, 'second', RUN_IDLE_MS + 999), ['claimed', 'opened'])
    const muchLater = RUN_IDLE_MS * 10
    assert.deepEqual(await begin(store, 'third', muchLater), ['claimed', 'opened'])
    for (const name of ['second', 'third']) {
      const run = attemptAt(callIn(name), 1)
      await store.finish({ run, state: 'released', outcome: failure(true), atMs: muchLater })
      await store.closeSession(sampleSession(`ses of ${name}`), 'completed', muchLater)
    }
    const over = muchLater + RUN_IDLE_MS
    assert.deepEqual(await begin(store, 'fourth', over), ['run_ended', 'run_ended'])
    const previous = await mustFind(store, 'third')
    assert.equal((await store.reclaim(previous, { session: undefined, atMs: over })).kind, 'run_ended')
    assert.equal(await store.endRun(SCOPE, over), false)
  }),
  it('rule 1: a used key is found also by a claim in an ended or unknown run', async (store) => {
    await runThrough(store, callIn('record-1'))
    await store.endRun(SCOPE, 2_000)
    for (const scope of [SCOPE, scopeAt('run-new')]) {
      const again = await store.claim({ ...callIn('record-1', 3_000), scope, fingerprint: 'other' })
      assert.equal(again.kind === 'found' && again.record.fingerprint, 'fingerprint-1')
    }
    assert.equal(await store.findRun(scopeAt('run-new')), undefined)
    assert.equal((await gistOfRun(store, RUN)).length, 2)
  }),
  it('rule 9: the loser of the race for the next attempt gets the winner, also when the run has ended since', async (store) => {
    const call = callIn('record-1')
    await store.claim(call)
    await store.finish({ run: attemptAt(call, 1), state: 'released', outcome: failure(true), atMs: 2_000 })
    const previous = await mustFind(store)
    assert.equal((await store.reclaim(previous, { session: undefined, atMs: 3_000 })).kind, 'claimed')
    await store.endRun(SCOPE, 4_000)
    const lost = await store.reclaim(previous, { session: undefined, atMs: 5_000 })
    assert.equal(lost.kind === 'found' && lost.record.attempt, 2)
  }),
  it('OWP-49: a run and its events are read, and ended, only with their own tenant', async (store) => {
    await store.claim(callIn('record-1'))
    const foreign = { tenant: 'other', run: RUN }
    assert.equal(await store.findRun(foreign), undefined)
    assert.deepEqual(await store.readRun(foreign, -1, 10), [])
    assert.equal(await store.endRun(foreign, 2_000), false)
    const claimed = await store.claim({
      ...callIn('record-2'),
      tenant: 'other',
      scope: scopeAt('run-a', { tenant: 'other', run: 'another key' }),
    })
    assert.equal(claimed.kind, 'claimed')
    assert.deepEqual(await gistOfRun(store, RUN), ['called record-1 1'])
    assert.equal((await store.findRun(SCOPE))?.principal, 'key:alice')
  }),
  it('rule 13: a run is kept as long as the journal, whatever its length, and a run with open calls stays', async (store) => {
    const calls = Array.from({ length: 300 }, (_, index) => callIn(`record-${index}`))
    await Promise.all(calls.map((call) => runThrough(store, call)))
    const still = sampleCall({ record: 'still', scope: scopeAt('run-b') })
    await store.claim(still)
    await purgeAll(store, 1_000 + POLICY.journalMs)
    assert.equal((await eventsOf(store, RUN)).length, 600)
    await purgeAll(store, 1_001 + POLICY.journalMs)
    assert.equal(await store.findRun(SCOPE), undefined)
    assert.deepEqual(await store.readRun(SCOPE, -1, 1_000), [])
    assert.deepEqual(await gistOfRun(store, scopeAt('run-b').run), ['called still 1'])
    assert.deepEqual(await begin(store, 'again', POLICY.journalMs * 2), ['claimed', 'opened'])
    assert.deepEqual(await gistOfRun(store, RUN), ['called again 1', 'opened ses of again'])
  }),
  it('rule 13: a key that is free again begins a new run, never the run of its earlier call', async (store) => {
    const call = sampleCall({ tier: 'read', session: { sessionId: 'ses_1', isOwn: true } })
    const again = { ...call, atMs: 2 * POLICY.resultsMs }
    await runThrough(store, call)
    assert.equal((await gistOfRun(store, 'record-1')).length, 4)
    await purgeAll(store, again.atMs)
    assert.equal(await store.find(call), undefined)
    const session = { sessionId: 'ses_2', isOwn: true }
    assert.equal((await store.claim({ ...again, session })).kind, 'claimed')
    assert.deepEqual(await gistOfRun(store, 'record-1'), ['opened ses_2', 'called record-1 1'])
  }),
]
