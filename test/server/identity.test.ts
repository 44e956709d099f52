import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { jwtMinter } from '#client/credentials'
import { Secret } from '#kernel/base/secret'
import { tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

const SECRET = 'a secret that server and caller share'
const opened: (string | undefined)[] = []
const tools = requireTools([
  tool({
    id: 'Who.Stays@1.0.0',
    description: 'Keeps the user of its session.',
    input: {},
    output: {},
    policy: { safetyTier: 'read' },
    session: { open: ({ userId }) => void opened.push(userId) },
    run: () => ({}),
  }),
  tool({
    id: 'Who.Needs@1.0.0',
    description: 'Needs a user who is proven.',
    input: {},
    output: {},
    policy: { safetyTier: 'read' },
    requirements: { userId: true },
    run: (_input, { userId = null, claimedUserId = null }) => ({ userId, claimedUserId }),
  }),
  tool({
    id: 'Who.Am@1.0.0',
    description: 'Says for whom it runs.',
    input: {},
    output: {},
    policy: { safetyTier: 'read' },
    run: (_input, { userId = null, claimedUserId = null, userInfo = null }) => ({
      userId,
      claimedUserId,
      userInfo,
    }),
  }),
])

let server: PrincipalsServer
let ann: string
beforeAll(async () => {
  server = await startPrincipalsServer({
    tools,
    auth: {
      apiKeys: [key('agent', []), key('portal', ['users:assert'])],
      jwt: { secret: new Secret(SECRET), audiences: [], tenant: 'acme', maxLifetimeSeconds: 900 },
    },
  })
  ann = await jwtMinter({ secret: SECRET, subject: 'ann' }, Date.now)()
})
afterAll(() => server.stop())

function namedUser(userId: string | undefined): Record<string, string> {
  return userId === undefined ? {} : { 'collet-user': userId }
}

/** One call over every protocol that can name a user. */
const PROTOCOLS: Record<string, (credential: string, userId?: string, name?: string) => Promise<unknown>> = {
  OTC: async (credential, userId, name = 'Am') => {
    const request = { tool_id: `Who.${name}`, context: userId === undefined ? {} : { user_id: userId } }
    return (await server.ask('/tools/call', { method: 'POST', key: credential, body: { request } })).json
      .result.value
  },
  OpenTool: async (credential, userId, name = 'Am') => {
    const body = { jsonrpc: '2.0', method: `Who_${name}`, params: {}, id: 1 }
    const headers = namedUser(userId)
    return (await server.ask('/opentool/call', { method: 'POST', key: credential, headers, body })).json
      .result.result
  },
  MCP: async (credential, userId, name = 'Am') => {
    const body = {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: {
        name: `Who_${name}`,
        arguments: {},
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    }
    const headers = {
      ...namedUser(userId),
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': `Who_${name}`,
    }
    return (await server.ask('/mcp', { method: 'POST', key: credential, headers, body })).json.result
      .structuredContent
  },
}

describe.each(Object.keys(PROTOCOLS))('a user named over %s (OTC/T-27)', (protocolName) => {
  const ask = (credential: string, userId?: string, name?: string) =>
    PROTOCOLS[protocolName]?.(credential, userId, name)

  it('is proven by the user’s own token, and by a credential that may assert users', async () => {
    expect(await ask(ann, 'ann')).toMatchObject({ userId: 'ann', claimedUserId: 'ann' })
    expect(await ask('k-portal', 'bob')).toMatchObject({ userId: 'bob', claimedUserId: 'bob' })
  })

  it('is otherwise only asserted by the caller', async () => {
    expect(await ask(ann, 'bob')).toMatchObject({ userId: null, claimedUserId: 'bob' })
    expect(await ask('k-agent', 'ann')).toMatchObject({ userId: null, claimedUserId: 'ann' })
  })

  it('is the subject of the token where the call names no user', async () => {
    for (const name of ['Am', 'Needs'])
      expect(await ask(ann, undefined, name)).toMatchObject({ userId: 'ann', claimedUserId: 'ann' })
    expect(await ask('k-agent')).toMatchObject({ userId: null, claimedUserId: null })
  })
})

it('a session over openwop has the subject of the token as its user (OTC/T-27)', async () => {
  const body = { toolId: 'openwop:Who.Stays' }
  const open = (key: string) => server.ask('/v1/sessions', { method: 'POST', key, body })
  expect((await open(ann)).status).toBe(201)
  expect((await open('k-agent')).status).toBe(201)
  expect(opened).toEqual(['ann', undefined])
})

describe('context.user_info (C-26)', () => {
  const say = (userInfo: unknown) =>
    server.ask('/tools/call', {
      method: 'POST',
      key: 'k-agent',
      body: { request: { tool_id: 'Who.Am', context: { user_info: userInfo } } },
    })

  it('reaches the tool as it was sent', async () => {
    const info = { name: 'Ann', locale: 'de', roles: ['admin'] }
    expect((await say(info)).json.result.value).toEqual({ userId: null, claimedUserId: null, userInfo: info })
    expect((await say(null)).json.result.value.userInfo).toBeNull()
  })

  it('is limited in size', async () => {
    expect((await say({ text: 'x'.repeat(16_384) })).status).toBe(400)
  })
})

describe('a caller’s view of its calls', () => {
  const TRACE = '0af7651916cd43dd8448eb211c80319c'
  const otc = (request: object, credential: string) =>
    server.ask('/tools/call', { method: 'POST', key: credential, body: { request } })

  it('one call shows its run, trace, protocol and user', async () => {
    const request = { tool_id: 'Who.Am', call_id: 'seen-1', trace_id: TRACE, context: { user_id: 'ann' } }
    const made = await otc(request, 'k-agent')
    const { json } = await server.ask('/calls/seen-1', { key: 'k-agent' })
    expect(json).toMatchObject({
      call_id: 'seen-1',
      run_id: made.headers['collet-run'],
      trace_id: TRACE,
      protocol: 'otc',
      user_id: 'ann',
    })
    const events = await server.ask(`/v1/runs/${json.run_id}/events/poll`, { key: 'k-agent' })
    expect(events.json.events[0].payload).toMatchObject({ callId: 'seen-1', traceId: TRACE })
  })

  it('a valid trace id becomes the trace of the request; a traceparent takes precedence', async () => {
    const traceOf = async (headers: Record<string, string>, traceId: string) => {
      const body = { request: { tool_id: 'Who.Am', trace_id: traceId } }
      const answer = await server.ask('/tools/call', { method: 'POST', key: 'k-agent', headers, body })
      return answer.headers.traceparent?.split('-')[1]
    }
    expect(await traceOf({}, TRACE)).toBe(TRACE)
    expect(await traceOf({}, 'my trace')).toMatch(/^[0-9a-f]{32}$/)
    expect(await traceOf({}, '0'.repeat(32))).not.toBe('0'.repeat(32))
    const other = '1'.repeat(32)
    expect(await traceOf({ traceparent: `00-${other}-00f067aa0ba902b7-01` }, TRACE)).toBe(other)
  })

  it('lists the caller’s own calls, newest first, page by page', async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      await otc({ tool_id: 'Who.Am', call_id: `listed-${name}` }, ann)
      await otc({ tool_id: 'Who.Am', call_id: `other-${name}` }, 'k-portal')
    }
    const seen: string[] = []
    let cursor = ''
    do {
      const { status, json } = await server.ask(`/calls?limit=2${cursor}`, { key: ann })
      expect(status).toBe(200)
      expect(json.calls.length).toBeLessThanOrEqual(2)
      seen.push(...json.calls.map(({ call_id }: { call_id: string }) => call_id))
      for (const call of json.calls) expect(call).not.toHaveProperty('result')
      cursor = json.next_cursor === undefined ? '' : `&cursor=${json.next_cursor}`
    } while (cursor !== '')
    expect(seen.filter((id) => id.startsWith('listed-'))).toEqual(
      ['e', 'd', 'c', 'b', 'a'].map((name) => `listed-${name}`),
    )
    expect(seen.some((id) => id.startsWith('other-'))).toBe(false)
  })

  it('an invalid cursor or limit is refused; a cursor is useless to another caller', async () => {
    for (const query of ['cursor=x', 'limit=0', 'limit=201', 'limit=ten'])
      expect((await server.ask(`/calls?${query}`, { key: ann })).status, query).toBe(400)
    const { json } = await server.ask('/calls?limit=1', { key: ann })
    const theirs = await server.ask(`/calls?cursor=${json.next_cursor}`, { key: 'k-agent' })
    expect(theirs.text).not.toContain('listed-')
  })
})
