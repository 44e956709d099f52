import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { sessionEnded } from '../../../api/client.ts'
import { connection } from '../../../api/connection.ts'
import { type CallPhase, carryOut, lookUp, NO_RECORD } from './call-flow.ts'
import type { SentCall } from './call-wire.ts'
import { forgetCall, saveCall, savedCall } from './saved-call.ts'

type Reply = readonly [status: number, body: object, code?: string]

const sent: string[] = []
let replies: { readonly look: Reply[]; readonly call: Reply[] }

beforeEach(() => {
  sent.length = 0
  replies = { look: [], call: [] }
  vi.stubGlobal('document', { baseURI: 'http://127.0.0.1/console/' })
  vi.stubGlobal('fetch', async (address: string, { method = 'GET' }: RequestInit = {}) => {
    const { pathname } = new URL(address)
    sent.push(`${method} ${pathname}`)
    const reply = (pathname === '/tools/call' ? replies.call : replies.look).shift()
    if (reply === undefined) throw new TypeError('Failed to fetch')
    const [status, body, code] = reply
    return Response.json(body, { status, headers: code === undefined ? {} : { 'collet-error-code': code } })
  })
})

afterEach(() => {
  connection.found()
  sessionEnded.set(false)
  vi.unstubAllGlobals()
})

const NAMES = { otc: 'Bank.Pay', mcp: 'Bank_Pay', opentool: null, openwop: 'Bank.Pay' }
const POLICY = { tier: 'write' } as const
const TOOL = { id: 'Bank.Pay@1.0.0', base: 'Bank.Pay', names: NAMES, source: null, requirements: [] }
const CALL: SentCall = { tool: { ...TOOL, policy: POLICY }, input: {}, userId: undefined }
const DONE = { call_id: 'c1', success: true, value: 'done' }

/** The phase in which the flow ends. */
async function endOf(go: (options: Parameters<typeof lookUp>[0]) => Promise<void>): Promise<CallPhase> {
  let phase: CallPhase = { at: 'idle' }
  const { signal } = new AbortController()
  await go({
    ...{ callId: 'c1', signal },
    setPhase(next) {
      phase = typeof next === 'function' ? next(phase) : next
    },
  })
  return phase
}

const lookedUp = () => endOf(lookUp)
const askedAgain = () => endOf((options) => carryOut(CALL, options, true))
const sentOnce = () => endOf((options) => carryOut(CALL, options, false))

describe('a call from before the page was loaded', () => {
  it('is reported as unknown only if the server has no such call of the person', async () => {
    replies.look.push([404, { message: 'You have no call with this id.' }, 'call_not_found'])
    expect(await lookedUp()).toEqual({ at: 'unresolved', message: NO_RECORD })
    expect(NO_RECORD).toContain('no record of that call under your name')
  })

  it.each<{ readonly reply: Reply }>([
    { reply: [401, { message: 'Send a key.' }, 'unauthenticated'] },
    { reply: [403, { message: 'Not from here.' }] },
    { reply: [404, { message: 'No such page.' }] },
    { reply: [500, { message: 'A fault.' }, 'internal'] },
    { reply: [502, {}] },
  ])('stays open when the server answers $reply.0', async ({ reply }) => {
    replies.look.push(reply)
    expect(await lookedUp()).toMatchObject({ at: 'lost', isOld: true, message: expect.any(String) })
    expect(sessionEnded.get()).toBe(reply[0] === 401)
  })

  it('stays open when the server does not answer', async () => {
    expect(await lookedUp()).toMatchObject({ at: 'lost', message: 'The server is not responding.' })
  })

  it('can be resumed while it waits for approval', async () => {
    replies.look.push([200, { state: 'parked', record: 'r1', created_at: '2026-01-02T03:04:05Z' }])
    expect(await lookedUp()).toEqual({
      ...{ at: 'resumable', callId: 'c1', record: 'r1', since: new Date('2026-01-02T03:04:05Z') },
    })
    // With the wrong input it keeps waiting, with the right one it continues.
    replies.look.push([200, { state: 'parked', record: 'r1' }])
    replies.call.push([400, { message: 'This call id was already used.' }, 'key_conflict'])
    expect(await askedAgain()).toMatchObject({ at: 'resumable', callId: 'c1', isOtherInput: true })
    replies.look.push([200, { state: 'parked', record: 'r1' }], [200, { state: 'succeeded', record: 'r1' }])
    replies.call.push([200, { result: DONE }])
    expect(await askedAgain()).toMatchObject({ at: 'answered', answer: { isReplayed: false, record: 'r1' } })
  })
})

describe('a call that is retried', () => {
  it('is not sent if it is unknown whether the server has it', async () => {
    replies.look.push([503, { message: 'The store is unavailable.' }])
    expect(await askedAgain()).toMatchObject({ at: 'lost', message: 'The store is unavailable.' })
    expect(sent).toEqual(['GET /calls/c1'])
  })

  it.each<{ readonly reply: Reply }>([
    { reply: [401, {}, 'unauthenticated'] },
    { reply: [400, { message: 'Too many calls.' }, 'rate_limited'] },
    { reply: [403, {}] },
  ])('stays open when the server has it and answers the request with $reply.0', async ({ reply }) => {
    replies.look.push([200, { state: 'running' }])
    replies.call.push(reply)
    expect(await askedAgain()).toMatchObject({ at: 'lost', isOld: false, message: expect.any(String) })
  })

  it('is replayed when it had run', async () => {
    replies.look.push([200, { state: 'succeeded', result: DONE }])
    replies.call.push([200, { result: DONE }])
    expect(await askedAgain()).toMatchObject({ at: 'answered', answer: { isReplayed: true } })
  })
})

describe('a call that is sent', () => {
  it('may have run if a proxy answers in place of the server', async () => {
    replies.call.push([502, {}])
    expect(await sentOnce()).toMatchObject({ at: 'lost', message: 'The server answered 502.' })
  })

  it('did not run when the server refused it', async () => {
    replies.call.push([401, { message: 'Send a key.' }, 'unauthenticated'])
    expect(await sentOnce()).toMatchObject({ at: 'answered', answer: { status: 401 } })
  })

  it.each<{ readonly reply: Reply }>([
    { reply: [422, { message: 'The input does not fit.' }, 'input_invalid'] },
    { reply: [400, { missing_requirements: { secrets: [] } }, 'requirement_missing'] },
  ])('is not looked up if it was refused with $reply.0, because it has no record', async ({ reply }) => {
    replies.call.push(reply)
    expect(await sentOnce()).toMatchObject({
      at: 'answered',
      answer: { status: reply[0], record: undefined },
    })
    expect(sent).toEqual(['POST /tools/call'])
  })

  it('reports the wait for a person separately from its duration', async () => {
    const clock = vi.spyOn(performance, 'now')
    for (const ms of [0, 4, 4, 4, 5_000, 5_000]) clock.mockReturnValueOnce(ms)
    replies.call.push(
      [400, { missing_requirements: { approval: { id: 'a1' } } }, 'approval_required'],
      [200, { result: { ...DONE, duration: 2 } }],
    )
    replies.look.push([200, { state: 'succeeded', record: 'r1' }])
    const phase = await sentOnce()
    clock.mockRestore()
    expect(phase).toMatchObject({ at: 'answered', answer: { tookMs: 6, waitedMs: 4_994, record: 'r1' } })
  })

  it('still waits for approval if the session ended in the meantime', async () => {
    replies.call.push(
      [400, { missing_requirements: { approval: { id: 'a1' } } }, 'approval_required'],
      [401, {}, 'unauthenticated'],
    )
    expect(await sentOnce()).toMatchObject({ at: 'lost', message: 'Your session has ended.' })
  })
})

it('the id of a call is saved for its caller only', () => {
  const kept = new Map<string, string>()
  vi.stubGlobal('sessionStorage', {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  })
  const [ann, bob] = ['default key:ann', 'default key:bob'].map((who) => ({ who, tool: 'Bank.Pay@1.0.0' }))
  if (ann === undefined || bob === undefined) throw new Error('two people')
  const call = { callId: 'c1', since: new Date(0) }
  saveCall(ann, call)
  expect(savedCall(bob)).toBeUndefined()
  forgetCall(bob)
  expect(savedCall(ann)).toEqual(call)
})
