import { createServer as createTcpServer } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { createGuardedFetch } from '#egress/guarded-fetch'
import type { EgressPolicy } from '#egress/policy'
import { type DnsServer, startDnsServer } from './dns-server.ts'
import { failureOf } from './failure-of.ts'
import { closeServer, listen, startSite, tracked } from './local-site.ts'

/** Represents the internet: the one address that the policy allows. */
const OUTSIDE = '127.0.0.2'
/** Represents the operator's machine. */
const INSIDE = '127.0.0.1'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

/** A site on every loopback address, a name server, and a fetch that may reach only `OUTSIDE`. */
async function start(answer: (name: string, time: number) => readonly string[], policy: EgressPolicy = {}) {
  const site = await startSite((_visit, response) => response.end('ok'), '0.0.0.0')
  const dns: DnsServer = await startDnsServer(answer)
  const fetch = createGuardedFetch({ allow: [OUTSIDE], lookup: dns.lookup, ...policy })
  closing.push(site.close, dns.close, fetch.close)
  return { site, dns, fetch, url: `http://rebind.example:${site.port}/` }
}

describe('a name server whose answers change', () => {
  it('OWP-80: the connection goes to the checked address, and the name is resolved once', async () => {
    const { fetch, site, dns, url } = await start((_name, time) => [time === 1 ? OUTSIDE : INSIDE])
    const response = await fetch(url)
    expect(await response.text()).toBe('ok')
    expect(dns.asked).toEqual(['rebind.example'])
    expect(site.visits).toMatchObject([
      { reachedAt: OUTSIDE, headers: { host: `rebind.example:${site.port}` } },
    ])
  })

  it('OWP-80, rule 33: the next request is refused, although a connection to the allowed address is open', async () => {
    const { fetch, site, url } = await start((_name, time) => [time === 1 ? OUTSIDE : INSIDE])
    await (await fetch(url)).text()
    const error = await failureOf(fetch(url))
    expect(error).toMatchObject({ code: 'egress_denied', canRetry: false })
    expect(error.developerMessage).toMatch(/^ssrf_blocked: rebind\.example port \d+: its address is loopback/)
    expect(error.message).not.toMatch(/rebind|127|loopback/)
    expect(site.visits).toHaveLength(1)
  })

  it('OWP-80: one forbidden address among allowed ones refuses the name', async () => {
    const { fetch, site, url } = await start(() => [OUTSIDE, INSIDE])
    expect(await failureOf(fetch(url))).toMatchObject({ code: 'egress_denied' })
    expect(site.connections()).toBe(0)
  })

  it('OWP-80: a redirect to a name that has become forbidden is refused', async () => {
    const site = await startSite(
      (_visit, response) =>
        response.writeHead(302, { location: `http://second.example:${site.port}/in` }).end(),
      '0.0.0.0',
    )
    const dns = await startDnsServer((name) => [name === 'first.example' ? OUTSIDE : INSIDE])
    const fetch = createGuardedFetch({ allow: [OUTSIDE], lookup: dns.lookup })
    closing.push(site.close, dns.close, fetch.close)
    expect(await failureOf(fetch(`http://first.example:${site.port}/`))).toMatchObject({
      code: 'egress_denied',
    })
    expect(site.visits.map(({ path }) => path)).toEqual(['/'])
  })

  it('rule 33: the address is checked again on connect', async () => {
    let asked = 0
    let port = 0
    const listeners = () => {
      asked += 1
      return asked === 1 ? [] : [{ host: '0.0.0.0', port }]
    }
    const { fetch, site, url } = await start(() => [OUTSIDE], { ownListeners: listeners })
    port = site.port
    const error = await failureOf(fetch(url))
    expect([error.code, error.developerMessage]).toEqual([
      'egress_denied',
      expect.stringContaining('it is a listener of this server'),
    ])
    expect(site.connections()).toBe(0)
  })

  it('a name without an address causes no connection', async () => {
    const { fetch, url } = await start(() => [])
    expect(await failureOf(fetch(url))).toMatchObject({
      code: 'upstream_failed',
      canRetry: true,
      cause: { code: 'ENODATA' },
    })
  })

  it('OWP-80: TLS goes to the checked address with the name of the URL', async () => {
    const hello = Promise.withResolvers<Buffer>()
    const server = tracked(
      createTcpServer((socket) => {
        socket.once('data', (bytes) => {
          hello.resolve(bytes)
          socket.destroy()
        })
      }),
    )
    const port = await listen(server, OUTSIDE)
    const dns = await startDnsServer(() => [OUTSIDE])
    const fetch = createGuardedFetch({ allow: [OUTSIDE], lookup: dns.lookup })
    closing.push(() => closeServer(server), dns.close, fetch.close)
    expect(await failureOf(fetch(`https://secure.example:${port}/`))).toMatchObject({
      code: 'upstream_failed',
    })
    expect((await hello.promise).includes('secure.example')).toBe(true)
  })
})
