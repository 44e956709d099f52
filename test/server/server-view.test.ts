import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterEach, describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { clientSnippets } from '#server/import/client-snippets'
import { NO_LIMITS } from '#stages/limits/settings'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

const running: PrincipalsServer[] = []
afterEach(async () => {
  for (const server of running.splice(0)) await server.stop()
})

async function open(changes: Partial<Settings> = {}): Promise<PrincipalsServer> {
  const server = await startPrincipalsServer(changes)
  running.push(server)
  return server
}

const TARGET = { url: 'http://127.0.0.1:4100/mcp', name: 'collet', isKeyed: false, isOwnMachine: true }

describe('GET /admin/server', () => {
  it('is public where callers need no credential, and has addresses and snippets', async () => {
    const server = await open()
    const { status, json } = await server.ask('/admin/server')
    expect(status).toBe(200)
    expect(json).toMatchObject({ url: server.url, needs_key: false, own_machine: true, store: 'memory' })
    expect(json.protocols.map(({ url }: { url: string }) => url)).toEqual(
      ['/mcp', '/tools', '/opentool', '/v1'].map((path) => server.url + path),
    )
    expect(JSON.stringify(json.clients)).toContain(`${server.url}/mcp`)
    expect(JSON.stringify(json.clients)).not.toContain('Authorization')
    expect((await server.ask('/admin/limits')).status).toBe(401)
  })

  it('requires a key where callers need one, and names only toolsets that the key may use', async () => {
    const toolsets: NonNullable<Settings['toolsets']> = new Map([
      ['mail', { include: ['Mail.*'], exclude: [] }],
      ['notes', { include: ['Note.*'], exclude: [] }],
    ])
    const apiKeys = [key('mailer', ['*'], { tools: ['toolset:mail'] })]
    const server = await open({ toolsets, auth: { apiKeys, jwt: undefined } })
    expect((await server.ask('/admin/server')).status).toBe(401)
    const { json } = await server.ask('/admin/server?toolset=mail', { key: 'k-mailer' })
    expect(json.toolsets).toEqual([{ name: 'mail', description: null, url: `${server.url}/mcp/mail` }])
    const texts = JSON.stringify(json.clients)
    expect(texts).toContain(`${server.url}/mcp/mail`)
    expect(texts).toContain('COLLET_API_KEY')
    expect(texts).not.toContain('k-mailer')
    const other = await server.ask('/admin/server?toolset=notes', { key: 'k-mailer' })
    expect(JSON.stringify(other.json)).not.toContain('notes')
  })

  it('shows snippets that the documentation tests run', () => {
    const documents = readFileSync(join(import.meta.dirname, '../../docs/clients.md'), 'utf8')
    const code = clientSnippets(TARGET).filter(({ kind }) => kind === 'code')
    expect(code.map(({ name }) => name)).toEqual(['ai-sdk', 'langchain'])
    for (const { text } of code)
      for (const line of text.split('\n').filter((each) => !each.startsWith('//')))
        expect(documents).toContain(line)
    for (const { kind, text } of clientSnippets(TARGET)) if (kind === 'json') JSON.parse(text)
  })

  it('gives clients that start programs an address if the server is on another machine', () => {
    const far = { ...TARGET, url: 'https://tools.example/mcp', isOwnMachine: false }
    expect(clientSnippets(far).find(({ name }) => name === 'claude')).toMatchObject({
      text: 'https://tools.example/mcp',
      command: null,
    })
  })
})

describe('GET /admin/server/onboarding', () => {
  it('shows the caller’s own calls, and which of them an agent made', async () => {
    const server = await open()
    const onboarding = async () => (await server.ask('/admin/server/onboarding')).json
    expect(await onboarding()).toEqual({ has_calls: false, agent_call: null })
    const body = { request: { tool_id: 'Open.Say', call_id: 'c-1', input: {} } }
    await server.ask('/tools/call', { method: 'POST', body })
    expect(await onboarding()).toEqual({ has_calls: true, agent_call: null })
    const agent = new Client({ name: 'agent', version: '1.0.0' })
    await agent.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`)))
    await agent.callTool({ name: 'Open_Say', arguments: {} })
    await agent.close()
    expect(await onboarding()).toMatchObject({ agent_call: { tool: 'Open.Say@1.0.0' } })
  })

  it('shows no calls of other principals', async () => {
    const apiKeys = [key('ann', ['*']), key('ben', []), key('watch', ['admin:calls'])]
    const server = await open({ auth: { apiKeys, jwt: undefined } })
    const body = { request: { tool_id: 'Open.Say', call_id: 'c-1', input: {} } }
    await server.ask('/tools/call', { method: 'POST', key: 'k-ann', body })
    const seen = async (who: string) =>
      (await server.ask('/admin/server/onboarding', { key: `k-${who}` })).json.has_calls
    expect([await seen('ann'), await seen('ben'), await seen('watch')]).toEqual([true, false, true])
  })
})

it('GET /admin/limits has the configured limits and their current use', async () => {
  const limits = {
    ...NO_LIMITS,
    perPrincipal: { rate: { perMs: 60 / 60_000, burst: 10 }, concurrent: 4 },
    total: { ...NO_LIMITS.total, concurrent: 64 },
  }
  const apiKeys = [key('clerk', ['admin:calls']), key('ann', [])]
  const server = await open({ limits, auth: { apiKeys, jwt: undefined } })
  const { json } = await server.ask('/admin/limits', { key: 'k-clerk' })
  expect(json.now).toContainEqual({ what: 'running', used: 0, limit: 64 })
  expect(json.rules).toContainEqual({
    ...{ of: 'principal', name: null, at_once: 4 },
    rate: { per_minute: 60, burst: 10 },
  })
  const refused = await server.ask('/admin/limits', { key: 'k-ann' })
  expect([refused.status, refused.text.includes('admin:calls')]).toEqual([403, true])
})
