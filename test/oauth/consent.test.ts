import { describe, expect, it } from 'vitest'
import { Browser } from './browser.ts'
import { AGENT, OTHER, openStage } from './oauth-stage.ts'

const isCallback = (url: string) => url.includes('/oauth/callback')

/** Consents up to the redirect back from the provider, and returns its address without opening it. */
async function untilCallback(browser: Browser, url: string, login = 'ann'): Promise<string> {
  const seen: string[] = []
  await browser.visit(url, {
    login,
    stopsAt: (next) => {
      if (isCallback(next)) seen.push(next)
      return isCallback(next)
    },
  })
  const [back] = seen
  if (back === undefined) throw new Error('the provider never sent the browser back')
  return back
}

async function grantAt(url: string, login = 'ann') {
  return await new Browser().visit(url, { login })
}

describe('consent without a sign-in, on loopback', () => {
  it('OTC-73, OTC-75…78, rule 20: call, 400, consent, and the same call id runs', async () => {
    await using stage = await openStage()
    const refused = await stage.call({ callId: 'c1' })
    expect(refused.status).toBe(400)
    const [challenge] = refused.json.missing_requirements.authorization
    expect(Object.keys(challenge).sort()).toEqual(['check_url', 'id', 'url'])
    expect(await stage.status(challenge.check_url)).toBe('pending')
    const page = await grantAt(challenge.url)
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('has been granted')])
    expect(await stage.status(challenge.check_url)).toBe('completed')
    const answer = await stage.call({ callId: 'c1' })
    expect([answer.status, answer.value]).toEqual([200, 'mail'])
    expect(stage.given).toHaveLength(1)
    expect((await stage.call({ callId: 'c2' })).value).toBe('mail')
  })

  it('OTC-73: OpenTool behaves in the same way, with the challenge in error.data', async () => {
    await using stage = await openStage()
    const ask = async () => {
      const response = await fetch(`${stage.url}/opentool/call`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${AGENT}`,
          'content-type': 'application/json',
          'idempotency-key': 'o1',
        },
        body: JSON.stringify({ jsonrpc: '2.0', method: 'Mail_Read', id: '1' }),
      })
      // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
      const json: any = await response.json()
      return json
    }
    const refused = await ask()
    const [challenge] = refused.error.data.missing_requirements.authorization
    await grantAt(challenge.url)
    expect((await ask()).result).toEqual({ result: 'mail' })
  })

  it('rule 25: the page names caller, tenant and tool, and only a click on it continues', async () => {
    await using stage = await openStage()
    const { id, url } = await stage.challenge()
    const browser = new Browser()
    const page = await browser.get(url)
    for (const text of ['key:agent', 'default', 'Mail.Read@1.0.0', 'mail.read'])
      expect(page.text).toContain(text)
    expect(page.text.match(/<script|<form/gi)).toEqual(['<script'])
    expect(page.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
    expect(page.headers.get('cache-control')).toBe('no-store')
    expect(page.headers.get('set-cookie')).toMatch(/; HttpOnly; SameSite=Strict$/)
    const start = `${stage.url}/challenges/${id}/start`
    expect((await new Browser().get(start)).status).toBe(400)
    expect((await browser.get(start, { headers: { 'sec-fetch-site': 'cross-site' } })).status).toBe(400)
    const gone = await browser.get(start)
    expect(gone.status).toBe(302)
    expect(gone.headers.get('set-cookie')).toMatch(/HttpOnly; SameSite=Lax$/)
    expect(gone.headers.get('referrer-policy')).toBe('no-referrer')
    const asked = new URL(gone.headers.get('location') ?? '')
    expect(asked.searchParams.get('code_challenge_method')).toBe('S256')
    expect(asked.href).not.toContain(id)
  })

  it('a denied consent ends its challenge, and stores nothing', async () => {
    await using stage = await openStage()
    const { url, checkUrl, id } = await stage.challenge()
    const page = await new Browser().visit(url, { login: 'ann', denies: true })
    expect([page.status, page.text]).toEqual([403, expect.stringContaining('was not granted')])
    expect(await stage.status(checkUrl)).toBe('failed')
    expect((await stage.challenge()).id).not.toBe(id)
    expect(stage.given).toEqual([])
  })

  it.each([
    ['no state', 400, (url: URL) => url.searchParams.delete('state')],
    ['an unknown state', 400, (url: URL) => url.searchParams.set('state', 'x'.repeat(43))],
    ['an oversized state', 400, (url: URL) => url.searchParams.set('state', 'x'.repeat(5_000))],
    ['another issuer', 502, (url: URL) => url.searchParams.set('iss', 'https://evil.example')],
    ['another code', 502, (url: URL) => url.searchParams.set('code', 'stolen')],
    ['no code', 502, (url: URL) => url.searchParams.delete('code')],
  ])('a return with %s stores nothing', async (_title, status, change) => {
    await using stage = await openStage()
    const { url, checkUrl } = await stage.challenge()
    const browser = new Browser()
    const back = new URL(await untilCallback(browser, url))
    change(back)
    expect((await browser.get(back.href)).status).toBe(status)
    expect(await stage.status(checkUrl)).toBe('pending')
    expect((await stage.call()).status).toBe(400)
    expect((await grantAt(url)).status).toBe(200)
  })

  it('a state is refused with the code of another ticket, also in the same browser', async () => {
    await using stage = await openStage()
    const browser = new Browser()
    const first = new URL(await untilCallback(browser, (await stage.challenge({ userId: 'u1' })).url))
    const second = new URL(await untilCallback(browser, (await stage.challenge({ userId: 'u2' })).url))
    const mixed = new URL(first)
    mixed.searchParams.set('state', second.searchParams.get('state') ?? '')
    expect((await browser.get(mixed.href)).status).toBe(502)
    expect((await stage.call({ userId: 'u2' })).status).toBe(400)
  })

  it('a return is accepted once: neither it nor its code can be replayed', async () => {
    await using stage = await openStage()
    const { url } = await stage.challenge()
    const browser = new Browser()
    const back = await untilCallback(browser, url)
    const before = browser.cookiesOf(stage.url)
    const kept = [...before]
    expect((await browser.get(back)).status).toBe(200)
    const cookie = kept.map(([name, value]) => `${name}=${value}`).join('; ')
    expect((await fetch(back, { headers: { cookie } })).status).toBe(400)
    const again = new URL(await untilCallback(browser, (await stage.challenge({ tool: 'Mail.Send' })).url))
    again.searchParams.set('code', new URL(back).searchParams.get('code') ?? '')
    expect((await browser.get(again.href)).status).toBe(502)
  })

  it('rule 25: the first return consumes a state, also when it fails or several arrive at once', async () => {
    await using stage = await openStage()
    const { url } = await stage.challenge()
    const browser = new Browser()
    const back = await untilCallback(browser, url)
    const cookie = [...browser.cookiesOf(stage.url)].map(([name, value]) => `${name}=${value}`).join('; ')
    stage.provider.intercept = (request, _same, response) => {
      if (request.url !== '/token') return false
      response.writeHead(503).end()
      return true
    }
    const returns = await Promise.all(Array.from({ length: 6 }, () => fetch(back, { headers: { cookie } })))
    expect(returns.map(({ status }) => status).sort()).toEqual([400, 400, 400, 400, 400, 502])
    expect((await fetch(back, { headers: { cookie } })).status).toBe(400)
    expect(stage.provider.tokenRequests()).toBe(1)
    stage.provider.intercept = undefined
    expect((await grantAt(url)).status).toBe(200)
  })

  it('rule 25: a return in a browser other than the one that started stores nothing', async () => {
    await using stage = await openStage()
    const { url, checkUrl } = await stage.challenge()
    const browser = new Browser()
    const back = await untilCallback(browser, url)
    const stolen = await new Browser().get(back)
    expect([stolen.status, stolen.text]).toEqual([400, expect.stringContaining('another browser')])
    expect(await stage.status(checkUrl)).toBe('pending')
    expect((await browser.get(back)).status).toBe(200)
  })

  it('two concurrent consents in one browser each get their own token', async () => {
    await using stage = await openStage()
    const browser = new Browser()
    const [one, two] = [await stage.challenge({ userId: 'u1' }), await stage.challenge({ userId: 'u2' })]
    const backs = [await untilCallback(browser, one.url), await untilCallback(browser, two.url)]
    for (const back of backs.reverse()) expect((await browser.get(back)).status).toBe(200)
    for (const userId of ['u1', 'u2']) expect((await stage.call({ userId })).value).toBe('mail')
    expect(new Set(stage.given.map(({ token }) => token)).size).toBe(2)
  })

  it("rule 24: a user's token is not used for the principal or another user, nor theirs for the user", async () => {
    await using stage = await openStage()
    await grantAt((await stage.challenge({ userId: 'u1' })).url)
    expect((await stage.call({ userId: 'u1' })).value).toBe('mail')
    for (const asked of [{}, { userId: 'u2' }, { key: OTHER }, { key: OTHER, userId: 'u1' }])
      expect((await stage.call(asked)).status, JSON.stringify(asked)).toBe(400)
    await grantAt((await stage.challenge()).url)
    expect((await stage.call()).value).toBe('mail')
    expect((await stage.call({ userId: 'u2' })).status).toBe(400)
  })

  it('rule 24: a caller that may not assert users gets a challenge without a consent', async () => {
    await using stage = await openStage()
    const { url } = await stage.challenge({ key: OTHER, userId: 'u1' })
    const { text } = await new Browser().get(url)
    expect(text).toContain('key:other may not act for the user that the call names (scope users:assert)')
    expect(text).not.toContain('no sign-in service')
    const { json } = await stage.call({ key: OTHER, userId: 'u1' })
    expect(json.message).toContain('key:other may not act for u1 (scope users:assert).')
  })

  it('a token that the caller sends takes precedence and is not stored', async () => {
    await using stage = await openStage()
    await grantAt((await stage.challenge()).url)
    await stage.call({ token: 'sent-token' })
    expect(stage.given.at(-1)?.token).toBe('sent-token')
    await stage.call()
    expect(stage.given.at(-1)?.token).not.toBe('sent-token')
  })

  it('incremental scopes: a new consent asks for the union', async () => {
    await using stage = await openStage()
    await grantAt((await stage.challenge()).url)
    const browser = new Browser()
    const { url } = await stage.challenge({ tool: 'Mail.Send' })
    expect((await browser.get(url)).text).toContain('mail.read')
    await browser.visit(url, { login: 'ann' })
    for (const tool of ['Mail.Read', 'Mail.Send']) expect((await stage.call({ tool })).value).toBe('mail')
  })
})

describe('a consent with too few scopes', () => {
  it('does not affect tools whose scopes are granted', async () => {
    await using stage = await openStage()
    await grantAt((await stage.challenge()).url)
    await stage.call({ tool: 'Mail.Read' })
    const { url, checkUrl } = await stage.challenge({ tool: 'Mail.Send' })
    stage.provider.intercept = (request, _same, response) => {
      if (request.url !== '/token') return false
      const end = response.end.bind(response)
      const fewerScopes = (body: string) =>
        body.replace(/"scope":"[^"]*"/, '"scope":"openid"').padEnd(body.length)
      Object.assign(response, { end: (body: unknown) => end(fewerScopes(String(body))) })
      return false
    }
    const before = stage.given.at(-1)?.token
    expect((await new Browser().visit(url, { login: 'ann' })).text).toContain('less')
    expect(await stage.status(checkUrl)).toBe('failed')
    expect((await stage.call({ tool: 'Mail.Read' })).value).toBe('mail')
    expect(stage.given.at(-1)?.token).toBe(before)
  })
})

describe('consent with a sign-in', () => {
  it('rule 25: the user of the ticket signs in, consents, and the call runs', async () => {
    await using stage = await openStage({ signIn: true })
    const page = await grantAt((await stage.challenge({ userId: 'ann' })).url)
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('has been granted')])
    expect((await stage.call({ userId: 'ann' })).value).toBe('mail')
  })

  it('rule 25: after the sign-in a page names the caller, and only a click in that browser continues', async () => {
    await using stage = await openStage({ signIn: true })
    const { id, url } = await stage.challenge({ userId: 'ann' })
    const browser = new Browser()
    const start = `${stage.url}/challenges/${id}/start`
    expect((await browser.get(start)).status).toBe(400)
    const page = await browser.visit(url, { login: 'ann', clicks: false })
    for (const text of ['key:agent', 'default', 'Mail.Read@1.0.0']) expect(page.text).toContain(text)
    expect(page.headers.get('set-cookie')).toMatch(/; HttpOnly; SameSite=Strict$/)
    expect(stage.provider.tokenRequests()).toBe(0)
    expect((await new Browser().get(start)).status).toBe(400)
    expect((await browser.get(start, { headers: { 'sec-fetch-site': 'cross-site' } })).status).toBe(400)
    expect((await browser.get(start)).status).toBe(302)
  })

  it('rule 25: a stolen ticket works for no other user', async () => {
    await using stage = await openStage({ signIn: true })
    const { url, checkUrl, id } = await stage.challenge({ userId: 'ann' })
    const attacker = new Browser()
    const page = await attacker.visit(url, { login: 'mallory' })
    expect([page.status, page.text]).toEqual([403, expect.stringContaining('signed in as someone other')])
    expect(stage.provider.requests).toEqual([])
    expect(await stage.status(checkUrl)).toBe('pending')
    expect((await attacker.get(`${stage.url}/challenges/${id}/start`)).status).toBe(400)
    expect((await grantAt(url)).status).toBe(200)
  })

  it('two users in one browser: each ticket requires its own user', async () => {
    await using stage = await openStage({ signIn: true })
    const browser = new Browser()
    const [ann, bob] = [await stage.challenge({ userId: 'ann' }), await stage.challenge({ userId: 'bob' })]
    expect((await browser.visit(ann.url, { login: 'ann' })).status).toBe(200)
    const refused = await browser.visit(bob.url, { login: 'bob' })
    expect(refused.status).toBe(403)
    const again = /<a href="([^"]+as=other)"/.exec(refused.text)?.[1] ?? ''
    expect((await browser.visit(again, { login: 'bob' })).text).toContain('has been granted')
    for (const userId of ['ann', 'bob']) expect((await stage.call({ userId })).value).toBe('mail')
    expect(new Set(stage.given.map(({ token }) => token)).size).toBe(2)
  })

  it('rule 25: the user named in the config consents for a principal itself', async () => {
    await using stage = await openStage({ signIn: true })
    const { url } = await stage.challenge()
    expect((await grantAt(url, 'ann')).status).toBe(403)
    expect((await grantAt(url, 'boss')).status).toBe(200)
    expect((await stage.call()).value).toBe('mail')
  })
})
