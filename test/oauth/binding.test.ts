import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { jwtMinter } from '#client/credentials'
import type { Settings } from '#config/settings'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import { FlowCookies } from '#oauth/round-trips'
import { findConsentWarnings } from '#server/safety'
import { createBroker } from '#server/services'
import { testSettings } from '../test-settings.ts'
import { startAuthorizationServer } from './authorization-server.ts'
import { Browser } from './browser.ts'
import { openStage, type Stage } from './oauth-stage.ts'

const JWT_SECRET = 'shared-secret-of-the-tests-0123456789abc'

/** Changes rows in the database of a running stage. */
function execute({ settings }: Stage, sql: string): void {
  const database = new DatabaseSync(settings.store.slice('sqlite:'.length), { timeout: 5_000 })
  database.exec(sql)
  database.close()
}

async function tokenOf(issuer: string | undefined, subject: string): Promise<string> {
  const signing = { secret: JWT_SECRET, subject, ...(issuer === undefined ? {} : { issuer }) }
  return await jwtMinter(signing, Date.now)()
}

function withJwt(): Partial<Settings> {
  const jwt = { secret: new Secret(JWT_SECRET), audiences: [], maxLifetimeSeconds: 900, tenant: 'default' }
  return { auth: { apiKeys: [], jwt } }
}

describe('who may consent', () => {
  it('rules 3 and 25: the subject of a JWT consents for itself, with a user id or without', async () => {
    await using stage = await openStage({ signIn: true, changes: withJwt() })
    const issuer = stage.signIn?.issuer
    const key = await tokenOf(issuer, 'ann')
    for (const asked of [{ key }, { key, userId: 'ann' }]) {
      const { url } = await stage.challenge(asked)
      expect((await new Browser().visit(url, { login: 'mallory' })).status).toBe(403)
      expect((await new Browser().visit(url, { login: 'ann' })).text).toContain('has been granted')
      expect((await stage.call(asked)).value).toBe('mail')
    }
    expect(new Set(stage.given.map(({ token }) => token)).size).toBe(2)
  })

  it('rule 25: the same subject of another issuer is another user', async () => {
    await using stage = await openStage({ signIn: true, changes: withJwt() })
    for (const issuer of [undefined, 'https://other.example']) {
      const { url } = await stage.challenge({ key: await tokenOf(issuer, 'ann') })
      expect((await new Browser().visit(url, { login: 'ann' })).status).toBe(403)
    }
  })

  it('rule 24: a JWT does not act for another user in the vault', async () => {
    await using stage = await openStage({ signIn: true, changes: withJwt() })
    const key = await tokenOf(stage.signIn?.issuer, 'ann')
    const { url } = await stage.challenge({ key, userId: 'bob' })
    const page = await new Browser().visit(url, { login: 'bob' })
    expect(page.text).toContain('#ann may not act for the user that the call names (scope users:assert)')
    expect(page.text).not.toContain('no sign-in service')
    expect(stage.signIn?.requests).toEqual([])
  })

  it('rule 3: remote callers without a key get a challenge that explains that they have no vault', async () => {
    const auth = { apiKeys: [], jwt: undefined }
    const server = { ...testSettings().server, publicUrl: 'https://tools.example.com' }
    await using stage = await openStage({ signIn: true, changes: { auth, server } })
    const refused = await stage.call()
    expect(refused.json.message).toContain('Callers without a key have no vault here.')
    const [challenge] = refused.json.missing_requirements.authorization
    const page = await new Browser().get(stage.url + new URL(challenge.url).pathname)
    expect(page.text).toContain('Callers without a key have no vault here.')
    expect(page.text).not.toContain('no sign-in service')
  })
})

describe('expired tickets', () => {
  it('an expired ticket redirects to no provider, and the next call has a new one', async () => {
    await using stage = await openStage()
    const { id, url, checkUrl } = await stage.challenge()
    const browser = new Browser()
    await browser.get(url)
    execute(stage, 'UPDATE challenges SET expires_at = 1')
    expect((await browser.get(url)).text).toContain('has ended')
    expect((await browser.get(`${url}/start`)).status).toBe(400)
    expect(await stage.status(checkUrl)).toBe('failed')
    expect((await stage.challenge()).id).not.toBe(id)
  })

  it.each(['UPDATE consents SET expires_at = 1', 'UPDATE challenges SET expires_at = 1'])(
    'a consent that takes too long at the provider stores nothing: %s',
    async (sql) => {
      await using stage = await openStage()
      const { url } = await stage.challenge()
      const browser = new Browser()
      const backs: string[] = []
      await browser.visit(url, {
        login: 'ann',
        stopsAt: (next) => next.includes('/oauth/callback') && backs.push(next) > 0,
      })
      execute(stage, sql)
      expect((await browser.get(backs[0] ?? '')).status).toBe(400)
      expect(stage.provider.tokenRequests()).toBe(0)
      expect((await stage.call()).status).toBe(400)
    },
  )

  it('opening a ticket repeatedly leaves few consents', async () => {
    await using stage = await openStage()
    const { url } = await stage.challenge()
    const browser = new Browser()
    await browser.get(url)
    for (let turn = 0; turn < 15; turn += 1) expect((await browser.get(`${url}/start`)).status).toBe(302)
    const database = new DatabaseSync(stage.settings.store.slice('sqlite:'.length))
    expect(database.prepare('SELECT count(*) AS n FROM consents').get()).toEqual({ n: 10 })
    database.close()
  })
})

describe('beyond loopback', () => {
  it('rule 25: without a sign-in no consent is requested, unless the operator allows it', async () => {
    await using provider = await startAuthorizationServer()
    const base = {
      clientId: 'c',
      clientSecret: undefined,
      clientAuth: 'none',
      issuer: provider.issuer,
    } as const
    const endpoints = {
      authorizationEndpoint: undefined,
      tokenEndpoint: undefined,
      revocationEndpoint: undefined,
    }
    const mailer = { ...base, ...endpoints, scopes: ['a'], alwaysScopes: [], parameters: {} }
    const signIn = { ...base, ...endpoints, scopes: ['openid'], userClaim: 'sub', owners: {} }
    const warnings: string[] = []
    const obstacle = (
      host: string,
      publicUrl: string | undefined,
      changes: Partial<Settings['oauth']> = {},
    ) => {
      const oauth = { providers: { mailer }, signIn: undefined, allowUnboundConsent: false, ...changes }
      const server = { host, publicUrl, port: 1, bodyLimitBytes: 1, allowedOrigins: [], maxConnections: 1 }
      warnings.push(...findConsentWarnings({ oauth, server }))
      return createBroker({ oauth, server }, { fetch, clock: SYSTEM_CLOCK, log: SILENT_LOGGER }).obstacle(
        'mailer',
        ['a'],
      )
    }
    expect(obstacle('127.0.0.1', undefined)).toBeUndefined()
    expect(obstacle('127.0.0.1', 'https://tools.example.com')).toBe('no_sign_in')
    expect(obstacle('0.0.0.0', undefined)).toBe('no_sign_in')
    expect(obstacle('0.0.0.0', undefined, { allowUnboundConsent: true })).toBeUndefined()
    expect(obstacle('0.0.0.0', 'https://tools.example.com', { signIn })).toBeUndefined()
    expect(obstacle('127.0.0.1', undefined, { providers: {} })).toBe('no_provider')
    expect(obstacle('127.0.0.1', undefined, { providers: { mailer: { ...mailer, scopes: ['b'] } } })).toBe(
      'scopes',
    )
    expect(warnings).toEqual([
      expect.stringContaining('No user can be asked for access to mailer'),
      expect.stringContaining('No user can be asked for access to mailer'),
      expect.stringContaining('Anyone who has the link'),
    ])
  })

  it('rule 25: over https a cookie is limited to this host', () => {
    const cookies = new FlowCookies({ isSecure: true, maxAgeSeconds: 600 })
    expect(cookies.set('x', 'v', 'Lax')).toEqual({
      'set-cookie': '__Host-collet-x=v; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure',
    })
    expect(cookies.read('a=1; __Host-collet-x=v; b=2', 'x')).toBe('v')
    expect(cookies.read('collet-x=v', 'x')).toBeUndefined()
    expect(cookies.read('__Host-collet-x=v; __Host-collet-x=w', 'x')).toBeUndefined()
    expect(cookies.read(undefined, 'x')).toBeUndefined()
  })
})
