import { describe, expect, it } from 'vitest'
import { Browser } from './browser.ts'
import { openStage, type Stage } from './oauth-stage.ts'
import { tamperedStore } from './stage-store.ts'

async function consented(stage: Stage): Promise<void> {
  const page = await new Browser().visit((await stage.challenge()).url, { login: 'ann' })
  expect(page.status).toBe(200)
}

describe('tokens that expire', () => {
  it('OWP-78: are renewed before the call, with the rotated refresh token each time', async () => {
    await using stage = await openStage({ accessTokenSeconds: 30 })
    await consented(stage)
    for (const callId of ['a', 'b', 'c']) {
      await tamperedStore(stage, async (store) => store.expireTokens())
      for (const part of ['1', '2']) expect((await stage.call({ callId: callId + part })).value).toBe('mail')
    }
    expect(stage.provider.tokenRequests()).toBe(1 + 3)
    expect(new Set(stage.given.map(({ token }) => token)).size).toBe(3)
  })

  it('rule 26: many concurrent calls renew once', async () => {
    await using stage = await openStage({ accessTokenSeconds: 30 })
    await consented(stage)
    await tamperedStore(stage, async (store) => store.expireTokens())
    const answers = await Promise.all(Array.from({ length: 12 }, () => stage.call()))
    expect(answers.every(({ value }) => value === 'mail')).toBe(true)
    expect(new Set(stage.given.map(({ token }) => token)).size).toBe(1)
    expect(stage.provider.tokenRequests()).toBe(2)
  })

  it('rule 26: two servers on one store renew once', async () => {
    await using stage = await openStage()
    await consented(stage)
    await tamperedStore(stage, async (store) => store.expireTokens())
    const second = await openStage({ again: stage })
    try {
      const answers = await Promise.all(
        Array.from({ length: 10 }, (_, index) => (index % 2 ? stage : second).call()),
      )
      expect(answers.every(({ value }) => value === 'mail')).toBe(true)
      expect(stage.provider.tokenRequests()).toBe(2)
    } finally {
      await second.closeServer()
    }
  })

  it('OWP-76, OWP-78: a refused refresh asks for consent again', async () => {
    await using stage = await openStage()
    await consented(stage)
    await tamperedStore(stage, async (store) => store.expireTokens('no-such-refresh-token'))
    const refused = await stage.call({ callId: 'r1' })
    expect(refused.status).toBe(400)
    expect(refused.json.developer_message).toContain('connector_auth_expired')
    expect((await stage.call({ callId: 'r1' })).status).toBe(400)
    expect(stage.provider.tokenRequests()).toBe(2)
    await consented(stage)
    expect((await stage.call({ callId: 'r1' })).value).toBe('mail')
  })

  it('rule 26: a lost rotation asks for consent again', async () => {
    await using stage = await openStage()
    await consented(stage)
    const before = await tamperedStore(stage, async (store) => store.expireTokens())
    expect((await stage.call()).value).toBe('mail')
    // As after a crash between the provider's answer and the commit: the store still has the previous token.
    await tamperedStore(stage, async (store) => store.expireTokens(before))
    expect((await stage.call()).status).toBe(400)
  })

  it('OWP-76: an unavailable provider does not cause a new consent', async () => {
    await using stage = await openStage()
    await consented(stage)
    await tamperedStore(stage, async (store) => store.expireTokens())
    stage.provider.intercept = (_request, _same, response) => {
      response.writeHead(503).end()
      return true
    }
    const refused = await stage.call()
    expect(refused.json.developer_message).toContain('credential_unavailable')
    expect(refused.json.missing_requirements).toBeUndefined()
    stage.provider.intercept = undefined
    expect((await stage.call()).value).toBe('mail')
  })
})

describe('hostile answers', () => {
  it.each([
    [
      'an oversized body',
      (end: (type: string, body: string) => void) =>
        end('application/json', `{"access_token":"${'x'.repeat(2_000_000)}"}`),
    ],
    ['another content type', (end: (type: string, body: string) => void) => end('text/html', '<p>hello</p>')],
    [
      'no token',
      (end: (type: string, body: string) => void) => end('application/json', '{"token_type":"bearer"}'),
    ],
    ['no JSON', (end: (type: string, body: string) => void) => end('application/json', '{')],
    [
      'an unknown token type',
      (end: (type: string, body: string) => void) =>
        end('application/json', '{"access_token":"a","token_type":"mac"}'),
    ],
  ])('with %s store nothing, and the link works again', async (_title, answer) => {
    await using stage = await openStage()
    const { url, checkUrl } = await stage.challenge()
    stage.provider.intercept = (request, _same, response) => {
      if (request.url !== '/token') return false
      answer((type, body) => response.writeHead(200, { 'content-type': type }).end(body))
      return true
    }
    expect((await new Browser().visit(url, { login: 'ann' })).status).toBe(502)
    expect(await stage.status(checkUrl)).toBe('pending')
    stage.provider.intercept = undefined
    expect((await new Browser().visit(url, { login: 'ann' })).status).toBe(200)
    expect((await stage.call()).value).toBe('mail')
  })

  it('an unreachable provider leads to a page with the reason', async () => {
    await using stage = await openStage()
    const { url } = await stage.challenge()
    stage.provider.intercept = (request) => {
      request.destroy()
      return true
    }
    const page = await new Browser().visit(url, { login: 'ann' })
    expect([page.status, page.text]).toEqual([502, expect.stringContaining('did not answer')])
  })

  it.each(['javascript:alert(1)', 'data:text/html,x', 'ftp://a.example/', 'nonsense', 7])(
    'a provider that names %s as its authorization page causes no redirect',
    async (endpoint) => {
      await using stage = await openStage()
      const { url } = await stage.challenge()
      const { issuer } = stage.provider
      stage.provider.intercept = (_request, _same, response) => {
        const metadata = { issuer, authorization_endpoint: endpoint, token_endpoint: `${issuer}/token` }
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(metadata))
        return true
      }
      const page = await new Browser().visit(url, { login: 'ann' })
      expect([page.status, page.headers.get('location')]).toEqual([502, null])
    },
  )

  it('metadata with the issuer of another provider is refused', async () => {
    await using stage = await openStage()
    const { url } = await stage.challenge()
    stage.provider.intercept = (_request, _same, response) => {
      const metadata = {
        issuer: 'https://accounts.example.com',
        authorization_endpoint: 'https://evil.example/',
      }
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(metadata))
      return true
    }
    expect((await new Browser().visit(url, { login: 'ann' })).status).toBe(502)
  })

  it('a redirect of the token endpoint is not followed', async () => {
    await using stage = await openStage()
    const { url } = await stage.challenge()
    stage.provider.intercept = (request, _same, response) => {
      if (request.url !== '/token') return false
      response.writeHead(307, { location: 'http://169.254.169.254/latest' }).end()
      return true
    }
    expect((await new Browser().visit(url, { login: 'ann' })).status).toBe(502)
  })
})
