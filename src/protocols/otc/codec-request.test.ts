import { describe, expect, it } from 'vitest'
import { ToolError } from '#kernel/base/errors'
import type { JsonValue } from '#kernel/base/json'
import { type DecodedCall, decodeCall } from './codec-request.ts'
import { ARCADE_SCHEMA_ID, type CallPath, type Dialect } from './wire.ts'

const OTC_URL = 'https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json'
const OXP_URL =
  'https://github.com/OpenExecProtocol/Specification/blob/main/specification/http/1.0/openapi.json'
const ADD = { tool_id: 'Calculator.Add@1.0.0' }

interface Sent {
  readonly path?: CallPath
  readonly headers?: Record<string, string>
  readonly strict?: boolean
}

function decode(
  body: JsonValue | undefined,
  { path = '/tools/call', headers = {}, strict = false }: Sent = {},
) {
  return decodeCall(
    path,
    { body, headers, traceId: 'trace-of-http' },
    { strictRequests: strict, defaultSchema: 'otc://1.0' },
  )
}

function refusal(body: JsonValue | undefined, sent: Sent = {}): ToolError {
  try {
    decode(body, sent)
  } catch (error) {
    if (error instanceof ToolError) return error
    throw error
  }
  throw new Error('was accepted')
}

describe('dialect (§3.1)', () => {
  const wrapped = { request: ADD }
  const proto = { tool: { name: 'Add', toolkit: 'Calculator', version: '1.0.0' } }
  const rows: readonly [CallPath, JsonValue, Dialect, string][] = [
    ['/uts/tools/call', wrapped, 'uts', 'otc://1.0'],
    ['/uts/tools/call', ADD, 'uts', 'otc://1.0'],
    ['/uts/tools/call', { $schema: 'otc://1.0', ...wrapped }, 'uts', 'otc://1.0'],
    ['/execute', proto, 'proto', 'otc://1.0'],
    ['/tools/execute', proto, 'proto', 'otc://1.0'],
    ['/tools/execute', { ...proto, ...wrapped }, 'proto', 'otc://1.0'],
    ['/execute', wrapped, 'execute', 'otc://1.0'],
    ['/tools/execute', { $schema: ARCADE_SCHEMA_ID, ...wrapped }, 'execute', ARCADE_SCHEMA_ID],
    ['/tools/call', ADD, 'oxp-header', 'otc://1.0'],
    ['/call', ADD, 'oxp-header', 'otc://1.0'],
    ['/call', { $schema: ARCADE_SCHEMA_ID, ...ADD }, 'oxp-header', ARCADE_SCHEMA_ID],
    ['/call', wrapped, 'rfc-call', ARCADE_SCHEMA_ID],
    ['/call', { $schema: ARCADE_SCHEMA_ID, ...wrapped }, 'rfc-call', ARCADE_SCHEMA_ID],
    ['/call', { $schema: 'otc://1.0', ...wrapped }, 'otc-1.0', 'otc://1.0'],
    ['/call', { $schema: 'urn:oxp:1.0', ...wrapped }, 'oxp-1.0', 'urn:oxp:1.0'],
    ['/tools/call', wrapped, 'oxp-1.0', 'otc://1.0'],
    ['/tools/call', { $schema: OTC_URL, ...wrapped }, 'otc-1.0', OTC_URL],
    ['/tools/call', { $schema: OXP_URL, ...wrapped }, 'oxp-1.0', OXP_URL],
    ['/tools/call', { $schema: ARCADE_SCHEMA_ID, ...wrapped }, 'otc-1.0', ARCADE_SCHEMA_ID],
  ]

  it.each(rows)(
    'OTC/T-24: %s with %j is decoded as without null in every optional member',
    (path, body, dialect) => {
      const nulls = { call_id: null, trace_id: null, input: null, context: null }
      const own: Readonly<Record<string, object>> = {
        proto: { $schema: null, run_id: null, execution_id: null, created_at: null },
        execute: { execution_id: null },
        uts: { user_id: null, execution_id: null },
      }
      const members = { ...nulls, ...own[dialect] }
      const sent = JSON.parse(JSON.stringify(body))
      const nested = {
        ...members,
        context: { authorization: null, secrets: null, user_id: null, user_info: null },
      }
      for (const given of [members, nested]) {
        const inside = sent.request === undefined ? {} : { request: { ...given, ...sent.request } }
        const outside = sent.request === undefined || dialect === 'proto' ? given : {}
        const withNulls = { $schema: null, ...outside, ...sent, ...inside }
        expect(decode(withNulls, { path })).toEqual(decode(body, { path }))
        const strict = dialect !== 'proto'
        expect(decode(withNulls, { path, strict })).toEqual(decode(body, { path, strict }))
      }
    },
  )

  it('OTC/T-24: a version of null in the draft of March 2025, and a lone token with an id of null, are absent', () => {
    const tool = { name: 'Add', toolkit: 'Calculator', version: null }
    expect(decode({ tool }, { path: '/execute' }).call.tool.version).toBe('latest')
    const context = { authorization: { id: null, token: 't' } }
    expect(decode({ request: { ...ADD, context } }).loneToken?.reveal()).toBe('t')
  })

  it.each([
    [{ authorization: 't' }, '"context.authorization" must be an array of { "id", "token" } objects'],
    [{ authorization: [null] }, 'Each item of "context.authorization" must be an object'],
    [{ secrets: 5 }, '"context.secrets" must be an array of { "id", "value" } objects'],
    [{ user_id: 5 }, '"context.user_id" must be a string'],
  ])('OTC/T-24: a wrong type is reported precisely: %j', (context, message) => {
    expect(refusal({ request: { ...ADD, context } }).message).toContain(message)
  })

  it.each(rows)('OTC/C-01, OTC/C-02: %s with %j is %s', (path, body, dialect, schemaId) => {
    expect(decode(body, { path })).toMatchObject({
      dialect,
      schemaId,
      call: { tool: { base: 'Calculator.Add', version: '1.0.0' } },
    })
  })

  it.each<[CallPath, JsonValue | undefined]>([
    ['/tools/call', undefined],
    ['/tools/call', null],
    ['/tools/call', []],
    ['/tools/call', 'text'],
    ['/tools/call', {}],
    ['/tools/call', { request: null }],
    ['/tools/call', { request: [] }],
    ['/tools/call', { request: ADD, ...ADD }],
    ['/tools/call', { tool: { name: 'Add', toolkit: 'Calculator' } }],
    ['/execute', ADD],
    ['/execute', { tool: 'Calculator.Add' }],
    ['/execute', { request: ADD, ...ADD }],
    ['/uts/tools/call', {}],
  ])('OTC-66, OTC/C-02: %s with %j is refused', (path, body) => {
    expect(refusal(body, { path })).toMatchObject({ code: 'request_invalid' })
  })
})

describe('version', () => {
  it.each(['1.0', '1.0.0'])('OTC-20, OTC-22: the header may be %s', (version) => {
    expect(decode(ADD, { headers: { 'oxp-version': version } })).toMatchObject({ dialect: 'oxp-header' })
  })

  it.each(['7.0', '1', '1.1', '', '1.0, 1.0'])('OTC-18, OTC/T-08: header %j is refused', (version) => {
    expect(refusal(ADD, { headers: { 'oxp-version': version } })).toMatchObject({
      code: 'version_unsupported',
    })
  })

  it('OTC/C-17: header and $schema that disagree are refused', () => {
    const body = { $schema: 'urn:oxp:1.0', request: ADD }
    expect(decode(body, { headers: { 'oxp-version': '1.0' } }).dialect).toBe('oxp-1.0')
    expect(refusal(body, { headers: { 'oxp-version': '2.0' } })).toMatchObject({
      code: 'version_unsupported',
    })
  })

  it.each(['urn:oxp:2.0', 'urn:oxp:1.1', 'otc://1.1', `${ARCADE_SCHEMA_ID}?x`, 'https://example.com/1.0'])(
    'OTC-18, OTC-69, OTC/T-08: $schema %s is unsupported and the supported ids are named',
    (schema) => {
      expect(refusal({ $schema: schema, request: ADD })).toMatchObject({
        code: 'version_unsupported',
        developerMessage: expect.stringContaining('urn:oxp:1.0'),
      })
    },
  )

  it.each(['one point zero', '', 1, {}])('OTC-16: $schema %j is not a URI', (schema) => {
    expect(refusal({ $schema: schema, request: ADD })).toMatchObject({ code: 'request_invalid' })
  })

  it('OTC/T-12: the version is checked before the envelope', () => {
    expect(refusal({ $schema: 'urn:oxp:9.0' })).toMatchObject({ code: 'version_unsupported' })
  })
})

describe('tool', () => {
  it.each([
    ['Calculator.Add@1.0.0', '1.0.0'],
    ['Calculator.Add@1', '1.0.0'],
    ['Calculator.Add', 'latest'],
  ])('OTC-43, OTC-59…61: %s asks for %s', (toolId, version) => {
    expect(decode({ request: { tool_id: toolId } }).call.tool).toEqual({ base: 'Calculator.Add', version })
  })

  it.each(['Calculator.Add@latest', 'Calculator.Add@1.1', 'Calculator.Add@1.0.0-beta', '', 'A.B@v1'])(
    'OTC-43, OTC-70, OTC/T-09, OTC/C-15: %j is not a tool id',
    (toolId) => {
      expect(refusal({ request: { tool_id: toolId } })).toMatchObject({ code: 'request_invalid' })
    },
  )

  it.each<CallPath>(['/execute', '/tools/execute'])('OTC/C-15: %s accepts @latest', (path) => {
    const latest = { base: 'Calculator.Add', version: 'latest' }
    expect(decode({ request: { tool_id: 'Calculator.Add@latest' } }, { path }).call.tool).toEqual(latest)
    const tool = { name: 'Add', toolkit: 'Calculator', version: 'latest' }
    expect(decode({ tool }, { path }).call.tool).toEqual(latest)
    expect(refusal({ request: { tool_id: 'Calculator.Add@1@latest' } }, { path }).code).toBe(
      'request_invalid',
    )
  })

  it.each([undefined, null, 5, {}])('OTC-42: tool_id %j is refused', (toolId) => {
    const request = toolId === undefined ? { input: {} } : { tool_id: toolId }
    expect(refusal({ request })).toMatchObject({ code: 'request_invalid' })
  })

  it('shortens a long tool id in its message', () => {
    expect(refusal({ request: { tool_id: 'x'.repeat(10_000) } }).message.length).toBeLessThan(250)
  })

  it('R0: a tool object has a toolkit, a name and an optional version', () => {
    const version = (tool: JsonValue) => decode({ tool }, { path: '/execute' }).call.tool.version
    expect(version({ name: 'Add', toolkit: 'Calculator' })).toBe('latest')
    expect(version({ name: 'Add', toolkit: 'Calculator', version: '1' })).toBe('1.0.0')
    for (const tool of [{}, { name: 'Add' }, { toolkit: 'C' }, { name: 'Add', toolkit: 'C', version: 1 }]) {
      expect(refusal({ tool }, { path: '/execute' })).toMatchObject({ code: 'request_invalid' })
    }
  })
})

describe('members', () => {
  it('OTC-47, OTC/C-05: input and inputs are one member', () => {
    const input = (request: object) => decode({ request: { ...ADD, ...request } }).call.input
    expect(input({ input: { a: 1 } })).toEqual({ a: 1 })
    expect(input({ inputs: { a: 1 } })).toEqual({ a: 1 })
    expect(input({ input: { a: 1, b: 2 }, inputs: { b: 2, a: 1 } })).toEqual({ a: 1, b: 2 })
    expect(input({})).toBeUndefined()
    expect(refusal({ request: { ...ADD, input: { a: 1 }, inputs: { a: 2 } } })).toMatchObject({
      code: 'request_invalid',
    })
  })

  it.each([[1, 2], 'text', 5, false])('OTC/T-13: input %j is left to the validation of the tool', (input) => {
    expect(decode({ request: { ...ADD, input } }).call.input).toEqual(input)
  })

  it('OTC/C-04: call_id and execution_id are one id', () => {
    const key = (request: object, path: CallPath) =>
      decode({ request: { ...ADD, ...request } }, { path }).call.key
    expect(key({ call_id: 'c' }, '/tools/call')).toBe('c')
    expect(key({ execution_id: 'e' }, '/execute')).toBe('e')
    expect(key({ execution_id: 'e' }, '/tools/call')).toBe('e')
    expect(key({ call_id: 'same', execution_id: 'same' }, '/call')).toBe('same')
    expect(refusal({ request: { ...ADD, call_id: 'a', execution_id: 'b' } })).toMatchObject({
      code: 'request_invalid',
    })
  })

  it('rule 4: call_id and Idempotency-Key must agree', () => {
    const headers = { 'idempotency-key': 'k' }
    expect(decode({ request: ADD }, { headers }).call.key).toBe('k')
    expect(decode({ request: { ...ADD, call_id: 'k' } }, { headers }).call.key).toBe('k')
    expect(refusal({ request: { ...ADD, call_id: 'other' } }, { headers })).toMatchObject({
      code: 'request_invalid',
    })
  })

  it.each([5, '', 'x'.repeat(257), 'a\u0000b', 'a\nb', '\ud800'])(
    'OTC-44, OTC/T-24, rule 4: call_id %j is refused',
    (callId) => {
      expect(refusal({ request: { ...ADD, call_id: callId } })).toMatchObject({ code: 'request_invalid' })
    },
  )

  it('OTC-45: an absent call_id stays absent, so that the server makes one', () => {
    expect(decode({ request: ADD }).call.key).toBeUndefined()
  })

  it('OTC-46: trace_id takes precedence over the trace of the HTTP request', () => {
    expect(decode({ request: { ...ADD, trace_id: 'mine' } }).call.traceId).toBe('mine')
    expect(decode({ request: ADD }).call.traceId).toBe('trace-of-http')
    const tool = { name: 'Add', toolkit: 'Calculator' }
    expect(decode({ tool, run_id: 'run' }, { path: '/execute' }).call.traceId).toBe('run')
    for (const traceId of [5, {}]) {
      expect(refusal({ request: { ...ADD, trace_id: traceId } })).toMatchObject({ code: 'request_invalid' })
    }
  })

  it('OTC/C-26: uts puts user_id beside tool_id', () => {
    const user = (request: object, path: CallPath): DecodedCall['call']['userId'] =>
      decode({ request: { ...ADD, ...request } }, { path }).call.userId
    expect(user({ user_id: 'u' }, '/uts/tools/call')).toBe('u')
    expect(user({ user_id: 'u', context: { user_id: 'u' } }, '/uts/tools/call')).toBe('u')
    expect(user({ user_id: 'u' }, '/tools/call')).toBeUndefined()
    const two = { request: { ...ADD, user_id: 'u', context: { user_id: 'v' } } }
    expect(refusal(two, { path: '/uts/tools/call' })).toMatchObject({ code: 'request_invalid' })
  })

  it('OTC-115, OTC/T-23, OTC/C-32: unknown members are ignored, or refused in strict mode', () => {
    const inside = { request: { ...ADD, colour: 'red' } }
    const beside = { request: ADD, colour: 'red' }
    for (const body of [inside, beside]) {
      expect(decode(body).dialect).toBe('oxp-1.0')
      expect(refusal(body, { strict: true }).message).toContain('"colour"')
    }
  })

  it('OTC/T-23: strict mode accepts every member that a dialect publishes', () => {
    const whole = { ...ADD, call_id: 'c', trace_id: 't', input: {}, context: { user_info: {} } }
    const proto = {
      tool: { name: 'A', toolkit: 'B' },
      run_id: 'r',
      execution_id: 'e',
      created_at: '',
      inputs: {},
    }
    const strict = true
    expect(decode(whole, { strict }).dialect).toBe('oxp-header')
    expect(decode({ $schema: 'otc://1.0', request: whole }, { strict }).dialect).toBe('otc-1.0')
    expect(decode({ request: { ...ADD, execution_id: 'e' } }, { strict, path: '/execute' }).dialect).toBe(
      'execute',
    )
    expect(decode(proto, { strict, path: '/execute' }).dialect).toBe('proto')
  })
})
