import { afterAll, describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { CALL_PATHS } from '#protocols/otc/wire'
import type { FixtureTool } from './otc-fixtures.ts'
import { otcTestServer, stopOtcServers } from './otc-test-server.ts'

const ADD = { tool_id: 'Calculator.Add@1.0.0', input: { a: 1, b: 2 } }
const RING = { tool_id: 'Doorbell.Ring@0.1.0', input: { doorbell_id: 'doorbell42' } }
const SMS = { tool_id: 'SMS.Send@0.1.2', input: { to: '+1', message: 'Hello' } }

/** One request for each class of answer (OTC-63). */
const REFUSED: readonly (readonly [what: string, request: JsonObject, status: number])[] = [
  ['no tool id', { input: {} }, 400],
  ['an unknown tool', { tool_id: 'No.Such' }, 400],
  ['a missing version', { tool_id: 'Calculator.Add@9.0.0', input: { a: 1, b: 2 } }, 400],
  ['a missing token', { tool_id: 'Gmail.GetEmails' }, 400],
  ['a missing secret', SMS, 400],
  ['bad input', { tool_id: 'Calculator.Add', input: { a: 'x' } }, 422],
  ['input that is not an object', { tool_id: 'Calculator.Add', input: [1, 2] }, 422],
]

afterAll(stopOtcServers)

describe('rows that one server can show', () => {
  it('OTC-02: health is 200 on a server that runs tools', async () => {
    const { ask } = await otcTestServer()
    expect((await ask('POST', '/tools/call', { body: { request: ADD } })).json.result.value).toBe(3)
    expect(await ask('GET', '/health')).toMatchObject({ status: 200 })
  })

  it('OTC-05, OTC-30: the list is JSON, and every definition has all six members', async () => {
    const { ask } = await otcTestServer()
    const { status, headers, json } = await ask('GET', '/tools?schema=urn:oxp:1.0')
    expect([status, headers['content-type']]).toEqual([200, 'application/json'])
    for (const definition of [...json.tools, ...json.items]) {
      expect(Object.keys(definition)).toEqual(
        expect.arrayContaining(['id', 'name', 'description', 'version', 'input_schema', 'output_schema']),
      )
    }
  })

  it('OTC-10, C-01: every call path is the same operation: one id, one run, five envelopes', async () => {
    const { ask, runs } = await otcTestServer()
    const texts = new Set<string>()
    for (const path of CALL_PATHS) {
      const { status, json, text } = await ask('POST', path, {
        body: { request: { ...RING, call_id: 'one' } },
      })
      const { call_id: id, execution_id: oldId, success } = json.result ?? json
      expect([path, status, id ?? oldId, success]).toEqual([path, 200, 'one', true])
      texts.add(text)
    }
    expect(runs.get(RING.tool_id)).toBe(1)
    expect(texts.size).toBe(CALL_PATHS.length - 1)
  })

  it.each(REFUSED)(
    'OTC-17, C-18: %s is refused with $schema, and without it in the header dialect',
    async (_what, request, status) => {
      const { ask } = await otcTestServer()
      const wrapped = await ask('POST', '/tools/call', { body: { $schema: 'otc://1.0', request } })
      expect([wrapped.status, wrapped.json.$schema]).toEqual([status, 'otc://1.0'])
      const headers = { 'OXP-Version': '1.0' }
      const bare = await ask('POST', '/tools/call', { headers, body: request })
      expect([bare.status, '$schema' in bare.json]).toEqual([status, false])
    },
  )

  it.each(['1.0', '1.0.0'])(
    'OTC-20, OTC-22: OXP-Version %s is accepted by health, list and call',
    async (version) => {
      const { ask } = await otcTestServer()
      const headers = { 'OXP-Version': version }
      expect(await ask('GET', '/health', { headers })).toMatchObject({ status: 200 })
      expect((await ask('GET', '/tools', { headers })).json.items).toHaveLength(6)
      expect((await ask('POST', '/tools/call', { headers, body: ADD })).json.value).toBe(3)
    },
  )

  it('OTC-21: OXP-Version is on every answer: 200, 400, 401, 404, 422 and 503', async () => {
    const open = await otcTestServer()
    const closed = await otcTestServer({ apiKeys: true })
    const draining = await otcTestServer({ ready: false })
    const answers = [
      await open.ask('GET', '/tools'),
      await open.ask('POST', '/tools/call', { body: { request: ADD } }),
      await open.ask('POST', '/tools/call', { body: {} }),
      await closed.ask('GET', '/tools'),
      await open.ask('GET', '/calls/none'),
      await open.ask('POST', '/tools/call', { body: { request: { ...ADD, input: {} } } }),
      await draining.ask('GET', '/health'),
    ]
    expect(answers.map(({ status, headers }) => [status, headers['oxp-version']])).toEqual(
      [200, 200, 400, 401, 404, 422, 503].map((status) => [status, '1.0']),
    )
  })

  it('OTC-45: without call_id each call gets a new one and runs', async () => {
    const { ask, runs } = await otcTestServer()
    const ids = new Set<string>()
    for (let round = 0; round < 3; round += 1) {
      const { json } = await ask('POST', '/tools/call', { body: { request: RING } })
      ids.add(json.result.call_id)
    }
    expect([ids.size, runs.get(RING.tool_id)]).toEqual([3, 3])
    for (const id of ids)
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  })

  it('OTC-46: trace_id reaches the tool, else the trace of the request does; no answer repeats it', async () => {
    const tool: FixtureTool = {
      id: 'Echo.Trace@1.0.0',
      description: 'Gives back the trace id it runs under.',
      input: {},
      output: {},
      run: (_input, { traceId }) => ({ seen: [...traceId].toReversed().join('') }),
    }
    const { ask } = await otcTestServer({ tools: [tool] })
    const call = async (request: JsonObject, headers: Record<string, string> = {}) =>
      await ask('POST', '/tools/call', { headers, body: { request: { tool_id: tool.id, ...request } } })
    const reported = await call({ trace_id: 'abcdef' })
    expect(reported.json.result.value).toEqual({ seen: 'fedcba' })
    expect(reported.text).not.toContain('abcdef')
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    expect((await call({}, { traceparent })).json.result.value).toEqual({
      seen: 'c91308c112be8448dd34dc6191567fa0',
    })
  })

  it.each<[string, JsonValue]>([
    ['without a value', [{ id: 'TWILIO_API_KEY' }]],
    ['without an id', [{ value: 'v' }]],
    ['whose value is a number', [{ id: 'TWILIO_API_KEY', value: 5 }]],
    ['whose value is null', [{ id: 'TWILIO_API_KEY', value: null }]],
    ['whose id is a number', [{ id: 5, value: 'v' }]],
    ['that is a string', ['v']],
    ['that is null', [null]],
    ['after a valid one', [{ id: 'TWILIO_API_KEY', value: 'v' }, { id: 'OTHER' }]],
  ])(
    'OTC-55: a secret item %s is 400 on every path, names the expected form, and runs nothing',
    async (_what, secrets) => {
      const { ask, runs } = await otcTestServer()
      for (const path of CALL_PATHS) {
        const { status, json } = await ask('POST', path, {
          body: { request: { ...SMS, context: { secrets } } },
        })
        expect([path, status]).toEqual([path, 400])
        expect(json.message).toContain('"id" and "value"')
      }
      expect(runs.size).toBe(0)
    },
  )

  it('OTC-58, OTC-59, OTC-60, OTC-61: versions are served side by side and resolved as written', async () => {
    const { ask } = await otcTestServer()
    const input = { a: 10, b: 5, c: 1 }
    const sum = async (toolId: string) =>
      (await ask('POST', '/tools/call', { body: { request: { tool_id: toolId, input } } })).json.result?.value
    expect(await sum('Calculator.Add@1.0.0')).toBe(15)
    expect(await sum('Calculator.Add@1.1.0')).toBe(16)
    expect(await sum('Calculator.Add@1')).toBe(15)
    expect(await sum('Calculator.Add')).toBe(16)
    const absent = { ...RING, tool_id: 'Doorbell.Ring@0' }
    expect(await ask('POST', '/tools/call', { body: { request: absent } })).toMatchObject({ status: 400 })
  })

  it('OTC-65: refusals have a readable message, without stacks, files or records', async () => {
    const { ask } = await otcTestServer()
    for (const [, request] of REFUSED) {
      const { json } = await ask('POST', '/tools/call', { body: { request } })
      expect(json.message).toMatch(/^[A-Z"'].{10,}[.?]$/)
      expect(json.message).not.toMatch(/\n|\bat .*:\d+:\d+|\.ts\b|node_modules|undefined|\[object/)
    }
  })

  it.each(CALL_PATHS)(
    'OTC-80, OTC-81: %s runs nothing on bad input, and an unknown tool is 400 whatever its input',
    async (path) => {
      const { ask, runs } = await otcTestServer()
      const status = async (request: JsonObject) => (await ask('POST', path, { body: { request } })).status
      expect(await status({ ...RING, input: { doorbell_id: 42 } })).toBe(422)
      expect(await status({ tool_id: 'No.Such', input: { doorbell_id: 42 } })).toBe(400)
      expect(runs.size).toBe(0)
    },
  )

  it('OTC-11, OTC-90: a value outside the output schema is a tool error, with details for developers only', async () => {
    const wrong: FixtureTool = {
      id: 'Wrong.Output@1.0.0',
      description: 'Gives a text where a number is promised.',
      input: {},
      output: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
      run: () => ({ n: 'leaked-value' }),
    }
    const { ask } = await otcTestServer({ tools: [wrong] })
    const { status, json, headers, text } = await ask('POST', '/tools/call', {
      body: { request: { tool_id: wrong.id } },
    })
    expect([status, json.result.success, headers['collet-error-code']]).toEqual([
      200,
      false,
      'output_invalid',
    ])
    expect(json.result).not.toHaveProperty('value')
    expect(json.result.error.developer_message).toContain('/n')
    expect(text).not.toContain('leaked-value')
  })
})
