import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { isToolError, type ToolError } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import { createSchemaValidator } from '#schema/validator'
import { type ImportedApi, importApi } from './imported-api.ts'
import { type RecordingServer, type Reply, startRecordingServer } from './recording-server.ts'

let server: RecordingServer
let api: ImportedApi | undefined

beforeAll(async () => {
  server = await startRecordingServer()
})
afterAll(() => server.close())
beforeEach(() => {
  server.requests.length = 0
  server.answer(() => ({}))
})
afterEach(async () => {
  await api?.close()
  api = undefined
})

const json = (schema: JsonObject) => ({ description: 'ok', content: { 'application/json': { schema } } })

interface Operation {
  readonly method?: string
  readonly responses?: JsonObject
  readonly parameters?: readonly JsonObject[]
  readonly options?: object
  readonly security?: readonly JsonObject[]
}

async function open({
  method = 'get',
  responses = {},
  parameters = [],
  options = {},
  security = [],
}: Operation) {
  const paths = { '/things': { [method]: { operationId: 'op', responses, parameters, security } } }
  const components = { securitySchemes: { key: { type: 'http', scheme: 'basic' } } }
  api = await importApi({ paths, components }, { baseUrl: server.origin, ...options }, [server.host])
  return api
}

async function failureOf(calling: Promise<unknown>): Promise<ToolError> {
  const error: unknown = await calling.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!isToolError(error)) throw new Error(`expected a ToolError, got ${String(error)}`)
  return error
}

describe('a success becomes the output that its schema describes', () => {
  const text = { 'content-type': 'text/csv; charset=utf-8' }
  it.each<[string, JsonObject, Reply, unknown]>([
    ['JSON', { 200: json({ type: 'object' }) }, { body: '{"a":1}' }, { a: 1 }],
    [
      'JSON under another media type',
      { 200: json({ type: 'array' }) },
      { headers: { 'content-type': 'application/hal+json' }, body: '[]' },
      [],
    ],
    ['nothing', { 204: { description: 'done' } }, { status: 204, headers: {}, body: '' }, null],
    [
      'one of several',
      { 200: json({ type: 'object' }), 202: { description: 'later' } },
      { status: 202, headers: {}, body: '' },
      null,
    ],
    ['any success', { '2XX': json({ type: 'integer' }) }, { status: 206, body: '7' }, 7],
    [
      'text',
      { 200: { description: 'ok', content: { 'text/csv': {} } } },
      { headers: text, body: 'a;b' },
      { mediaType: text['content-type'], text: 'a;b' },
    ],
    [
      'bytes',
      {
        200: {
          description: 'ok',
          content: { 'image/png': { schema: { type: 'string', format: 'binary' } } },
        },
      },
      { headers: { 'content-type': 'image/png' }, body: Buffer.from([0, 255]) },
      { mediaType: 'image/png', base64: 'AP8=' },
    ],
    [
      'JSON or text, as the service chooses',
      {
        200: {
          description: 'ok',
          content: { 'application/json': { schema: { type: 'object' } }, 'text/csv': {} },
        },
      },
      { headers: text, body: 'x' },
      { mediaType: text['content-type'], text: 'x' },
    ],
    [
      'a text of any media type',
      { 200: { description: 'ok', content: { '*/*': { schema: { type: 'string' } } } } },
      { headers: { 'content-type': 'text/plain' }, body: 'x' },
      { mediaType: 'text/plain', text: 'x' },
    ],
    [
      'JSON of any media type',
      { 200: { description: 'ok', content: { '*/*': { schema: { type: 'object' } } } } },
      { body: '{}' },
      {},
    ],
    ['anything if nothing is declared', { default: { description: 'error' } }, { body: '[1]' }, [1]],
  ])('%s', async (_title, responses, reply, expected) => {
    server.answer(() => reply)
    const { call, tool } = await open({ responses })
    const value = await call('op', {})
    expect(value).toEqual(expected)
    const { outputSchema } = tool('op')
    if (outputSchema === null) expect(value).toBeNull()
    else expect(createSchemaValidator(outputSchema)(value ?? null)).toEqual([])
  })

  const undescribed = { 200: { description: 'ok' } }
  it.each<[string, JsonObject, Reply, unknown]>([
    ['JSON', undescribed, { body: '{"id":"b1"}' }, { id: 'b1' }],
    ['JSON with a byte order mark', undescribed, { body: '\ufeff[1]' }, [1]],
    ['text', undescribed, { headers: text, body: 'a;b' }, { mediaType: text['content-type'], text: 'a;b' }],
    [
      'bytes',
      undescribed,
      { headers: { 'content-type': 'image/png' }, body: Buffer.from([0, 255]) },
      { mediaType: 'image/png', base64: 'AP8=' },
    ],
    [
      'bytes of an unknown type',
      undescribed,
      { headers: { 'content-type': 'application/x-own' }, body: 'abc' },
      { mediaType: 'application/x-own', base64: 'YWJj' },
    ],
    ['JSON without a type', undescribed, { headers: {}, body: '{"a":1}' }, { a: 1 }],
    ['text without a type', undescribed, { headers: {}, body: 'ü' }, { mediaType: 'text/plain', text: 'ü' }],
    [
      'bytes without a type',
      undescribed,
      { headers: {}, body: Buffer.from([0xff, 0xfe, 0x00]) },
      { mediaType: 'application/octet-stream', base64: '//4A' },
    ],
    [
      'text that is declared as JSON but is not JSON',
      undescribed,
      { body: 'OK' },
      { mediaType: 'application/json', text: 'OK' },
    ],
    ['an empty answer', undescribed, { headers: {}, body: '' }, null],
    ['204', undescribed, { status: 204, headers: {}, body: '' }, null],
    ['a success of the range', { '2XX': { description: 'ok' } }, { status: 201, body: '7' }, 7],
    [
      '202: accepted for later',
      { 202: { description: 'later' } },
      { status: 202, body: '{"job":1}' },
      { job: 1 },
    ],
    ['one of 200 and 204', { ...undescribed, 204: { description: 'none' } }, { body: '[]' }, []],
    [
      'an answer with a link header',
      { 200: { description: 'ok', headers: { Location: {} } } },
      { headers: { location: '/b/1', 'content-type': 'application/json' }, body: '{"id":1}' },
      { body: { id: 1 }, headers: { location: '/b/1' } },
    ],
  ])(
    'an answer that the document does not describe is read by its own type: %s',
    async (_title, responses, reply, expected) => {
      server.answer(() => reply)
      const { call, tool } = await open({ responses })
      const value = await call('op', {})
      expect(value).toEqual(expected)
      const { outputSchema } = tool('op')
      expect(outputSchema).not.toBeNull()
      expect(createSchemaValidator(outputSchema ?? {})(value ?? null)).toEqual([])
    },
  )

  it('a 2.0 document that names no schema does not describe the answer either', async () => {
    server.answer(() => ({ body: '{"id":1}' }))
    const paths = { '/t': { get: { operationId: 'op', responses: undescribed } } }
    api = await importApi({ swagger: '2.0', paths }, { baseUrl: server.origin }, [server.host])
    expect(api.tool('op').outputSchema).toEqual({})
    expect(await api.call('op', {})).toEqual({ id: 1 })
  })

  it('only 204 and 205 mean that there is no content', async () => {
    for (const status of [204, 205]) {
      const { tool, close } = await open({ responses: { [status]: { description: 'done' } } })
      expect(tool('op').outputSchema).toBeNull()
      await close()
    }
    api = undefined
  })

  it('accepts the declared media types, JSON first', async () => {
    const content = { 'text/csv': {}, 'application/json': { schema: {} } }
    const { call } = await open({ responses: { 200: { description: 'ok', content } } })
    await call('op', {})
    expect(server.requests[0]?.headers.accept).toBe('application/json, text/csv;q=0.5')
  })

  it('HEAD returns status and headers, without cookies', async () => {
    server.answer(() => ({ headers: { etag: '"1"', 'set-cookie': 'canary=1' }, body: '' }))
    const { call } = await open({ method: 'head' })
    const value = await call('op', {})
    expect(value).toMatchObject({ status: 200, headers: { etag: '"1"' } })
    expect(JSON.stringify(value)).not.toContain('canary')
  })

  it('further pages are named and never fetched: the result contains the members for the next input', async () => {
    const link = '<https://elsewhere.example/x?page=3&per_page=5&evil=1>; rel="next", </y?page=9>; rel="last"'
    server.answer(() => ({
      headers: { 'content-type': 'application/json', link, 'x-total-count': '44' },
      body: '[]',
    }))
    const headers = { Link: { schema: {} }, 'X-Total-Count': {}, 'X-RateLimit-Limit': {} }
    const { call, tool } = await open({
      responses: { 200: { ...json({ type: 'array' }), headers } },
      parameters: [
        { name: 'page', in: 'query', schema: { type: 'integer' } },
        { name: 'per_page', in: 'query', schema: { type: 'string' } },
        { name: 'evil', in: 'header', schema: { type: 'string' } },
      ],
    })
    const value = await call('op', {})
    expect(value).toEqual({
      body: [],
      headers: { link, 'x-total-count': '44' },
      next: { page: 3, per_page: '5' },
    })
    expect(createSchemaValidator(tool('op').outputSchema ?? {})(value ?? null)).toEqual([])
    expect(server.requests.length).toBe(1)
  })

  it('a link repeats no credential of the query', async () => {
    server.answer(({ url }) => ({ headers: { link: `<${url}&page=2>; rel=next` }, body: '' }))
    const paths = {
      '/t': {
        get: {
          operationId: 'op',
          security: [{ key: [] }],
          responses: { 200: { description: 'ok', headers: { Link: {} } } },
        },
      },
    }
    const components = { securitySchemes: { key: { type: 'apiKey', in: 'query', name: 'key' } } }
    api = await importApi({ paths, components }, { baseUrl: server.origin }, [server.host])
    const value = await api.call('op', {}, { secrets: { api_key: 'canary' } })
    expect(value).toEqual({ body: null, headers: { link: '</t?key=[redacted]&page=2>; rel=next' } })
  })

  it('text is decoded by its charset', async () => {
    server.answer(() => ({
      headers: { 'content-type': 'text/plain; charset=latin1' },
      body: Buffer.from([0xfc]),
    }))
    const { call } = await open({ responses: { 200: { description: 'ok', content: { 'text/plain': {} } } } })
    expect(await call('op', {})).toEqual({ mediaType: 'text/plain; charset=latin1', text: 'ü' })
  })

  it('`output: any` accepts every answer', async () => {
    const { tool, call } = await open({
      responses: { 200: json({ type: 'object' }) },
      options: { output: 'any' },
    })
    expect(tool('op').outputSchema).toEqual({})
    server.answer(() => ({ headers: { 'content-type': 'text/plain' }, body: 'not JSON' }))
    expect(await call('op', {})).toEqual({ mediaType: 'text/plain', text: 'not JSON' })
  })

  it.each([
    ['nothing is described', { 200: { description: 'ok' } }],
    ['text is declared', { 200: { description: 'ok', content: { 'text/plain': {} } } }],
    ['JSON is declared', { 200: json({ type: 'object' }) }],
  ])('`output: any` reads JSON as JSON where %s', async (_title, responses) => {
    const { call } = await open({ responses, options: { output: 'any' } })
    server.answer(() => ({ body: '[{"id":"b1"}]' }))
    expect(await call('op', {})).toEqual([{ id: 'b1' }])
    server.answer(() => ({ body: 'OK' }))
    expect(await call('op', {})).toEqual({ mediaType: 'application/json', text: 'OK' })
  })

  it.each([
    ['text/html', '<html>', /text\/html where its document promises JSON/],
    ['application/json', '{', /but the body is not JSON/],
  ])('%s where JSON is promised is a failure of the service', async (type, body, expected) => {
    server.answer(() => ({ headers: { 'content-type': type }, body }))
    const { call } = await open({ responses: { 200: json({}) } })
    const error = await failureOf(call('op', {}))
    expect([error.code, error.canRetry, error.message]).toEqual([
      'upstream_failed',
      false,
      expect.stringMatching(expected),
    ])
  })

  it.each([
    ['get', 'Ask for less.'],
    ['post', 'Do not repeat it to get the answer.'],
  ])(
    'a large answer of %s is cut off, and the text says that the request succeeded',
    async (method, advice) => {
      server.answer(() => ({ body: `"${'x'.repeat(5_000)}"` }))
      const { call } = await open({ method, options: { maxResponseBytes: 1_000 } })
      const { code, message } = await failureOf(call('op', {}))
      expect([code, message]).toEqual([
        'result_too_large',
        `${method.toUpperCase()} /things succeeded, but its answer has more than 1000 bytes, so it is not shown. ${advice} An operator can raise \`maxResponseBytes\` of the source and \`egress.maxResponseBytes\`.`,
      ])
    },
  )
})

describe('an answer that is not a success', () => {
  it.each([
    [400, 'tool_failed', /correct it/],
    [401, 'tool_failed', /does not accept the credential/],
    [404, 'tool_failed', /nothing was found for these parameters/],
    [422, 'tool_failed', /correct it/],
    [500, 'upstream_failed', /answered 500/],
    [504, 'upstream_failed', /answered 504/],
  ])(
    'rule 9: %i is %s, says what to do, and is never marked as repeatable',
    async (status, code, expected) => {
      server.answer(() => ({
        status,
        headers: { 'retry-after': '1' },
        body: '{"message":"name\nis missing"}',
      }))
      const { call } = await open({ method: 'post' })
      const error = await failureOf(call('op', {}))
      expect([error.code, error.canRetry, error.retryAfterMs]).toEqual([code, false, undefined])
      expect(error.message).toMatch(expected)
      expect(error.message).toContain('{"message":"name is missing"}')
      expect(server.requests.length).toBe(1)
    },
  )

  it.each([
    [429, '7', 7_000],
    [503, '2', 2_000],
    [503, undefined, undefined],
    [429, 'soon', undefined],
    [429, '999999999', 86_400_000],
  ])('rule 9: %i refused the request, so it may be sent again after %s', async (status, after, expected) => {
    server.answer(() => ({
      status,
      headers: after === undefined ? {} : { 'retry-after': after },
      body: '',
    }))
    const { call } = await open({ method: 'post' })
    const error = await failureOf(call('op', {}))
    expect([error.code, error.canRetry, error.retryAfterMs]).toEqual(['upstream_failed', true, expected])
  })

  it('a wait that is given as a date is read too', async () => {
    const at = new Date(Date.now() + 30_000).toUTCString()
    server.answer(() => ({ status: 429, headers: { 'retry-after': at }, body: '' }))
    const { call } = await open({})
    const { retryAfterMs = 0 } = await failureOf(call('op', {}))
    expect(retryAfterMs).toBeGreaterThan(25_000)
    expect(retryAfterMs).toBeLessThanOrEqual(30_000)
  })

  it('the excerpt is short and contains no credential', async () => {
    server.answer(({ headers }) => ({
      status: 400,
      headers: { 'content-type': 'text/plain' },
      body: `${headers.authorization} user:canary-pass ${'x'.repeat(10_000)}`,
    }))
    const { call } = await open({ security: [{ key: [] }] })
    const { message } = await failureOf(call('op', {}, { secrets: { api_key: 'user:canary-pass' } }))
    expect(message).not.toContain('canary')
    expect(message).not.toContain(Buffer.from('user:canary-pass').toString('base64'))
    expect(message).toContain('[redacted]')
    expect(message.length).toBeLessThan(800)
  })

  it('a binary error is reported by its status alone', async () => {
    server.answer(() => ({ status: 400, headers: { 'content-type': 'image/png' }, body: Buffer.from([1]) }))
    const { call } = await open({})
    expect((await failureOf(call('op', {}))).message).toMatch(/correct it\)\.$/)
  })
})
