import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { ToolError } from '#core/errors'
import { ANONYMOUS } from '#core/principal'
import type { HttpRequest } from '#protocols/http-exchange'
import { ARCADE_SCHEMA_ID } from '#protocols/otc/wire'
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

describe('list', () => {
  it('C-07, C-08, C-11: each dialect gets its shape', async () => {
    const { ask } = otcTestServer({ toolkits: new Map([['Calculator', 'A toolkit for calculations.']]) })
    const keys = async (path: string, sent = {}) => Object.keys((await ask('GET', path, sent)).json)
    expect(await keys('/tools')).toEqual(['$schema', 'tools', 'items'])
    expect(await keys('/tools', { headers: HEADER })).toEqual(['items'])
    expect(await keys('/tools', { body: { $schema: 'otc://1.0' } })).toEqual(['$schema', 'tools'])
    expect(await keys('/tools?schema=otc://1.0')).toEqual(['$schema', 'tools'])
    expect((await ask('GET', '/uts/tools')).json).toHaveLength(6)
    const { json } = await ask('GET', '/tools', { body: { $schema: ARCADE_SCHEMA_ID } })
    expect(json.tools[0].toolkit).toEqual({
      name: 'Calculator',
      description: 'A toolkit for calculations.',
      version: '1.0.0',
    })
  })

  it('T-31: an operator can drop one of the two keys', async () => {
    const keys = async (omitListKey: 'tools' | 'items') =>
      Object.keys((await otcTestServer({ omitListKey }).ask('GET', '/tools')).json)
    expect(await keys('tools')).toEqual(['$schema', 'items'])
    expect(await keys('items')).toEqual(['$schema', 'tools'])
  })

  it('OTC-18: an unsupported version is 400 on both lists', async () => {
    const { ask } = otcTestServer()
    for (const path of ['/tools', '/uts/tools']) {
      expect(await ask('GET', path, { headers: { 'OXP-Version': '9.0' } })).toMatchObject({ status: 400 })
    }
  })

  it('is answered with 304 to whoever has it', async () => {
    const { ask } = otcTestServer()
    const { headers } = await ask('GET', '/tools')
    const etag = headers.etag ?? ''
    expect(etag).toMatch(/^"[\w-]{43}"$/)
    expect(headers).toMatchObject({
      'cache-control': 'private, no-cache',
      vary: expect.stringContaining('oxp-version'),
    })
    for (const tags of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const again = await ask('GET', '/tools', { headers: { 'If-None-Match': tags } })
      expect(again).toMatchObject({ status: 304, text: '', headers: { etag, vary: headers.vary } })
    }
    for (const tags of ['"other"', etag.slice(1, -1)]) {
      expect(await ask('GET', '/tools', { headers: { 'If-None-Match': tags } })).toMatchObject({
        status: 200,
      })
    }
    const other = await ask('GET', '/tools', { headers: { ...HEADER, 'If-None-Match': etag } })
    expect(other.status).toBe(200)
  })

  it('is compressed for whoever asks, under its own tag', async () => {
    const { routes, ask } = otcTestServer()
    const plain = await ask('GET', '/tools')
    const route = routes.find(({ method, path }) => method === 'GET' && path === '/tools')
    const request = (headers: Record<string, string>): HttpRequest => ({
      method: 'GET',
      path: '/tools',
      query: new URLSearchParams(),
      headers,
      params: {},
      body: undefined,
      principal: ANONYMOUS,
      traceId: 't',
    })
    const reply = await route?.handle(request({ 'accept-encoding': 'br, gzip;q=0.5' }))
    expect(reply?.headers).toMatchObject({ 'content-encoding': 'gzip' })
    expect(reply?.headers.etag).not.toBe(plain.headers.etag)
    expect(gunzipSync(Buffer.from(reply?.body ?? '')).toString()).toBe(plain.text)
    const tag = reply?.headers.etag ?? ''
    expect(await route?.handle(request({ 'accept-encoding': 'gzip', 'if-none-match': tag }))).toMatchObject({
      status: 304,
    })
    for (const coding of ['gzip;q=0', 'identity', 'gzip; q=0.000']) {
      const identity = await route?.handle(request({ 'accept-encoding': coding }))
      expect(identity?.headers).not.toHaveProperty('content-encoding')
    }
  })

  it('is prepared once: 304 takes no longer with 10 000 tools', async () => {
    const tools = Array.from(
      { length: 10_000 },
      (_unused, index): FixtureTool => ({
        id: `Big.Tool${index}@1.0.0`,
        description: 'One of many.',
        input: { type: 'object' },
        output: {},
        run: () => null,
      }),
    )
    const { ask } = otcTestServer({ tools })
    const { headers } = await ask('GET', '/tools')
    const started = performance.now()
    const rounds = 20
    for (let round = 0; round < rounds; round += 1) {
      await ask('GET', '/tools', { headers: { 'If-None-Match': headers.etag ?? '' } })
    }
    expect((performance.now() - started) / rounds).toBeLessThan(2)
  })
})

describe('own calls (rule 10)', () => {
  it('shows state and outcome to the principal that called, and to nobody else', async () => {
    const { ask } = otcTestServer({ apiKeys: true })
    const alice = { 'OXP-API-Key': 'k-alice' }
    await ask('POST', '/tools/call', { headers: alice, body: { request: { ...ADD, call_id: 'a/b c' } } })
    const { status, json, headers } = await ask('GET', '/calls/a%2Fb%20c', { headers: alice })
    expect(status).toBe(200)
    expect(headers['cache-control']).toBe('no-store')
    expect(json).toEqual({
      $schema: 'urn:oxp:1.0',
      call_id: 'a/b c',
      record: 'record-of-a/b c',
      tool_id: 'Calculator.Add@1.0.0',
      state: 'succeeded',
      attempt: 1,
      created_at: '1970-01-01T00:00:00.000Z',
      finished_at: '1970-01-01T00:00:01.000Z',
      expired: false,
      result: { call_id: 'a/b c', duration: 1.5, success: true, value: 3 },
    })
    const bob = await ask('GET', '/calls/a%2Fb%20c', { headers: { 'OXP-API-Key': 'k-bob' } })
    const unknown = await ask('GET', '/calls/none', { headers: { 'OXP-API-Key': 'k-bob' } })
    expect([bob.status, unknown.status]).toEqual([404, 404])
    expect(bob.text).toBe(unknown.text)
  })

  it('asks a running call to stop with 202, and tells how an ended one ended', async () => {
    const { ask } = otcTestServer()
    const slow = { ...RING, call_id: 'slow', input: { doorbell_id: 'doorbell-slow' } }
    const running = ask('POST', '/tools/call', { body: { request: slow } })
    const asked = await ask('DELETE', '/calls/slow')
    expect(asked).toMatchObject({ status: 202, json: { state: 'running' } })
    expect(asked.json).not.toHaveProperty('result')
    await running
    expect(await ask('DELETE', '/calls/slow')).toMatchObject({ status: 200, json: { state: 'failed' } })
    expect(await ask('DELETE', '/calls/none')).toMatchObject({
      status: 404,
      json: { message: expect.any(String) },
    })
  })
})

describe('challenges', () => {
  async function challenged(tool?: FixtureTool) {
    const server = otcTestServer(tool === undefined ? {} : { tools: [tool] })
    const toolId = tool?.id ?? 'Gmail.GetEmails'
    const { json } = await server.ask('POST', '/tools/call', { body: { request: { tool_id: toolId } } })
    return { ...server, challenge: json.missing_requirements.authorization[0] }
  }

  it('OTC-78: check_url answers 200 with the status and nothing else, to anybody', async () => {
    const { ask, gateway, challenge } = await challenged()
    const path = new URL(challenge.check_url).pathname
    expect(await ask('GET', path)).toMatchObject({ status: 200, text: '{"status":"pending"}' })
    for (const status of ['completed', 'failed'] as const) {
      const record = gateway.challenges.get(challenge.id)
      if (record !== undefined) gateway.challenges.set(challenge.id, { ...record, status })
      expect((await ask('GET', path)).json).toEqual({ status })
    }
    expect(await ask('GET', '/challenges/none/status')).toMatchObject({
      status: 404,
      json: { message: expect.any(String) },
    })
  })

  it('OTC-78: a challenge nobody met in time has failed', async () => {
    const { ask, gateway, challenge } = await challenged()
    const record = gateway.challenges.get(challenge.id)
    if (record !== undefined) gateway.challenges.set(challenge.id, { ...record, expiresAtMs: 1 })
    expect((await ask('GET', `/challenges/${challenge.id}/status`)).json).toEqual({ status: 'failed' })
  })

  it('T-16: url shows which provider is meant and how to pass its token', async () => {
    const { ask, challenge } = await challenged()
    const { status, headers, text } = await ask('GET', new URL(challenge.url).pathname)
    expect(status).toBe(200)
    expect(headers['content-type']).toBe('text/html; charset=utf-8')
    expect(text).toContain('no sign-in service for google')
    expect(text).toContain('gmail.readonly')
    expect(text).toContain('&quot;authorization&quot;')
    expect(await ask('GET', '/challenges/none')).toMatchObject({ status: 404 })
  })

  it('the page runs nothing and escapes everything', async () => {
    const hostile = `<script>alert("1")</script>'&`
    const { ask, challenge } = await challenged({
      id: 'Evil.Tool@1.0.0',
      description: 'd',
      input: {},
      output: null,
      requirements: { authorization: [{ id: hostile, oauth2: { scopes: [hostile] } }] },
      run: () => null,
    })
    const { headers, text } = await ask('GET', `/challenges/${challenge.id}`)
    expect(text).not.toContain('<script')
    expect(headers['content-security-policy']).toMatch(
      /^default-src 'none'; style-src 'sha256-[\w+/]{43}='; /,
    )
    expect(headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' })
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
