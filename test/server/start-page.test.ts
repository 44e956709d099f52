import { afterEach, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { type RunningServer, startServer } from '#server/start-server'
import { testSettings } from '../test-settings.ts'

const running: RunningServer[] = []
afterEach(async () => {
  for (const server of running.splice(0)) await server.close()
})

async function open(changes: Parameters<typeof testSettings>[0] = {}) {
  const settings = testSettings({ console: { enabled: false }, ...changes })
  const server = await startServer(settings, { graceMs: 0 })
  running.push(server)
  const response = await fetch(server.url, { headers: { accept: 'text/html' } })
  return { url: server.url, response, page: (await response.text()).replaceAll('&quot;', '"') }
}

it('shows a browser the addresses of the server, and the configuration of each client', async () => {
  const { url, response, page } = await open()
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
  expect(response.headers.get('content-security-policy')).toContain("default-src 'none'")
  expect(page).toContain(`<code>${url}/mcp</code>`)
  expect(page).toContain(`"url": "${url}/mcp"`)
  expect(page).toContain('./collet connect claude --write')
  expect(page).not.toContain('Authorization')
})

it('names the variable of the key where one is needed, and no principal with a key', async () => {
  const auth = {
    apiKeys: [{ id: 'ann', key: new Secret('k-canary'), tenant: 'default', scopes: [] }],
    jwt: undefined,
  }
  const { response, page } = await open({ auth })
  expect(response.status).toBe(200)
  expect(page).toContain('COLLET_API_KEY')
  expect(page).not.toMatch(/canary|ann\b/)
})

it('explains /mcp to a browser that opens it, and refuses a program as the protocol requires', async () => {
  const { url } = await open()
  const page = await fetch(`${url}/mcp`, { headers: { accept: 'text/html,*/*;q=0.8' } })
  expect([page.status, page.headers.get('allow')]).toEqual([405, 'POST'])
  expect(await page.text()).toMatch(/for MCP clients.*collet connect CLIENT.*href=".\/"/s)
  for (const accept of ['text/event-stream', '*/*', 'application/json']) {
    const reply = await fetch(`${url}/mcp`, { headers: { accept } })
    expect([reply.status, reply.headers.get('allow')]).toEqual([405, 'POST'])
    expect(await reply.json()).toMatchObject({
      jsonrpc: '2.0',
      error: { message: expect.stringContaining('for MCP clients') },
    })
  }
})
