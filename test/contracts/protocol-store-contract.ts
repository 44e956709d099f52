import assert from 'node:assert/strict'
import type { Store } from '#store/collet-store'
import {
  CALLER_SESSION_IDLE_MS,
  type CallerRequest,
  type CallerSession,
  type KeptReply,
  type NewQuestion,
  type NewRequest,
} from '#store/protocol-state'
import type { ContractCase } from './contract-case.ts'
import { it, purgeAll } from './samples.ts'

const KEYED_REQUEST: NewRequest = {
  tenant: 'acme',
  id: 'request-1',
  asked: 'digest-1',
  expiresAtMs: 9_000,
}
const REPLY: KeptReply = {
  status: 201,
  headers: { 'content-type': 'application/json' },
  body: '{"runId":"monday"}',
}

/** The contract of every store for requests with an idempotency key. */
export const REQUEST_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('OWP-92: of many that begin one request exactly one succeeds, and the others get its writer', async ({
    requests,
    writer,
  }) => {
    const begun = await Promise.all(
      Array.from({ length: 5 }, async () => await requests.begin(KEYED_REQUEST)),
    )
    assert.equal(begun.filter(({ kind }) => kind === 'begun').length, 1)
    assert.deepEqual(await requests.begin(KEYED_REQUEST), { kind: 'in_progress', writer })
  }),
  it('OWP-92: an answer is replayed unchanged, only to the same request of the same tenant', async ({
    requests,
  }) => {
    await requests.begin(KEYED_REQUEST)
    await requests.answer(KEYED_REQUEST, REPLY, 90_000)
    assert.deepEqual(await requests.begin(KEYED_REQUEST), {
      kind: 'answered',
      reply: REPLY,
    })
    assert.deepEqual(await requests.begin({ ...KEYED_REQUEST, asked: 'digest-2' }), {
      kind: 'mismatch',
    })
    assert.deepEqual(await requests.begin({ ...KEYED_REQUEST, tenant: 'globex' }), {
      kind: 'begun',
    })
    await requests.answer(KEYED_REQUEST, { ...REPLY, status: 409 }, 90_000)
    await requests.release(KEYED_REQUEST)
    assert.deepEqual(await requests.begin(KEYED_REQUEST), {
      kind: 'answered',
      reply: REPLY,
    })
    const empty = { status: 204, headers: {}, body: undefined }
    await requests.answer({ ...KEYED_REQUEST, tenant: 'globex' }, empty, 90_000)
    assert.deepEqual(await requests.begin({ ...KEYED_REQUEST, tenant: 'globex' }), {
      kind: 'answered',
      reply: empty,
    })
  }),
  it('OWP-92: a released request can begin again, also with another content', async ({ requests }) => {
    await requests.begin(KEYED_REQUEST)
    assert.deepEqual(await requests.begin({ ...KEYED_REQUEST, asked: 'digest-2' }), {
      kind: 'mismatch',
    })
    await requests.release(KEYED_REQUEST)
    assert.deepEqual(await requests.begin({ ...KEYED_REQUEST, asked: 'digest-2' }), {
      kind: 'begun',
    })
  }),
  it('OWP-92: a request is taken over only from the writer that has it', async ({ requests, writer }) => {
    await requests.begin(KEYED_REQUEST)
    assert.equal((await requests.begin({ ...KEYED_REQUEST, insteadOf: 'another' })).kind, 'in_progress')
    assert.equal((await requests.begin({ ...KEYED_REQUEST, insteadOf: writer })).kind, 'begun')
    await requests.answer(KEYED_REQUEST, REPLY, 90_000)
    assert.equal((await requests.begin({ ...KEYED_REQUEST, insteadOf: writer })).kind, 'answered')
  }),
  it('OWP-92: an answer is purged when it has expired, and not before', async (store) => {
    await store.requests.begin(KEYED_REQUEST)
    await store.requests.answer(KEYED_REQUEST, REPLY, 90_000)
    await purgeAll(store, 90_000)
    assert.equal((await store.requests.begin(KEYED_REQUEST)).kind, 'answered')
    await purgeAll(store, 90_001)
    assert.equal((await store.requests.begin(KEYED_REQUEST)).kind, 'begun')
  }),
]

const SESSION: CallerSession = {
  tenant: 'acme',
  id: 's-1',
  principal: 'key:alice',
  agreed: { revision: '2025-11-25', asks: ['form'] },
  touchedAtMs: 1_000,
}
const CALLER_REQUEST: CallerRequest = { tenant: 'acme', session: 's-1', requestId: '7' }
const QUESTION: NewQuestion = {
  tenant: 'acme',
  id: 'q-1',
  principal: 'key:alice',
  callId: 'call-1',
  question: { kind: 'form', message: 'Which room?' },
  expiresAtMs: 60_000,
}

/** The contract of every store for callers whose exchanges take several requests. */
export const CALLER_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('a caller’s session is found by its tenant until it ends', async ({ callers }) => {
    await callers.openSession(SESSION)
    assert.deepEqual(await callers.findSession('acme', 's-1'), SESSION)
    assert.equal(await callers.findSession('globex', 's-1'), undefined)
    assert.equal(await callers.endSession('globex', 's-1'), false)
    assert.equal(await callers.endSession('acme', 's-1'), true)
    assert.equal(await callers.endSession('acme', 's-1'), false)
    assert.equal(await callers.findSession('acme', 's-1'), undefined)
  }),
  it('the sessions of a principal are limited: the longest idle one is removed, but none in use', async ({
    callers,
  }) => {
    const at = (id: string, touchedAtMs: number, principal = 'key:alice') =>
      callers.openSession({ ...SESSION, id, touchedAtMs, principal }, { max: 2, idleBeforeMs: 1_500 })
    assert.equal(await at('s-1', 1_000), true)
    assert.equal(await at('s-2', 2_000), true)
    assert.equal(await at('b-1', 500, 'key:bob'), true)
    assert.equal(await at('s-3', 3_000), true)
    assert.equal(await callers.findSession('acme', 's-1'), undefined)
    assert.equal(await at('s-4', 4_000), false)
    assert.equal(await callers.findSession('acme', 's-4'), undefined)
    for (const id of ['s-2', 's-3', 'b-1']) assert.equal((await callers.findSession('acme', id))?.id, id)
    const many = await Promise.all(['c-1', 'c-2', 'c-3', 'c-4'].map((id) => at(id, 2_000, 'key:carol')))
    assert.equal(many.filter(Boolean).length, 2)
  }),
  it('a caller’s session is purged a week after its last use', async (store) => {
    await store.callers.openSession(SESSION)
    await store.callers.touchSession('acme', 's-1', 5_000)
    await purgeAll(store, 5_000 + CALLER_SESSION_IDLE_MS)
    assert.equal((await store.callers.findSession('acme', 's-1'))?.touchedAtMs, 5_000)
    await purgeAll(store, 5_001 + CALLER_SESSION_IDLE_MS)
    assert.equal(await store.callers.findSession('acme', 's-1'), undefined)
  }),
  it('a running request is cancelled by its session and id, and a finished one cannot be cancelled', async ({
    callers,
  }) => {
    assert.equal(await callers.cancelRequest(CALLER_REQUEST), false)
    await callers.beginRequest(CALLER_REQUEST, 1_000)
    assert.equal(await callers.isCancelled(CALLER_REQUEST), false)
    assert.equal(await callers.cancelRequest({ ...CALLER_REQUEST, session: 's-2' }), false)
    assert.equal(await callers.cancelRequest({ ...CALLER_REQUEST, tenant: 'globex' }), false)
    assert.equal(await callers.cancelRequest(CALLER_REQUEST), true)
    assert.equal(await callers.isCancelled(CALLER_REQUEST), true)
    await callers.beginRequest(CALLER_REQUEST, 2_000)
    assert.equal(await callers.isCancelled(CALLER_REQUEST), false)
    await callers.endRequest(CALLER_REQUEST)
    assert.equal(await callers.cancelRequest(CALLER_REQUEST), false)
  }),
  it('of several answers to a question the first from its own principal counts', async ({ callers }) => {
    const yes = { action: 'accept', content: { room: 'blue' } }
    assert.equal(await callers.answer(QUESTION, 'key:alice', yes), false)
    await callers.ask(QUESTION)
    assert.equal(await callers.findAnswer(QUESTION), undefined)
    assert.equal(await callers.answer(QUESTION, 'key:bob', yes), false)
    assert.equal(await callers.answer({ ...QUESTION, tenant: 'globex' }, 'key:alice', yes), false)
    const answers = await Promise.all(
      Array.from({ length: 5 }, async () => await callers.answer(QUESTION, 'key:alice', yes)),
    )
    assert.equal(answers.filter(Boolean).length, 1)
    assert.deepEqual(await callers.findAnswer(QUESTION), yes)
  }),
  it('open questions are the unanswered ones of the principal’s own call, in order', async ({ callers }) => {
    await callers.ask(QUESTION)
    await callers.ask({ ...QUESTION, id: 'q-2', question: { kind: 'roots' } })
    await callers.ask({ ...QUESTION, id: 'q-3', callId: 'call-2' })
    const idsOf = async (principal: string) =>
      (await callers.openQuestions('acme', principal, 'call-1')).map(({ id }) => id)
    assert.deepEqual(await idsOf('key:alice'), ['q-1', 'q-2'])
    assert.deepEqual(await idsOf('key:bob'), [])
    const [first] = await callers.openQuestions('acme', 'key:alice', 'call-1')
    assert.deepEqual(first?.question, QUESTION.question)
    await callers.answer(QUESTION, 'key:alice', { action: 'decline' })
    assert.deepEqual(await idsOf('key:alice'), ['q-2'])
    await callers.endQuestion({ tenant: 'acme', id: 'q-2' })
    assert.deepEqual(await idsOf('key:alice'), [])
  }),
  it('a mark is spent once, and purged when it has expired', async (store) => {
    assert.equal(await store.callers.isSpent('acme', 'm-1'), false)
    const spent = await Promise.all(
      Array.from({ length: 5 }, async () => await store.callers.spend('acme', 'm-1', 9_000)),
    )
    assert.equal(spent.filter(Boolean).length, 1)
    assert.equal(await store.callers.isSpent('acme', 'm-1'), true)
    assert.equal(await store.callers.isSpent('globex', 'm-1'), false)
    assert.equal(await store.callers.spend('globex', 'm-1', 9_000), true)
    await purgeAll(store, 9_001)
    assert.equal(await store.callers.isSpent('acme', 'm-1'), false)
    assert.equal(await store.callers.spend('acme', 'm-1', 9_000), true)
  }),
]
