import { describe, expect, it } from 'vitest'
import { connect } from '#client/index'
import { sendJson, startFakeToolServer } from './fake-tool-server.ts'
import { scriptedFetch, succeed } from './scripted-fetch.ts'

function add(version: string) {
  return { id: `Calculator.Add@${version}`, name: 'Calculator_Add', description: 'd', version }
}

const URL = 'http://127.0.0.1:4100'
const VERSIONS = [
  add('1.10.0'),
  add('1.9.0'),
  add('1.0.0'),
  { ...add('9.0.0'), id: 'Calculator.AddAll@9.0.0' },
]

describe('list and get', () => {
  it.each([
    ['Calculator.Add@1.9.0', 'Calculator.Add@1.9.0'],
    ['Calculator.Add@1', 'Calculator.Add@1.0.0'],
    ['Calculator.Add', 'Calculator.Add@1.10.0'],
    ['Calculator.Add@2', undefined],
    ['Calculator.Nope', undefined],
    ['calculator.add', undefined],
    ['Calculator_Add', undefined],
  ])('OTC-60, OTC-61, T-11: %s is %s', async (asked, id) => {
    expect((await connect(URL, scriptedFetch(VERSIONS)).get(asked))?.id).toBe(id)
  })

  it('C-15: full ids are sent; an unlisted id is sent unchanged', async () => {
    const script = scriptedFetch(VERSIONS, succeed(1))
    const client = connect(URL, script)
    await client.call('Calculator.Add')
    await client.call('Calculator.Add@1')
    await client.call('add')
    const tool = await client.get('Calculator.Add@1.9.0')
    if (tool !== undefined) await client.call(tool)
    expect(script.requests.map(({ call }) => call.tool_id)).toEqual([
      'Calculator.Add@1.10.0',
      'Calculator.Add@1.0.0',
      'add',
      'Calculator.Add@1.9.0',
    ])
  })

  it('calls share one list; list() always requests it; an unknown tool requests it again once the list is old', async () => {
    let now = 0
    let listed = 0
    await using server = await startFakeToolServer((request, response) => {
      if (request.path !== '/tools') return sendJson(response, 200, { success: true, value: 1 })
      listed += 1
      return sendJson(response, 200, { items: listed < 3 ? [add('1.0.0')] : [add('1.0.0'), add('2.0.0')] })
    })
    const client = connect(server.url, { now: () => now })
    await Promise.all([
      client.call('Calculator.Add'),
      client.call('Calculator.Add'),
      client.get('Calculator.Add'),
    ])
    expect(listed).toBe(1)
    await client.list()
    expect(await client.get('Calculator.Add@2.0.0')).toBeUndefined()
    expect(listed).toBe(2)
    now = 60_000
    expect((await client.get('Calculator.Add@2.0.0'))?.id).toBe('Calculator.Add@2.0.0')
    expect(listed).toBe(3)
  })

  it('a failed list is not remembered', async () => {
    let listed = 0
    await using server = await startFakeToolServer((_request, response) => {
      listed += 1
      if (listed === 1) return sendJson(response, 400, { message: 'starting' })
      return sendJson(response, 200, { items: [add('1.0.0')] })
    })
    const client = connect(server.url)
    await expect(client.list()).rejects.toMatchObject({
      class: 'server',
      message: expect.stringContaining('starting'),
    })
    expect(await client.list()).toHaveLength(1)
  })

  it.each([
    [404, 'server', 'pin `dialect`'],
    [500, 'transport', 'status 500'],
    [200, 'transport', 'not a tool list'],
  ])('a %i without a list is a %s failure', async (status, kind, message) => {
    await using server = await startFakeToolServer((_request, response) => sendJson(response, status, {}))
    await expect(connect(server.url, { maxRetries: 0 }).list()).rejects.toMatchObject({
      class: kind,
      status,
      message: expect.stringContaining(message),
    })
  })
})

describe('misuse', () => {
  it.each([
    ['an empty tool id', '', {}, {}],
    ['a call id with a line break', 'A.B', {}, { callId: 'a\nb' }],
    ['an invalid time limit', 'A.B', {}, { timeoutMs: Number.NaN }],
    ['an empty call id', 'A.B', {}, { callId: '' }],
    ['a call id that is too long', 'A.B', {}, { callId: 'x'.repeat(257) }],
  ])('%s is a config failure, and nothing is sent', async (_title, tool, input, options) => {
    const script = scriptedFetch([], succeed(1))
    expect(await connect(URL, script).tryCall(tool, input, options)).toMatchObject({
      ok: false,
      error: { class: 'config' },
    })
    expect(script.requests).toEqual([])
  })

  it.each([
    ['retries', { maxRetries: 11 }],
    ['retries', { maxRetries: -1 }],
    ['time', { timeoutMs: Number.POSITIVE_INFINITY }],
  ])('options out of range are config failures: %s', (_title, options) => {
    expect(() => connect(URL, options)).toThrow(/must be a whole number/)
  })

  it('an aborted caller sends nothing', async () => {
    const script = scriptedFetch(VERSIONS, succeed(1))
    const client = connect(URL, script)
    await client.list()
    const tried = await client.tryCall('Calculator.Add', {}, { signal: AbortSignal.abort() })
    expect(tried).toMatchObject({ ok: false, error: { class: 'transport', callId: undefined } })
    expect(script.requests).toEqual([])
  })
})
