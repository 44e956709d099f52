import { describe, expect, it } from 'vitest'
import { ToolError } from '#core/errors'
import { ARCADE_SCHEMA_ID, CALL_PATHS } from '#protocols/otc/wire'
import type { FixtureTool } from './otc-fixtures.ts'
import { otcTestServer } from './otc-test-server.ts'

const ADD = { tool_id: 'Calculator.Add@1.0.0', input: { a: 1, b: 2 } }
const RING = { tool_id: 'Doorbell.Ring@0.1.0', input: { doorbell_id: 'doorbell42' } }
const HEADER = { 'OXP-Version': '1.0' }

describe('health', () => {
  it('OTC-01, OTC-02, OTC-04: 200 without credentials, for uts in its own spelling', async () => {
    const { ask } = otcTestServer({ apiKeys: true })
    expect(await ask('GET', '/health')).toMatchObject({ status: 200, json: { status: 'ok' } })
    expect(await ask('GET', '/health', { headers: { 'OXP-API-Key': 'wrong' } })).toMatchObject({
      status: 200,
    })
    expect(await ask('GET', '/uts/health')).toMatchObject({ status: 200, json: { status: 'OK' } })
    expect(await ask('GET', '/uts/info')).toMatchObject({ json: { version: '0.0.0-test' } })
  })

  it('OTC-03, OTC-68, C-24: 503 while calls are not taken, and a call is 400 with a time to retry', async () => {
    const { ask } = otcTestServer({ ready: false })
    expect(await ask('GET', '/health')).toMatchObject({ status: 503, json: { message: expect.any(String) } })
    expect(await ask('POST', '/tools/call', { body: { request: ADD } })).toMatchObject({
      status: 400,
      headers: { 'retry-after': '1', 'x-should-retry': 'true', 'collet-error-code': 'not_ready' },
      json: { $schema: 'urn:oxp:1.0', message: expect.any(String) },
    })
    expect(await ask('GET', '/tools')).toMatchObject({ status: 200 })
  })
})

describe('calls', () => {
  it('C-03, §3.1: the March drafts answer with execution_id and output', async () => {
    const { ask } = otcTestServer()
    const execute = await ask('POST', '/execute', { body: { request: { ...ADD, execution_id: 'ex-1' } } })
    expect(execute.json).toEqual({
      $schema: 'urn:oxp:1.0',
      execution_id: 'ex-1',
      duration: 1.5,
      success: true,
      output: { value: 3 },
      response: { execution_id: 'ex-1', duration: 1.5, success: true, output: { value: 3 } },
    })
  })

  it('R0, T-25: proto tells when the call ended, also on a replay', async () => {
    const { ask } = otcTestServer({ clock: { nowMs: () => 5_000, monotonicMs: () => 0 } })
    const body = {
      run_id: 'run-1',
      execution_id: 'ex-1',
      created_at: '2025-03-04T00:00:00Z',
      tool: { name: 'Add', toolkit: 'Calculator', version: '1.0.0' },
      inputs: { a: 1, b: 2 },
    }
    const first = await ask('POST', '/tools/execute', { body })
    expect(first.json).toEqual({
      $schema: 'urn:oxp:1.0',
      execution_id: 'ex-1',
      duration: 1.5,
      finished_at: '1970-01-01T00:00:05.000Z',
      success: true,
      output: { value: 3 },
    })
    const again = await ask('POST', '/tools/execute', { body })
    expect(again.json).toMatchObject({ finished_at: '1970-01-01T00:00:01.000Z', output: { value: 3 } })
  })

  it('C-08: uts answers flat', async () => {
    const { ask } = otcTestServer()
    const { json } = await ask('POST', '/uts/tools/call', { body: { request: { ...ADD, call_id: 'c' } } })
    expect(json).toEqual({ success: true, call_id: 'c', value: 3 })
  })

  it('C-19: the RFC leaves output out when there is none', async () => {
    const { ask } = otcTestServer()
    const { json } = await ask('POST', '/call', { body: { $schema: ARCADE_SCHEMA_ID, request: RING } })
    expect(json).not.toHaveProperty('output')
    expect(json.result).toHaveProperty('value', null)
  })

  it('T-25: a replay is rendered in the dialect of the new request', async () => {
    const { ask } = otcTestServer()
    await ask('POST', '/tools/call', { body: { request: { ...ADD, call_id: 'c' } } })
    const again = await ask('POST', '/execute', { body: { request: { ...ADD, execution_id: 'c' } } })
    expect(again.json).toMatchObject({ execution_id: 'c', output: { value: 3 } })
  })

  it('OTC-84: the documented failure arrives whole', async () => {
    const { ask } = otcTestServer()
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

  it('T-20: an operator can hide developer messages', async () => {
    const { ask } = otcTestServer({ hideDeveloperMessages: true })
    const body = { request: { ...RING, input: { doorbell_id: 'doorbell1' } } }
    expect((await ask('POST', '/tools/call', { body })).text).not.toContain('developer_message')
  })

  it('T-23: an operator can refuse unknown members', async () => {
    const { ask } = otcTestServer({ strictRequests: true })
    expect(await ask('POST', '/tools/call', { body: { request: { ...ADD, x: 1 } } })).toMatchObject({
      status: 400,
    })
  })

  it('OTC-46, rule 4: key and trace id reach the gateway', async () => {
    const { ask, gateway } = otcTestServer()
    await ask('POST', '/tools/call', { headers: { 'Idempotency-Key': 'k' }, body: { request: ADD } })
    expect(gateway.requests.at(-1)).toMatchObject({ key: 'k', traceId: '4bf92f3577b34da6a3ce929d0e0e4736' })
  })

  it('OTC-66: no body, and a body that is no object, are 400', async () => {
    const { ask } = otcTestServer()
    expect(await ask('POST', '/tools/call')).toMatchObject({ status: 400 })
    expect(await ask('POST', '/tools/call', { body: [] })).toMatchObject({ status: 400 })
  })
})

describe('every path', () => {
  const { ask } = otcTestServer()
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

  it('OTC-65, OTC-86: a message holds no developer text', async () => {
    const request = { ...RING, input: { doorbell_id: 'doorbell1' } }
    const { json } = await ask('POST', '/tools/call', { body: { request } })
    expect(json.result.error.message).not.toContain(json.result.error.developer_message)
    expect(JSON.stringify({ ...json.result.error, developer_message: undefined })).not.toContain(
      'does not exist',
    )
  })
})

describe('Collet-Call-Id (rule 6)', () => {
  const { ask } = otcTestServer()
  const header = async (body: object, path = '/tools/call') =>
    (await ask('POST', path, { body: { ...body } })).headers['collet-call-id']

  it('names the call on success, on a failure and on every refusal of a call', async () => {
    expect(await header({ request: { ...ADD, call_id: 'ok' } })).toBe('ok')
    expect(await header({ request: { ...ADD, call_id: 'bad', input: {} } })).toBe('bad')
    expect(await header({ request: { ...ADD, call_id: 'ok', input: { a: 9, b: 9 } } })).toBe('ok')
    expect(await header({ request: { tool_id: 'No.Such', call_id: 'none' } })).toBe('none')
    expect(
      await header({ request: { ...RING, call_id: 'crash', input: { doorbell_id: 'doorbell-crash' } } }),
    ).toBe('crash')
  })

  it('is known from a request that could not be decoded, if its id could', async () => {
    expect(await header({ request: { call_id: 'early' } })).toBe('early')
    expect(await header({ tool_id: 5, call_id: 'bare' })).toBe('bare')
    expect(await header({ request: { execution_id: 'ex', tool_id: '' } }, '/execute')).toBe('ex')
    expect(await header({ $schema: 'urn:oxp:9.0', request: { ...ADD, call_id: 'old' } })).toBe('old')
    expect(await header({ request: { ...ADD, call_id: null } })).toBeUndefined()
    expect(await header({ request: { ...ADD, call_id: 'a\r\nb' } })).toBeUndefined()
  })

  it('is the generated id when the caller sent none', async () => {
    const { json, headers } = await ask('POST', '/tools/call', { body: { request: ADD } })
    expect(headers['collet-call-id']).toBe(json.result.call_id)
  })

  it('is percent-encoded where it is not visible ASCII', async () => {
    expect(await header({ request: { ...ADD, call_id: 'grüße 100%' } })).toBe('gr%C3%BC%C3%9Fe%20100%25')
  })
})

describe('$schema of refusals (C-18, T-08)', () => {
  const { ask } = otcTestServer()
  const schema = async (path: string, body: object, headers: Record<string, string> = {}) =>
    (await ask('POST', path, { headers, body: { ...body } })).json.$schema

  it('repeats what the request said, else the default, and is absent in the header dialect', async () => {
    expect(await schema('/tools/call', { $schema: 'otc://1.0', request: {} })).toBe('otc://1.0')
    expect(await schema('/tools/call', { $schema: 'urn:oxp:9.0', request: ADD })).toBe('urn:oxp:1.0')
    expect(await schema('/tools/call', { request: {} })).toBe('urn:oxp:1.0')
    expect(await schema('/tools/call', {})).toBe('urn:oxp:1.0')
    expect(await schema('/tools/call', {}, HEADER)).toBeUndefined()
    expect(await schema('/tools/call', { tool_id: 'bad' })).toBeUndefined()
    expect(await schema('/tools/call', { tool_id: 'No.Such' })).toBeUndefined()
    expect(await schema('/tools/call', { $schema: 'otc://1.0', tool_id: 'bad' })).toBeUndefined()
    expect(await schema('/execute', { tool_id: 'bad' })).toBe('urn:oxp:1.0')
    expect(await schema('/uts/tools/call', { tool_id: 'bad' })).toBe('urn:oxp:1.0')
    expect(await schema('/uts/tools/call', { $schema: 'otc://1.0', request: { tool_id: 'No.Such' } })).toBe(
      'otc://1.0',
    )
  })

  it('OTC-21, OTC-102, C-21: a 401 has a body, a challenge and the version', async () => {
    const { ask } = otcTestServer({ apiKeys: true })
    const body = { request: ADD }
    const answer = await ask('POST', '/tools/call', { body })
    expect(answer).toMatchObject({
      status: 401,
      headers: { 'www-authenticate': 'Bearer', 'oxp-version': '1.0' },
      json: { $schema: 'urn:oxp:1.0', message: expect.any(String) },
    })
    expect((await ask('GET', '/tools', { headers: HEADER })).json).not.toHaveProperty('$schema')
  })
})

describe('lone token (C-26)', () => {
  const twoProviders: FixtureTool = {
    id: 'Two.Providers@1.0.0',
    description: 'Needs two.',
    input: {},
    output: null,
    requirements: { authorization: [{ id: 'one' }, { id: 'two' }] },
    run: () => null,
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
    const { ask, gateway } = otcTestServer()
    expect(await ask('POST', '/execute', call('Gmail.GetEmails', 'tok'))).toMatchObject({ status: 200 })
    expect(gateway.requests.at(-1)?.tokens.get('google')?.reveal()).toBe('tok')
  })

  it('OTC-73: is no token when empty', async () => {
    const { ask } = otcTestServer()
    const { status, json } = await ask('POST', '/execute', call('Gmail.GetEmails', ''))
    expect([status, json.missing_requirements.authorization.length]).toEqual([400, 1])
  })

  it('is refused when no provider, or more than one, could be meant', async () => {
    const { ask, gateway } = otcTestServer({ tools: [twoProviders] })
    const { status, json } = await ask('POST', '/execute', call('Two.Providers', 'tok'))
    expect([status, json.message]).toEqual([400, expect.stringContaining('context.authorization')])
    expect(gateway.requests).toEqual([])
    const others = otcTestServer()
    expect(await others.ask('POST', '/execute', call('System.GetTimestamp', 'tok'))).toMatchObject({
      status: 400,
    })
  })

  it('is not looked at for a tool the caller cannot see', async () => {
    const { ask } = otcTestServer()
    expect(await ask('POST', '/execute', call('No.Such', 'tok'))).toMatchObject({
      headers: { 'collet-error-code': 'tool_not_found' },
    })
  })
})

describe('refuse', () => {
  it('OTC-64, T-26: what failed before the route keeps the shape of this protocol', () => {
    const { routes } = otcTestServer()
    const request = {
      method: 'POST',
      path: '/tools/call',
      query: new URLSearchParams(),
      headers: {},
      params: {},
      traceId: 't',
    }
    for (const route of routes) {
      const reply = route.refuse(request, new ToolError('Too large.'), 413)
      expect(reply).toMatchObject({
        status: 413,
        headers: { 'oxp-version': '1.0', 'content-type': 'application/json' },
      })
      expect(JSON.parse(String(reply.body))).toEqual({ $schema: 'urn:oxp:1.0', message: 'Too large.' })
    }
  })
})
