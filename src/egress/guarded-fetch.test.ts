import { describe, expect, it } from 'vitest'
import type { OutgoingRequest } from './guarded-fetch.ts'
import { nextRequest } from './guarded-fetch.ts'

const CREDENTIALS = { authorization: 'Bearer t', cookie: 'a=b', 'x-api-key': 'k' }

function outgoing(url: string, changes: Partial<OutgoingRequest> = {}): OutgoingRequest {
  const headers = new Headers({ ...CREDENTIALS, accept: 'text/plain' })
  return {
    ...{ url: new URL(url), method: 'GET', headers, body: null, redirect: 'follow' },
    ...{ signal: new AbortController().signal },
    ...changes,
  }
}

const redirected = (from: string, location: string) =>
  nextRequest(outgoing(from), { statusCode: 302, headers: { location } })

describe('rule 33: a redirect', () => {
  it.each([
    ['https://a.example/x', 'http://a.example/x', 'without encryption'],
    ['https://a.example/x', 'http://a.example:443/x', 'without encryption, on the same port'],
    ['http://a.example/x', 'https://a.example/x', 'with encryption'],
    ['https://a.example/x', 'https://a.example:8443/x', 'to another port'],
    ['https://a.example/x', 'https://b.example/x', 'to another host'],
    ['https://a.example/x', 'https://x.a.example/x', 'to a subdomain'],
    ['https://a.example/x', '//b.example/x', 'to another host, without a scheme'],
  ])('from %s to %s carries no credential (%s)', (from, location) => {
    const next = redirected(from, location)
    expect(next?.url.href).toBe(new URL(location, from).href)
    expect([...(next?.headers ?? [])]).toEqual([['accept', 'text/plain']])
  })

  it.each(['/y', 'y?z', 'https://a.example/y', 'https://a.example:443/y', 'HTTPS://A.EXAMPLE/y'])(
    'within an origin keeps the credentials: %s',
    (location) => {
      expect(Object.fromEntries(redirected('https://a.example/x', location)?.headers ?? [])).toMatchObject(
        CREDENTIALS,
      )
    },
  )

  it('of an unsafe method is returned as a response, and is refused if the request forbids redirects', () => {
    const answer = { statusCode: 307, headers: { location: 'https://a.example/y' } }
    expect(nextRequest(outgoing('https://a.example/x', { method: 'POST' }), answer)).toBeUndefined()
    expect(nextRequest(outgoing('https://a.example/x', { redirect: 'manual' }), answer)).toBeUndefined()
    expect(() => nextRequest(outgoing('https://a.example/x', { redirect: 'error' }), answer)).toThrow()
    const nowhere = { statusCode: 302, headers: { location: 'http://[' } }
    expect(() => nextRequest(outgoing('https://a.example/x'), nowhere)).toThrow()
  })
})
