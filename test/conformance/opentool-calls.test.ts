import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { opentoolFixtures } from './opentool-fixtures.ts'
import { startOpentoolServer } from './opentool-test-server.ts'
import { specialFunctions } from './opentool-tools.ts'

type Server = Awaited<ReturnType<typeof startOpentoolServer>>

const special = specialFunctions()
const SPECIAL_TOOLS = [...opentoolFixtures(), ...special.tools]
const PATH = '/opentool/call'

/** Any JSON value that is unchanged by a round trip. */
const JSON_VALUE = fc
  .jsonValue({ noUnicodeString: false })
  .filter((value) => !JSON.stringify(value).includes('-0'))

describe('POST /opentool/call', () => {
  let server: Server
  beforeAll(async () => {
    server = await startOpentoolServer({ tools: SPECIAL_TOOLS })
  })
  afterAll(() => server.close())

  const post = (body: unknown, headers: Record<string, string> = {}) =>
    server.ask('POST', PATH, { body, headers })

  it.each(['2.0', '2.0.0'])(
    'OTS-34, OTS-37: jsonrpc %j is accepted, and the answer has "2.0" and all four keys',
    async (jsonrpc) => {
      const { status, json } = await post({ jsonrpc, method: 'add', params: { a: 2, b: 3 }, id: 'c1' })
      expect([status, json]).toEqual([200, { jsonrpc: '2.0', result: { sum: 5 }, error: null, id: 'c1' }])
    },
  )

  it.each([undefined, null, 2, '2', '2.0.1', ['2.0']])('OTS-34: jsonrpc %j is refused', async (jsonrpc) => {
    const { status, json } = await post({ jsonrpc, method: 'noop', id: 'c1' })
    expect([status, json]).toMatchObject([400, { result: {}, error: { code: -32600 }, id: 'c1' }])
  })

  it('OTS-35: every string and number is echoed with its type', async () => {
    const ids = fc.oneof(
      fc.string({ unit: 'binary' }).filter((id) => id.isWellFormed()),
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
    )
    await fc.assert(
      fc.asyncProperty(ids, async (id) => {
        const { status, json } = await post({ jsonrpc: '2.0', method: 'noop', id })
        expect([status, json.id]).toEqual([200, Object.is(id, -0) ? 0 : id])
      }),
      { numRuns: 50 },
    )
  })

  it.each([undefined, null, true, {}, ['x']])(
    'OTS-35: id %j is refused, and the answer has null instead',
    async (id) => {
      const { status, json } = await post({ jsonrpc: '2.0', method: 'noop', id })
      expect([status, json]).toMatchObject([400, { error: { code: -32600 }, id: null }])
      expect(Object.keys(json).sort()).toEqual(['error', 'id', 'jsonrpc', 'result'])
    },
  )

  it.each([undefined, null, {}])('OTS-36: params %j means no arguments', async (params) => {
    expect((await post({ jsonrpc: '2.0', method: 'noop', params, id: 1 })).json).toEqual({
      jsonrpc: '2.0',
      result: {},
      error: null,
      id: 1,
    })
  })

  it.each([[[]], ['text'], [1], [false]])('OTS-36: params %j is refused', async (params) => {
    const { status, json } = await post({ jsonrpc: '2.0', method: 'noop', params, id: 1 })
    expect([status, json]).toMatchObject([400, { error: { code: -32602 }, id: 1 }])
  })

  it.each([undefined, null, '', 7, {}])('OTS-33: method %j is refused', async (method) => {
    const { status, json } = await post({ jsonrpc: '2.0', method, id: 'x' })
    expect([status, json]).toMatchObject([400, { result: {}, error: { code: -32600 }, id: 'x' }])
  })

  it.each([
    ['not JSON', '{"jsonrpc":', -32700],
    ['an unpaired surrogate', '"\\ud800"', -32700],
    ['too deep', `${'['.repeat(200)}${']'.repeat(200)}`, -32700],
    ['a batch', '[]', -32600],
    ['a scalar', '7', -32600],
    ['null', 'null', -32600],
  ])('OTS-41: a body that is %s', async (_what, raw, code) => {
    const { status, json } = await server.ask('POST', PATH, { raw })
    expect([status, json]).toMatchObject([400, { jsonrpc: '2.0', result: {}, error: { code }, id: null }])
    expect(Object.keys(json).sort()).toEqual(['error', 'id', 'jsonrpc', 'result'])
  })

  it.each([['text/plain'], ['application/jsonp'], ['text/plain; application/json'], ['']])(
    'OTS-42, rule 28: content type %j is refused',
    async (type) => {
      const { status, json } = await server.ask('POST', PATH, {
        raw: '{}',
        headers: { 'content-type': type },
      })
      expect([status, json]).toMatchObject([400, { error: { code: -32600 }, id: null }])
    },
  )

  it('OTS-42: a body over the limit is 413, in JSON', async () => {
    await using small = await startOpentoolServer({ server: { bodyLimitBytes: 2_048 } })
    const { status, json, headers } = await small.call('echo', { value: 'x'.repeat(4_000) })
    expect([status, json]).toMatchObject([413, { result: {}, error: { code: -32600 }, id: null }])
    expect(headers['content-type']).toBe('application/json; charset=utf-8')
  })

  it('OTS-38: every value except null is sent under the return name, unchanged', async () => {
    await fc.assert(
      fc.asyncProperty(JSON_VALUE, async (it) => {
        const { json } = await server.call('Special_Give', { it })
        expect(json).toEqual({
          jsonrpc: '2.0',
          // JSON has one zero.
          result: it === null ? {} : { result: JSON.parse(JSON.stringify(it)) },
          error: null,
          id: 'c1',
        })
      }),
      { numRuns: 100 },
    )
  })

  it('OTS-38: the return name is a legal title of the output, else "result"', async () => {
    expect((await server.call('add', { a: 1, b: 2 })).json.result).toEqual({ sum: 3 })
    expect(Object.keys((await server.call('count', {})).json.result)).toEqual(['result'])
  })

  it('OTS-84: a function has the name of its tool or another of its names, and is its newest version', async () => {
    expect((await server.call('count', {})).json.result.result).toBeGreaterThan(0)
    expect((await server.call('Special.Count', {})).json.result.result).toBeGreaterThan(0)
    expect((await server.call('Special_Count', {})).json.error.code).toBe(405)
  })

  it.each(['nope', '__proto__', 'constructor', 'Calculator.Nope', 'add ', 'ADD', '/'])(
    'OTS-40: %j is an unknown function',
    async (method) => {
      const { status, json, headers } = await server.call(method, {})
      expect([status, json.error]).toMatchObject([
        200,
        { code: 405, message: expect.stringContaining(`Function Not Supported: ${method}`) },
      ])
      expect([json.result, headers['collet-error-code']]).toEqual([{}, 'tool_not_found'])
    },
  )

  it('OTS-40: bad arguments are 400 with the reason', async () => {
    const { json } = await server.call('add', { a: 'two' })
    expect(json.error.code).toBe(400)
    expect(json.error.message).toMatch(/^Invalid Arguments: (?=.*\ba: )(?=.*\bb: )/)
    expect(json.error.data).toMatchObject({
      code: 'input_invalid',
      parameter_errors: { a: expect.any(String) },
    })
  })

  it('OTS-40: an error deep inside an argument names its path', async () => {
    const { json } = await server.call('paint', { color: 'red', opts: { tags: ['a', 1] } })
    const { message, data } = json.error
    expect(message).toBe('Invalid Arguments: opts: /size: Is required; opts: /tags/1: Must be a string')
    expect(data.parameter_errors).toEqual({ opts: '/size: Is required; /tags/1: Must be a string' })
  })

  it('OTS-40: a tool may set its own integer; anything else is 500', async () => {
    expect((await server.call('fail', { number: -7 })).json.error.code).toBe(-7)
    for (const number of [1.5, 1e300])
      expect((await server.call('fail', { number })).json.error.code).toBe(500)
    expect((await server.call('div', { a: 1, b: 0 })).json.error).toMatchObject({
      code: 400,
      message: 'Invalid Arguments: b must not be zero',
    })
  })

  it('OTS-39: a failure is HTTP 200 with plain text: no stack, no paths, no text for developers', async () => {
    const thrown = await server.call('boom', {})
    expect([thrown.status, thrown.json.result, thrown.json.error.code]).toEqual([200, {}, 500])
    expect(thrown.text).not.toMatch(/stack|\.ts|node:|Error:/)
    const reply = await server.call('fail', {})
    expect(reply.json.error).toEqual({
      code: 500,
      message: 'The door is locked.',
      data: {
        code: 'tool_failed',
        call_id: reply.headers['collet-call-id'],
        can_retry: true,
        retry_after_ms: 2,
        additional_prompt_content: 'Use the key.',
      },
    })
  })

  it.each([
    ['a missing argument', 'add', { a: 2 }, 400],
    ['a wrong type', 'add', { a: 2, b: '3' }, 400],
    ['a value outside the enum', 'paint', { color: 'blue' }, 400],
    ['a nested property missing', 'paint', { color: 'red', opts: {} }, 400],
    ['a nested item of the wrong type', 'paint', { color: 'red', opts: { size: 1, tags: [1] } }, 400],
    ['a fraction for an integer', 'paint', { color: 'red', opts: { size: 1.5 } }, 400],
  ])('OTS-43: %s is refused before the tool runs', async (_what, method, params, code) => {
    expect((await server.call(method, params)).json.error.code).toBe(code)
  })

  it('OTS-43: 3.0 is an integer, unknown parameters pass, null for an optional one is absent', async () => {
    const raw =
      '{"jsonrpc":"2.0","method":"paint","params":{"color":"red","opts":{"size":3.0},"more":1},"id":1}'
    expect((await server.ask('POST', PATH, { raw })).json.result).toEqual({ ok: true })
    expect((await server.call('paint', { color: 'red', opts: null })).json.result).toEqual({ ok: true })
  })

  it('OTS-43: a null is dropped only where the schema does not accept null', async () => {
    const nulls = { needed: 'x', plain: null, nullable: null, either: null, extra: null }
    expect((await server.call('optional', nulls)).json.result).toEqual({
      got: ['either', 'extra', 'needed', 'nullable'],
    })
    expect((await server.call('optional', { needed: null })).json.error).toMatchObject({ code: 400 })
  })

  it('rule 4: an id is not an idempotency key, but the header is', async () => {
    const first = await server.call('count', {})
    expect((await server.call('count', {})).json.result).not.toEqual(first.json.result)
    const key = { 'idempotency-key': 'k-1' }
    const keyed = await server.call('count', { it: 1 }, key)
    const again = await server.ask('POST', PATH, {
      headers: key,
      body: { jsonrpc: '2.0', method: 'count', params: { it: 1 }, id: 'another' },
    })
    expect(again.json).toEqual({ ...keyed.json, id: 'another' })
    expect(again.headers['collet-call-id']).toBe('k-1')
    const other = await server.call('count', { it: 2 }, key)
    expect([other.status, other.json.error]).toMatchObject([
      200,
      { code: 400, data: { code: 'key_conflict' } },
    ])
  })

  it.each(['a\u0081b', 'x'.repeat(257)])('rule 4: the key %j is refused with 400', async (key) => {
    const { status, json } = await server.call('count', {}, { 'idempotency-key': key })
    expect([status, json]).toMatchObject([400, { error: { code: -32600 }, id: 'c1' }])
  })

  it('rule 4: a key in UTF-8 is the same key as in the body of another protocol', async () => {
    const headers = { 'idempotency-key': Buffer.from('ключ').toString('latin1') }
    const first = await server.call('count', {}, headers)
    const named = first.headers['collet-call-id']
    expect(named && decodeURIComponent(named)).toBe('ключ')
    const body = { tool_id: 'Special.Count', call_id: 'ключ', input: {} }
    const over = await server.ask('POST', '/tools/call', { body })
    expect({ result: over.json.value }).toEqual(first.json.result)
  })

  it('rule 6: an invalid request has a call id and a code too', async () => {
    const key = { 'idempotency-key': 'k-6' }
    const params = await server.call('noop', [], key)
    expect(params.headers).toMatchObject({ 'collet-call-id': 'k-6', 'collet-error-code': 'request_invalid' })
    const unreadable = await server.ask('POST', PATH, { raw: '{', headers: key })
    expect(unreadable.headers).toMatchObject({
      'collet-call-id': 'k-6',
      'collet-error-code': 'request_invalid',
    })
    const unnamed = await server.call('noop', {}, { 'idempotency-key': 'x'.repeat(257) })
    expect(unnamed.headers['collet-call-id']).toMatch(/^[0-9a-f-]{36}$/)
  })

  it('rule 4: string ids are keys only if the operator enables it; the header takes precedence', async () => {
    const own = specialFunctions()
    await using declared = await startOpentoolServer({
      tools: own.tools,
      opentool: { stringIdsAreKeys: true },
    })
    const send = async (id: unknown, headers: Record<string, string> = {}) =>
      (await declared.ask('POST', PATH, { headers, body: { jsonrpc: '2.0', method: 'count', id } })).json
    expect(await send('a')).toEqual(await send('a'))
    expect(own.runs.count).toBe(1)
    await send('a', { 'idempotency-key': 'b' })
    expect(own.runs.count).toBe(2)
    await send(7)
    await send(7)
    expect(own.runs.count).toBe(4)
    expect(await send('')).toMatchObject({ error: { code: -32600 }, id: '' })
  })
})
