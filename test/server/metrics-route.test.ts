import { afterEach, describe, expect, it } from 'vitest'
import { createAuthenticator } from '#auth/authenticator'
import type { Settings } from '#config/settings'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { Secret } from '#kernel/base/secret'
import { createMetrics } from '#server/telemetry/metrics'
import { createMetricsRoute } from '#server/telemetry/metrics-routes'
import { echoRoutes, KEY, startApp, stopApps, WITH_KEY } from './start-app.ts'

afterEach(stopApps)

async function start(auth: Settings['auth'], isLoopback: boolean) {
  const metrics = createMetrics()
  const authenticator = createAuthenticator(auth, SYSTEM_CLOCK)
  const route = createMetricsRoute({ metrics, authenticator, isLoopback })
  return startApp({ authenticator, metrics, routes: [...echoRoutes(), route] })
}

const NO_AUTH: Settings['auth'] = { apiKeys: [], jwt: undefined }

describe('GET /metrics', () => {
  it('is open on loopback without auth, and counts by pattern', async () => {
    const { url } = await start(NO_AUTH, true)
    await fetch(`${url}/calls/some-id`)
    await fetch(`${url}/no/such/path`)
    const response = await fetch(`${url}/metrics`)
    const text = await response.text()
    expect(response.headers.get('content-type')).toMatch(/^text\/plain/)
    expect(text).toContain('collet_http_requests_total{route="/calls/:id",method="GET",status="200"} 1')
    expect(text).toContain('collet_http_requests_total{route="unknown",method="GET",status="404"} 1')
    expect(text).not.toMatch(/some-id|such/)
  })

  it('is closed elsewhere without auth', async () => {
    const { url } = await start(NO_AUTH, false)
    expect((await fetch(`${url}/metrics`)).status).toBe(403)
  })

  it('needs the scope metrics:read once auth is configured, on loopback too', async () => {
    const { url } = await start(
      {
        ...WITH_KEY,
        apiKeys: [...WITH_KEY.apiKeys, { id: 'bob', key: new Secret('k-bob'), tenant: 'acme', scopes: [] }],
      },
      true,
    )
    expect((await fetch(`${url}/metrics`)).status).toBe(401)
    expect((await fetch(`${url}/metrics`, { headers: { 'x-api-key': 'k-bob' } })).status).toBe(403)
    expect((await fetch(`${url}/metrics`, { headers: { 'x-api-key': KEY } })).status).toBe(200)
  })
})
