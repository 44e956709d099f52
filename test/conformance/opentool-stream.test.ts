import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ToolError } from '#kernel/base/errors'
import type { ToolContext } from '#kernel/tool/tool'
import { type FixtureFunction, opentoolFixtures } from './opentool-fixtures.ts'
import { startOpentoolServer } from './opentool-test-server.ts'

/** The pattern with which SDK clients match each chunk they receive (OTS-51). */
const SDK_PATTERN = /^event:(\w+)\ndata:(.*?)\n\n$/

interface Received {
  readonly chunks: readonly string[]
  readonly events: readonly (readonly [string, unknown])[]
}

function slowly(steps: { released: Promise<void>; ran: () => void }): readonly FixtureFunction[] {
  return [
    {
      id: 'Slow.Steps@1.0.0',
      name: 'steps',
      description: 'Reports twice, waits, and fails if told.',
      input: { type: 'object', properties: { fail: { type: 'boolean', description: 'Whether to fail.' } } },
      output: { title: 'said', type: 'string' },
      run: async ({ fail }, context: ToolContext) => {
        context.progress(1, 3, 'one\nline')
        context.progress(2)
        await steps.released
        steps.ran()
        if (fail === true) throw new ToolError('It broke.')
        return 'ready\u2028'
      },
    },
    {
      id: 'Slow.Chatter@1.0.0',
      name: 'chatter',
      description: 'Reports more than anybody reads.',
      input: { type: 'object' },
      output: null,
      run: (_input, context: ToolContext) => {
        for (let step = 0; step < 2_000; step += 1) context.progress(step, undefined, 'x'.repeat(10_000))
      },
    },
  ]
}

describe('POST /opentool/streamCall', () => {
  let server: Awaited<ReturnType<typeof startOpentoolServer>>
  let release = Promise.withResolvers<void>()
  let runs = 0
  const steps = {
    get released() {
      return release.promise
    },
    ran: () => {
      runs += 1
    },
  }
  beforeAll(async () => {
    server = await startOpentoolServer({
      tools: [...opentoolFixtures(), ...slowly(steps)],
      opentool: { streaming: true },
    })
  })
  afterAll(() => server.close())

  async function open(method: string, params: unknown, headers = {}): Promise<IncomingMessage> {
    const sent = httpRequest(`${server.url}/opentool/streamCall`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      agent: false,
    })
    sent.end(JSON.stringify({ jsonrpc: '2.0', method, params, id: 'c1' }))
    const [response] = await once(sent, 'response')
    return response
  }

  async function receive(response: IncomingMessage): Promise<Received> {
    const chunks: string[] = []
    response.on('data', (chunk) => chunks.push(String(chunk)))
    await once(response, 'end')
    const events = chunks.map((chunk) => {
      const [, name = '', json = 'null'] = SDK_PATTERN.exec(chunk) ?? []
      return [name, JSON.parse(json)] as const
    })
    return { chunks, events }
  }

  const envelope = (result: unknown) => ({ jsonrpc: '2.0', result, error: null, id: 'c1' })

  it('OTS-50, OTS-51, OTS-52: start, progress, value, done; one event per chunk, in the form that SDK clients match', async () => {
    release.resolve()
    const response = await open('steps', {})
    expect(response.statusCode).toBe(200)
    expect(response.headers).toMatchObject({
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache',
      'collet-call-id': expect.any(String),
    })
    const { chunks, events } = await receive(response)
    for (const chunk of chunks) expect(chunk).toMatch(SDK_PATTERN)
    expect(events).toEqual([
      ['start', { start: 'steps' }],
      ['data', envelope({ progress: { done: 1, total: 3, message: 'one\nline' } })],
      ['data', envelope({ progress: { done: 2 } })],
      ['data', envelope({ said: 'ready\u2028' })],
      ['done', { done: 'steps' }],
    ])
  })

  it('OTS-52: a failure is one error event with an envelope, and nothing after it', async () => {
    const { events } = await receive(await open('steps', { fail: true }))
    expect(events.map(([name]) => name)).toEqual(['start', 'data', 'data', 'error'])
    expect(events.at(-1)?.[1]).toMatchObject({
      result: {},
      error: { code: 500, message: 'It broke.' },
      id: 'c1',
    })
    const unknown = await receive(await open('nope', {}))
    expect(unknown.events.map(([name]) => name)).toEqual(['start', 'error'])
    expect(unknown.events[1]?.[1]).toMatchObject({
      error: { code: 405, message: 'Function Not Supported: nope' },
    })
  })

  it('OTS-52: a function without a value has an empty result', async () => {
    const { events } = await receive(await open('noop', {}))
    expect(events).toEqual([
      ['start', { start: 'noop' }],
      ['data', envelope({})],
      ['done', { done: 'noop' }],
    ])
  })

  it('rule 10: the call of a disconnected reader continues, and its key finds it', async () => {
    release = Promise.withResolvers()
    const before = runs
    const headers = { 'idempotency-key': 'left' }
    const response = await open('steps', {}, headers)
    await once(response, 'data')
    response.destroy()
    const joined = server.call('steps', {}, headers)
    release.resolve()
    expect((await joined).json.result).toEqual({ said: 'ready\u2028' })
    expect(runs).toBe(before + 1)
    const { events } = await receive(await open('steps', {}, headers))
    expect(events.map(([name]) => name)).toEqual(['start', 'data', 'done'])
  })

  it('drops old progress when the reader is slow, but never the end', async () => {
    const response = await open('chatter', {})
    const { events } = await receive(response)
    const names = events.map(([name]) => name)
    expect([names[0], names.at(-1)]).toEqual(['start', 'done'])
    expect(names.length).toBeLessThan(100)
    expect(JSON.stringify(events.at(-3))).toContain('"done":1999')
  })

  it.each([
    ['another content type', { 'content-type': 'text/plain' }, '{}', 400],
    ['an unreadable body', { 'content-type': 'application/json' }, '{', 500],
    ['a bad envelope', { 'content-type': 'application/json' }, '{"jsonrpc":"2.0"}', 400],
  ])('OTS-50: %s is refused before the stream', async (_what, headers, raw, status) => {
    const answer = await server.ask('POST', '/opentool/streamCall', { headers, raw })
    expect(answer.status).toBe(status)
    if (status === 500) expect(answer.headers['content-type']).toMatch(/^text\/plain/)
  })
})

describe('POST /opentool/stop', () => {
  it('OTS-53: stops the server, if enabled and callers need a key', async () => {
    const stopped = Promise.withResolvers<void>()
    await using server = await startOpentoolServer({ keys: ['k1'], stop: stopped.resolve })
    expect((await server.ask('POST', '/opentool/stop')).status).toBe(401)
    const headers = { authorization: 'Bearer k1' }
    expect((await server.ask('POST', '/opentool/stop', { headers })).json).toEqual({ status: 'stopped' })
    await stopped.promise
  })

  it('OTS-53: does not exist without keys', async () => {
    await using server = await startOpentoolServer({ stop: () => expect.unreachable() })
    expect((await server.ask('POST', '/opentool/stop')).status).toBe(404)
  })
})
