import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { sqliteSettings, testSettings } from '../test-settings.ts'
import { KEYS } from './openwop-fixtures.ts'
import { type OpenwopAnswer, stablePartsOf } from './openwop-server.ts'
import { type Caller, type RunServer, runOf, startRunServer, typesOf } from './run-server.ts'
import { RUN_CANARY } from './run-tools.ts'

const PUSH = 'openwop:Box.Push'
const CALL_PAIR = ['agent.toolCalled', 'agent.toolReturned ok']

function codeOf({ status, headers }: OpenwopAnswer): readonly unknown[] {
  return [status, headers['collet-error-code']]
}

describe.each([
  ['memory', testSettings],
  ['SQLite', sqliteSettings],
] as const)('sessions on %s', (_store, settingsOf) => {
  let server: RunServer

  beforeAll(async () => {
    server = await startRunServer({
      settingsOf,
      hooks: { bindUser: (_principal, userId) => userId !== 'forbidden' },
    })
  })

  afterAll(() => server.close())

  const close = (sessionId: string, key: string = KEYS.root) =>
    server.ask(`/v1/sessions/${sessionId}`, { key, method: 'DELETE' })
  const opened = async (body: object = {}): Promise<{ sessionId: string; runId: string }> => {
    const { status, json } = await server.open({ toolId: PUSH, ...body })
    expect(status).toBe(201)
    return json
  }
  const push = (text: string, caller: Caller) => server.otc('Box.Push', { text }, caller)

  it('OWP-40…45: calls share state between one opened and one closed event', async () => {
    const before = server.done.length
    const { sessionId, runId } = await opened()
    const first = await push('a', { session: sessionId })
    const second = await server.opentool('Box_Push', { text: 'b' }, { session: sessionId })
    expect(second.text).toContain('["a","b"]')
    expect([runOf(first), runOf(second)]).toEqual([runId, runId])
    expect((await close(sessionId)).status).toBe(204)
    expect(server.done.slice(before)).toEqual(['open Box.Push', 'push', 'push', 'close Box.Push'])
    const events = await server.events(runId)
    expect(typesOf(events)).toEqual([
      'tool.session.opened',
      ...CALL_PAIR,
      ...CALL_PAIR,
      'tool.session.closed completed',
    ])
    expect(events[0]?.payload).toEqual({ sessionId, toolId: PUSH })
    expect(events[5]?.payload).toEqual({ sessionId, toolId: PUSH, outcome: 'completed' })
    expect(events.every(({ payload }) => payload.sessionId === sessionId)).toBe(true)
  })

  it('OWP-42: sessions are private to each other', async () => {
    const [one, two] = [await opened(), await opened()]
    expect(one.sessionId).not.toBe(two.sessionId)
    expect(one.runId).not.toBe(two.runId)
    await push('a', { session: one.sessionId })
    expect((await push('b', { session: two.sessionId })).text).toContain('["b"]')
    await Promise.all([close(one.sessionId), close(two.sessionId)])
  })

  it('OWP-41: a session with its own run ends the run too', async () => {
    const { sessionId, runId } = await opened()
    await close(sessionId)
    const { json } = await server.ask(`/v1/runs/${runId}/events/poll`, { key: KEYS.root })
    expect([json.events.length, json.isComplete]).toEqual([2, true])
    expect(codeOf(await push('late', { run: runId }))).toEqual([400, 'request_invalid'])
  })

  it('OWP-45: a session in a run of the caller leaves it open, also for other calls', async () => {
    const { sessionId, runId } = await opened({ runId: 'mine' })
    expect(runId).toBe('mine')
    await server.otc('Echo.Write', {}, { run: 'mine' })
    await close(sessionId)
    expect((await server.otc('Echo.Say', {}, { run: 'mine' })).status).toBe(200)
    const { json } = await server.ask('/v1/runs/mine/events/poll', { key: KEYS.root })
    expect([json.events.length, json.isComplete]).toEqual([6, false])
  })

  it('C3, OWP-45: a stateful call without a session is bracketed in its own run', async () => {
    const before = server.done.length
    const answer = await push('alone', {})
    expect(answer.text).toContain('["alone"]')
    expect(server.done.slice(before)).toEqual(['open Box.Push', 'push', 'close Box.Push'])
    const events = await server.events(runOf(answer))
    const bracket = ['tool.session.opened', ...CALL_PAIR, 'tool.session.closed completed']
    expect(typesOf(events)).toEqual(bracket)
    expect(new Set(events.map(({ payload }) => payload.sessionId)).size).toBe(1)
    await push('in a run', { run: 'brackets' })
    await push('in a run', { run: 'brackets' })
    expect(typesOf(await server.events('brackets'))).toEqual([...bracket, ...bracket])
  })

  it('OWP-46, OWP-91: a replay opens no session and adds no event', async () => {
    const first = await push('a', { id: 'bracketed' })
    const events = await server.events(runOf(first))
    const { sessionId } = await opened()
    const inSession = await push('b', { session: sessionId, id: 'in session' })
    const before = server.done.length
    expect((await push('a', { id: 'bracketed' })).text).toBe(first.text)
    expect((await push('b', { session: sessionId, id: 'in session' })).text).toBe(inSession.text)
    await close(sessionId)
    // Also after the session was closed: a lost reply can be fetched.
    const later = await push('b', { session: sessionId, id: 'in session' })
    expect([later.text, runOf(later)]).toEqual([inSession.text, runOf(inSession)])
    expect(server.done.slice(before)).toEqual(['close Box.Push'])
    expect(await server.events(runOf(first))).toEqual(events)
  })

  it.each<[string, unknown, number, string]>([
    ['no object', [], 400, 'validation_error'],
    ['null', null, 400, 'validation_error'],
    ['no toolId', {}, 400, 'validation_error'],
    ['a toolId that is not a string', { toolId: 1 }, 400, 'validation_error'],
    ['an unknown member', { toolId: PUSH, user: 'x' }, 400, 'validation_error'],
    ['__proto__', JSON.parse('{"toolId":"openwop:Box.Push","__proto__":{}}'), 400, 'validation_error'],
    ['an empty runId', { toolId: PUSH, runId: '' }, 400, 'validation_error'],
    ['a long runId', { toolId: PUSH, runId: 'r'.repeat(129) }, 400, 'validation_error'],
    ['a runId with NUL', { toolId: PUSH, runId: '\u0000' }, 400, 'validation_error'],
    ['a runId that is not a string', { toolId: PUSH, runId: null }, 400, 'validation_error'],
    ['a userId that is not a string', { toolId: PUSH, userId: 7 }, 400, 'validation_error'],
    ['a user the caller may not act for', { toolId: PUSH, userId: 'forbidden' }, 403, 'forbidden'],
    ['an unknown tool', { toolId: 'openwop:No.Such' }, 404, 'not_found'],
    ['a tool id with an unknown version', { toolId: 'Box.Push@9.9.9' }, 404, 'not_found'],
    ['a tool without state', { toolId: 'openwop:Echo.Say' }, 400, 'validation_error'],
    ['a tool whose state cannot be opened', { toolId: 'openwop:Box.Refuse' }, 422, 'tool_failed'],
    ['a tool whose state takes too long', { toolId: 'openwop:Box.Hang' }, 422, 'tool_timeout'],
  ])('opening with %s is refused', async (_what, body, status, error) => {
    const answer = await server.open(body)
    expect([answer.status, answer.json.error]).toEqual([status, error])
    expect(answer.text).not.toContain(RUN_CANARY)
  })

  it('bad input: a body that is not JSON, of the wrong shape, too large or missing is refused', async () => {
    const send = async (body: string | undefined, type = 'application/json') => {
      const headers = { 'content-type': type }
      const reported = { key: KEYS.root, method: 'POST', headers, ...(body === undefined ? {} : { body }) }
      const { status, json } = await server.ask('/v1/sessions', reported)
      return [status, json.error]
    }
    const whole = JSON.stringify({ toolId: PUSH })
    expect(await send('{')).toEqual([400, 'validation_error'])
    expect(await send(undefined)).toEqual([400, 'validation_error'])
    expect(await send(whole, 'text/plain')).toEqual([400, 'validation_error'])
    expect(await send('['.repeat(100_000))).toEqual([400, 'validation_error'])
    expect(await send(' '.repeat(2_000_000))).toEqual([413, 'payload_too_large'])
  })

  it('only POST and DELETE are supported', async () => {
    for (const [method, path] of [
      ['GET', '/v1/sessions'],
      ['GET', '/v1/sessions/ses_x'],
      ['PUT', '/v1/sessions'],
    ] as const) {
      const { status } = await server.ask(path, { key: KEYS.root, method, isUndocumented: true })
      expect(status).toBe(405)
    }
  })

  it('OWP-12: opening or closing one requires a credential', async () => {
    for (const [method, path] of [
      ['POST', '/v1/sessions'],
      ['DELETE', '/v1/sessions/ses_x'],
    ] as const) {
      expect((await server.ask(path, { method })).status).toBe(401)
    }
  })

  it('OWP-41: state that cannot be opened leaves an opened and a failed closed event, and late state is released', async () => {
    for (const tool of ['Box.Refuse', 'Box.Hang']) {
      const runId = `not opened ${tool}`
      await server.open({ toolId: `openwop:${tool}`, runId })
      expect(typesOf(await server.events(runId))).toEqual([
        'tool.session.opened',
        'tool.session.closed failed',
      ])
    }
    await vi.waitUntil(() => server.hung.letGo === server.hung.asked)
  })

  it('OWP-41: a call whose own state arrives too late times out, runs nothing and releases the state', async () => {
    const answer = await server.otc('Box.Hang')
    expect(codeOf(answer)).toEqual([200, 'tool_timeout'])
    expect(typesOf(await server.events(runOf(answer)))).toEqual([
      'tool.session.opened',
      'agent.toolCalled',
      'agent.toolReturned error',
      'tool.session.closed failed',
    ])
    await vi.waitUntil(() => server.hung.letGo === server.hung.asked)
    expect(server.hung.asked).toBeGreaterThan(0)
    expect(server.done).not.toContain('Box.Hang')
  })

  it('OWP-41: a failure to close state still closes the session, and changes no result', async () => {
    const { sessionId, runId } = await opened({ toolId: 'openwop:Box.BadClose' })
    await server.otc('Box.BadClose', {}, { session: sessionId })
    expect((await close(sessionId)).status).toBe(204)
    expect(typesOf(await server.events(runId)).at(-1)).toBe('tool.session.closed completed')
    const alone = await server.otc('Box.BadClose')
    expect([alone.status, alone.json.result.success]).toEqual([200, true])
    expect(typesOf(await server.events(runOf(alone))).at(-1)).toBe('tool.session.closed completed')
  })

  it('OWP-97: closing a session that is foreign, closed or unknown is the same 404', async () => {
    const { sessionId } = await opened()
    const expected = stablePartsOf(await close('ses_none'))
    expect(expected).toMatchObject({ status: 404 })
    for (const key of [KEYS.narrow, KEYS.other])
      expect(stablePartsOf(await close(sessionId, key))).toEqual(expected)
    expect((await close(sessionId)).status).toBe(204)
    expect(stablePartsOf(await close(sessionId))).toEqual(expected)
    expect(stablePartsOf(await close('%00'))).toEqual(expected)
  })

  it('OWP-97: a call in a session that is foreign, closed or unknown gets the same answer', async () => {
    const live = (await opened({ userId: 'ada' })).sessionId
    const gone = (await opened()).sessionId
    await close(gone)
    const user = { 'collet-user': 'ada' }
    const refusalOf = async (session: string, caller: Caller = {}) => {
      const answer = await server.opentool('Box_Push', {}, { ...caller, session })
      expect(answer.headers['collet-error-code']).toBe('session_not_found')
      const { 'collet-call-id': _id, ...headers } = answer.headers
      return stablePartsOf({ ...answer, headers, text: answer.text.replace(/"call_?[iI]d":"[^"]*"/, '') })
    }
    const before = server.done.length
    const expected = await refusalOf('ses_none')
    expect([
      await refusalOf(gone),
      await refusalOf(live),
      await refusalOf(live, { headers: { 'collet-user': 'bob' } }),
      await refusalOf(live, { key: KEYS.narrow, headers: user }),
      await refusalOf(live, { key: KEYS.other, headers: user }),
      await refusalOf(''),
      await refusalOf('x'.repeat(5_000)),
    ]).toEqual(Array(7).fill(expected))
    expect(server.done.length).toBe(before)
    const right = await server.opentool('Box_Push', { text: 'a' }, { session: live, headers: user })
    expect(right.json.result).toEqual({ result: ['a'] })
    await close(live)
  })

  it('another tool’s session, a tool without state and another run are refused', async () => {
    const { sessionId, runId } = await opened()
    const before = server.done.length
    for (const answer of [
      await server.otc('Box.Other', {}, { session: sessionId }),
      await server.otc('Echo.Write', {}, { session: sessionId }),
      await push('a', { session: sessionId, run: 'another' }),
    ]) {
      expect(codeOf(answer)).toEqual([400, 'request_invalid'])
    }
    expect(server.done.length).toBe(before)
    expect((await push('a', { session: sessionId, run: runId })).status).toBe(200)
    await close(sessionId)
  })

  it('rule 5: the session is part of the request that a call id identifies', async () => {
    const [one, two] = [await opened(), await opened()]
    await push('a', { session: one.sessionId, id: 'fingerprint' })
    for (const session of [two.sessionId, undefined]) {
      const answer = await push('a', { id: 'fingerprint', ...(session === undefined ? {} : { session }) })
      expect(codeOf(answer)).toEqual([400, 'key_conflict'])
    }
  })

  it('C2, OWP-44: closing aborts running calls: the calls and the session are cancelled', async () => {
    const { sessionId, runId } = await opened({ toolId: 'openwop:Box.Wait' })
    const count = () => server.done.filter((what) => what === 'waiting').length
    const before = count()
    const running = [1, 2].map(() => server.otc('Box.Wait', {}, { session: sessionId }))
    await vi.waitUntil(() => count() === before + 2, { interval: 2 })
    expect((await close(sessionId)).status).toBe(204)
    for (const answer of await Promise.all(running)) expect(codeOf(answer)).toEqual([200, 'cancelled'])
    expect(typesOf(await server.events(runId))).toEqual([
      'tool.session.opened',
      'agent.toolCalled',
      'agent.toolCalled',
      'agent.toolReturned error',
      'agent.toolReturned error',
      'tool.session.closed cancelled',
    ])
  })

  it('OWP-44: ending a run cancels its sessions too', async () => {
    const { sessionId } = await opened({ toolId: 'openwop:Box.Wait', runId: 'cut' })
    const count = () => server.done.filter((what) => what === 'waiting').length
    const before = count()
    const running = server.otc('Box.Wait', {}, { session: sessionId })
    await vi.waitUntil(() => count() === before + 1, { interval: 2 })
    expect((await server.ask('/v1/runs/cut', { key: KEYS.root, method: 'DELETE' })).status).toBe(204)
    expect(codeOf(await running)).toEqual([200, 'cancelled'])
    expect(typesOf(await server.events('cut')).at(-1)).toBe('tool.session.closed cancelled')
    expect((await close(sessionId)).status).toBe(404)
  })

  it('bad input: unclosed sessions are limited to 100 per principal, and others are not affected', async () => {
    const held: string[] = []
    for (;;) {
      const { status, json, headers } = await server.open({ toolId: PUSH, runId: 'hoard' }, KEYS.narrow)
      if (status === 201) held.push(json.sessionId)
      if (status === 201) continue
      expect([status, json.error, headers['retry-after']]).toEqual([429, 'rate_limited', '1'])
      break
    }
    expect(held).toHaveLength(100)
    await close((await opened()).sessionId)
    expect((await close(held[0] ?? '', KEYS.narrow)).status).toBe(204)
    expect((await server.open({ toolId: PUSH, runId: 'hoard' }, KEYS.narrow)).status).toBe(201)
    await server.ask('/v1/runs/hoard', { key: KEYS.narrow, method: 'DELETE' })
    const events = await server.events('hoard', KEYS.narrow)
    expect(events.filter(({ type }) => type === 'tool.session.closed')).toHaveLength(101)
  })
})
