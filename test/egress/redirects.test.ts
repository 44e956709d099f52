import type { ServerResponse } from 'node:http'
import { afterEach, describe, expect, it } from 'vitest'
import { createGuardedFetch } from '#egress/guarded-fetch'
import type { EgressPolicy } from '#egress/policy'
import { failureOf } from './failure-of.ts'
import { startSite, type Visit } from './local-site.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

async function start(answer: (visit: Visit, response: ServerResponse) => void, policy: EgressPolicy = {}) {
  const site = await startSite(answer)
  const fetch = createGuardedFetch({ allow: ['127.0.0.1'], ...policy })
  closing.push(site.close, fetch.close)
  return { site, fetch, url: `http://127.0.0.1:${site.port}` }
}

function sendTo(response: ServerResponse, location: string, status = 302): void {
  response.writeHead(status, { location }).end('elsewhere')
}

const CREDENTIALS = { authorization: 'Bearer t', cookie: 'a=b', 'x-api-key': 'k', accept: 'text/plain' }

describe('redirects', () => {
  it('are followed for GET within an origin, with the same headers', async () => {
    const { fetch, site, url } = await start((visit, response) => {
      if (visit.path === '/a') sendTo(response, 'b?c#d')
      else response.end('there')
    })
    const response = await fetch(`${url}/a`, { headers: CREDENTIALS })
    expect([await response.text(), response.redirected, response.url]).toEqual(['there', true, `${url}/b?c`])
    expect(site.visits[1]?.headers).toMatchObject(CREDENTIALS)
  })

  it('rule 33: drop possible credentials on the way to another origin, even if they return', async () => {
    const other = await start((_visit, response) => sendTo(response, `${first.url}/back`))
    const first = await start((visit, response) => {
      if (visit.path === '/a') sendTo(response, `${other.url}/b`)
      else response.end('home')
    })
    expect(await (await first.fetch(`${first.url}/a`, { headers: CREDENTIALS })).text()).toBe('home')
    for (const visit of [other.site.visits[0], first.site.visits[1]]) {
      expect(visit?.headers.accept).toBe('text/plain')
      for (const name of ['authorization', 'cookie', 'x-api-key'])
        expect(visit?.headers).not.toHaveProperty(name)
    }
  })

  it.each([
    'http://10.0.0.1/',
    'http://169.254.169.254/latest/meta-data/',
    'http://[::1]/',
    'http://2852039166/',
    'file:///etc/passwd',
    'http://alice:pw@127.0.0.1/',
    'http://:0:0/',
  ])('OWP-80: to %s are refused', async (location) => {
    const { fetch, site, url } = await start((_visit, response) => sendTo(response, location))
    expect(await failureOf(fetch(url))).toMatchObject({ code: 'egress_denied', canRetry: false })
    expect(site.visits).toHaveLength(1)
  })

  it('OWP-80: each hop of a chain is checked, the last too', async () => {
    const { fetch, site, url } = await start((visit, response) => {
      const hop = Number(visit.path.slice(1) || 0)
      sendTo(response, hop < 3 ? `/${hop + 1}` : 'http://127.0.0.2:80/')
    })
    expect(await failureOf(fetch(url))).toMatchObject({ code: 'egress_denied' })
    expect(site.visits).toHaveLength(4)
  })

  it('OWP-81: end at the limit', async () => {
    const { fetch, site, url } = await start((_visit, response) => sendTo(response, '/again'), {
      maxRedirects: 2,
    })
    expect(await failureOf(fetch(url))).toMatchObject({
      code: 'egress_denied',
      developerMessage: 'More than 2 redirects (egress.maxRedirects).',
    })
    expect(site.visits).toHaveLength(3)
  })

  it.each(['POST', 'PUT', 'PATCH', 'DELETE'])('rule 33: of %s are returned, not followed', async (method) => {
    for (const status of [301, 302, 303, 307, 308]) {
      const { fetch, site, url } = await start((_visit, response) => sendTo(response, '/next', status))
      const response = await fetch(url, { method, ...(method === 'DELETE' ? {} : { body: 'x' }) })
      expect([response.status, response.headers.get('location')]).toEqual([status, '/next'])
      expect(await response.text()).toBe('elsewhere')
      expect(site.visits).toHaveLength(1)
    }
  })

  it('are returned or refused as the caller requests', async () => {
    const { fetch, url } = await start((_visit, response) => sendTo(response, 'http://10.0.0.1/'))
    expect((await fetch(url, { redirect: 'manual' })).status).toBe(302)
    expect(await failureOf(fetch(url, { redirect: 'error' }))).toMatchObject({ code: 'egress_denied' })
  })

  it('rule 9: a failure after a redirect is not marked as retryable', async () => {
    const gone = await startSite(() => undefined)
    await gone.close()
    const { fetch, url } = await start((_visit, response) =>
      sendTo(response, `http://127.0.0.1:${gone.port}/`),
    )
    expect(await failureOf(fetch(url))).toMatchObject({ code: 'upstream_failed', canRetry: false })
  })

  it('without a location, and other 3xx, are returned', async () => {
    const { fetch, url } = await start((visit, response) =>
      response
        .writeHead(visit.path === '/300' ? 300 : 302, visit.path === '/300' ? { location: '/x' } : {})
        .end(),
    )
    expect((await fetch(`${url}/302`)).status).toBe(302)
    expect((await fetch(`${url}/300`)).status).toBe(300)
  })
})
