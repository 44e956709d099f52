import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { KEYS } from './openwop-fixtures.ts'
import { OPENWOP_CONFORMANCE } from './openwop-host/host.ts'
import { type RunServer, startRunServer, typesOf } from './run-server.ts'

const SESSION_RUN = '/v1/host/sample/tools/session-run'
const RESET = '/v1/host/sample/test/reset'
const eventLog = (runId: string, query = '') =>
  `/v1/host/sample/test/runs/${encodeURIComponent(runId)}/events${query}`
const JSON_BODY = { 'content-type': 'application/json' }

let server: RunServer
let plain: RunServer

beforeAll(async () => {
  server = await startRunServer({ conformance: OPENWOP_CONFORMANCE })
  plain = await startRunServer()
})

afterAll(async () => {
  await server.close()
  await plain.close()
})

function post(on: RunServer, path: string, body: unknown, key: string = KEYS.root) {
  const text = JSON.stringify(body)
  return on.ask(path, { key, method: 'POST', headers: JSON_BODY, body: text, isUndocumented: true })
}

function get(on: RunServer, path: string, key: string = KEYS.root) {
  return on.ask(path, { key, isUndocumented: true })
}

describe('routes for the public suite', () => {
  it('OWP-100…102: do not exist without the flag', async () => {
    for (const answer of [
      await post(plain, SESSION_RUN, {}),
      await post(plain, RESET, {}),
      await get(plain, eventLog('__probe__')),
    ]) {
      expect([answer.status, answer.json.error]).toEqual([404, 'not_found'])
    }
    expect(plain.done).toEqual([])
  })

  it('OWP-100…102: need a credential like everything else', async () => {
    for (const [method, path] of [
      ['POST', SESSION_RUN],
      ['POST', RESET],
      ['GET', eventLog('__probe__')],
    ] as const) {
      expect((await server.ask(path, { method, isUndocumented: true })).status).toBe(401)
    }
  })

  it('C2, OWP-44, OWP-100: session-run runs one session with one call in it, and nothing else', async () => {
    const before = server.done.length
    const { status, json } = await post(server, SESSION_RUN, { toolId: 'openwop:Box.Push' })
    expect(status).toBe(200)
    expect(json).toEqual({
      runId: expect.stringMatching(/^run_/),
      sessionId: expect.stringMatching(/^ses_/),
      toolId: 'openwop:Box.Push',
    })
    expect(server.done.slice(before)).toEqual(['open Box.Push', 'push', 'close Box.Push'])
    const events = await server.events(json.runId)
    expect(typesOf(events)).toEqual([
      'tool.session.opened',
      'agent.toolCalled',
      'agent.toolReturned ok',
      'tool.session.closed completed',
    ])
    expect(new Set(events.map(({ payload }) => payload.sessionId))).toEqual(new Set([json.sessionId]))
    const poll = await server.ask(`/v1/runs/${json.runId}/events/poll`, { key: KEYS.root })
    expect(poll.json).toEqual({ events, isComplete: true })
  })

  it('OWP-100: without a toolId it selects a stateful tool', async () => {
    const { status, json } = await post(server, SESSION_RUN, {})
    expect(status).toBe(200)
    const { json: tool } = await server.ask(`/v1/tools/${json.toolId}`, { key: KEYS.root })
    expect(tool.toolId).toBe(json.toolId)
  })

  it('OWP-100: a tool that is unknown, stateless or failing is an error, as in production', async () => {
    const errorOf = async (toolId: string) => {
      const { status, json } = await post(server, SESSION_RUN, { toolId })
      return [status, json.error]
    }
    expect(await errorOf('openwop:No.Such')).toEqual([404, 'not_found'])
    expect(await errorOf('openwop:Echo.Say')).toEqual([400, 'validation_error'])
    expect(await errorOf('openwop:Box.Refuse')).toEqual([422, 'tool_failed'])
  })

  it('OWP-101: the event log is the durable one, and can be filtered', async () => {
    const { runId, sessionId } = (await post(server, SESSION_RUN, {})).json
    const all = await server.events(runId)
    const asked = async (query: string) => (await get(server, eventLog(runId, query))).json.events
    expect(await asked('')).toEqual(all)
    expect(await asked('?type=agent.toolCalled')).toEqual([all[1]])
    expect(await asked(`?nodeId=${all[1]?.nodeId}`)).toEqual(all.slice(1, 3))
    expect(await asked(`?correlationId=${sessionId}`)).toEqual(all)
    expect(await asked('?correlationId=none')).toEqual([])
    expect(await asked('?causationId=evt_1')).toEqual([])
  })

  it('C14, OWP-101: unknown and foreign runs have no events, and their own path is 404', async () => {
    const { runId } = (await post(server, SESSION_RUN, {})).json
    for (const [run, key] of [
      ['__probe__', KEYS.root],
      ['\u0000', KEYS.root],
      [runId, KEYS.narrow],
      [runId, KEYS.other],
    ]) {
      const { status, text } = await get(server, eventLog(run ?? ''), key)
      expect([status, text]).toEqual([200, '{"events":[]}'])
      const path = `/v1/runs/${encodeURIComponent(run ?? '')}/events`
      expect((await server.ask(path, { key: key ?? '' })).status).toBe(404)
    }
  })

  it('OWP-102: reset clears nothing', async () => {
    const { runId } = (await post(server, SESSION_RUN, {})).json
    const opened = await server.open({ toolId: 'openwop:Box.Push' })
    const first = await server.otc('Echo.Write', {}, { id: 'kept' })
    const before = server.done.length
    expect((await post(server, RESET, {})).status).toBe(204)
    expect(await server.events(runId)).toHaveLength(4)
    expect((await server.otc('Echo.Write', {}, { id: 'kept' })).text).toBe(first.text)
    expect(server.done.length).toBe(before)
    const { status } = await server.otc('Box.Push', {}, { session: opened.json.sessionId })
    expect(status).toBe(200)
  })

  it('OWP-100: the OpenAPI document does not list them', async () => {
    const { text } = await server.ask('/v1/openapi.json')
    expect(text).not.toContain('/v1/host')
  })
})

describe('the safe fetch of the public suite', () => {
  const SAFE_FETCH = '/v1/host/sample/http/safe-fetch'

  it('OWP-104: does not exist without the flag', async () => {
    for (const path of [SAFE_FETCH, `${SAFE_FETCH}-run`]) {
      expect((await post(plain, path, { url: 'http://127.0.0.1/' })).status).toBe(404)
    }
  })

  it.each([
    ['loopback', { url: 'http://127.0.0.1:9/' }, 'ssrf'],
    ['a metadata service', { url: 'http://169.254.169.254/latest/' }, 'ssrf'],
    ['an unusual spelling', { url: 'http://0x7f.1/' }, 'ssrf'],
    ['a name that is rebound', { url: 'http://example.com/', simulateRebindTo: '10.0.0.1' }, 'ssrf'],
    [
      'an upgrade',
      { url: 'http://203.0.113.1/', init: { headers: { connection: 'upgrade', upgrade: 'websocket' } } },
      'upgrade',
    ],
  ])(
    'OWP-80, OWP-81, OWP-104: blocks %s with the production guard, and records it in a pair of events',
    async (_, body, blocked) => {
      const { status, json } = await post(server, SAFE_FETCH, body)
      expect(status).toBe(200)
      expect(json).toMatchObject({
        outcome: 'blocked',
        blocked,
        toolCalled: { toolName: 'connector:collet.safe-fetch', transport: 'http' },
        toolReturned: { status: 'error', error: { code: 'egress_denied' } },
      })
      expect(json.toolReturned.callId).toBe(json.toolCalled.callId)
      expect(JSON.stringify(json)).not.toContain(body.url)
    },
  )

  it('OWP-83: also a blocked fetch is in the durable log, with transport http', async () => {
    const { json } = await post(server, `${SAFE_FETCH}-run`, { url: 'http://[::1]/' })
    expect(json).toEqual({ runId: expect.stringMatching(/^run_/), outcome: 'blocked' })
    const { events } = (await get(server, eventLog(json.runId))).json
    expect(typesOf(events)).toEqual(['agent.toolCalled', 'agent.toolReturned error'])
    expect(events[0].payload.transport).toBe('http')
  })

  it('OWP-104: no other principal can call its tool', async () => {
    const call = { tool_id: 'Conformance.SafeFetch@1.0.0', input: { url: 'http://127.0.0.1/' } }
    const { json } = await post(server, '/tools/call', call, KEYS.narrow)
    expect(json.message).toContain('was not found')
  })
})
