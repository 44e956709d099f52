import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CALL_PATHS } from '#protocols/otc/wire'
import { sqliteSettings, testSettings } from '../test-settings.ts'
import { KEYS } from './openwop-fixtures.ts'
import { stablePartsOf } from './openwop-server.ts'
import { type RunServer, runOf, startRunServer, typesOf } from './run-server.ts'
import { RUN_CANARY } from './run-tools.ts'

const CALLED = 'agent.toolCalled'
const OK_PAIR = [CALLED, 'agent.toolReturned ok']
const ERROR_PAIR = [CALLED, 'agent.toolReturned error']

/** RFC 8785 for values without special numbers, independent of the server's implementation. */
function sha256OfJcs(value: unknown): string {
  const sorted = (_name: string, member: unknown): unknown =>
    typeof member === 'object' && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member
  return createHash('sha256').update(JSON.stringify(value, sorted)).digest('hex')
}

describe.each([
  ['memory', testSettings],
  ['SQLite', sqliteSettings],
] as const)('runs on %s', (_store, settingsOf) => {
  let server: RunServer

  beforeAll(async () => {
    server = await startRunServer({ settingsOf })
  })

  afterAll(() => server.close())

  it('OWP-48, OWP-50, OWP-51: a call outside any run has its own run with a pair of events', async () => {
    for (const tool of ['Echo.Say', 'Echo.Write']) {
      const answer = await server.otc(tool, { text: 'a' }, { id: `own ${tool}` })
      const runId = runOf(answer)
      expect(runId).toMatch(/^run_[A-Za-z0-9_-]{24}$/)
      const [called, returned] = await server.events(runId)
      const names = { agentId: 'core.system', toolName: `openwop:${tool}`, callId: `own ${tool}` }
      expect(called).toEqual({
        eventId: expect.stringMatching(/^evt_.+_0$/),
        runId,
        type: CALLED,
        sequence: 0,
        timestamp: expect.any(String),
        nodeId: runId.slice('run_'.length),
        payload: {
          ...names,
          argsHash: sha256OfJcs({ text: 'a' }),
          principal: expect.stringMatching(/^prn_/),
          transport: 'native',
          traceId: expect.stringMatching(/^[0-9a-f]{32}$/),
        },
      })
      expect(returned).toMatchObject({ type: 'agent.toolReturned', sequence: 1, nodeId: called?.nodeId })
      expect(returned?.payload).toEqual({ ...names, status: 'ok', durationMs: expect.any(Number) })
      expect(Number.isInteger(returned?.payload.durationMs)).toBe(true)
    }
  })

  it('OWP-51: a principal is an opaque text, equal in all its events and unique to it', async () => {
    const seen = async (key: string) => {
      const events = await server.events(runOf(await server.otc('Echo.Say', {}, { key })), key)
      return events[0]?.payload.principal
    }
    expect(await seen(KEYS.root)).toBe(await seen(KEYS.root))
    const all = [await seen(KEYS.root), await seen(KEYS.narrow), await seen(KEYS.other)]
    expect(new Set(all).size).toBe(3)
    for (const id of ['root', 'narrow', 'other']) expect(all.join()).not.toContain(id)
  })

  it('OWP-54: a failure has a code and a fixed text instead of an outcome', async () => {
    for (const tool of ['Echo.Fail', 'Echo.Throw']) {
      const events = await server.events(runOf(await server.otc(tool)))
      expect(typesOf(events)).toEqual(ERROR_PAIR)
      expect(events[1]?.payload).toEqual({
        agentId: 'core.system',
        toolName: `openwop:${tool}`,
        callId: events[0]?.payload.callId,
        status: 'error',
        durationMs: expect.any(Number),
        error: { code: 'tool_failed', message: 'The call ended with tool_failed.' },
      })
    }
  })

  it('OWP-46, OWP-53, OWP-91: a replay performs nothing again, adds no event and changes none', async () => {
    const call = (run?: string) =>
      server.otc('Echo.Write', { text: 'once' }, { id: 'replayed', ...(run === undefined ? {} : { run }) })
    const before = server.done.length
    const first = await call()
    const events = await server.events(runOf(first))
    const second = await call()
    expect(server.done.length).toBe(before + 1)
    expect([second.text, runOf(second)]).toEqual([first.text, runOf(first)])
    expect(await server.events(runOf(first))).toEqual(events)
  })

  it('OWP-90: the caller’s own key is valid inside and outside of runs: the effect is not repeated', async () => {
    const first = await server.otc('Echo.Write', {}, { id: 'business-1' })
    const before = server.done.length
    const again = await server.otc('Echo.Write', {}, { id: 'business-1', run: 'another run' })
    const opentool = await server.opentool('Echo_Write', {}, { id: 'business-1', run: 'a third' })
    expect([runOf(again), runOf(opentool)]).toEqual([runOf(first), runOf(first)])
    expect(server.done.length).toBe(before)
    for (const run of ['another run', 'a third']) {
      const { status } = await server.ask(`/v1/runs/${encodeURIComponent(run)}/events`, { key: KEYS.root })
      expect(status).toBe(404)
    }
  })

  it('OWP-94: no caller may use a run id of the server, and a call id of the server belongs to its caller', async () => {
    const own = await server.otc('Echo.Write')
    const runId = runOf(own)
    const events = await server.events(runId)
    const joined = await server.otc('Echo.Write', {}, { run: runId })
    expect([joined.status, joined.headers['collet-error-code']]).toEqual([400, 'request_invalid'])
    expect((await server.open({ toolId: 'openwop:Box.Push', runId })).status).toBe(400)
    // Another principal's run of this name is another run.
    const other = await server.otc('Echo.Write', {}, { run: runId, key: KEYS.narrow })
    expect(runOf(other)).toBe(runId)
    expect(await server.events(runId)).toEqual(events)
    expect((await server.events(runId, KEYS.narrow))[0]?.nodeId).not.toBe(events[0]?.nodeId)
    const id = own.headers['collet-call-id'] ?? ''
    const before = server.done.length
    await server.otc('Echo.Write', {}, { id, key: KEYS.narrow })
    expect(server.done.length).toBe(before + 1)
  })

  it('OWP-52: argsHash is SHA-256 over JCS, with the call’s credentials cut out of keys and values', async () => {
    const secret = 'pass"w\\örd-é'
    const token = 'tok-123456'
    const input = { text: `it is ${secret}`, b: [1, { z: token, [`k ${secret}`]: null }], a: 'é\u2028' }
    const redacted = {
      text: 'it is [redacted]',
      b: [1, { z: '[redacted]', 'k [redacted]': null }],
      a: 'é\u2028',
    }
    const body = {
      request: {
        tool_id: 'Echo.Secret',
        input,
        context: {
          secrets: [{ id: 'KEY', value: secret }],
          authorization: [{ id: 'mail', token }],
        },
      },
    }
    const answer = await server.ask('/tools/call', {
      key: KEYS.root,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    expect(answer.status).toBe(200)
    const [called] = await server.events(runOf(answer))
    expect(called?.payload.argsHash).toBe(sha256OfJcs(redacted))
  })

  it('OWP-43, OWP-52, OWP-54: no event contains text of an input, an output, an error or a credential', async () => {
    const run = 'content free'
    const secrets = [{ id: 'KEY', value: RUN_CANARY }]
    for (const tool of ['Echo.Say', 'Echo.Write', 'Echo.Fail', 'Echo.Throw', 'Box.Push', 'Box.Refuse']) {
      await server.otc(tool, { text: RUN_CANARY }, { run })
      await server.opentool(tool.replace('.', '_'), { text: RUN_CANARY }, { run })
    }
    await server.ask('/tools/call', {
      key: KEYS.root,
      method: 'POST',
      headers: { 'content-type': 'application/json', 'collet-run': run },
      body: JSON.stringify({
        request: {
          tool_id: 'Echo.Secret',
          input: { text: RUN_CANARY },
          context: { secrets, authorization: [{ id: 'mail', token: RUN_CANARY }], user_id: RUN_CANARY },
        },
      }),
    })
    const events = await server.events(run)
    expect(events.filter(({ type }) => type === CALLED)).toHaveLength(13)
    expect(JSON.stringify(events)).not.toContain(RUN_CANARY)
  })

  it.each(CALL_PATHS)('OWP-50: %s accepts a run and names it in the answer', async (path) => {
    const run = `dialect ${path}`
    const answer = await server.otc('Echo.Say', { text: 'a' }, { run, path })
    expect([answer.status, runOf(answer)]).toEqual([200, run])
    expect(runOf(await server.otc('Echo.Say', { text: 'b' }, { path }))).toMatch(/^run_/)
    expect(typesOf(await server.events(run))).toEqual(OK_PAIR)
  })

  it('OWP-50: calls of several protocols share one run, in the order they happened', async () => {
    const run = 'shared/ö %'
    const header = encodeURIComponent(run)
    const bare = await server.ask('/tools/call', {
      key: KEYS.root,
      method: 'POST',
      headers: { 'content-type': 'application/json', 'collet-run': header },
      body: JSON.stringify({ tool_id: 'Echo.Say', input: {}, call_id: 'c-1' }),
    })
    await server.otc('Echo.Write', {}, { run: header, id: 'c-2' })
    const last = await server.opentool('Echo_Say', {}, { run: header, id: 'c-3' })
    expect([runOf(bare), runOf(last)]).toEqual([run, run])
    const events = await server.events(run)
    expect(typesOf(events)).toEqual([...OK_PAIR, ...OK_PAIR, ...OK_PAIR])
    expect(events.map(({ payload }) => payload.callId)).toEqual(['c-1', 'c-1', 'c-2', 'c-2', 'c-3', 'c-3'])
  })

  it.each([
    ['no characters', ''],
    ['129 characters', 'r'.repeat(129)],
    ['a line end', 'a%0Ab'],
    ['NUL', '%00'],
    ['DEL', 'a%7F'],
  ])('OWP-99: a run id of %s is refused on every protocol, and nothing runs', async (_what, run) => {
    const before = server.done.length
    for (const path of CALL_PATHS) {
      const answer = await server.otc('Echo.Write', {}, { run, path })
      expect(answer.status).toBe(400)
      expect(answer.headers).not.toHaveProperty('collet-run')
    }
    const { json } = await server.opentool('Echo_Write', {}, { run })
    expect(json.error.code).toBe(-32600)
    expect(server.done.length).toBe(before)
    const read = await server.ask(`/v1/runs/${run === '' ? '%00' : run}/events`, { key: KEYS.root })
    expect([read.status, read.json.error]).toEqual([404, 'not_found'])
  })

  it('OWP-99: a run id can have any 128 characters', async () => {
    for (const run of ['r'.repeat(128), '/'.repeat(128), '𝄞'.repeat(64), '%zz']) {
      const answer = await server.otc('Echo.Say', {}, { run: encodeURIComponent(run) })
      expect(runOf(answer)).toBe(run)
      const events = await server.events(run)
      expect(events).toHaveLength(2)
      expect(events.every(({ eventId }) => eventId.length <= 128)).toBe(true)
    }
  })

  it('OWP-49: two principals that use the same run id have two runs', async () => {
    const run = 'same name'
    await server.otc('Echo.Write', {}, { run })
    await server.otc('Echo.Say', {}, { run, key: KEYS.narrow })
    await server.otc('Echo.Say', {}, { run, key: KEYS.other })
    const names = async (key: string) =>
      (await server.events(run, key)).map(({ payload }) => payload.toolName)
    expect(await names(KEYS.root)).toEqual(['openwop:Echo.Write', 'openwop:Echo.Write'])
    expect(await names(KEYS.narrow)).toEqual(['openwop:Echo.Say', 'openwop:Echo.Say'])
    expect(await names(KEYS.other)).toEqual(['openwop:Echo.Say', 'openwop:Echo.Say'])
  })

  it('OWP-49, OWP-97: a run of another principal or tenant answers like an unknown one', async () => {
    const named = 'private'
    await server.otc('Echo.Write', {}, { run: named })
    const own = runOf(await server.otc('Echo.Write'))
    const unknown = 'run_AAAAAAAAAAAAAAAAAAAAAAAA'
    for (const key of [KEYS.narrow, KEYS.other]) {
      for (const [method, path] of [
        ['GET', '/events'],
        ['GET', '/events/poll'],
        ['GET', '/events/poll?lastSequence=0&timeout=1'],
        ['DELETE', ''],
      ] as const) {
        const ask = async (run: string) =>
          stablePartsOf(await server.ask(`/v1/runs/${run}${path}`, { key, method }))
        const expected = await ask(unknown)
        expect(expected).toMatchObject({ status: 404 })
        expect(JSON.stringify(expected)).not.toMatch(/scope|challenge/)
        expect([await ask(named), await ask(own)]).toEqual([expected, expected])
      }
    }
    expect(await server.events(named)).toHaveLength(2)
  })

  it('OWP-12, OWP-49: reading or ending a run requires a credential', async () => {
    for (const [method, path] of [
      ['GET', '/v1/runs/x/events'],
      ['GET', '/v1/runs/x/events/poll'],
      ['DELETE', '/v1/runs/x'],
    ] as const) {
      const answer = await server.ask(path, { method })
      expect([answer.status, answer.json.error]).toEqual([401, 'unauthenticated'])
    }
  })

  it('OWP-41: DELETE ends a run: it closes its sessions, accepts no new calls and replays recorded ones', async () => {
    const run = 'ended'
    const first = await server.otc('Echo.Write', {}, { run, id: 'in-ended' })
    const opened = await server.open({ toolId: 'openwop:Box.Push', runId: run })
    const end = () => server.ask(`/v1/runs/${run}`, { key: KEYS.root, method: 'DELETE' })
    expect((await end()).status).toBe(204)
    expect((await end()).status).toBe(204)
    const events = await server.events(run)
    expect(typesOf(events)).toEqual([...OK_PAIR, 'tool.session.opened', 'tool.session.closed completed'])
    const before = server.done.length
    const { sessionId } = opened.json
    for (const caller of [{ run }, { run, id: 'new' }]) {
      for (const answer of [
        await server.otc('Echo.Write', {}, caller),
        await server.otc('Box.Push', {}, caller),
        await server.otc('Echo.Say', {}, caller),
      ]) {
        expect([answer.status, answer.headers['collet-error-code']]).toEqual([400, 'request_invalid'])
        expect(answer.headers).not.toHaveProperty('collet-run')
      }
    }
    expect((await server.otc('Box.Push', {}, { session: sessionId })).headers['collet-error-code']).toBe(
      'session_not_found',
    )
    expect((await server.open({ toolId: 'openwop:Box.Push', runId: run })).status).toBe(400)
    expect(server.done.length).toBe(before)
    const replayed = await server.otc('Echo.Write', {}, { run, id: 'in-ended' })
    expect([replayed.text, runOf(replayed)]).toEqual([first.text, run])
    expect(await server.events(run)).toEqual(events)
    const poll = await server.ask(`/v1/runs/${run}/events/poll`, { key: KEYS.root })
    expect(poll.json.isComplete).toBe(true)
  })

  it('rule 30a: refused calls add no event and create no run', async () => {
    const run = 'refused'
    await server.otc('No.Such', {}, { run })
    await server.otc('Echo.Say', { text: 1 }, { run })
    await server.otc('Echo.Secret', {}, { run })
    await server.otc('Box.Push', {}, { run, session: 'ses_none' })
    expect((await server.ask(`/v1/runs/${run}/events`, { key: KEYS.root })).status).toBe(404)
  })

  it('OWP-41, OWP-53: each attempt of a call that may run again is a pair in the run of the first', async () => {
    const attempt = (run: string) => server.otc('Echo.Again', {}, { run, id: 'again' })
    await attempt('attempts')
    expect(runOf(await attempt('elsewhere'))).toBe('attempts')
    expect(typesOf(await server.events('attempts'))).toEqual([...ERROR_PAIR, ...ERROR_PAIR])
    const alone = await server.otc('Echo.Again', {}, { id: 'again alone' })
    await server.otc('Echo.Again', {}, { id: 'again alone' })
    expect(typesOf(await server.events(runOf(alone)))).toEqual([...ERROR_PAIR, ...ERROR_PAIR])
  })
})
