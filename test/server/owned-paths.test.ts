import { afterEach, describe, expect, it } from 'vitest'
import { jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { KEY, openRoute, startApp, stopApps, WITH_KEY } from './start-app.ts'

afterEach(stopApps)

const inside: ServerRoute = {
  method: 'GET',
  path: '/inside/known',
  access: 'authenticated',
  body: 'never',
  owns: '/inside',
  handle: () => jsonReply(200, { ok: true }),
  refuse: (_request, error, status) => jsonReply(status, { inside: error.code }),
}
const routes = [inside, openRoute('/outside', () => jsonReply(200, { ok: true }))]

describe('OTS-48: a path prefix that requires a credential everywhere', () => {
  it.each([
    ['GET', '/inside', 404],
    ['GET', '/inside/unknown', 404],
    ['PATCH', '/inside/known', 405],
    ['GET', '/inside/kno%77n', 404],
    ['GET', '/inside/%zz', 400],
  ])('%s %s needs a credential before it shows whether the path exists', async (method, path, status) => {
    const { url } = await startApp({ routes, auth: WITH_KEY })
    const without = await fetch(url + path, { method })
    expect([without.status, await without.json()]).toEqual([401, { inside: 'unauthenticated' }])
    const bearer = { authorization: `Bearer ${KEY}` }
    const known = await fetch(url + path, { method, headers: bearer })
    expect(known.status).toBe(status)
    expect(await known.json()).toEqual({ inside: 'request_invalid' })
  })

  it('OPTIONS needs a credential before it names the methods', async () => {
    const { url } = await startApp({ routes, auth: WITH_KEY })
    const options = { method: 'OPTIONS' }
    expect((await fetch(`${url}/inside/known`, options)).status).toBe(401)
    const known = await fetch(`${url}/inside/known`, {
      ...options,
      headers: { authorization: `Bearer ${KEY}` },
    })
    expect([known.status, known.headers.get('allow')]).toEqual([204, expect.stringContaining('OPTIONS')])
  })

  it('ends where the path segment ends', async () => {
    const { url } = await startApp({ routes, auth: WITH_KEY })
    expect((await fetch(`${url}/insides`)).status).toBe(404)
    expect((await fetch(`${url}/outside`, { method: 'POST' })).status).toBe(405)
  })

  it('requires no credential where the owning route is open', async () => {
    const open: ServerRoute = { ...inside, access: 'open' }
    const { url } = await startApp({ routes: [open], auth: WITH_KEY })
    const response = await fetch(`${url}/inside/unknown`)
    expect([response.status, await response.json()]).toEqual([404, { inside: 'request_invalid' }])
  })

  it('keeps an Allow header that the protocol sets', async () => {
    const own: ServerRoute = {
      ...inside,
      refuse: (_request, _error, status) => jsonReply(status, {}, { allow: 'GET' }),
    }
    const { url } = await startApp({ routes: [own] })
    const response = await fetch(`${url}/inside/known`, { method: 'POST' })
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET'])
  })

  it('answers preflights of a configured origin', async () => {
    const origin = 'https://app.example.com'
    const { url } = await startApp({ routes, auth: WITH_KEY, settings: { allowedOrigins: [origin] } })
    const response = await fetch(`${url}/inside/known`, {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': 'GET' },
    })
    expect(response.status).toBe(204)
  })
})
