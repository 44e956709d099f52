import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTokenFileIn } from '#config/to-settings'
import { sampleTool } from '../contracts/samples.ts'
import { sqliteSettings, testSettings } from '../test-settings.ts'
import { type ApprovalServer, startApprovalServer } from './approval-stage.ts'

/** The address that a caller receives, opened in the browser of the local user (rules 23 and 29). */
describe('the page of an approval', () => {
  let server: ApprovalServer
  beforeAll(async () => {
    server = await startApprovalServer()
  })
  afterAll(() => server.close())

  const startToken = () =>
    readFileSync(startTokenFileIn(server.settings.dataFolder, server.url), 'utf8').trim()

  const makeLink = async (approval?: string, token = startToken()) =>
    await server.ask('/admin/sign-in', {
      body: approval === undefined ? {} : { approval },
      headers: { authorization: `Bearer ${token}` },
    })

  /** Signs a browser in and returns it on the page that it was redirected to. */
  async function signIn(approval?: string) {
    const { json } = await makeLink(approval)
    const entered = await server.ask(json.url)
    const cookie = entered.headers.get('set-cookie')?.split(';', 1)[0] ?? ''
    tokens.set(cookie, entered.headers.get('location')?.split('?')[1] ?? '')
    return { link: json.url as string, entered, cookie }
  }

  /** The query with the session token of each signed-in browser, by its cookie. */
  const tokens = new Map<string, string>()

  async function openAs(cookie: string, id: string, query = tokens.get(cookie) ?? '') {
    const page = await server.ask(`/approvals/${id}?${query}`, { headers: { cookie } })
    // Approve, then reject.
    const actions = [...page.text.matchAll(/formaction="([^"]+)"/g)]
      .map(([, action = '']) => action.replaceAll('&amp;', '&'))
      .sort()
    const press = async (action: string | undefined, fields = '', headers: Record<string, string> = {}) => {
      const response = await fetch(`${server.url}${action}`, {
        method: 'POST',
        headers: {
          ...{ cookie, origin: server.url, 'sec-fetch-site': 'same-origin' },
          'content-type': 'application/x-www-form-urlencoded',
          ...headers,
        },
        body: fields,
      })
      return { status: response.status, text: await response.text() }
    }
    return { page, actions, press }
  }

  const look = async (id: string) => (await server.ask(`/admin/approvals/${id}`, { as: 'bob' })).json.approval

  it('shows the state of the call without the input, and how to sign in, to any visitor with the address', async () => {
    const { id } = await server.park('seen', { secretive: 'for approvers' })
    const { status, text } = await server.ask(`/approvals/${id}`)
    expect(status).toBe(200)
    expect(text).toContain('waits for an approval')
    expect(text).toContain(`./collet sign-in ${id} --url ${server.url}`)
    expect(text).toContain(`./collet approvals approve ${id}`)
    expect(text).not.toContain('for approvers')
    expect(text).not.toContain('<form')
    expect((await server.ask('/approvals/nobody')).status).toBe(404)
    expect((await server.ask('/approvals')).status).toBe(403)
  })

  it('rule 29: after a start link it shows everything and decides as the operator, with a reason', async () => {
    const { id } = await server.park('decides', { amount: 5, to: 'Ann' })
    const { entered, cookie } = await signIn(id)
    const token = tokens.get(cookie) ?? ''
    expect(token).toMatch(/^session=operator\./)
    expect([entered.status, entered.headers.get('location')]).toEqual([303, `/approvals/${id}?${token}`])
    expect(entered.headers.get('set-cookie')).toMatch(/; HttpOnly; SameSite=Lax$/)
    const { page, actions, press } = await openAs(cookie, id)
    for (const part of ['Bank.Pay@1.0.0', 'Ann', 'key:alice', 'Every call of this tool needs approval'])
      expect(page.text).toContain(part)
    expect(page.text).toContain('Tool&#39;s description')
    expect(page.text).toMatch(/<time datetime="\d{4}-[^"]+Z">\d{4}-\d\d-\d\d \d\d:\d\d UTC<\/time>/)
    const list = await server.ask(`/approvals?${token}`, { headers: { cookie } })
    expect(list.text).toContain(`/approvals/${id}?${token}`)
    // Browsers send the cookie to other programs on this host, but never these addresses.
    for (const other of ['', 'session=', 'session=operator.x', token.slice(0, -2)]) {
      const stolen = await openAs(cookie, id, other)
      expect([stolen.actions, stolen.page.text.includes('Ann')]).toEqual([[], false])
      expect((await server.ask(`/approvals?${other}`, { headers: { cookie } })).status).toBe(403)
    }
    const done = await press(actions[0], 'reason=Ann+asked+%3Cb%3Efor%3C%2Fb%3E+it')
    expect(done.status).toBe(200)
    expect(done.text).toContain('You approved this call')
    expect(done.text).toContain('Ann asked &lt;b&gt;for&lt;/b&gt; it')
    expect(await look(id)).toMatchObject({
      state: 'granted',
      decisions: [{ by: 'operator', action: 'grant', reason: 'Ann asked <b>for</b> it' }],
    })
    const again = await press(actions[1])
    expect([again.status, again.text.includes('has been approved')]).toEqual([409, true])
    expect((await openAs(cookie, id)).page.text).toContain('Approved by operator')
    expect((await server.pay('decides', { amount: 5, to: 'Ann' })).json.result.success).toBe(true)
  })

  it('shows that a call was rejected, and its caller gets the reason', async () => {
    const { id } = await server.park('rejects')
    const { cookie } = await signIn()
    const { actions, press } = await openAs(cookie, id)
    expect((await press(actions[1], 'reason=Wrong+recipient')).text).toContain('You rejected this call')
    expect((await server.pay('rejects')).text).toContain('Wrong recipient')
  })

  it('a start link works once, in one browser, and only the start token can create it', async () => {
    const { link, cookie } = await signIn()
    const again = await server.ask(link)
    expect([again.status, again.headers.get('set-cookie')]).toEqual([410, null])
    expect(again.text).toContain('./collet sign-in')
    expect((await server.ask(link, { headers: { cookie } })).status).toBe(303)
    const unused = (await makeLink()).json.url as string
    expect((await server.ask(unused, { method: 'HEAD' })).headers.get('set-cookie')).toBe(null)
    expect((await server.ask(unused)).headers.get('set-cookie')).not.toBe(null)
    const [address = '', code = ''] = unused.split('/sign-in/')
    for (const forged of ['x', code.replace(/^./, '0'), `${code}x`, code.split('.')[0], cookie.split('=')[1]])
      expect((await server.ask(`${address}/sign-in/${forged}`)).status).toBe(404)
    expect((await makeLink(undefined, 'guess')).status).toBe(401)
    expect((await server.ask('/admin/sign-in', { as: 'eve', body: {} })).status).toBe(403)
    expect((await makeLink('../x')).status).toBe(400)
  })

  it('refuses a form from another site, browser or approval, or without the token of the page', async () => {
    const { id } = await server.park('guarded')
    const other = await server.park('guarded-2')
    const { cookie } = await signIn()
    const stranger = (await signIn()).cookie
    const { actions, press } = await openAs(cookie, id)
    const [approve = ''] = actions
    const tries = [
      await press(approve, '', { cookie: '' }),
      await press(approve, '', { cookie: stranger }),
      await press(approve, '', { cookie: `${cookie}; ${cookie}` }),
      await press(approve, '', { cookie: cookie.replace(/.$/, '_') }),
      await press(approve, '', { 'sec-fetch-site': 'cross-site' }),
      await press(approve, '', { 'sec-fetch-site': 'same-site' }),
      await press(approve, '', { origin: 'https://evil.example' }),
      await press(approve, '', { origin: 'null' }),
      await press(approve.replace(id, other.id)),
      await press(approve.replace(/\?.*/, '')),
    ]
    expect(tries.map(({ status }) => status)).toEqual(Array(tries.length).fill(403))
    expect((await press(approve.replace('/approve', '/delete'))).status).toBe(404)
    expect((await press(approve, `reason=${'x'.repeat(1_001)}`)).status).toBe(400)
    expect((await press(approve, '{}', { 'content-type': 'application/json' })).status).toBe(400)
    expect([(await look(id)).state, (await look(other.id)).state]).toEqual(['pending', 'pending'])
  })
})

describe('the page of a server that other machines can reach', () => {
  it('decides nothing, and explains how to decide', async () => {
    const { server: plain } = testSettings()
    const server = await startApprovalServer({ server: { ...plain, publicUrl: 'https://tools.example.com' } })
    try {
      const { id } = await server.park('elsewhere')
      const { text } = await server.ask(`/approvals/${id}`)
      expect(text).toContain(`./collet approvals link ${id} --for NAME`)
      expect(text).not.toContain('sign-in')
      const token = readFileSync(startTokenFileIn(server.settings.dataFolder, server.url), 'utf8').trim()
      const headers = { authorization: `Bearer ${token}` }
      const made = await server.ask('/admin/sign-in', { body: {}, headers })
      expect([made.status, made.json.message]).toEqual([409, expect.stringContaining('approvals link')])
      expect((await server.ask('/sign-in/x')).status).toBe(404)
    } finally {
      await server.close()
    }
  })
})

describe('a tool that was changed while its call waited', () => {
  it('is marked stale on its page and in the list, and the page cannot approve it', async () => {
    const before = await startApprovalServer({}, sqliteSettings)
    const { dataFolder, store } = before.settings
    const changed = sampleTool('Bank.Pay@1.0.0', () => 'other', {
      ...{ description: 'Pays twice.', definitionHash: 'another' },
      policy: { approval: 'always' },
    })
    const { id } = await before.park('stale')
    const after = await startApprovalServer({ tools: [changed], dataFolder, store })
    try {
      const token = readFileSync(startTokenFileIn(dataFolder, after.url), 'utf8').trim()
      const headers = { authorization: `Bearer ${token}` }
      const { json } = await after.ask('/admin/sign-in', { body: {}, headers })
      const entered = await after.ask(json.url)
      const cookie = entered.headers.get('set-cookie')?.split(';', 1)[0] ?? ''
      const list = entered.headers.get('location') ?? ''
      const { text } = await after.ask(list.replace('/approvals', `/approvals/${id}`), {
        headers: { cookie },
      })
      expect(text).toContain('has changed since approval was requested')
      expect(text).not.toContain('<form')
      expect((await after.ask(list, { headers: { cookie } })).text).toContain('(stale)')
      expect((await after.ask(`/admin/approvals/${id}/approve`, { body: {}, headers })).status).toBe(409)
    } finally {
      await after.close()
      await before.close()
    }
  })
})
