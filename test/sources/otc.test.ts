import { createServer } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import { CLIENT_DIALECTS } from '#protocols/otc/codec-client'
import { createOtcSource } from '#sources/otc/index'
import { OTC_DIALECTS, OTC_OPTIONS } from '#sources/otc/options'
import { sampleTool } from '../contracts/samples.ts'
import { invocationOf, toolIn } from './sample-invocation.ts'
import { servicesTo, startUpstream } from './upstream.ts'

const NEVER = new AbortController().signal
const WORD = {
  type: 'object',
  properties: { word: { type: 'string', description: 'What to say.' } },
  required: ['word'],
} as const

function open(url: string, options: object = {}, services = servicesTo(url)) {
  return createOtcSource('Up', OTC_OPTIONS.parse({ type: 'otc', url, ...options }), services)
}

/** A server with prepared answers, for faults that a correct server does not have. */
async function faultyServer(
  answer: (path: string, body: JsonValue) => { status: number; body?: object; headers?: object } | 'break',
): Promise<string> {
  const server = createServer((request, response) => {
    let text = ''
    request.on('data', (chunk) => {
      text += String(chunk)
    })
    request.on('end', () => {
      const reply = answer(request.url ?? '', text === '' ? null : JSON.parse(text))
      if (reply === 'break') return request.socket.destroy()
      response.writeHead(reply.status, { 'content-type': 'application/json', ...reply.headers })
      return response.end(JSON.stringify(reply.body ?? {}))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
}

const LIST = {
  items: [{ id: 'A.B@1.0.0', name: 'A_B', description: 'x', version: '1.0.0', input_schema: {} }],
}

describe('an OTC server as a source', () => {
  it('offers the newest version of each tool as a connector, with tier write whatever it declares', async () => {
    const { url } = await startUpstream({
      tools: [
        sampleTool('Math.Add@1.9.0', () => 'old', { policy: { safetyTier: 'read' } }),
        sampleTool('Math.Add@1.10.0', () => 'new', {
          description: 'Adds.',
          inputSchema: WORD,
          outputSchema: { type: 'string' },
          policy: { safetyTier: 'read' },
        }),
        sampleTool('Mail.Send@1.0.0', () => 'sent'),
      ],
    })
    const source = open(url, { exclude: ['Mail.*'] })
    expect([source.type, source.kind, source.health().state]).toEqual(['otc', 'connector', 'starting'])
    const discovery = await source.discover(NEVER)
    expect(discovery.identity).toEqual({ origin: url, url })
    expect(discovery.tools).toMatchObject([
      {
        nativeName: 'Math.Add',
        description: 'Adds.',
        inputSchema: WORD,
        outputSchema: { type: 'string' },
        // OWP-33.
        policy: { safetyTier: 'write', egress: 'safe-fetch' },
        binding: { toolId: 'Math.Add@1.10.0', url },
      },
    ])
    expect(source.health()).toEqual({ state: 'ready' })
    expect(await source.invoke(invocationOf(discovery, 'Math.Add', { word: 'hi' }))).toBe('new')
  })

  it('rule 32: calls the accepted version, also when there is a newer one', async () => {
    const { url } = await startUpstream({
      tools: [sampleTool('Math.Add@1.0.0', () => 'old'), sampleTool('Math.Add@2.0.0', () => 'new')],
    })
    const source = open(url)
    const { nativeName, binding, input, context } = invocationOf(await source.discover(NEVER), 'Math.Add')
    const accepted = { ...binding, toolId: 'Math.Add@1.0.0' }
    expect(await source.invoke({ nativeName, input, context, binding: accepted })).toBe('old')
    await expect(
      source.invoke({ nativeName, input, context, binding: { ...binding, url: 'https://other.example' } }),
    ).rejects.toMatchObject({ code: 'upstream_failed', message: expect.stringContaining('another address') })
  })

  it('rule 27: an effect runs once there, however often it is requested', async () => {
    let runs = 0
    const count = sampleTool('Bank.Pay@1.0.0', () => String(++runs), { outputSchema: { type: 'string' } })
    const { url } = await startUpstream({ tools: [count] })
    const source = open(url)
    const discovery = await source.discover(NEVER)
    const pay = (effectKey: string) => source.invoke(invocationOf(discovery, 'Bank.Pay', {}, { effectKey }))
    expect(await Promise.all([pay('first'), pay('first'), pay('first')])).toEqual(['1', '1', '1'])
    expect([await pay('first'), await pay('second'), runs]).toEqual(['1', '2', 2])
  })

  it('sends tokens, secrets and the user under the names of the server, and the server key only to it', async () => {
    const tool = sampleTool(
      'Mail.Send@1.0.0',
      (_, context) =>
        `${context.token('google').reveal()} ${context.secret('A').reveal()} ${context.secret('B').reveal()} ${context.userId}`,
      {
        outputSchema: { type: 'string' },
        requirements: {
          authorization: [{ id: 'google', oauth2: { scopes: ['mail.send'] } }],
          secrets: [{ id: 'A' }, { id: 'B' }],
          userId: true,
        },
      },
    )
    const key = { id: 'us', key: new Secret('k-us'), tenant: 'default', scopes: ['users:assert'] }
    const { url } = await startUpstream({ tools: [tool], auth: { apiKeys: [key], jwt: undefined } })
    await expect(open(url).discover(NEVER)).rejects.toMatchObject({ code: 'upstream_failed' })
    const source = open(url, {
      apiKey: 'k-us',
      secrets: { B: 'of-the-operator' },
      providers: { google: 'our-google' },
    })
    const discovery = await source.discover(NEVER)
    const { requirements, binding } = toolIn(discovery, 'Mail.Send')
    expect(requirements).toEqual({
      authorization: [{ id: 'our-google', oauth2: { scopes: ['mail.send'] } }],
      secrets: [{ id: 'A' }],
      userId: true,
    })
    expect(JSON.stringify(binding)).not.toContain('of-the-operator')
    const given = { tokens: { 'our-google': 'tok' }, secrets: { A: 'a' }, userId: 'u1' }
    expect(await source.invoke(invocationOf(discovery, 'Mail.Send', {}, given))).toBe(
      'tok a of-the-operator u1',
    )
  })

  it('passes on a user that the caller claims, if the operator allows it', async () => {
    const tool = sampleTool('Who.Am@1.0.0', (_, { userId }) => String(userId), {
      outputSchema: { type: 'string' },
      requirements: { userId: true },
    })
    const key = { id: 'us', key: new Secret('k-us'), tenant: 'default', scopes: ['users:assert'] }
    const { url } = await startUpstream({ tools: [tool], auth: { apiKeys: [key], jwt: undefined } })
    const source = open(url, { apiKey: 'k-us', userId: 'claimed' })
    const discovery = await source.discover(NEVER)
    expect(toolIn(discovery, 'Who.Am').requirements).toEqual({ userId: 'claimed' })
    const claimed = { claimedUserId: 'u1' }
    expect(await source.invoke(invocationOf(discovery, 'Who.Am', {}, claimed))).toBe('u1')
  })

  it('requests the list only if it has changed', async () => {
    const { url } = await startUpstream({ tools: [sampleTool('Math.Add@1.0.0', () => 'x')] })
    const tags: (string | null)[] = []
    const source = open(
      url,
      {},
      servicesTo(url, (_, init) => tags.push(new Headers(init.headers).get('if-none-match'))),
    )
    const first = await source.discover(NEVER)
    expect(await source.discover(NEVER)).toEqual(first)
    expect(tags).toEqual([null, expect.stringMatching(/^"/)])
  })

  it('passes on missing requirements of the other server with text and address, and the call may be repeated', async () => {
    const tool = sampleTool('Bank.Pay@1.0.0', () => 'paid', { policy: { approval: 'always' } })
    const { url } = await startUpstream({ tools: [tool] })
    const source = open(url)
    const discovery = await source.discover(NEVER)
    await expect(source.invoke(invocationOf(discovery, 'Bank.Pay'))).rejects.toMatchObject({
      code: 'upstream_failed',
      canRetry: true,
      message: expect.stringMatching(new RegExp(`^${url} did not run the call: .*${url}/approvals/`)),
    })
    expect(source.health()).toEqual({ state: 'ready' })
  })

  it('rule 9: a tool error there is a tool error here, with its advice about repeating', async () => {
    const { ToolError } = await import('#kernel/base/errors')
    const tool = sampleTool('A.B@1.0.0', () => {
      throw new ToolError('The bell is broken.', {
        canRetry: true,
        retryAfterMs: 70_000,
        additionalPromptContent: 'Try the door.',
        developerMessage: 'wire 3',
      })
    })
    const { url } = await startUpstream({ tools: [tool] })
    const source = open(url)
    const discovery = await source.discover(NEVER)
    await expect(source.invoke(invocationOf(discovery, 'A.B'))).rejects.toMatchObject({
      code: 'tool_failed',
      message: 'The bell is broken.',
      canRetry: true,
      retryAfterMs: 70_000,
      additionalPromptContent: 'Try the door.',
      developerMessage: expect.stringContaining('wire 3'),
    })
  })

  it.each([
    [
      'a temporary refusal',
      { status: 429, headers: { 'retry-after': '90' } },
      { canRetry: true, retryAfterMs: 90_000 },
    ],
    ['no capacity', { status: 503, headers: { 'retry-after': '90' } }, { canRetry: true }],
    ['a broken server', { status: 500 }, { canRetry: false }],
    ['an invalid answer', { status: 200, body: {} }, { canRetry: false }],
    ['an unknown tool', { status: 400, body: { message: 'There is no such tool.' } }, { canRetry: false }],
  ] as const)(
    'rule 9: %s',
    async (_title, reply, expected) => {
      const url = await faultyServer((path) => (path === '/tools' ? { status: 200, body: LIST } : reply))
      const source = open(url)
      const discovery = await source.discover(NEVER)
      await expect(source.invoke(invocationOf(discovery, 'A.B'))).rejects.toMatchObject({
        code: 'upstream_failed',
        ...expected,
      })
    },
    20_000,
  )

  it('a lost answer is requested again under the same call id', async () => {
    const ids: JsonValue[] = []
    const url = await faultyServer((path, body) => {
      if (path === '/tools') return { status: 200, body: LIST }
      const request = isJsonObject(body) && isJsonObject(body.request) ? body.request : {}
      ids.push(request.call_id ?? null)
      return ids.length === 1
        ? 'break'
        : { status: 200, body: { result: { call_id: 'x', success: true, value: 7 } } }
    })
    const source = open(url)
    const discovery = await source.discover(NEVER)
    expect(await source.invoke(invocationOf(discovery, 'A.B', {}, { effectKey: 'one' }))).toBe(7)
    expect(ids).toEqual(['one', 'one'])
  })

  it('OWP-93: a server that ignores call ids gets each request once', async () => {
    let calls = 0
    const url = await faultyServer((path) => {
      if (path === '/tools') return { status: 200, body: LIST.items }
      calls += 1
      return 'break'
    })
    const source = open(url)
    const discovery = await source.discover(NEVER)
    expect(toolIn(discovery, 'A.B').binding.dialect).toBe('uts')
    await expect(source.invoke(invocationOf(discovery, 'A.B'))).rejects.toMatchObject({
      code: 'upstream_failed',
      canRetry: false,
    })
    expect(calls).toBe(1)
  })

  it('rule 9: an unreachable server has run nothing, and the state of the source reports it', async () => {
    const server = await startUpstream({ tools: [sampleTool('A.B@1.0.0', () => 'x')] })
    const source = open(server.url)
    const discovery = await source.discover(NEVER)
    await server.close()
    await expect(source.invoke(invocationOf(discovery, 'A.B'))).rejects.toMatchObject({
      code: 'upstream_failed',
      canRetry: true,
    })
    expect(source.health().state).toBe('degraded')
    await expect(source.discover(NEVER)).rejects.toMatchObject({ code: 'upstream_failed' })
    expect(source.health().state).toBe('down')
  }, 20_000)

  it('rule 33: an address that the egress policy forbids is refused at once', async () => {
    const { url } = await startUpstream({ tools: [sampleTool('A.B@1.0.0', () => 'x')] })
    const discovery = await open(url).discover(NEVER)
    const source = open(url, {}, servicesTo('http://192.0.2.1'))
    await expect(source.invoke(invocationOf(discovery, 'A.B'))).rejects.toMatchObject({
      code: 'egress_denied',
    })
  })

  it('an aborted call rejects with the reason', async () => {
    const tool = sampleTool('A.B@1.0.0', () => new Promise(() => {}))
    const { url } = await startUpstream({ tools: [tool] })
    const source = open(url)
    const discovery = await source.discover(NEVER)
    const ending = new AbortController()
    const running = source.invoke(invocationOf(discovery, 'A.B', {}, { signal: ending.signal }))
    ending.abort(new Error('enough'))
    await expect(running).rejects.toThrow('enough')
  })

  it('supports the dialects of the client', () => {
    expect(OTC_DIALECTS).toEqual(CLIENT_DIALECTS)
  })

  it.each([
    [{ url: 'ftp://x.example' }, 'absolute http'],
    [{ url: 'http://x.example', apiKey: 'k' }, 'plain http'],
    [{ url: 'https://x.example', apiKey: 'k', token: 't' }, 'not both'],
    [{ url: 'https://x.example', policy: { safetyTier: 'wild' } }, 'safetyTier'],
  ])('OTC-101: refuses the options %j', (options, expected) => {
    const parsed = OTC_OPTIONS.safeParse({ type: 'otc', ...options })
    expect(JSON.stringify(parsed.error?.issues)).toContain(expected)
  })
})
