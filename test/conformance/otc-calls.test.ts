import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ARCADE_SCHEMA_ID, CALL_PATHS } from '#protocols/otc/wire'
import { FakeClock } from '#testing/test-gateway'
import type { FixtureTool } from './otc-fixtures.ts'
import { type OtcTestServer, otcTestServer, stopOtcServers } from './otc-test-server.ts'

const ADD = { tool_id: 'Calculator.Add@1.0.0', input: { a: 1, b: 2 } }
const RING = { tool_id: 'Doorbell.Ring@0.1.0', input: { doorbell_id: 'doorbell42' } }

afterAll(stopOtcServers)

describe('health', () => {
  it('OTC-01, OTC-02, OTC-04: 200 without credentials, for uts in its own spelling', async () => {
    const { ask } = await otcTestServer({ apiKeys: true })
    expect(await ask('GET', '/health')).toMatchObject({ status: 200, json: { status: 'ok' } })
    expect(await ask('GET', '/health', { headers: { 'OXP-API-Key': 'wrong' } })).toMatchObject({
      status: 200,
    })
    expect(await ask('GET', '/uts/health')).toMatchObject({ status: 200, json: { status: 'OK' } })
    expect(await ask('GET', '/uts/info')).toMatchObject({ json: { version: '0.0.0-test' } })
  })

  it('OTC-03, OTC-68, C-24: 503 while calls are not accepted, and a call is 400 with a time to retry', async () => {
    const { ask } = await otcTestServer({ ready: false })
    expect(await ask('GET', '/health')).toMatchObject({ status: 503, json: { message: expect.any(String) } })
    expect(await ask('POST', '/tools/call', { body: { request: ADD } })).toMatchObject({
      status: 400,
      headers: { 'retry-after': '2', 'x-should-retry': 'true', 'collet-error-code': 'not_ready' },
      json: { $schema: 'otc://1.0', message: expect.any(String) },
    })
    expect(await ask('GET', '/tools')).toMatchObject({ status: 200 })
  })
})

describe('calls', () => {
  it('C-03, §3.1: the March drafts answer with execution_id and output', async () => {
    const { ask } = await otcTestServer({ clock: new FakeClock() })
    const execute = await ask('POST', '/execute', { body: { request: { ...ADD, execution_id: 'ex-1' } } })
    expect(execute.json).toEqual({
      $schema: 'otc://1.0',
      execution_id: 'ex-1',
      duration: 0,
      success: true,
      output: { value: 3 },
      response: { execution_id: 'ex-1', duration: 0, success: true, output: { value: 3 } },
    })
  })

  it('R0, OTC/T-25: proto has the end time of the call, also on a replay', async () => {
    const clock = new FakeClock(5_000)
    const { ask } = await otcTestServer({ clock })
    const body = {
      run_id: 'run-1',
      execution_id: 'ex-1',
      created_at: '2025-03-04T00:00:00Z',
      tool: { name: 'Add', toolkit: 'Calculator', version: '1.0.0' },
      inputs: { a: 1, b: 2 },
    }
    const first = await ask('POST', '/tools/execute', { body })
    expect(first.json).toEqual({
      $schema: 'otc://1.0',
      execution_id: 'ex-1',
      duration: 0,
      finished_at: '1970-01-01T00:00:05.000Z',
      success: true,
      output: { value: 3 },
    })
    clock.advance(60_000)
    expect((await ask('POST', '/tools/execute', { body })).json).toEqual(first.json)
  })

  it('C-08: uts answers flat', async () => {
    const { ask } = await otcTestServer()
    const { json } = await ask('POST', '/uts/tools/call', { body: { request: { ...ADD, call_id: 'c' } } })
    expect(json).toEqual({ success: true, call_id: 'c', value: 3 })
  })

  it('C-19: the RFC omits output when there is none', async () => {
    const { ask } = await otcTestServer()
    const { json } = await ask('POST', '/call', { body: { $schema: ARCADE_SCHEMA_ID, request: RING } })
    expect(json).not.toHaveProperty('output')
    expect(json.result).toHaveProperty('value', null)
  })

  it('OTC/T-25: a replay is rendered in the dialect of the new request', async () => {
    const { ask } = await otcTestServer()
    await ask('POST', '/tools/call', { body: { request: { ...ADD, call_id: 'c' } } })
    const again = await ask('POST', '/execute', { body: { request: { ...ADD, execution_id: 'c' } } })
    expect(again.json).toMatchObject({ execution_id: 'c', output: { value: 3 } })
  })

  it('OTC-84: the documented failure arrives completely', async () => {
    const { ask } = await otcTestServer()
    const body = { $schema: 'otc://1.0', request: { ...RING, input: { doorbell_id: 'doorbell1' } } }
    const { status, json, headers } = await ask('POST', '/call', { body })
    expect(status).toBe(200)
    expect(headers['collet-error-code']).toBe('tool_failed')
    expect(json.result.error).toEqual({
      message: 'Doorbell ID not found',
      developer_message: "The doorbell with ID 'doorbell1' does not exist.",
      can_retry: true,
      additional_prompt_content: 'ids: doorbell42,doorbell84',
      retry_after_ms: 500,
    })
  })

  it('OTC/T-20: an operator can hide developer messages', async () => {
    const { ask } = await otcTestServer({ hideDeveloperMessages: true })
    const body = { request: { ...RING, input: { doorbell_id: 'doorbell1' } } }
    expect((await ask('POST', '/tools/call', { body })).text).not.toContain('developer_message')
  })

  it('OTC/T-23: an operator can refuse unknown members', async () => {
    const { ask } = await otcTestServer({ strictRequests: true })
    expect(await ask('POST', '/tools/call', { body: { request: { ...ADD, x: 1 } } })).toMatchObject({
      status: 400,
    })
  })

  it('rule 4: Idempotency-Key is the key of a call that has no call_id', async () => {
    const { ask, runs } = await otcTestServer()
    const headers = { 'Idempotency-Key': 'k' }
    const first = await ask('POST', '/tools/call', { headers, body: { request: RING } })
    const again = await ask('POST', '/tools/call', { body: { request: { ...RING, call_id: 'k' } } })
    expect(first.json.result.call_id).toBe('k')
    expect(again.json).toEqual(first.json)
    expect(runs.get(RING.tool_id)).toBe(1)
    const both = await ask('POST', '/tools/call', {
      headers,
      body: { request: { ...RING, call_id: 'other' } },
    })
    expect(both.status).toBe(400)
  })

  it('OTC-66: a missing body, and a body that is not an object, are 400', async () => {
    const { ask } = await otcTestServer()
    expect(await ask('POST', '/tools/call')).toMatchObject({ status: 400 })
    expect(await ask('POST', '/tools/call', { body: [] })).toMatchObject({ status: 400 })
  })
})

describe('every path', () => {
  let server: OtcTestServer
  beforeAll(async () => {
    server = await otcTestServer()
  })
  const ask: OtcTestServer['ask'] = (...request) => server.ask(...request)
  const outcomes: readonly [string, object, number, string][] = [
    [
      'OTC-80, C-22: bad input is 422',
      { tool_id: 'Calculator.Add', input: { a: 'x', b: 1 } },
      422,
      'parameter_errors',
    ],
    [
      'OTC-70, OTC-80, C-23: an unknown tool is 400, whatever its input',
      { tool_id: 'No.Such', input: 5 },
      400,
      'message',
    ],
    ['OTC-73, C-27: a challenge is 400', { tool_id: 'Gmail.GetEmails' }, 400, 'missing_requirements'],
    [
      'OTC-74, C-28: a missing secret is 400',
      { tool_id: 'SMS.Send', input: { to: '1', message: 'm' } },
      400,
      'missing_requirements',
    ],
    ['C-06, OTC-48: only tool_id is required', { tool_id: 'System.GetTimestamp' }, 200, 'success'],
  ]
  it.each(CALL_PATHS.flatMap((path) => outcomes.map((outcome) => [path, ...outcome] as const)))(
    '%s: %s',
    async (path, _what, request, status, member) => {
      const answer = await ask('POST', path, { body: { request: { ...request } } })
      expect(answer.status).toBe(status)
      expect(answer.json.result ?? answer.json).toHaveProperty(member)
    },
  )

  it('OTC-65, OTC-86: a message contains no developer text', async () => {
    const request = { ...RING, input: { doorbell_id: 'doorbell1' } }
    const { json } = await ask('POST', '/tools/call', { body: { request } })
    expect(json.result.error.message).not.toContain(json.result.error.developer_message)
    expect(JSON.stringify({ ...json.result.error, developer_message: undefined })).not.toContain(
      'does not exist',
    )
  })
})

describe('lone token (C-26)', () => {
  /** A tool that returns its token, which is visible nowhere else. */
  function needing(id: string, providers: readonly string[]) {
    const seen: string[] = []
    const tool: FixtureTool = {
      id,
      description: 'Needs tokens.',
      input: {},
      output: null,
      requirements: { authorization: providers.map((provider) => ({ id: provider })) },
      run: (_input, context) => {
        seen.push(...providers.map((provider) => `${provider} ${context.token(provider).reveal()}`))
        return null
      },
    }
    return { tool, seen }
  }
  const call = (toolId: string, token: string) => ({
    body: {
      execution_id: 'e',
      tool: { toolkit: toolId.split('.')[0] ?? '', name: toolId.split('.')[1] ?? '' },
      inputs: {},
      context: { authorization: { token }, user_id: 'u' },
    },
  })

  it('belongs to the single provider the tool requires', async () => {
    const { tool, seen } = needing('One.Provider@1.0.0', ['google'])
    const { ask } = await otcTestServer({ tools: [tool] })
    expect(await ask('POST', '/execute', call('One.Provider', 'tok'))).toMatchObject({ status: 200 })
    expect(seen).toEqual(['google tok'])
  })

  it('OTC-73: counts as absent when empty', async () => {
    const { ask } = await otcTestServer()
    const { status, json } = await ask('POST', '/execute', call('Gmail.GetEmails', ''))
    expect([status, json.missing_requirements.authorization.length]).toEqual([400, 1])
  })

  it('is refused when the tool requires no provider, or more than one', async () => {
    const { tool, seen } = needing('Two.Providers@1.0.0', ['one', 'two'])
    const { ask } = await otcTestServer({ tools: [tool] })
    const { status, json } = await ask('POST', '/execute', call('Two.Providers', 'tok'))
    expect([status, json.message]).toEqual([400, expect.stringContaining('context.authorization')])
    expect(seen).toEqual([])
    const others = await otcTestServer()
    expect(await others.ask('POST', '/execute', call('System.GetTimestamp', 'tok'))).toMatchObject({
      status: 400,
    })
  })

  it('is not checked for a tool hidden from the caller', async () => {
    const { ask } = await otcTestServer()
    expect(await ask('POST', '/execute', call('No.Such', 'tok'))).toMatchObject({
      headers: { 'collet-error-code': 'tool_not_found' },
    })
  })
})
