import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { expect, it, onTestFinished } from 'vitest'
import { tool } from '#core/tools/define'
import { requireTools } from '#core/tools/prepare-tools'
import { startPrincipalsServer } from './principals-server.ts'

const TOOLS = requireTools([
  tool({
    id: 'Who.Needs@1.0.0',
    description: 'Says for which user it runs.',
    input: {},
    output: {},
    policy: { safetyTier: 'read' },
    requirements: { userId: true },
    run: (_input, { userId = null, claimedUserId = null }) => ({ userId, claimedUserId }),
  }),
])

async function start() {
  // A hook is asked about names in calls; this call names no one.
  const server = await startPrincipalsServer({
    tools: TOOLS,
    hooks: { bindUser: (_caller, id) => id === 'ann' },
  })
  onTestFinished(() => server.stop())
  return server
}

it('an open server: a tool that needs a user runs for the person at this machine over MCP, as the listing says', async () => {
  const server = await start()
  const listed = await server.ask('/admin/tools/Who.Needs')
  expect(listed.json.tool.requirements).toMatchObject([{ kind: 'user', state: 'met' }])
  const client = new Client({ name: 'test', version: '1.0.0' })
  onTestFinished(() => client.close())
  const transport = new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`))
  await client.connect(transport as Parameters<typeof client.connect>[0])
  const answer = await client.callTool({ name: 'Who_Needs', arguments: {} })
  expect(answer).toMatchObject({ structuredContent: { userId: 'local', claimedUserId: 'local' } })
})

it('an open server: a call that names a user is for that user, on every protocol', async () => {
  const server = await start()
  const call = (context: object) =>
    server.ask('/tools/call', {
      body: { request: { tool_id: 'Who.Needs', input: {}, context } },
      method: 'POST',
    })
  expect((await call({})).json.result.value).toEqual({ userId: 'local', claimedUserId: 'local' })
  expect((await call({ user_id: 'ann' })).json.result.value).toEqual({ userId: 'ann', claimedUserId: 'ann' })
  expect((await call({ user_id: 'bob' })).text).toContain('may not act for that user id')
})
