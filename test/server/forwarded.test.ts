import { randomBytes } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { type RunningServer, type StartOptions, startServer } from '#server/start-server'
import { sampleTool } from '../contracts/samples.ts'
import { readBlocks } from '../docs/markdown-blocks.ts'
import { createDatabase, elsewhere } from '../store/databases.ts'
import { testSettings } from '../test-settings.ts'
import { ask } from './node-ask.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const KEY = randomBytes(32).toString('base64url')
const running: { server: RunningServer; folder: string }[] = []

afterEach(async () => {
  for (const { server, folder } of running.splice(0)) {
    await server.close()
    rmSync(folder, { recursive: true })
  }
})

async function start(changes: Partial<Settings> = {}, options: StartOptions = {}): Promise<RunningServer> {
  const settings = testSettings({
    tools: [sampleTool('Math.Answer@1.0.0', () => 42)],
    ...changes,
  })
  const server = await startServer(settings, { graceMs: 0, ...options })
  running.push({ server, folder: settings.dataFolder })
  return server
}

function keyed(): Partial<Settings> {
  const apiKeys = [{ id: 'alice', key: new Secret(KEY), tenant: 'default', scopes: [] }]
  return { auth: { apiKeys, jwt: undefined } }
}

/** Headers that proxies, tunnels and cloud load balancers add to forwarded requests. */
const PROXY_HEADERS = [
  ['forwarded', 'for=203.0.113.9'],
  ['via', '1.1 Caddy'],
  ['x-forwarded-for', '203.0.113.9'],
  ['x-forwarded-for', '127.0.0.1'],
  ['x-forwarded-host', 'tools.example.com'],
  ['x-forwarded-proto', 'https'],
  ['x-forwarded-port', '443'],
  ['x-forwarded-server', 'edge'],
  ['x-real-ip', '203.0.113.9'],
  ['x-client-ip', '203.0.113.9'],
  ['x-cluster-client-ip', '203.0.113.9'],
  ['x-original-forwarded-for', '203.0.113.9'],
  ['true-client-ip', '203.0.113.9'],
  ['cf-connecting-ip', '203.0.113.9'],
  ['fastly-client-ip', '203.0.113.9'],
  ['fly-client-ip', '203.0.113.9'],
  ['x-forwarded', 'for=203.0.113.9'],
  ['forwarded-for', '203.0.113.9'],
  ['x_forwarded_for', '203.0.113.9'],
  ['x-original-host', 'tools.example.com'],
  ['cdn-loop', 'cloudflare'],
  ['cf-ray', '7f2c3d'],
  ['cf-connecting-ipv6', '2001:db8::9'],
  ['x-envoy-external-address', '203.0.113.9'],
  ['x-azure-clientip', '203.0.113.9'],
  ['x-appengine-user-ip', '203.0.113.9'],
  ['x-arr-log-id', '1'],
  ['wl-proxy-client-ip', '203.0.113.9'],
  ['x-proxyuser-ip', '203.0.113.9'],
  ['x-remote-addr', '203.0.113.9'],
  ['x-originating-ip', '203.0.113.9'],
  ['ali-cdn-real-ip', '203.0.113.9'],
  ['tailscale-user-login', 'ann@example.com'],
] as const

const CALL = JSON.stringify({ request: { tool_id: 'Math.Answer', input: {} } })

async function callThrough(server: RunningServer, headers: Record<string, string>) {
  const all = { 'content-type': 'application/json', ...headers }
  return await ask(`${server.url}/tools/call`, { method: 'POST', headers: all, body: CALL })
}

describe('a request that a proxy forwarded', () => {
  it('is refused by a server without credentials, whatever the proxy adds', async () => {
    const server = await start()
    expect((await callThrough(server, {})).status).toBe(200)
    for (const [name, value] of PROXY_HEADERS) {
      const refused = await callThrough(server, { [name]: value })
      expect([name, refused.status]).toEqual([name, 403])
      expect(refused.body).toMatch(/came through a proxy.*no credentials.*collet keys create/)
    }
  })

  it('is distinguished from a local client’s request with its usual headers', async () => {
    const server = await start()
    const names = ['user-agent', 'x-request-id', 'traceparent', 'x-amzn-trace-id', 'proxy-connection']
    const headers = Object.fromEntries(names.map((name) => [name, 'a']))
    expect((await callThrough(server, { ...headers, 'x-user': 'ann', port: '1' })).status).toBe(200)
  })

  it('is refused on every route of a server without credentials', async () => {
    const server = await start()
    const answers = await Promise.all(
      server.routes.map(async ({ method, path }) => {
        const url = `${server.url}${path.replaceAll(/:\w+/g, 'x')}`
        const { status } = await ask(url, { method, headers: { 'x-forwarded-for': '203.0.113.9' } })
        return [method, path, status]
      }),
    )
    expect(answers.length).toBeGreaterThan(50)
    expect(answers.filter(([, , status]) => status !== 403)).toEqual([])
  })

  it('does not sign a browser in on a server without credentials, by link or by start token', async () => {
    const server = await start()
    const headers = { 'x-forwarded-for': '203.0.113.9', 'content-type': 'application/json' }
    const link = await ask(server.signInUrl ?? '', { headers })
    expect([link.status, link.headers['set-cookie']]).toEqual([403, undefined])
    const key = readFileSync(server.startTokenFile, 'utf8').trim()
    const body = JSON.stringify({ key })
    const session = await ask(`${server.url}/console/session`, { method: 'POST', headers, body })
    expect([session.status, session.headers['set-cookie']]).toEqual([403, undefined])
    // The refused request did not consume the link.
    expect((await ask(server.signInUrl ?? '', {})).status).toBe(303)
  })

  it('is accepted by a server with credentials, which requires one', async () => {
    const server = await start(keyed())
    expect((await callThrough(server, { via: '1.1 Caddy' })).status).toBe(401)
    const headers = { via: '1.1 Caddy', authorization: `Bearer ${KEY}` }
    expect((await callThrough(server, headers)).status).toBe(200)
  })

  it('is accepted where anonymous callers are allowed, and then no link signs browsers in', async () => {
    const server = await start({}, { allowAnonymous: true })
    expect((await callThrough(server, { 'x-forwarded-for': '203.0.113.9' })).status).toBe(200)
    expect(server.signInUrl).toBeUndefined()
    const body = JSON.stringify({ key: readFileSync(server.startTokenFile, 'utf8').trim() })
    const headers = { 'content-type': 'application/json' }
    const session = await ask(`${server.url}/console/session`, { method: 'POST', headers, body })
    expect(session.status).toBe(401)
  })
})

describe('a public address without credentials', () => {
  const at = (publicUrl: string): Partial<Settings> => ({
    server: { ...testSettings().server, publicUrl },
  })

  it('causes a warning at the start', async () => {
    const { warnings } = await start(at('https://tools.example.com'))
    expect(warnings).toEqual([
      expect.stringMatching(/https:\/\/tools\.example\.com.*no credentials.*refuse.*collet keys create/s),
    ])
  })

  it('causes no warning with a key or on loopback', async () => {
    expect((await start({ ...at('https://tools.example.com'), ...keyed() })).warnings).toEqual([])
    expect((await start(at('http://127.0.0.1:4100'))).warnings).toEqual([])
  })
})

/** The addresses that a proxy config listens on: from `bind` lines of Caddy and `listen` lines of nginx. */
function listensOn(block: string): readonly string[] {
  const sites = [...block.matchAll(/^(?:https?:\/\/\S+|\{\$\w+\}) \{$/gm)]
  if (sites.length > 0) return [...block.matchAll(/^\tbind (.+)$/gm)].map(([, address = '']) => address)
  return [...block.matchAll(/^\s*listen ([^;]+);$/gm)].map(([, address = '']) => address)
}

describe('the proxies in the documentation for one machine', () => {
  const blocks = readBlocks('docs/operations.md').filter(({ text }) =>
    /reverse_proxy|proxy_pass http:\/\//.test(text),
  )

  it('listen on loopback only', () => {
    expect(blocks.map(({ text }) => listensOn(text))).toEqual([['127.0.0.1'], ['127.0.0.1:4100']])
  })

  it('mark each request as forwarded', () => {
    const nginx = blocks.find(({ language }) => language === 'nginx')
    expect(nginx?.text).toContain('proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;')
  })

  it('a block that listens on all interfaces is detected', () => {
    const everywhere = readFileSync(join(ROOT, 'deploy/Caddyfile'), 'utf8')
    expect(listensOn(everywhere)).toEqual([])
    expect(listensOn('  listen 4100;\n')).toEqual(['4100'])
  })
})

describe('a store on PostgreSQL', () => {
  it('causes a warning at the start without TLS, unless it is on this machine', async () => {
    const url = await createDatabase('plain_text')
    const masterKey = randomBytes(32)
    expect((await start({ store: elsewhere(url), masterKey })).warnings).toEqual([
      expect.stringMatching(/PostgreSQL on 0\.0\.0\.0 is not encrypted.*sslmode=require/),
    ])
    expect((await start({ store: url, masterKey })).warnings).toEqual([])
  })
})
