import { generateKeyPairSync } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import { describe, expect, it, onTestFinished } from 'vitest'
import { OAUTH } from '#config/schema-oauth'
import type { Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { startServer } from '#server/start-server'
import { createLog } from '#server/telemetry/log'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { freePort } from '../sources/everything-server.ts'
import { egressTo, sqliteSettings, testSettings } from '../test-settings.ts'
import {
  type AuthorizationServerOptions,
  CLIENT_SECRET,
  startAuthorizationServer,
  type TestAuthorizationServer,
} from './authorization-server.ts'
import { Browser } from './browser.ts'
import { type GuardedServer, startGuardedServer } from './guarded-mcp-server.ts'
import { AGENT, askOtc, OTHER } from './oauth-stage.ts'

interface Setting extends AuthorizationServerOptions {
  readonly provider?: Record<string, unknown>
  readonly authorization?: Record<string, unknown>
  readonly listsFreely?: boolean
}

/** Collet in front of an MCP server that requires tokens of a real authorization server. */
async function open({ provider = {}, authorization = {}, listsFreely = true, ...of }: Setting) {
  let issuer = ''
  const upstream = await startGuardedServer({
    issuer: () => issuer,
    ...{ listsFreely, dpop: of.dpop === true },
  })
  const scope = 'mail.read mail.send'
  const as = await startAuthorizationServer({ ...of, resource: { uri: upstream.url, scope } })
  issuer = as.issuer
  const written = { resource: upstream.url, ...provider }
  const { providers } = OAUTH.parse({ providers: { up: written, Up: written } })
  const source = MCP_OPTIONS.parse({
    type: 'mcp',
    url: upstream.url,
    authorization: { provider: 'up', ...authorization },
    policy: { safetyTier: 'read' },
  })
  const keyOf = (id: string, key: string) => ({ id, key: new Secret(key), tenant: 'default', scopes: [] })
  const settings = sqliteSettings({
    auth: { apiKeys: [keyOf('agent', AGENT), keyOf('other', OTHER)], jwt: undefined },
    oauth: { providers, signIn: undefined, allowUnboundConsent: true },
    sources: new Map([['Up', source]]),
    server: { ...testSettings().server, port: await freePort() },
    egress: egressTo(new URL(as.issuer).host),
  })
  onTestFinished(async () => {
    await upstream.close()
    await as[Symbol.asyncDispose]()
    rmSync(settings.dataFolder, { recursive: true, force: true })
  })
  return { upstream, as, settings }
}

async function serve(settings: Settings) {
  const server = await startServer(settings, { graceMs: 0, log: createLog('silent') })
  let isOpen = true
  const close = async (): Promise<void> => {
    if (isOpen) await server.close()
    isOpen = false
  }
  onTestFinished(close)
  const call = async (tool: string, key = AGENT) => await askOtc(server.url, { tool: `Up.${tool}`, key })
  return { server, close, call }
}

function startTokenOf({ startTokenFile }: { readonly startTokenFile: string }): string {
  return readFileSync(startTokenFile, 'utf8').trim()
}

type Answer = Awaited<ReturnType<typeof askOtc>>

function challengeOf({ json }: Answer): string {
  return String(json.missing_requirements?.authorization?.[0]?.url)
}

async function consent(answer: Answer, login: string): Promise<void> {
  const page = await new Browser().visit(challengeOf(answer), { login })
  expect(page.text).toContain('Access has been granted')
}

const subjects = ({ admitted }: GuardedServer) =>
  admitted.filter(({ method }) => method === 'tools/call').map(({ subject }) => subject)

const registrations = ({ requests }: TestAuthorizationServer) =>
  requests.filter((line) => line === 'POST /reg').length

describe('an MCP server that names its authorization server', () => {
  it('MCP-155, MCP-157: is used by a client that registered itself once, also after a restart', async () => {
    const { upstream, as, settings } = await open({
      registration: true,
      authorization: { provider: undefined },
    })
    const first = await serve(settings)
    const asked = await first.call('whoami')
    expect(asked.status).toBe(400)
    await consent(asked, 'ann')
    expect((await first.call('whoami')).value).toMatchObject({ content: [{ text: 'whoami done' }] })
    await first.close()
    const second = await serve(settings)
    expect((await second.call('whoami')).status).toBe(200)
    // Another principal has no token, and gets another user's own.
    await consent(await second.call('whoami', OTHER), 'bob')
    expect((await second.call('whoami', OTHER)).status).toBe(200)
    expect(subjects(upstream)).toEqual(['ann', 'ann', 'bob'])
    expect(registrations(as)).toBe(1)
  })

  it('MCP-160: requests a scope that the server turns out to need, and not again if that does not help', async () => {
    const { upstream, settings } = await open({ registration: true })
    const { call } = await serve(settings)
    await consent(await call('whoami'), 'ann')
    const refused = await call('send')
    expect(refused.json.result.error.message).toMatch(
      /needs the scopes mail\.send of up\. Call the tool again/,
    )
    const asked = await call('send')
    expect(asked.json.challenges[Object.keys(asked.json.challenges)[0] ?? ''].scopes).toEqual(['mail.send'])
    await consent(asked, 'ann')
    expect((await call('send')).value).toMatchObject({ content: [{ text: 'send done' }] })
    // The consent took nothing away.
    expect((await call('whoami')).status).toBe(200)
    expect(subjects(upstream)).toEqual(['ann', 'ann'])
  })

  it('MCP-161: a token that the server refuses is renewed before the next call', async () => {
    const { upstream, settings } = await open({
      ...{ registration: true },
      provider: { alwaysScopes: ['openid', 'offline_access'], parameters: { prompt: 'consent' } },
    })
    const { call } = await serve(settings)
    await consent(await call('whoami'), 'ann')
    expect((await call('whoami')).status).toBe(200)
    upstream.revokeAll()
    expect((await call('whoami')).json.result.error.message).toMatch(
      /Call the tool again: the token of up is renewed/,
    )
    expect((await call('whoami')).value).toMatchObject({ content: [{ text: 'whoami done' }] })
    const [first, second] = upstream.admitted.filter(({ method }) => method === 'tools/call')
    expect(first?.token).not.toBe(second?.token)
  })

  it('MCP-165: gets bound tokens with a fresh proof for each request, if it requires them', async () => {
    const { upstream, settings } = await open({ registration: true, dpop: true })
    const { call, close } = await serve(settings)
    await consent(await call('whoami'), 'ann')
    await Promise.all([call('whoami'), call('whoami')])
    await close()
    // The key is kept with its token.
    const again = await serve(settings)
    expect((await again.call('whoami')).value).toMatchObject({ content: [{ text: 'whoami done' }] })
    const proofs = upstream.admitted.map(({ proof }) => proof)
    expect(new Set(proofs).size).toBe(proofs.length)
    expect(subjects(upstream)).toEqual(['ann', 'ann', 'ann'])
  })

  it('MCP-162: lists its tools with the consent of the principal that the operator names', async () => {
    const { upstream, settings } = await open({
      ...{ registration: true, listsFreely: false },
      authorization: { listAs: 'key:agent' },
    })
    const { server, call } = await serve(settings)
    expect((await call('whoami')).json.message).toMatch(/whoami/)
    const link = await fetch(`${server.url}/admin/providers/up/connect`, {
      method: 'POST',
      headers: { authorization: `Bearer ${AGENT}`, 'content-type': 'application/json' },
      body: '{}',
    })
    const { url }: { readonly url: string } = JSON.parse(await link.text())
    const page = await new Browser().visit(url, { login: 'ops' })
    expect(page.text).toContain('Access has been granted')
    await fetch(`${server.url}/admin/sources/Up/refresh`, {
      method: 'POST',
      headers: { authorization: `Bearer ${startTokenOf(server)}` },
    })
    await expect.poll(async () => (await call('whoami')).status, { timeout: 20_000 }).toBe(200)
    expect(upstream.admitted.find(({ method }) => method === 'tools/list')?.subject).toBe('ops')
  })
})

describe('tokens of the server itself', () => {
  const MACHINE = { grant: 'client_credentials', clientId: 'machine' }

  it('MCP-158, MCP-159: are requested once for each principal, however many calls wait', async () => {
    const { upstream, as, settings } = await open({
      provider: { ...MACHINE, clientSecret: CLIENT_SECRET },
      listsFreely: false,
    })
    const { call } = await serve(settings)
    const answers = await Promise.all([...Array(5)].flatMap(() => [call('whoami'), call('whoami', OTHER)]))
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200))
    expect(new Set(subjects(upstream))).toEqual(new Set(['machine']))
    const tokens = upstream.admitted.filter(({ method }) => method === 'tools/call')
    expect(new Set(tokens.map(({ token }) => token)).size).toBe(2)
    // One for listing.
    expect(as.tokenRequests()).toBe(3)
    // No person is needed for another scope.
    expect((await call('send')).json.result.error.message).toMatch(/needs the scopes mail\.send/)
    expect((await call('send')).value).toMatchObject({ content: [{ text: 'send done' }] })
  })

  it('MCP-158: are requested with a signed assertion (private_key_jwt)', async () => {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const { upstream, settings } = await open({
      machineKey: { ...publicKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig' },
      provider: { ...MACHINE, privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }) },
    })
    const { call } = await serve(settings)
    expect((await call('whoami')).status).toBe(200)
    expect(subjects(upstream)).toEqual(['machine'])
  })

  it('MCP-158: a client that the issuer refuses is a problem of the operator', async () => {
    const { settings } = await open({ provider: { ...MACHINE, clientSecret: 'wrong' } })
    const { call } = await serve(settings)
    const answer = await call('whoami')
    expect(JSON.stringify(answer.json)).toMatch(/check oauth\.providers\.up/)
  })
})
