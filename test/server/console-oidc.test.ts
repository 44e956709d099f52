import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { settingsOf } from '#server/create-gateway'
import { type RunningServer, startServer } from '#server/start-server'
import { sampleTool } from '../contracts/samples.ts'
import { readBlocks } from '../docs/markdown-blocks.ts'
import {
  type AuthorizationServerOptions,
  CLIENT_SECRET,
  startAuthorizationServer,
} from '../oauth/authorization-server.ts'
import { Browser } from '../oauth/browser.ts'
import { testSettings } from '../test-settings.ts'

const RESOURCE = 'https://tools.example.com/'
const root = mkdtempSync(join(tmpdir(), 'collet-console-oidc-'))
const open: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close()
  rmSync(root, { recursive: true, force: true })
})

type Issuer = NonNullable<Settings['auth']['issuers']>[number]

/** A server whose users sign in at a real provider, which issues opaque access tokens unless the request names a resource. */
async function start(
  given: AuthorizationServerOptions = {},
  { audience = 'collet', scopes = [] as string[], roles = undefined as readonly string[] | undefined } = {},
) {
  const provider = await startAuthorizationServer(given)
  open.push(async () => await provider[Symbol.asyncDispose]())
  const folder = mkdtempSync(join(mkdirSync(root, { recursive: true }) ?? root, 'server-'))
  writeFileSync(join(folder, 'index.html'), '<html><head></head></html>')
  const issuer: Issuer = {
    ...{ issuer: provider.issuer, audiences: [audience], jwksUri: undefined, algorithms: undefined },
    ...{ claims: { tenant: undefined, scopes: undefined, roles }, tenant: 'default' },
  }
  const settings = testSettings({
    dataFolder: folder,
    tools: [sampleTool('Kit.Do@1.0.0', () => 'done')],
    auth: {
      ...{ apiKeys: [], jwt: undefined, issuers: [issuer] },
      roles: new Map([['keeper', { scopes: ['admin:keys'] }]]),
    },
    console: {
      enabled: true,
      signIn: {
        ...{ issuer: provider.issuer, clientId: 'collet', clientSecret: new Secret(CLIENT_SECRET) },
        ...{ clientAuth: 'basic', scopes: ['openid', ...scopes] },
        resource: given.resource?.uri,
      },
    },
  })
  const server = await startServer(settings, { graceMs: 0, consoleFolder: folder })
  open.push(() => server.close())
  return { provider, server }
}

/** The value that a page creates and keeps before it leaves for the provider. */
const PAGE_NONCE = 'a'.repeat(40)

async function signIn(browser: Browser, server: RunningServer, to = '/console') {
  const query = `page_nonce=${PAGE_NONCE}&to=${encodeURIComponent(to)}`
  const page = await browser.visit(`${server.url}/console/sign-in?${query}`, { login: 'ann' })
  const [url = '', fragment = ''] = page.url.split('#')
  const brought = new URLSearchParams(fragment)
  return { ...page, url, token: brought.get('session') ?? '', pageNonce: brought.get('page_nonce') }
}

async function sessionOf(browser: Browser, server: RunningServer, token = '') {
  const headers = { 'collet-csrf': token }
  return JSON.parse((await browser.get(`${server.url}/console/session`, { headers })).text)
}

async function statuses(browser: Browser, server: RunningServer, csrf: string) {
  const headers = { 'collet-csrf': csrf }
  const list = await browser.get(`${server.url}/v1/tools`, { headers })
  const keys = await browser.get(`${server.url}/admin/keys`, { headers })
  return [list.status, keys.status]
}

it('signs in with the ID token where access tokens are opaque, as the principal from auth.issuers', async () => {
  const { provider, server } = await start({ claims: { groups: ['keeper'] } }, { roles: ['groups'] })
  const browser = new Browser()
  expect((await sessionOf(browser, server)).server.signIn.oidc).toBe(new URL(provider.issuer).host)
  const arrived = await signIn(browser, server, '/console/calls?status=error')
  expect([arrived.status, arrived.url]).toEqual([200, `${server.url}/console/calls?status=error`])
  expect(arrived.pageNonce).toBe(PAGE_NONCE)
  expect((await sessionOf(browser, server)).principal).toBe(null)
  const { principal, csrf, expiresAt } = await sessionOf(browser, server, arrived.token)
  expect(principal).toEqual({
    ...{ id: `jwt:${provider.issuer}#ann`, name: 'ann', tenant: 'default', isOperator: false },
    scopes: ['admin:keys'],
  })
  // As long as the token is valid: ten minutes.
  expect(Date.parse(expiresAt)).toBeLessThanOrEqual(Date.now() + 600_000)
  expect(await statuses(browser, server, csrf)).toEqual([200, 200])
  const departed = browser.visited.find((url) => url.startsWith(`${provider.issuer}/auth?`)) ?? ''
  const asked = new URL(departed).searchParams
  expect([asked.get('code_challenge_method'), asked.get('redirect_uri')]).toEqual([
    'S256',
    `${server.url}/console/sign-in/callback`,
  ])
})

it('prefers an access token that is valid for API calls, with its scopes', async () => {
  const resource = { uri: RESOURCE, scope: 'admin:keys' }
  const { server } = await start({ resource }, { audience: RESOURCE, scopes: ['admin:keys'] })
  const browser = new Browser()
  const { token } = await signIn(browser, server)
  const { principal, csrf } = await sessionOf(browser, server, token)
  expect(principal.scopes).toEqual(['admin:keys'])
  expect(await statuses(browser, server, csrf)).toEqual([200, 200])
})

it('explains what to change when auth.issuers accepts neither token, or the token is too long for a browser', async () => {
  const wrong = await start({}, { audience: 'another' })
  const refused = await signIn(new Browser(), wrong.server)
  expect(refused.status).toBe(403)
  expect(refused.text).toContain('auth.issuers')
  expect(refused.text).toContain('`aud` claim is not acceptable')
  expect(refused.headers.getSetCookie().join()).not.toContain('collet_session')
  const groups = Array.from({ length: 200 }, (_, index) => `group-of-the-company-${index}`)
  const long = await start({ claims: { groups } })
  const tooLong = await signIn(new Browser(), long.server)
  expect([tooLong.status, tooLong.text.includes('too long for a browser to keep')]).toEqual([502, true])
})

it('a return that was started elsewhere, repeated or never started signs no user in, and redirects to no other site', async () => {
  const { server } = await start()
  const [ann, eve] = [new Browser(), new Browser()]
  let callback = ''
  const stopsAt = (url: string): boolean => {
    if (!url.includes('/console/sign-in/callback')) return false
    callback = url
    return true
  }
  await eve.visit(`${server.url}/console/sign-in?page_nonce=${PAGE_NONCE}`, { login: 'eve', stopsAt })
  expect(callback).toContain('code=')
  const tries = [
    await ann.get(callback),
    await eve.get(callback.replace(/state=[^&]+/, 'state=x')),
    await eve.get(callback.replace(/state=[^&]+/, '')),
    await ann.get(`${server.url}/console/sign-in/callback`),
  ]
  for (const { status, headers } of tries)
    expect([status, headers.getSetCookie().join().includes('collet_session')]).toEqual([400, false])
  const again = new Browser()
  await again.visit(`${server.url}/console/sign-in?page_nonce=${PAGE_NONCE}`, { login: 'eve', stopsAt })
  expect((await again.get(callback)).status).toBe(303)
  expect((await again.get(callback)).headers.getSetCookie().join()).not.toContain('collet_session_')
  for (const to of [
    'https://evil.example/console',
    '//evil.example/console',
    '/\\evil.example/console',
    '/admin/keys',
    '/console/../admin',
    'x',
  ])
    expect([to, (await signIn(new Browser(), server, to)).url]).toEqual([to, `${server.url}/console`])
})

const portOf = ({ url }: RunningServer) => new URL(url).port

it('can only be started by a page, which recognises its own return: following an address does not sign in', async () => {
  const { server } = await start()
  const browser = new Browser()
  for (const query of [
    '',
    '?page_nonce=',
    '?page_nonce=short',
    `?page_nonce=${encodeURIComponent('<'.repeat(30))}`,
  ]) {
    const { status, headers } = await browser.get(`${server.url}/console/sign-in${query}`)
    expect([status, headers.get('location')]).toEqual([303, '/console'])
  }
  expect(browser.cookiesOf(server.url).size).toBe(0)
})

it('two tabs, and two servers on one host, sign in independently, and leave no sign-in state in the browser', async () => {
  const [first, second] = [await start(), await start()]
  const browser = new Browser()
  const callbacks: string[] = []
  const stopsAt = (url: string): boolean => {
    if (!url.includes('/console/sign-in/callback')) return false
    callbacks.push(url)
    return true
  }
  const leave = async ({ server }: typeof first, to: string) =>
    await browser.visit(`${server.url}/console/sign-in?page_nonce=${PAGE_NONCE}&to=${to}`, {
      login: 'ann',
      stopsAt,
    })
  await leave(first, '/console/calls')
  await leave(first, '/console/settings')
  await leave(second, '/console/approvals')
  // A real browser shares cookies between all ports of a host, so each cookie name contains the port.
  for (const { server } of [first, second])
    for (const name of browser.cookiesOf(server.url).keys()) expect(name).toContain(`-${portOf(server)}-`)
  const arrived = []
  for (const callback of callbacks)
    arrived.push((await browser.get(callback)).headers.get('location')?.split('#')[0])
  expect(arrived).toEqual(['/console/calls', '/console/settings', '/console/approvals'])
  for (const { server } of [first, second])
    expect([...browser.cookiesOf(server.url).keys()]).toEqual([`collet_session_${portOf(server)}`])
})

it('a browser that starts many sign-ins keeps a few pending, and the last one still succeeds', async () => {
  const { server } = await start()
  const browser = new Browser()
  for (let nth = 0; nth < 12; nth += 1)
    await browser.get(`${server.url}/console/sign-in?page_nonce=${PAGE_NONCE}`)
  expect(browser.cookiesOf(server.url).size).toBe(5)
  expect((await signIn(browser, server)).url).toBe(`${server.url}/console`)
})

it('an identity provider that is unreachable or refuses is reported as such', async () => {
  const { provider, server } = await start()
  const denied = await new Browser().visit(`${server.url}/console/sign-in?page_nonce=${PAGE_NONCE}`, {
    login: 'ann',
    denies: true,
  })
  expect([denied.status, denied.text.includes('was cancelled')]).toEqual([403, true])
  provider.intercept = (_request, __, response) => {
    response.statusCode = 500
    response.end()
    return true
  }
  const fresh = await start()
  fresh.provider.intercept = provider.intercept
  const away = await new Browser().get(`${fresh.server.url}/console/sign-in?page_nonce=${PAGE_NONCE}`)
  expect([away.status, away.text.includes('did not answer as expected')]).toEqual([502, true])
})

it('docs/recipes/single-sign-on.md: with its config users sign in, and their groups determine their permissions', async () => {
  const [block] = readBlocks('docs/recipes/single-sign-on.md').filter(({ language }) => language === 'json')
  for (const [group, may] of [
    ['platform', [200, 200]],
    ['sales', [200, 403]],
  ] as const) {
    const provider = await startAuthorizationServer({ claims: { groups: [group] } })
    open.push(async () => await provider[Symbol.asyncDispose]())
    const folder = mkdtempSync(join(mkdirSync(root, { recursive: true }) ?? root, 'recipe-'))
    writeFileSync(join(folder, 'index.html'), '<html><head></head></html>')
    const printed = block?.text.replaceAll('https://idp.example.com', provider.issuer) ?? ''
    // The address and the upstream belong to a real network; this provider gives its application a secret.
    const { server: _address, sources: _upstream, ...config } = JSON.parse(printed)
    config.console.signIn.clientSecret = CLIENT_SECRET
    const settings = await settingsOf(
      { ...config, tools: [], server: { port: 0 }, store: 'memory:', log: { level: 'silent' } },
      { folder },
    )
    const server = await startServer(settings, { graceMs: 0, consoleFolder: folder })
    open.push(() => server.close())
    const browser = new Browser()
    const arrived = await signIn(browser, server)
    expect(arrived.status).toBe(200)
    const { principal, csrf } = await sessionOf(browser, server, arrived.token)
    expect(principal.id).toMatch(`jwt:${provider.issuer}#`)
    expect(await statuses(browser, server, csrf)).toEqual(may)
  }
})
