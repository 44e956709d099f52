import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { createMetrics } from '#server/telemetry/metrics'
import { echoRoutes, heldRoute, startApp, stopApps } from './start-app.ts'

afterEach(stopApps)

const JSON_BODY = { 'content-type': 'application/json' }

function post(url: string, path: string, bytes: number): Promise<Response> {
  return fetch(`${url}${path}`, {
    method: 'POST',
    headers: JSON_BODY,
    body: JSON.stringify('x'.repeat(bytes - 2)),
  })
}

describe('request bodies in flight', () => {
  it('are bounded in bytes, from their arrival until their reply', async () => {
    const metrics = createMetrics()
    const { route, release, entered } = heldRoute()
    const { url } = await startApp({
      routes: [...echoRoutes(), route],
      maxBodyBytes: 100_000,
      metrics,
    })
    const first = post(url, '/held', 80_000)
    await entered
    const refused = await post(url, '/tools/call', 30_000)
    expect([refused.status, await refused.json()]).toMatchObject([503, { code: 'overloaded' }])
    expect((await post(url, '/tools/call', 10_000)).status).toBe(200)
    expect((await fetch(`${url}/health`)).status).toBe(200)
    release()
    expect((await first).status).toBe(200)
    expect((await post(url, '/tools/call', 90_000)).status).toBe(200)
    expect((await metrics.render()).text).toContain('collet_limit_refusals_total{limit="body_bytes"} 1')
  })

  it('count as they arrive: a large announced length with few bytes sent uses little of the budget', async () => {
    const { url, port } = await startApp({ maxBodyBytes: 100_000 })
    const sockets = await Promise.all(
      Array.from({ length: 10 }, async () => {
        const socket = connect(port, '127.0.0.1')
        await once(socket, 'connect')
        socket.write(
          `POST /tools/call HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\nContent-Length: 90000\r\n\r\n"`,
        )
        return socket
      }),
    )
    expect((await post(url, '/tools/call', 90_000)).status).toBe(200)
    for (const socket of sockets) socket.destroy()
    // A body that is never completed returns its share of the budget.
    for (let time = 0; time < 20; time += 1) {
      expect((await post(url, '/tools/call', 99_000)).status).toBe(200)
    }
  })
})

describe('request bodies of several callers', () => {
  const KEYS: Settings['auth'] = {
    apiKeys: [
      { id: 'greedy', key: new Secret('k-greedy'), tenant: 'acme', scopes: [] },
      { id: 'helper', key: new Secret('k-helper'), tenant: 'acme', scopes: [] },
      { id: 'mate', key: new Secret('k-mate'), tenant: 'acme', scopes: [] },
      { id: 'guest', key: new Secret('k-guest'), tenant: 'other', scopes: [] },
    ],
    jwt: undefined,
  }

  /** Sends most of a body, then stalls. */
  async function startBody(port: number, key: string, bytes: number) {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined)
    await once(socket, 'connect')
    const head = `POST /tools/call HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: ${bytes + 1}\r\n\r\n`
    socket.write(`${head}"${'x'.repeat(bytes - 1)}`)
    return socket
  }

  const call = async (url: string, key: string, bytes: number) => {
    const headers = { ...JSON_BODY, 'x-api-key': key }
    const body = JSON.stringify('x'.repeat(bytes - 2))
    return (await fetch(`${url}/tools/call`, { method: 'POST', headers, body })).status
  }

  it('one key at its limit leaves budget for other keys, of its tenant and of others', async () => {
    const metrics = createMetrics()
    const settings = { bodyLimitBytes: 10_000 }
    const { url, port } = await startApp({ auth: KEYS, settings, maxBodyBytes: 600_000, metrics })
    const refused = async (limit: string) =>
      (await metrics.render()).text.includes(`collet_limit_refusals_total{limit="${limit}"}`)
    const fill = async (key: string, limit: string) => {
      const sockets = []
      for (let time = 0; time < 75; time += 1) sockets.push(await startBody(port, key, 9_000))
      await expect.poll(() => refused(limit)).toBe(true)
      return sockets
    }
    const sockets = await fill('k-greedy', 'principal_bodies')
    for (const key of ['k-helper', 'k-mate', 'k-guest']) expect(await call(url, key, 9_900)).toBe(200)
    sockets.push(...(await fill('k-helper', 'tenant_bodies')), ...(await fill('k-mate', 'tenant_bodies')))
    for (let time = 0; time < 20; time += 1) expect(await call(url, 'k-guest', 9_900)).toBe(200)
    for (const socket of sockets) socket.destroy()
    await expect.poll(() => call(url, 'k-greedy', 9_900)).toBe(200)
  })

  it('a stalled body is aborted', async () => {
    const { port } = await startApp({ auth: KEYS, timeouts: { bodyCheckMs: 200 } })
    const stalled = await startBody(port, 'k-greedy', 50_000)
    const [answer] = await once(stalled, 'data')
    expect(String(answer)).toMatch(/^HTTP\/1.1 408 /)
    stalled.destroy()
  })

  it('a body that arrives slowly but steadily is completed', async () => {
    const { port } = await startApp({ auth: KEYS, timeouts: { bodyCheckMs: 300 } })
    const slow = connect(port, '127.0.0.1')
    await once(slow, 'connect')
    const text = JSON.stringify('x'.repeat(60_000))
    slow.write(
      `POST /tools/call HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nX-API-Key: k-guest\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n`,
    )
    const answer = once(slow, 'data')
    const parts = Array.from({ length: 12 }, (_, at) => text.slice(at * 5_001, (at + 1) * 5_001))
    const timer = setInterval(() => {
      const part = parts.shift()
      if (part === undefined) clearInterval(timer)
      else slow.write(part)
    }, 60)
    expect(String((await answer)[0])).toMatch(/^HTTP\/1.1 200 /)
    slow.destroy()
  })
})

describe('connections', () => {
  it('are bounded: an excess connection is closed at once, and a closed one makes room for another', async () => {
    const { port } = await startApp({ settings: { maxConnections: 2 } })
    const open = async () => {
      const socket = connect(port, '127.0.0.1').on('error', () => undefined)
      await once(socket, 'connect')
      return socket
    }
    const ask = async (socket: Awaited<ReturnType<typeof open>>) => {
      const answer = once(socket, 'data')
      socket.write(`GET /health HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`)
      return String((await answer)[0]).slice(0, 15)
    }
    const first = await open()
    const second = await open()
    expect(await ask(first)).toBe('HTTP/1.1 200 OK')
    expect(await ask(second)).toBe('HTTP/1.1 200 OK')
    const third = await open()
    await once(third, 'close')
    first.destroy()
    for (;;) {
      const next = await open()
      const ending = await Promise.race([ask(next), once(next, 'close').then(() => 'closed')])
      next.destroy()
      if (ending !== 'closed') break
    }
    second.destroy()
  })
})
