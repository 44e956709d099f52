import { afterEach, describe, expect, it } from 'vitest'
import { fault } from '#kernel/base/errors'
import { ask } from './node-ask.ts'
import { KEY, startApp, stopApps, WITH_KEY } from './start-app.ts'

afterEach(stopApps)

const json = { 'content-type': 'application/json' }

describe('authentication', () => {
  it('OTC-102, C-21: a missing credential is 401 with WWW-Authenticate, in the protocol’s shape', async () => {
    const { url, seen } = await startApp({ auth: WITH_KEY })
    const response = await fetch(`${url}/tools`)
    expect(response.status).toBe(401)
    expect(response.headers.get('www-authenticate')).toMatch(/^Bearer/)
    expect(await response.json()).toMatchObject({ code: 'unauthenticated' })
    expect(seen).toEqual([])
  })

  it('OTC-99: a key authenticates as its principal', async () => {
    const { url } = await startApp({ auth: WITH_KEY })
    const response = await fetch(`${url}/tools`, { headers: { 'OXP-API-Key': KEY } })
    expect(await response.json()).toMatchObject({ principal: 'key:alice' })
  })

  it('OTC-04: an open route answers without a credential, and with a bad one', async () => {
    const { url } = await startApp({ auth: WITH_KEY })
    for (const headers of [{}, { authorization: 'Bearer nope' }]) {
      expect(await (await fetch(`${url}/health`, { headers })).json()).toMatchObject({
        principal: 'anonymous',
      })
    }
  })

  it('OTC/T-12: a bad credential is reported before bad JSON, and unknown paths reveal nothing about credentials', async () => {
    const { url } = await startApp({ auth: WITH_KEY })
    expect((await fetch(`${url}/tools/call`, { method: 'POST', headers: json, body: '{' })).status).toBe(401)
    expect((await fetch(`${url}/nothing`)).status).toBe(404)
  })

  it('refuses a second Authorization header behind the first', async () => {
    const { url } = await startApp({ auth: WITH_KEY })
    const response = await ask(`${url}/tools`, { headers: { authorization: `Bearer ${KEY}, Bearer other` } })
    expect(response.status).toBe(401)
  })
})

describe('host guard', () => {
  it.each(['/tools', '/health', '/nothing', '/%'])(
    'rule 28: refuses a foreign Host on %s with 403',
    async (path) => {
      const { url, port, seen } = await startApp()
      const response = await ask(`${url}${path}`, { headers: { host: `evil.test:${port}` } })
      expect([response.status, JSON.parse(response.body)]).toEqual([
        403,
        expect.objectContaining({ message: expect.stringContaining('Host') }),
      ])
      expect(seen).toEqual([])
    },
  )

  it('rule 28: refuses a foreign Origin before it reads the body, and sends no CORS header', async () => {
    const { url, seen } = await startApp()
    const response = await fetch(`${url}/tools/call`, {
      method: 'POST',
      headers: { ...json, origin: 'https://evil.test' },
      body: '{}',
    })
    expect(response.status).toBe(403)
    expect(response.headers.get('access-control-allow-origin')).toBeNull()
    expect(seen).toEqual([])
  })

  it('rule 28: answers its own Origin without CORS headers', async () => {
    const { url } = await startApp()
    const response = await fetch(`${url}/tools`, { headers: { origin: url } })
    expect(response.status).toBe(200)
    expect(response.headers.get('access-control-allow-origin')).toBeNull()
    expect(response.headers.get('vary')).toBeNull()
  })

  it('accepts preflights and calls from a configured Origin', async () => {
    const { url } = await startApp({ settings: { allowedOrigins: ['https://app.test'] }, auth: WITH_KEY })
    const origin = 'https://app.test'
    const preflight = await fetch(`${url}/tools/call`, {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': 'POST' },
    })
    expect(preflight.status).toBe(204)
    expect(preflight.headers.get('access-control-allow-origin')).toBe(origin)
    expect(preflight.headers.get('access-control-allow-methods')).toBe('POST')
    expect(preflight.headers.get('access-control-allow-headers')).toBe(
      'authorization, collet-authorization, collet-run, collet-secret, collet-session, collet-toolset, collet-user, content-type, idempotency-key, if-none-match, last-event-id, otc-api-key, oxp-api-key, oxp-version, traceparent, tracestate, x-api-key',
    )
    const call = await fetch(`${url}/tools/call`, {
      method: 'POST',
      headers: { ...json, origin, 'x-api-key': KEY },
      body: '{}',
    })
    expect([call.status, call.headers.get('access-control-allow-origin'), call.headers.get('vary')]).toEqual([
      200,
      origin,
      'origin',
    ])
    const foreign = { origin: 'https://evil.test', 'access-control-request-method': 'POST' }
    expect((await fetch(`${url}/tools/call`, { method: 'OPTIONS', headers: foreign })).status).toBe(403)
  })

  it('OTC-114: passes every request to the operator’s hook', async () => {
    const routes: string[] = []
    const { url } = await startApp({
      admit({ address, route }) {
        expect(address).toMatch(/127\.0\.0\.1$/)
        routes.push(route)
        if (routes.length > 2) throw fault('rate_limited', 'Too many requests.', { retryAfterMs: 1_000 })
      },
    })
    expect((await fetch(`${url}/tools`)).status).toBe(200)
    expect((await fetch(`${url}/secret/path`)).status).toBe(404)
    const response = await fetch(`${url}/calls/x`)
    expect([response.status, await response.json()]).toEqual([
      429,
      { message: 'Too many requests.', code: 'rate_limited' },
    ])
    expect(routes).toEqual(['/tools', 'unknown', '/calls/:id'])
  })
})
