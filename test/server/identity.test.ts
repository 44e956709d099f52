import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tool } from '#core/define-tool'
import { requireTools } from '#core/require-tools'
import { Secret } from '#core/secret'
import { jwtMinter } from '../../src/client/mint-jwt.ts'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

const SECRET = 'a secret that server and caller share'
const tools = requireTools([
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

/** One question over every protocol that can name a user. */
const WAYS: Record<string, (credential: string, userId: string) => Promise<unknown>> = {
  OTC: async (credential, userId) => {
    const request = { tool_id: 'Who.Am', context: { user_id: userId } }
    return (await server.ask('/tools/call', { method: 'POST', key: credential, body: { request } })).json
      .result.value
  },
  OpenTool: async (credential, userId) => {
    const body = { jsonrpc: '2.0', method: 'Who_Am', params: {}, id: 1 }
    const headers = { 'collet-user': userId }
    return (await server.ask('/opentool/call', { method: 'POST', key: credential, headers, body })).json
      .result.result
  },
  MCP: async (credential, userId) => {
    const body = {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: {
        name: 'Who_Am',
        arguments: {},
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    }
    const headers = {
      'collet-user': userId,
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'Who_Am',
    }
    return (await server.ask('/mcp', { method: 'POST', key: credential, headers, body })).json.result
      .structuredContent
  },
}

describe.each(Object.keys(WAYS))('a user named over %s (T-27)', (way) => {
  const ask = (credential: string, userId: string) => WAYS[way]?.(credential, userId)

  it('is proven by the own token, and by a credential that may assert users', async () => {
    expect(await ask(ann, 'ann')).toMatchObject({ userId: 'ann', claimedUserId: 'ann' })
    expect(await ask('k-portal', 'bob')).toMatchObject({ userId: 'bob', claimedUserId: 'bob' })
  })

  it('is otherwise the word of the caller', async () => {
    expect(await ask(ann, 'bob')).toMatchObject({ userId: null, claimedUserId: 'bob' })
    expect(await ask('k-agent', 'ann')).toMatchObject({ userId: null, claimedUserId: 'ann' })
  })
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

  it('is no book', async () => {
    expect((await say({ text: 'x'.repeat(16_384) })).status).toBe(400)
  })
})
