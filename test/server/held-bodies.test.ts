import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { createMetrics } from '#server/metrics'
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
      mostBodyBytes: 100_000,
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

  it('count as they arrive: who announces much and sends little takes little', async () => {
    const { url, port } = await startApp({ mostBodyBytes: 100_000 })
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
    // A body that never comes to its end gives back what it held.
    for (let time = 0; time < 20; time += 1) {
      expect((await post(url, '/tools/call', 99_000)).status).toBe(200)
    }
  })
})

describe('connections', () => {
  it('are bounded: one too many is closed at once, and there is room again when one leaves', async () => {
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
      const said = await Promise.race([ask(next), once(next, 'close').then(() => 'closed')])
      next.destroy()
      if (said !== 'closed') break
    }
    second.destroy()
  })
})
