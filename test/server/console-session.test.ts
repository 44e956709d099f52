import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { type RunningServer, startServer } from '#server/start-server'
import { sampleTool } from '../contracts/samples.ts'
import { createDatabase } from '../store/databases.ts'
import { sqliteSettings, testSettings } from '../test-settings.ts'

const KEY = randomBytes(32).toString('hex')
const AUTH: Settings['auth'] = {
  apiKeys: [{ id: 'ann', key: new Secret(KEY), tenant: 'default', scopes: ['admin:keys', 'audit:read'] }],
  jwt: undefined,
}
const TOOLS = [sampleTool('Kit.Do@1.0.0', () => 'done')]

const running: { readonly server: RunningServer; readonly folder: string }[] = []

async function start(changes: Partial<Settings> = {}, settingsOf: typeof testSettings = testSettings) {
  const settings = settingsOf({ tools: TOOLS, ...changes })
  const consoleFolder = join(settings.dataFolder, 'console')
  mkdirSync(consoleFolder)
  writeFileSync(join(consoleFolder, 'index.html'), '<html><head></head></html>')
  const server = await startServer(settings, { graceMs: 0, consoleFolder })
  running.push({ server, folder: settings.dataFolder })
  return server
}

async function closeAll(): Promise<void> {
  for (const { server, folder } of running.splice(0)) {
    await server.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

type Headers = Readonly<Record<string, string>>

/** A browser: it keeps one cookie and the token of its session. */
class Browser {
  readonly url: string
  cookie = ''
  csrf = ''

  constructor(url: string) {
    this.url = url
  }

  async ask(path: string, { method, body, headers = {}, url = this.url }: Asking = {}) {
    const response = await fetch(`${url}${path}`, {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: {
        ...(this.cookie === '' ? {} : { cookie: this.cookie }),
        ...(this.csrf === '' ? {} : { 'collet-csrf': this.csrf }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      redirect: 'manual',
    })
    const text = await response.text()
    const set = response.headers.get('set-cookie')
    const isJson = response.headers.get('content-type')?.includes('json') === true
    // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
    const json: any = isJson ? JSON.parse(text) : undefined
    return { status: response.status, headers: response.headers, set, text, json }
  }

  /** Signs in with a key, or opens a start link, and reads its token as the page does. */
  async signIn(way: { readonly key: string } | { readonly link: string }) {
    const answer =
      'key' in way
        ? await this.ask('/console/session', { body: way })
        : await this.ask(new URL(way.link).pathname)
    this.cookie = answer.set?.split(';', 1)[0] ?? ''
    this.csrf = answer.json?.csrf ?? tokenIn(answer.headers.get('location')) ?? ''
    return answer
  }

  async statuses(headers: Headers = {}) {
    const list = await this.ask('/v1/tools', { headers })
    const keys = await this.ask('/admin/keys', { headers })
    return [list.status, keys.status]
  }
}

/** Fragments stay in the browser: no server sees them, whatever its port. */
function tokenIn(location: string | null): string | null {
  return new URLSearchParams(location?.split('#')[1] ?? '').get('session')
}

interface Asking {
  readonly method?: string
  readonly body?: unknown
  readonly headers?: Headers
  readonly url?: string
}

const startTokenOf = (server: RunningServer) => readFileSync(server.startTokenFile, 'utf8').trim()

describe('signing in to the console of a server with keys', () => {
  let server: RunningServer
  beforeAll(async () => {
    server = await start({ auth: AUTH }, sqliteSettings)
  })
  afterAll(closeAll)

  it('shows an anonymous visitor only how to sign in', async () => {
    const { status, json, headers, set } = await new Browser(server.url).ask('/console/session')
    expect([status, set, headers.get('cache-control')]).toEqual([200, null, 'no-store'])
    expect(json).toEqual({
      server: {
        version: expect.stringMatching(/^\d/),
        url: server.url,
        command: './collet',
        isOpen: false,
        signIn: { link: './collet sign-in', oidc: null },
      },
      ...{ principal: null, csrf: null, expiresAt: null },
    })
  })

  it('a key signs in, and the browser has the permissions of the key, on protocols and operator routes', async () => {
    const ann = new Browser(server.url)
    expect(await ann.statuses()).toEqual([401, 401])
    const { status, json, set } = await ann.signIn({ key: ` ${KEY} ` })
    expect([status, set?.includes(KEY)]).toEqual([200, false])
    expect(set).toMatch(/; HttpOnly; SameSite=Lax$/)
    expect(json.principal).toEqual({
      ...{ id: 'key:ann', name: 'ann', tenant: 'default', isOperator: false },
      scopes: ['admin:keys', 'audit:read'],
    })
    expect(json.csrf).toBe(ann.csrf)
    expect(Date.parse(json.expiresAt)).toBeGreaterThan(Date.now() + 11 * 3_600_000)
    expect(await ann.statuses()).toEqual([200, 200])
    const acting = await ann.ask('/admin/keys')
    expect(acting.headers.get('collet-acting-as')).toBe('key%3Aann')
    expect((await ann.ask('/admin/secrets')).status).toBe(403)
    const audit = await ann.ask('/admin/audit')
    expect(audit.json.events.at(-1)).toMatchObject({ action: 'admin', resource: 'admin:secrets' })
    for (const path of ['/v1/nothing', '/opentool/nothing'])
      expect([path, (await ann.ask(path)).status]).toEqual([path, 404])
    const called = await ann.ask('/tools/call', { body: { request: { tool_id: 'Kit.Do', input: {} } } })
    expect(called.json.result).toMatchObject({ success: true })
  })

  it('the cookie alone gives no access to data, from this site or another', async () => {
    const ann = new Browser(server.url)
    await ann.signIn({ key: KEY })
    for (const site of ['cross-site', 'same-site', 'none'])
      expect([site, ...(await ann.statuses({ 'sec-fetch-site': site }))]).toEqual([site, 401, 401])
    expect(await ann.statuses({ origin: 'https://evil.example' })).toEqual([403, 403])
    const { csrf } = ann
    ann.csrf = ''
    expect(await ann.statuses()).toEqual([401, 401])
    const asked = await ann.ask('/console/session', { headers: { 'sec-fetch-site': 'same-site' } })
    expect(asked.json).toMatchObject({ principal: null, csrf: null })
    ann.csrf = `${csrf.slice(0, -2)}AA`
    expect(await ann.statuses()).toEqual([401, 401])
    ann.csrf = csrf
    expect(await ann.statuses({ 'x-api-key': 'wrong' })).toEqual([401, 401])
    ann.cookie = `${ann.cookie}; ${ann.cookie}`
    expect(await ann.statuses()).toEqual([401, 401])
  })

  it('refuses wrong keys and malformed ones', async () => {
    const eve = new Browser(server.url)
    const wrong = await eve.ask('/console/session', { body: { key: 'guess' } })
    expect([wrong.status, wrong.set]).toEqual([401, null])
    expect(wrong.json.message).toContain('not valid here')
    for (const body of [{}, { key: '' }, { key: ' ' }, { key: 7 }, { key: 'x'.repeat(9_000) }, [KEY]])
      expect((await eve.ask('/console/session', { body })).status).toBe(400)
    const form = { 'content-type': 'text/plain' }
    expect((await eve.ask('/console/session', { body: { key: KEY }, headers: form })).status).toBe(400)
  })

  it('a revoked key ends its sessions at once', async () => {
    const operator = { authorization: `Bearer ${startTokenOf(server)}` }
    const made = await new Browser(server.url).ask('/admin/keys', {
      body: { principal: 'bob' },
      headers: operator,
    })
    const bob = new Browser(server.url)
    await bob.signIn({ key: made.json.key })
    expect(await bob.statuses()).toEqual([200, 403])
    const gone = await bob.ask(`/admin/keys/${made.json.key_id}`, { method: 'DELETE', headers: operator })
    expect(gone.status).toBe(200)
    await expect.poll(() => bob.statuses(), { timeout: 3_000 }).toEqual([401, 401])
    const { json, set } = await bob.ask('/console/session')
    expect([json.principal, json.csrf]).toEqual([null, null])
    expect(set).toMatch(/^collet_session_\d+=; Path=\/; Max-Age=0;/)
  })

  it('signing out ends the session for every copy of its cookie', async () => {
    const ann = new Browser(server.url)
    await ann.signIn({ key: KEY })
    const without = await ann.ask('/console/session', { method: 'DELETE', headers: { 'collet-csrf': 'x' } })
    expect(without.status).toBe(403)
    expect(await ann.statuses()).toEqual([200, 200])
    const out = await ann.ask('/console/session', { method: 'DELETE' })
    expect([out.status, out.set?.includes('Max-Age=0')]).toEqual([204, true])
    expect(await ann.statuses()).toEqual([401, 401])
    expect((await ann.ask('/console/session', { method: 'DELETE' })).status).toBe(204)
  })

  it('rule 29: a start link signs in as the operator, who manages everything and calls nothing', async () => {
    const browser = new Browser(server.url)
    const entered = await browser.signIn({ link: server.signInUrl ?? '' })
    expect([entered.status, entered.headers.get('location')]).toEqual([
      303,
      `/console#session=${browser.csrf}`,
    ])
    const { json } = await browser.ask('/console/session')
    expect(json.principal).toMatchObject({ id: 'operator', name: 'operator', isOperator: true })
    expect(await browser.statuses()).toEqual([403, 200])
    expect((await browser.ask('/v1/tools')).text).toContain('Sign in with an API key to call tools')
    expect((await browser.ask('/admin/secrets')).status).toBe(200)
    const link = await browser.ask('/admin/sign-in', { body: { approval: 'abc-1' } })
    const redirect = await browser.ask(link.json.url.slice(server.url.length))
    expect([redirect.status, redirect.headers.get('location')?.split('#')[0]]).toEqual([
      303,
      '/console/approvals/abc-1',
    ])
    // A link that is opened while signed in is used up: no other browser can sign in with it.
    const next = await new Browser(server.url).ask(link.json.url.slice(server.url.length))
    expect([next.status, next.set]).toEqual([410, null])
    const token = new Browser(server.url)
    await token.signIn({ key: startTokenOf(server) })
    expect(await token.statuses()).toEqual([403, 200])
    expect(token.cookie).not.toContain(startTokenOf(server))
  })
})

describe('another program on this host, which also receives the cookie', () => {
  let server: RunningServer
  beforeAll(async () => {
    server = await start({ auth: AUTH }, sqliteSettings)
  })
  afterAll(closeAll)

  it.each(['key', 'operator'] as const)(
    'gets no access with the cookie of a session of kind %s',
    async (kind) => {
      const link = async () => {
        const headers = { authorization: `Bearer ${startTokenOf(server)}` }
        const made = await new Browser(server.url).ask('/admin/sign-in', { body: {}, headers })
        return made.json.url as string
      }
      const person = new Browser(server.url)
      await person.signIn(kind === 'key' ? { key: KEY } : { link: await link() })
      expect((await person.ask('/console/session')).json.principal).not.toBe(null)
      const attacker = new Browser(server.url)
      attacker.cookie = person.cookie
      const reply = await attacker.ask('/console/session')
      expect(reply.json).toMatchObject({ principal: null, csrf: null, expiresAt: null })
      // The description of the routes is equal for all callers and contains no data.
      const admin = server.routes.filter(
        ({ path }) => path.startsWith('/admin/') && path !== '/admin/openapi.json',
      )
      expect(admin.length).toBeGreaterThan(45)
      for (const { method, path } of admin) {
        const body = method === 'POST' ? {} : undefined
        const { status, text } = await attacker.ask(path.replaceAll(/:\w+/g, 'x'), { method, body })
        expect([method, path, status]).toEqual([method, path, 401])
        expect(text).not.toContain(person.csrf)
      }
      for (const path of ['/console', '/console/calls', '/approvals', '/approvals/x', '/sign-in/x', '/'])
        expect((await attacker.ask(path)).text).not.toContain(person.csrf)
      expect((await attacker.ask('/console/session', { method: 'DELETE' })).status).toBe(403)
      // A token derived from the other kind is refused too.
      attacker.csrf = person.csrf.replace(/^\w+/, kind === 'key' ? 'operator' : 'key')
      expect((await attacker.ask('/admin/keys')).status).toBe(401)
    },
  )
})

describe('a server without keys', () => {
  afterEach(closeAll)

  it('lets every visitor read and call tools, and requires a sign-in to manage', async () => {
    const server = await start()
    const browser = new Browser(server.url)
    expect((await browser.ask('/console/session')).json).toMatchObject({
      server: { isOpen: true, signIn: { link: './collet sign-in' } },
      principal: null,
    })
    expect(await browser.statuses()).toEqual([200, 401])
    const refused = await browser.ask('/console/session', { body: { key: 'any' } })
    expect([refused.status, refused.json.message.includes('./collet sign-in')]).toEqual([401, true])
    await browser.signIn({ link: server.signInUrl ?? '' })
    expect(await browser.statuses()).toEqual([200, 200])
  })

  it('the session of an operator ends with the server, also on the same store and port', async () => {
    const first = await start({}, sqliteSettings)
    const { dataFolder, store } = {
      dataFolder: running[0]?.folder ?? '',
      store: `sqlite:${running[0]?.folder}/collet.db`,
    }
    const browser = new Browser(first.url)
    await browser.signIn({ link: first.signInUrl ?? '' })
    expect(await browser.statuses()).toEqual([200, 200])
    await first.close()
    const port = Number(new URL(first.url).port)
    const { server } = testSettings({ dataFolder })
    const again = await startServer(
      testSettings({ tools: TOOLS, dataFolder, store, server: { ...server, port } }),
      { graceMs: 0 },
    )
    try {
      expect(await browser.statuses()).toEqual([200, 401])
      expect((await browser.ask('/console/session')).json.principal).toBe(null)
    } finally {
      await again.close()
    }
  })

  it('has no sign-in links where other machines can reach it, and no start token signs a browser in', async () => {
    const { server } = testSettings()
    const published = { ...server, publicUrl: 'https://tools.example.com' }
    const reached = await start({ auth: AUTH, server: published })
    const browser = new Browser(reached.url)
    const { json } = await browser.ask('/console/session')
    expect(json.server).toMatchObject({ url: 'https://tools.example.com', signIn: { link: null } })
    expect(reached.signInUrl).toBeUndefined()
    const refused = await browser.ask('/console/session', { body: { key: startTokenOf(reached) } })
    expect([refused.status, refused.set]).toEqual([401, null])
    const { set } = await browser.ask('/console/session', { body: { key: KEY } })
    expect(set).toMatch(/^__Host-collet_session_443=.*; Secure$/)
  })

  it('has no console sessions when the console is off', async () => {
    const server = await start({ console: { enabled: false } })
    const browser = new Browser(server.url)
    for (const path of ['/console', '/console/session', '/console/tools'])
      expect([path, (await browser.ask(path)).status]).toEqual([path, 404])
  })
})

it('replicas on one PostgreSQL share sessions and sign-outs', async () => {
  const { server } = testSettings()
  const shared = {
    auth: AUTH,
    store: await createDatabase('console_sessions'),
    masterKey: randomBytes(32),
    // The address that browsers see for all replicas: its port is in the cookie name.
    server: { ...server, publicUrl: 'http://127.0.0.1:7300' },
  }
  try {
    const [one, other] = [await start(shared), await start(shared)]
    const ann = new Browser(one.url)
    await ann.signIn({ key: KEY })
    const there = new Browser(other.url)
    Object.assign(there, { cookie: ann.cookie, csrf: ann.csrf })
    expect([await ann.statuses(), await there.statuses()]).toEqual([
      [200, 200],
      [200, 200],
    ])
    expect((await there.ask('/console/session', { method: 'DELETE' })).status).toBe(204)
    expect([await ann.statuses(), await there.statuses()]).toEqual([
      [401, 401],
      [401, 401],
    ])
    // Each replica has its own start token.
    const operator = new Browser(one.url)
    await operator.signIn({ link: one.signInUrl ?? '' })
    expect((await operator.ask('/admin/keys')).status).toBe(200)
    expect((await operator.ask('/admin/keys', { url: other.url })).status).toBe(401)
  } finally {
    await closeAll()
  }
})
