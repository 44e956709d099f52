import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ToolError } from '#kernel/base/errors'
import { ARCADE_SCHEMA_ID, CALL_PATHS } from '#protocols/otc/wire'
import { type OtcTestServer, otcTestServer, stopOtcServers } from './otc-test-server.ts'

const ADD = { tool_id: 'Calculator.Add@1.0.0', input: { a: 1, b: 2 } }
const RING = { tool_id: 'Doorbell.Ring@0.1.0', input: { doorbell_id: 'doorbell42' } }
const HEADER = { 'OXP-Version': '1.0' }

afterAll(stopOtcServers)

/** A generated id, for a call without a valid one. */
const MADE = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

describe('Collet-Call-Id (rule 6)', () => {
  let server: OtcTestServer
  beforeAll(async () => {
    server = await otcTestServer()
  })
  const ask: OtcTestServer['ask'] = (...request) => server.ask(...request)
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

  it('is the id of an undecodable request, if the id is readable', async () => {
    expect(await header({ request: { call_id: 'early' } })).toBe('early')
    expect(await header({ tool_id: 5, call_id: 'bare' })).toBe('bare')
    expect(await header({ request: { execution_id: 'ex', tool_id: '' } }, '/execute')).toBe('ex')
    expect(await header({ $schema: 'urn:oxp:9.0', request: { ...ADD, call_id: 'old' } })).toBe('old')
    expect(await header({ request: { ...ADD, call_id: null } })).toMatch(MADE)
    expect(await header({ request: { ...ADD, call_id: 'a\r\nb' } })).toMatch(MADE)
  })

  it('is the generated id when the caller sent none', async () => {
    const { json, headers } = await ask('POST', '/tools/call', { body: { request: ADD } })
    expect(headers['collet-call-id']).toBe(json.result.call_id)
  })

  it('is percent-encoded where it is not visible ASCII', async () => {
    expect(await header({ request: { ...ADD, call_id: 'grüße 100%' } })).toBe('gr%C3%BC%C3%9Fe%20100%25')
  })
})

describe('$schema of refusals (C-18, OTC/T-08)', () => {
  let server: OtcTestServer
  beforeAll(async () => {
    server = await otcTestServer()
  })
  const ask: OtcTestServer['ask'] = (...request) => server.ask(...request)
  const schema = async (path: string, body: object, headers: Record<string, string> = {}) =>
    (await ask('POST', path, { headers, body: { ...body } })).json.$schema

  it('repeats the $schema of the request, else the default, and is absent in the header dialect', async () => {
    expect(await schema('/tools/call', { $schema: 'otc://1.0', request: {} })).toBe('otc://1.0')
    expect(await schema('/tools/call', { $schema: 'urn:oxp:9.0', request: ADD })).toBe('urn:oxp:1.0')
    expect(await schema('/tools/call', { request: {} })).toBe('otc://1.0')
    expect(await schema('/tools/call', { request: {} }, HEADER)).toBe('urn:oxp:1.0')
    expect(await schema('/call', { request: {} })).toBe(ARCADE_SCHEMA_ID)
    expect(await schema('/tools/call', {})).toBe('otc://1.0')
    expect(await schema('/tools/call', {}, HEADER)).toBeUndefined()
    expect(await schema('/tools/call', { tool_id: 'bad' }, HEADER)).toBeUndefined()
    expect(await schema('/tools/call', { tool_id: 'No.Such' }, HEADER)).toBeUndefined()
    expect(await schema('/tools/call', { tool_id: 'bad' })).toBe('otc://1.0')
    expect(await schema('/tools/call', { $schema: 'urn:oxp:1.0', tool_id: 'bad' })).toBe('urn:oxp:1.0')
    expect(await schema('/tools/call', { tool_id: 'No.Such' })).toBe('otc://1.0')
    expect(await schema('/tools/call', { $schema: 'urn:oxp:1.0', tool_id: 'No.Such' }, HEADER)).toBe(
      'urn:oxp:1.0',
    )
    expect(await schema('/execute', { tool_id: 'bad' })).toBe('otc://1.0')
    expect(await schema('/uts/tools/call', { tool_id: 'bad' })).toBe('otc://1.0')
    expect(await schema('/uts/tools/call', { $schema: 'otc://1.0', request: { tool_id: 'No.Such' } })).toBe(
      'otc://1.0',
    )
  })

  const SUPPORTED = ['otc://1.0', 'urn:oxp:1.0', ARCADE_SCHEMA_ID]

  it.each([
    ['otc://2.0', 'otc://1.0'],
    ['otc://1.1', 'otc://1.0'],
    ['urn:oxp:9.0', 'urn:oxp:1.0'],
    [ARCADE_SCHEMA_ID.replace('1.0', '2.0'), ARCADE_SCHEMA_ID],
    ['https://github.com/OpenToolCalling/Specification/tree/main/spec/http/2.0/openapi.json', 'otc://1.0'],
    ['https://example.com/spec', 'otc://1.0'],
  ])('OTC-18, T-08: %s is refused as %s, with the versions that are served', async (asked, answered) => {
    const answers = [
      ...CALL_PATHS.map((path) => ask('POST', path, { body: { $schema: asked, request: ADD } })),
      ask('GET', '/tools', { body: { $schema: asked } }),
      ask('GET', `/tools?schema=${encodeURIComponent(asked)}`),
      ask('GET', `/tools?$schema=${encodeURIComponent(asked)}`),
    ]
    for (const answer of await Promise.all(answers))
      expect(answer).toMatchObject({ status: 400, json: { $schema: answered, supported: SUPPORTED } })
  })

  it('OTC-22: an unsupported OXP-Version is refused with the versions of that header', async () => {
    const answer = await ask('GET', '/tools', { headers: { 'OXP-Version': '2.0' } })
    expect(answer).toMatchObject({ status: 400, json: { supported: ['1.0'] } })
  })

  it('OTC-21, OTC-102, C-21: a 401 has a body, a challenge and the version', async () => {
    const { ask } = await otcTestServer({ apiKeys: true })
    const body = { request: ADD }
    const answer = await ask('POST', '/tools/call', { body })
    expect(answer).toMatchObject({
      status: 401,
      headers: { 'www-authenticate': 'Bearer', 'oxp-version': '1.0' },
      json: { $schema: 'otc://1.0', message: expect.any(String) },
    })
    expect((await ask('GET', '/tools', { headers: HEADER })).json).not.toHaveProperty('$schema')
  })
})

describe('refuse', () => {
  it('OTC-64, OTC/T-26: a failure before the route has the shape of this protocol', async () => {
    const { routes } = await otcTestServer()
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
      expect(JSON.parse(String(reply.body))).toEqual({ $schema: 'otc://1.0', message: 'Too large.' })
    }
  })
})
