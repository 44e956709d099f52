import { describe, expect, it } from 'vitest'
import { CallFailure, connect, opentool } from '#client/index'
import type { JsonValue } from '#kernel/base/json'
import { opentoolFixtures } from '../conformance/opentool-fixtures.ts'
import { startOpentoolServer } from '../conformance/opentool-test-server.ts'
import { specialFunctions } from '../conformance/opentool-tools.ts'
import { type RequestHandler, sendJson, startFakeToolServer } from './fake-tool-server.ts'

const CALL = { id: 'c1', name: 'add', arguments: { a: 2, b: 3 } }

async function failureOf(work: Promise<unknown>): Promise<CallFailure> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error instanceof CallFailure) return error
  throw new Error('expected a CallFailure', { cause: error })
}

describe('opentool.connect', () => {
  it.each([
    ['http://127.0.0.1:9700', 'http://127.0.0.1:9700/opentool/version'],
    ['http://127.0.0.1:9700/', 'http://127.0.0.1:9700/opentool/version'],
    ['http://127.0.0.1:9700/opentool', 'http://127.0.0.1:9700/opentool/version'],
    ['https://h.example/mounted/here/', 'https://h.example/mounted/here/version'],
    [{}, 'http://127.0.0.1:9627/opentool/version'],
    [{ host: '127.0.0.1', port: 9700 }, 'http://127.0.0.1:9700/opentool/version'],
    [{ host: 'h.example', ssl: true }, 'https://h.example:9627/opentool/version'],
    [{ host: '::1', port: 1 }, 'http://[::1]:1/opentool/version'],
    [{ host: 'https://h.example/opentool' }, 'https://h.example/opentool/version'],
  ])('OTS-60: %j is requested at %s', async (address, url) => {
    const asked: string[] = []
    const fetch = async (where: string) => {
      asked.push(where)
      return Response.json({ version: '1' })
    }
    await opentool.connect(address, { fetch }).version()
    expect(asked).toEqual([url])
  })

  it('OTS-60: an invalid address, and a key for plain http, are refused before anything is sent', () => {
    expect(() => opentool.connect({ port: 0 })).toThrow('port')
    expect(() => opentool.connect('ftp://h')).toThrow('http')
    expect(() => opentool.connect({ host: 'h.example' }, { apiKey: 'k' })).toThrow('plain http')
  })

  it('OTS-61, OTS-62, OTS-63: works with a Collet server, with its key as a bearer token', async () => {
    await using server = await startOpentoolServer({ keys: ['k1'] })
    const client = opentool.connect(server.url, { apiKey: 'k1' })
    expect(await client.version()).toEqual({ version: '1.2.3' })
    expect(await client.call(CALL)).toEqual({ id: 'c1', result: { sum: 5 } })
    expect((await client.load())?.functions.map(({ name }) => name)).toContain('paint')
    const anonymous = opentool.connect(server.url)
    for (const work of [anonymous.version(), anonymous.load(), anonymous.call(CALL)]) {
      const failure = await failureOf(work)
      expect(failure.class).toBe('unauthenticated')
      expect(opentool.exceptionOf(failure)?.toJson()).toEqual({
        code: 401,
        message: 'Please check API Key is VALID or NOT',
      })
    }
  })

  it('sends tokens, secrets and the user of a call, never unencrypted to another machine', async () => {
    await using server = await startOpentoolServer({ tools: specialFunctions().tools })
    const needs = { tokens: { 'mail, inc': 'tök' }, secrets: { PIN: '1234' }, userId: 'jürgen' }
    const { result } = await opentool
      .connect(server.url)
      .call({ id: 'x', name: 'mail', arguments: {} }, needs)
    expect(result).toEqual({ mail: 'jürgen tök 1234' })
    const far = opentool.connect({ host: 'h.example' }, { fetch: () => expect.unreachable() })
    expect((await failureOf(far.call(CALL, needs))).class).toBe('config')
  })

  it.each<[string, RequestHandler]>([
    ['{}', (_request, response) => sendJson(response, 200, {})],
    ['nothing', (_request, response) => void response.writeHead(200).end()],
    ['null', (_request, response) => sendJson(response, 200, null)],
    [
      'an excuse',
      (_request, response) => sendJson(response, 200, { code: 404, message: 'Json Parser NOT implement' }),
    ],
    ['404', (_request, response) => void response.writeHead(404).end('<html>')],
  ])('OTS-63: %s is not a document', async (_what, handler) => {
    await using server = await startFakeToolServer(handler)
    expect(await opentool.connect(server.url).load()).toBeNull()
  })

  it('OTS-63: references are resolved, a broken document and a dead server are failures', async () => {
    const document = {
      opentool: '1.0.0',
      info: { title: 't', version: '1' },
      functions: [
        {
          name: 'f',
          description: '',
          parameters: [{ name: 'p', schema: { $ref: '#/schemas/P' }, required: true }],
        },
      ],
      schemas: { P: { type: 'string' } },
    }
    let served: JsonValue = document
    const server = await startFakeToolServer((_request, response) => sendJson(response, 200, served))
    const client = opentool.connect(server.url, { maxRetries: 0 })
    expect((await client.load())?.functions[0]?.parameters[0]?.schema).toEqual({ type: 'string' })
    served = { ...document, functions: 7 }
    expect(await failureOf(client.load())).toMatchObject({
      class: 'server',
      message: expect.stringContaining('functions'),
    })
    await server[Symbol.asyncDispose]()
    expect(opentool.exceptionOf(await failureOf(client.load()))?.name).toBe('OpenToolServerNoAccessException')
  })

  it.each<[string, RequestHandler, string, object]>([
    [
      '404',
      (_q, r) => void r.writeHead(404).end('<html>'),
      'OpenToolServerNoAccessException',
      { code: 404, message: 'Please check OpenTool Server is RUNNING or NOT' },
    ],
    [
      'an empty 200',
      (_q, r) => void r.writeHead(200).end(),
      'ResponseNullException',
      { code: 200, message: 'Response is null' },
    ],
    [
      '200 that is not JSON',
      (_q, r) => void r.writeHead(200).end('<html>'),
      'ResponseNullException',
      { code: 200, message: 'Response is null' },
    ],
    [
      'neither result nor error',
      (_q, r) => sendJson(r, 200, { jsonrpc: '2.0', id: 'c1', result: null, error: null }),
      'ErrorNullException',
      { code: 200, message: 'Error is null' },
    ],
    [
      'a redirect',
      (_q, r) => void r.writeHead(302, { location: 'http://h.example/' }).end(),
      'OpenToolServerCallException',
      { code: 500 },
    ],
    [
      '500 with an envelope',
      (_q, r) => sendJson(r, 500, { error: { code: 500, message: 'oh' }, id: '' }),
      'OpenToolServerCallException',
      { code: 500, message: 'oh' },
    ],
    [
      '400 with plain text',
      (_q, r) => sendJson(r, 400, { error: 'not so' }),
      'OpenToolServerCallException',
      { code: 400, message: 'not so' },
    ],
  ])('OTS-64: %s', async (_what, handler, name, reported) => {
    await using server = await startFakeToolServer(handler)
    const exception = opentool.exceptionOf(await failureOf(opentool.connect(server.url).call(CALL)))
    expect(exception?.name).toBe(name)
    expect(exception?.toJson()).toMatchObject(reported)
  })

  it('OTS-65: a bare value and a missing id are read; a result that looks like an error is a result', async () => {
    const answers: JsonValue[] = [
      { result: true },
      { jsonrpc: '2.0.0', id: 'c1', result: { code: 405, message: 'Function Not Supported: x' } },
    ]
    await using server = await startFakeToolServer((_request, response) =>
      sendJson(response, 200, answers.shift() ?? {}),
    )
    const client = opentool.connect(server.url)
    expect((await client.call(CALL)).result).toEqual({ result: true })
    const { result } = await client.call(CALL)
    expect(opentool.errorInResult(result)).toEqual({ code: 405, message: 'Function Not Supported: x' })
    expect(opentool.errorInResult({ code: 1, message: 'm', more: 1 })).toBeUndefined()
  })

  it('OTS-66: a call is sent once, whatever the outcome', async () => {
    await using server = await startFakeToolServer(
      (_request, response) => void response.socket?.resetAndDestroy(),
    )
    const failure = await failureOf(opentool.connect(server.url, { maxRetries: 5 }).call(CALL))
    expect([failure.class, server.requests.length]).toEqual(['transport', 1])
    expect(failure.message).toContain('It is not known whether the call ran')
  })

  it('OTS-66: waits for the configured time, or until its caller aborts', async () => {
    await using server = await startFakeToolServer(() => undefined)
    const client = opentool.connect(server.url)
    const late = await failureOf(client.call(CALL, { timeoutMs: 30 }))
    expect(opentool.exceptionOf(late)?.name).toBe('OpenToolServerNoAccessException')
    const leaving = new AbortController()
    const left = failureOf(client.call(CALL, { signal: leaving.signal }))
    leaving.abort(new Error('user left'))
    expect(await left).toMatchObject({ class: 'transport', cause: { message: 'user left' } })
  })

  it('OTS-67: calls and returns are converted to JSON and back', () => {
    expect(opentool.functionCallFromJson('{"id":"1","name":"f","arguments":{"a":1}}')).toEqual({
      id: '1',
      name: 'f',
      arguments: { a: 1 },
    })
    expect(opentool.functionCallFromJson({ id: '1', name: 'f' })).toEqual({
      id: '1',
      name: 'f',
      arguments: {},
    })
    expect(opentool.functionCallToJson(CALL)).toEqual(CALL)
    const back = { id: '1', result: { a: [1] } }
    expect(opentool.toolReturnFromJson(opentool.toolReturnToJson(back))).toEqual(back)
    for (const bad of [null, 'x', { id: 1, name: 'f' }, { id: '1', name: 'f', arguments: [] }]) {
      expect(() => opentool.functionCallFromJson(bad)).toThrow(CallFailure)
    }
    for (const bad of [{ id: '1', result: 5 }, { result: {} }])
      expect(() => opentool.toolReturnFromJson(bad)).toThrow(CallFailure)
  })

  it('OTS-68: a function becomes a tool for models, and their answer a call', async () => {
    await using server = await startOpentoolServer()
    const client = opentool.connect(server.url)
    const [add] = (await client.load())?.functions ?? []
    if (add === undefined) throw new Error('there is no function')
    expect(opentool.toOpenAiTool(add)).toMatchObject({
      type: 'function',
      function: { name: 'add', parameters: { type: 'object', required: ['a', 'b'] } },
    })
    const call = opentool.fromOpenAiToolCall({
      id: 'm1',
      function: { name: 'add', arguments: '{"a":1,"b":1}' },
    })
    expect(await client.call(call)).toEqual({ id: 'm1', result: { sum: 2 } })
  })
})

describe('connect, on OpenTool servers', () => {
  const notFound: RequestHandler = (_request, response) =>
    void response.writeHead(404, { 'content-type': 'text/html' }).end('<html>')
  const onlyOpenTool =
    (target: string): RequestHandler =>
    (request, response) => {
      if (!request.path.startsWith('/opentool/')) return notFound(request, response)
      void fetch(target + request.path, {
        method: request.method,
        headers: {
          ...(request.text === '' ? {} : { 'content-type': 'application/json' }),
          authorization: request.headers.authorization ?? '',
        },
        ...(request.text === '' ? {} : { body: request.text }),
      }).then(async (answer) =>
        response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text()),
      )
    }

  it('detects the protocol, and returns the same values as over OTC', async () => {
    await using server = await startOpentoolServer({
      tools: [...opentoolFixtures(), ...specialFunctions().tools],
    })
    await using front = await startFakeToolServer(onlyOpenTool(server.url))
    const detected = connect(front.url)
    expect((await detected.call('add', { a: 2, b: 3 })).value).toBe(5)
    expect((await detected.call('noop')).value).toBeNull()
    expect((await detected.call('Special_Give', { it: [1, null] })).value).toEqual([1, null])
    expect((await detected.list()).find(({ id }) => id === 'add')).toMatchObject({
      name: 'add',
      description: 'Add two numbers',
      input: { type: 'object', required: ['a', 'b'] },
      output: { type: 'number' },
    })
    expect((await detected.get('noop'))?.output).toBe('none')
    expect(await detected.get('nope')).toBeUndefined()
    expect(await detected.health()).toEqual({ healthy: true, status: 200 })
    const both = connect(server.url)
    expect((await both.call('Calculator.Add', { a: 2, b: 3 })).toolId).toBe('Calculator.Add@1.2.3')
  })

  it('detects the protocol behind a key as well', async () => {
    await using server = await startOpentoolServer({ keys: ['k1'] })
    await using front = await startFakeToolServer((request, response) => {
      if (request.path.startsWith('/opentool/')) return onlyOpenTool(server.url)(request, response)
      sendJson(response, 401, { error: 'Authorization header missing' })
    })
    expect((await connect(front.url, { apiKey: 'k1' }).call('add', { a: 1, b: 1 })).value).toBe(2)
    expect(await connect(front.url, { apiKey: 'wrong' }).tryCall('add')).toMatchObject({
      ok: false,
      error: { class: 'unauthenticated' },
    })
  })

  it('does not probe for OpenTool if the protocol is configured, and remembers the first answer', async () => {
    await using server = await startFakeToolServer(notFound)
    expect((await failureOf(connect(server.url, { protocol: 'otc' }).list())).message).toContain('GET /tools')
    expect(server.requests.map(({ path }) => path)).toEqual(['/tools'])
    expect((await failureOf(connect(server.url).list())).message).toContain('GET /tools')
    expect(server.requests.map(({ path }) => path)).toEqual(['/tools', '/tools', '/opentool/version'])
    expect(() => connect(server.url, { protocol: 'opentool', dialect: 'uts' })).toThrow('dialect')
  })

  it('treats a URL that ends in /opentool as an OpenTool server', async () => {
    await using server = await startOpentoolServer()
    expect((await connect(`${server.url}/opentool`).call('echo', { value: 'x' })).value).toBe('x')
  })

  it.each([
    ['validation', 'add', { a: 'x' }],
    ['server', 'nope', {}],
    ['tool', 'boom', {}],
    ['authorization_required', 'mail', {}],
  ])('a failure of class %s has the same class as over OTC', async (kind, name, input) => {
    await using server = await startOpentoolServer({
      tools: [...opentoolFixtures(), ...specialFunctions().tools],
    })
    const tried = await connect(server.url, { protocol: 'opentool' }).tryCall(name, input, { callId: 'mine' })
    expect(tried).toMatchObject({ ok: false, error: { class: kind, callId: 'mine', toolId: name } })
    if (!tried.ok && kind === 'authorization_required') expect(tried.error.challenges).toHaveLength(1)
  })

  it('sends call id and user, and returns the details of a failure', async () => {
    const special = specialFunctions()
    await using server = await startOpentoolServer({ tools: special.tools })
    const client = connect(server.url, { protocol: 'opentool' })
    const first = await client.call('count', {}, { callId: 'once', userId: 'alice' })
    expect(await client.call('count', {}, { callId: 'once', userId: 'alice' })).toEqual({
      ...first,
      replayed: true,
    })
    expect([special.runs.count, first.callId]).toEqual([1, 'once'])
    const failed = await client.tryCall('fail')
    expect(failed).toMatchObject({
      ok: false,
      error: {
        message: 'The door is locked.',
        canRetry: true,
        retryAfterMs: 2,
        additionalPromptContent: 'Use the key.',
      },
    })
    expect((await failureOf(client.call('count', {}, { callId: 'ümlaut' }))).class).toBe('config')
    expect((await failureOf(client.call(''))).class).toBe('config')
  })

  it('returns the whole result of a server that does not describe itself', async () => {
    await using server = await startOpentoolServer({ document: undefined })
    const client = connect(server.url, { protocol: 'opentool' })
    expect(await client.list()).toEqual([])
    expect((await client.call('add', { a: 1, b: 1 })).value).toEqual({ sum: 2 })
  })

  it('a caller that aborts while functions are read does not affect another', async () => {
    const held: (() => void)[] = []
    await using server = await startFakeToolServer((request, response) => {
      if (request.path.endsWith('/load')) held.push(() => sendJson(response, 200, {}))
      else sendJson(response, 200, { id: request.body.id ?? null, result: { x: 1 } })
    })
    const client = connect(server.url, { protocol: 'opentool' })
    const leaving = new AbortController()
    const left = client.tryCall('f', {}, { signal: leaving.signal })
    const pending = client.call('f')
    leaving.abort()
    expect(await left).toMatchObject({ ok: false, error: { class: 'transport' } })
    await expect.poll(() => held.length).toBe(1)
    for (const release of held) release()
    expect((await pending).value).toEqual({ x: 1 })
  })
})
