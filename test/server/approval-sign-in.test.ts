import { SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { DEFAULT_APPROVAL_RULES } from '#kernel/approval/approvals'
import { Secret } from '#kernel/base/secret'
import { makePass, readPass } from '#server/approvals/links'
import {
  CLIENT_SECRET,
  startAuthorizationServer,
  type TestAuthorizationServer,
} from '../oauth/authorization-server.ts'
import { Browser } from '../oauth/browser.ts'
import { sqliteSettings } from '../test-settings.ts'
import { type ApprovalServer, AUTH, startApprovalServer } from './approval-stage.ts'

const JWT_SECRET = 'shared-secret-of-the-tests-0123456789abc'

function settingsWith(issuer: string): Partial<Settings> {
  const client = { clientId: 'collet', clientSecret: new Secret(CLIENT_SECRET), clientAuth: 'basic' } as const
  const found = { authorizationEndpoint: undefined, tokenEndpoint: undefined, revocationEndpoint: undefined }
  const signIn = { ...client, ...found, issuer, scopes: ['openid'], userClaim: 'sub', owners: {} }
  const jwt = { secret: new Secret(JWT_SECRET), audiences: [], maxLifetimeSeconds: 900, tenant: 'acme' }
  return {
    approvals: { ...DEFAULT_APPROVAL_RULES, perTool: new Map([['Bank.Pay@1.0.0', { quorum: 2 }]]) },
    auth: { ...AUTH, jwt },
    oauth: { providers: {}, signIn, allowUnboundConsent: false },
  }
}

describe('links that need a sign-in (rule 23)', () => {
  let issuer: TestAuthorizationServer
  let server: ApprovalServer
  beforeAll(async () => {
    issuer = await startAuthorizationServer()
    server = await startApprovalServer(settingsWith(issuer.issuer), sqliteSettings)
  })
  afterAll(async () => {
    await server.close()
    await issuer[Symbol.asyncDispose]()
  })

  async function linkTo(id: string, approver: string): Promise<{ url: string; token: string }> {
    const { json } = await server.ask(`/admin/approvals/${id}/link`, { as: 'bob', body: { approver } })
    expect(json).toMatchObject({ approver, power: 'decide', needs_sign_in: true })
    return json
  }

  /** Signs in through the page of the link, and stays on the page that follows. */
  async function signIn(url: string, login: string, browser = new Browser(), query = '') {
    const backs: string[] = []
    const stopsAt = (next: string) => next.includes('/oauth/callback') && backs.push(next) > 0
    await browser.visit(`${url}/sign-in${query}`, { login, stopsAt })
    const page = await browser.get(backs[0] ?? '')
    // Approve, then reject.
    const actions = [...page.text.matchAll(/action="([^"]+)"/g)].map(([, action = '']) => action).sort()
    const press = (action = '', from = browser) =>
      from.get(`${server.url}${action}`, {
        method: 'POST',
        headers: { origin: server.url, 'sec-fetch-site': 'same-origin' },
      })
    return { page, actions, press, back: backs[0] ?? '', browser }
  }

  const look = async (id: string) => (await server.ask(`/admin/approvals/${id}`, { as: 'bob' })).json.approval

  it('a quorum: opening shows without a form; each approver decides as itself after its own sign-in', async () => {
    const { id } = await server.park('quorum')
    const { url } = await linkTo(id, 'carol')
    const before = issuer.requests.length
    const shown = await server.ask(url)
    expect(shown.text).toContain('Sign in as carol')
    expect(shown.text).not.toContain('<form')
    expect(shown.headers.get('set-cookie')).toBe(null)
    expect(issuer.requests.length).toBe(before)

    const carol = await signIn(url, 'carol')
    expect(carol.page.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
    expect(carol.page.headers.get('x-frame-options')).toBe('DENY')
    expect((await carol.press(carol.actions[0])).text).toContain('More approvers are needed')
    // A second vote of one approver, on the same page and through another link and sign-in.
    await carol.press(carol.actions[0])
    const again = await signIn((await linkTo(id, 'carol')).url, 'carol')
    expect((await again.press(again.actions[0])).text).toContain('More approvers are needed')
    expect(await look(id)).toMatchObject({ state: 'pending', decisions: [{}] })

    const dave = await signIn((await linkTo(id, 'dave')).url, 'dave')
    expect((await dave.press(dave.actions[0])).status).toBe(200)
    const by = ['carol', 'dave'].map((sub) => ({ by: `jwt:${issuer.issuer}#${sub}` }))
    expect(await look(id)).toMatchObject({ state: 'granted', decisions: by })
    expect((await server.pay('quorum')).json.result.success).toBe(true)
    const audit = await server.ask('/admin/audit', { as: 'auditor' })
    expect(audit.json.events).toMatchObject([
      { action: 'approval.decide', resource: 'openwop:Bank.Pay', reason: 'second_vote' },
    ])
  })

  it('a command: one approver after a sign-in is enough, and can reject', async () => {
    const body = { request: { tool_id: 'Host.Shell@1.0.0', call_id: 'sh', input: {} } }
    const { json } = await server.ask('/tools/call', { as: 'alice', body })
    const { id } = json.missing_requirements.approval
    const { url } = await linkTo(id, 'carol')
    const { actions, press } = await signIn(url, 'carol')
    expect((await press(actions[1])).status).toBe(200)
    expect((await look(id)).state).toBe('rejected')
    expect((await server.ask(url)).status).toBe(409)
    expect((await server.ask(`${url}/sign-in`)).status).toBe(409)
  })

  it('a stolen link: another user who signs in gets no form, and may sign in again', async () => {
    const { id } = await server.park('stolen')
    const { url, token } = await linkTo(id, 'carol')
    const mallory = await signIn(url, 'mallory')
    expect([mallory.page.status, mallory.actions]).toEqual([403, []])
    expect(mallory.page.headers.get('set-cookie')).toBe(null)
    expect(mallory.page.text).toContain(`/approve/${token}/sign-in?as=other`)
    const carol = await signIn(url, 'carol', mallory.browser, '?as=other')
    expect(carol.actions).toHaveLength(2)
    expect((await look(id)).state).toBe('pending')
  })

  it('refuses another browser, another link, a repeated return, and the form of a link without a sign-in', async () => {
    const { id } = await server.park('forged')
    const mine = await linkTo(id, 'carol')
    const others = await linkTo(id, 'dave')
    const carol = await signIn(mine.url, 'carol')
    const other = await signIn(others.url, 'dave')
    expect((await carol.press(carol.actions[0], new Browser())).status).toBe(403)
    expect((await carol.press(carol.actions[0], other.browser)).status).toBe(403)
    expect((await carol.press(carol.actions[0]?.replace(mine.token, others.token))).status).toBe(403)
    expect((await carol.browser.get(carol.back)).status).toBe(400)
    expect((await new Browser().get(other.back)).status).toBe(400)
    const body = { resumeValue: { action: 'accept' } }
    expect((await server.ask(`/v1/interrupts/${mine.token}`, { body })).status).toBe(403)
    expect(await look(id)).toMatchObject({ state: 'pending', decisions: [] })
  })

  /** A token of the same issuer, for use as an API credential. */
  async function credentialOf(subject: string) {
    const token = await new SignJWT({ scope: 'approvals:respond' })
      .setProtectedHeader({ alg: 'HS256' })
      .setIssuer(issuer.issuer)
      .setSubject(subject)
      .setIssuedAt()
      .setExpirationTime('10m')
      .sign(Buffer.from(JWT_SECRET))
    return { authorization: `Bearer ${token}` }
  }

  it('an approver with a token and a link has one vote', async () => {
    const { id } = await server.park('one-vote')
    const approve = `/admin/approvals/${id}/approve`
    expect((await server.ask(approve, { headers: await credentialOf('frank'), body: {} })).status).toBe(200)
    const frank = await signIn((await linkTo(id, 'frank')).url, 'frank')
    expect((await frank.press(frank.actions[0])).text).toContain('More approvers are needed')
    expect(await look(id)).toMatchObject({ state: 'pending', decisions: [{}] })
  })

  it('a caller cannot approve its own call through a link and a sign-in', async () => {
    const headers = await credentialOf('erin')
    const request = { tool_id: 'Bank.Pay@1.0.0', call_id: 'own', input: { amount: 5 } }
    const { json } = await server.ask('/tools/call', { headers, body: { request } })
    const { id } = json.missing_requirements.approval
    const made = await server.ask(`/admin/approvals/${id}/link`, { as: 'bob', body: { approver: 'erin' } })
    expect([made.status, made.json.message]).toEqual([403, expect.stringContaining('its own call')])
    expect(await look(id)).toMatchObject({ state: 'pending', decisions: [] })
    const audit = await server.ask('/admin/audit', { as: 'auditor' })
    expect(audit.json.events.at(-1)).toMatchObject({ reason: 'self_approval', resource: 'openwop:Bank.Pay' })
  })
})

describe('links on a server with a sign-in where one approver is enough (rule 23)', () => {
  it('require the sign-in too: a link is not an identity', async () => {
    const issuer = await startAuthorizationServer()
    const rules = { ...settingsWith(issuer.issuer), approvals: DEFAULT_APPROVAL_RULES }
    const server = await startApprovalServer(rules, sqliteSettings)
    try {
      const { id } = await server.park('one')
      const body = { approver: 'carol' }
      const { json } = await server.ask(`/admin/approvals/${id}/link`, { as: 'bob', body })
      expect(json).toMatchObject({ power: 'decide', needs_sign_in: true })
      const page = await server.ask(json.url)
      expect([page.text.includes('Sign in as carol'), page.text.includes('<form')]).toEqual([true, false])
      const resume = { resumeValue: { action: 'accept' } }
      expect((await server.ask(`/v1/interrupts/${json.token}`, { body: resume })).status).toBe(403)
    } finally {
      await server.close()
      await issuer[Symbol.asyncDispose]()
    }
  })
})

describe('the pass of an approver’s page', () => {
  const sign = (purpose: string, text: string) => `${purpose}:${text.length}:${text}`

  it('is valid for ten minutes; a modified pass is never valid', () => {
    const pass = makePass(sign, 'token', { signedIn: { principal: 'jwt:i#carol' } }, 1_000)
    expect(readPass(sign, 'token', pass, 2_000)).toEqual({ signedIn: { principal: 'jwt:i#carol' } })
    expect(readPass(sign, 'token', pass, 601_000)).toBeUndefined()
    expect(readPass(sign, 'other', pass, 2_000)).toBeUndefined()
    expect(readPass(sign, 'token', { ...pass, cookie: `${pass.cookie}A` }, 2_000)).toBeUndefined()
    const plain = makePass(sign, 'token', { signedIn: undefined }, 1_000)
    expect(readPass(sign, 'token', plain, 9e9)).toEqual({ signedIn: undefined })
    const raised = [plain.cookie, ...pass.cookie.split('.').slice(1)].join('.')
    expect(readPass(sign, 'token', { ...plain, cookie: raised }, 2_000)).toBeUndefined()
  })
})
