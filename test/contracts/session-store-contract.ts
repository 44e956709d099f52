import assert from 'node:assert/strict'
import type { Store } from '#store/collet-store'
import type { ContractCase } from './contract-case.ts'
import {
  attemptAt,
  eventsOf,
  failure,
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

const SESSION = sampleSession('ses_1')
const { run: RUN } = SESSION.scope

function callInSession(record: string, isOwn = false) {
  const session = { sessionId: isOwn ? `ses of ${record}` : 'ses_1', isOwn }
  return sampleCall({ record, scope: SESSION.scope, session })
}

async function stateOf(store: Store, sessionId = 'ses_1') {
  const found = await store.findSession({ tenant: 'default', sessionId })
  return [found?.state, found?.outcome]
}

/** The contract of every store for sessions (rule 30). */
export const SESSION_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('a run created for a session ends with it, and any other continues', async (store) => {
    await store.openSession({ ...SESSION, endsRun: true })
    await store.closeSession(SESSION, 'failed', 2_000)
    assert.equal((await store.findRun(SESSION.scope))?.endedAtMs, 2_000)
    const other = sampleSession('ses_2', { scope: { ...SESSION.scope, run: 'other' } })
    await store.openSession(other)
    await store.closeSession(other, 'completed', 3_000)
    assert.equal((await store.findRun(other.scope))?.endedAtMs, undefined)
  }),
  it('rule 30: a session goes from open over closing to closed, with one event at each end', async (store) => {
    assert.equal(await store.openSession(SESSION), 'opened')
    assert.deepEqual(await store.findSession(SESSION), {
      tenant: 'default',
      sessionId: 'ses_1',
      principal: 'key:alice',
      tool: SESSION.tool,
      toolId: SESSION.toolId,
      run: RUN,
      state: 'open',
      writer: store.writer,
      address: 'http://10.0.0.7:4101',
      outcome: undefined,
    })
    assert.equal(await store.beginSessionClose(SESSION), true)
    assert.equal(await store.beginSessionClose(SESSION), false)
    assert.deepEqual(await stateOf(store), ['closing', undefined])
    assert.equal(await store.closeSession(SESSION, 'completed', 3_000), true)
    assert.deepEqual(await stateOf(store), ['closed', 'completed'])
    const ids = { sessionId: 'ses_1', toolId: SESSION.toolId }
    assert.deepEqual(await eventsOf(store, RUN), [
      { type: 'session.opened', ...ids, sequence: 0, atMs: 1_000 },
      { type: 'session.closed', ...ids, outcome: 'completed', sequence: 1, atMs: 3_000 },
    ])
  }),
  it('OWP-41: of many concurrent closes exactly one takes effect', async (store) => {
    await store.openSession(SESSION)
    const begun = await Promise.all(Array.from({ length: 10 }, () => store.beginSessionClose(SESSION)))
    assert.equal(begun.filter(Boolean).length, 1)
    const outcomes = ['completed', 'failed', 'cancelled'] as const
    const closed = await Promise.all(outcomes.map((outcome) => store.closeSession(SESSION, outcome, 3_000)))
    assert.equal(closed.filter(Boolean).length, 1)
    assert.equal(await store.closeSession(SESSION, 'failed', 4_000), false)
    assert.equal(await store.beginSessionClose(SESSION), false)
    const { outcome } = (await store.findSession(SESSION)) ?? {}
    assert.deepEqual(await gistOfRun(store, RUN), ['opened ses_1', `closed ses_1 ${outcome}`])
    assert.equal((await store.findRun(SESSION.scope))?.open, 0)
  }),
  it('OWP-40, OWP-42: calls of a session are between its events and name it', async (store) => {
    await store.openSession(SESSION)
    await runThrough(store, callInSession('a'))
    await runThrough(store, callInSession('b'))
    await store.beginSessionClose(SESSION)
    await store.closeSession(SESSION, 'completed', 2_000)
    assert.deepEqual(await gistOfRun(store, RUN), [
      'opened ses_1',
      'called a 1',
      'returned a 1 ok',
      'called b 1',
      'returned b 1 ok',
      'closed ses_1 completed',
    ])
    for (const event of await eventsOf(store, RUN))
      assert.equal('sessionId' in event && event.sessionId, 'ses_1')
    assert.equal((await mustFind(store, 'a')).sessionId, 'ses_1')
  }),
  it('rule 30: no call begins in a closing or unknown session', async (store) => {
    const refused = { kind: 'session_ended' }
    assert.deepEqual(await store.claim(callInSession('early')), refused)
    await store.openSession(SESSION)
    await runThrough(store, callInSession('a'))
    await store.beginSessionClose(SESSION)
    assert.deepEqual(await store.claim(callInSession('late')), refused)
    await store.closeSession(SESSION, 'completed', 2_000)
    assert.deepEqual(await store.claim(callInSession('later')), refused)
    assert.equal(await store.findByRecord('later'), undefined)
    assert.equal((await gistOfRun(store, RUN)).at(-1), 'closed ses_1 completed')
  }),
  it('rule 30: a call in a lost session is refused as such, also when its run ended with it', async (store) => {
    await store.openSession({ ...SESSION, endsRun: true })
    await store.closeSession(SESSION, 'failed', 2_000)
    assert.deepEqual(await store.claim(callInSession('late')), { kind: 'session_ended' })
  }),
  it('OWP-41: the close of a session follows the end of a call in the same commit', async (store) => {
    await store.openSession(SESSION)
    const calls = ['a', 'zzz'].map((record) => callInSession(record))
    await Promise.all(calls.map((call) => store.claim(call)))
    const end = { state: 'failed', outcome: failure(false), atMs: 2_000 } as const
    await Promise.all([
      ...calls.map((call) => store.finish({ run: attemptAt(call, 1), ...end })),
      store.closeSession(SESSION, 'cancelled', 2_000),
    ])
    assert.equal((await gistOfRun(store, RUN)).at(-1), 'closed ses_1 cancelled')
  }),
  it('OWP-40, OWP-41, OWP-44: a session of one attempt opens with its claim and closes with its outcome', async (store) => {
    const own = (name: string) => ({ sessionId: `ses_${name}`, isOwn: true })
    const cancelled = {
      ok: false,
      error: { code: 'cancelled', message: 'Stopped.', canRetry: false },
      durationMs: 1,
    } as const
    const ends = [
      { name: 'ok', state: 'succeeded', outcome: success('1'), closed: 'ok 1 ok', as: 'completed' },
      { name: 'bad', state: 'failed', outcome: failure(false), closed: 'bad 1 tool_failed', as: 'failed' },
      { name: 'cut', state: 'failed', outcome: cancelled, closed: 'cut 1 cancelled', as: 'cancelled' },
    ] as const
    for (const { name, state, outcome, closed, as } of ends) {
      const call = sampleCall({ record: name, session: own(name) })
      await store.claim(call)
      assert.deepEqual(await stateOf(store, `ses_${name}`), ['closing', undefined])
      assert.equal(await store.beginSessionClose({ tenant: 'default', sessionId: `ses_${name}` }), false)
      await store.finish({ run: attemptAt(call, 1), state, outcome, atMs: 2_000 })
      assert.deepEqual(await gistOfRun(store, name), [
        `opened ses_${name}`,
        `called ${name} 1`,
        `returned ${closed}`,
        `closed ses_${name} ${as}`,
      ])
      assert.deepEqual(await stateOf(store, `ses_${name}`), ['closed', as])
    }
  }),
  it('OWP-41: each attempt has its own session, and that of an abandoned attempt is closed by the next', async (store) => {
    const attempts = ['ses_a', 'ses_b', 'ses_c'].map((sessionId) => ({ sessionId, isOwn: true }))
    const [first, second, third] = attempts
    const call = sampleCall({ session: first })
    await store.claim(call)
    await store.finish({ run: attemptAt(call, 1), state: 'released', outcome: failure(true), atMs: 2_000 })
    await store.reclaim(await mustFind(store), { session: second, atMs: 3_000 })
    await store.reclaim(await mustFind(store), { session: third, atMs: 4_000 })
    const run = attemptAt({ ...call, session: third }, 3)
    await store.finish({ run, state: 'succeeded', outcome: success('1'), atMs: 5_000 })
    assert.deepEqual(await gistOfRun(store, 'record-1'), [
      'opened ses_a',
      'called record-1 1',
      'returned record-1 1 tool_failed',
      'closed ses_a failed',
      'opened ses_b',
      'called record-1 2',
      'returned record-1 2 ambiguous',
      'closed ses_b failed',
      'opened ses_c',
      'called record-1 3',
      'returned record-1 3 ok',
      'closed ses_c completed',
    ])
    assert.equal((await store.findRun({ tenant: 'default', run: 'record-1' }))?.open, 0)
  }),
  it('a claim of a used key opens no session', async (store) => {
    await store.claim(sampleCall())
    await store.claim(sampleCall({ session: { sessionId: 'ses_1', isOwn: true } }))
    assert.equal(await store.findSession(SESSION), undefined)
    assert.equal(await store.findRun({ tenant: 'default', run: 'record-1' }), undefined)
  }),
  it('rule 30, OWP-49: a session is visible and closed only with its own tenant', async (store) => {
    await store.openSession(SESSION)
    const foreign = { tenant: 'other', sessionId: 'ses_1' }
    assert.equal(await store.findSession(foreign), undefined)
    assert.equal(await store.beginSessionClose(foreign), false)
    assert.equal(await store.closeSession(foreign, 'failed', 2_000), false)
    assert.deepEqual(await stateOf(store), ['open', undefined])
    assert.equal(await store.closeSession({ tenant: 'default', sessionId: 'nobody' }, 'failed', 1), false)
  }),
  it('rule 13: closed sessions are purged with the journal, open ones never', async (store) => {
    const many = Array.from({ length: 450 }, (_, index) =>
      sampleSession(`ses_${index}`, { scope: scopeAt(`run-${index % 7}`) }),
    )
    await Promise.all(many.map((session) => store.openSession(session)))
    await Promise.all(many.map((session) => store.closeSession(session, 'completed', 2_000)))
    await store.openSession(sampleSession('ses_open'))
    await store.openSession(sampleSession('ses_closing'))
    await store.beginSessionClose({ tenant: 'default', sessionId: 'ses_closing' })
    await purgeAll(store, 2_000 + POLICY.journalMs)
    assert.deepEqual(await stateOf(store, 'ses_449'), ['closed', 'completed'])
    await purgeAll(store, 2_001 + POLICY.journalMs)
    for (const session of many) assert.equal(await store.findSession(session), undefined)
    assert.deepEqual(await stateOf(store, 'ses_open'), ['open', undefined])
    assert.deepEqual(await stateOf(store, 'ses_closing'), ['closing', undefined])
    assert.deepEqual(await gistOfRun(store, RUN), ['opened ses_open', 'opened ses_closing'])
  }),
]
