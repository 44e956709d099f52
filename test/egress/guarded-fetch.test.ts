import { createServer as createTcpServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createGuardedFetch, type GuardedFetch } from '#egress/guarded-fetch'
import type { EgressPolicy } from '#egress/policy'
import { failureOf } from './failure-of.ts'
import { closeServer, type LocalSite, listen, startSite, tracked } from './local-site.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

function open(policy: EgressPolicy = {}): GuardedFetch {
  const fetch = createGuardedFetch(policy)
  closing.push(fetch.close)
  return fetch
}

async function site(...args: Parameters<typeof startSite>): Promise<LocalSite> {
  const started = await startSite(...args)
  closing.push(started.close)
  return started
}

const HAS_IPV6 = Object.values(networkInterfaces()).some((parts) =>
  parts?.some(({ address }) => address === '::1'),
)
const ALLOW = { allow: ['127.0.0.1', '::1'] }

describe('refused requests', () => {
  let port = 0
  let visited = 0
  beforeAll(async () => {
    const local = await startSite((_visit, response) => {
      visited += 1
      response.end('secret')
    }, '0.0.0.0')
    port = local.port
    return local.close
  })

  it.each([
    '127.0.0.1',
    '127.1',
    '127.0.1',
    '2130706433',
    '0x7f000001',
    '0x7f.1',
    '0177.0.0.1',
    '017700000001',
    '127.0.0.1.',
    '１２７.０.０.１',
    '①②⑦.0.0.1',
    '127。0。0。1',
    '%31%32%37.0.0.1',
    '0',
    '0.0.0.0',
    'localhost',
    'LOCALHOST.',
    'loc%61lhost',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '[2002:7f00:1::]',
    '[fe80::1]',
    '[fd00:ec2::254]',
    '169.254.169.254',
    '10.0.0.1',
    '192.168.0.1',
    '100.64.0.1',
    '224.0.0.1',
  ])('OWP-80: http://%s', async (host) => {
    const fetch = open({ lookup: async (name) => (name.startsWith('localhost') ? ['127.0.0.1', '::1'] : []) })
    const error = await failureOf(fetch(`http://${host}:${port}/`))
    expect(error).toMatchObject({ code: 'egress_denied', canRetry: false })
    expect(error.developerMessage).toMatch(/^ssrf_blocked: /)
    expect(visited).toBe(0)
  })

  it('OWP-80: every spelling of a loopback address is refused', async () => {
    const fetch = open()
    const radix = fc.constantFrom<((value: number) => string)[]>(
      (value) => String(value),
      (value) => `0x${value.toString(16)}`,
      (value) => `0${value.toString(8)}`,
    )
    const wide = (text: string) =>
      text.replaceAll(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit)))
    const encoded = (text: string) => text.replaceAll(/\d/g, (digit) => `%3${digit}`)
    const disguise = fc.constantFrom<((text: string) => string)[]>(
      (text) => text,
      wide,
      encoded,
      (text) => `${text}.`,
    )
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(radix, radix, radix),
        disguise,
        fc.nat(0xffff),
        async ([a, b, c], put, low) => {
          const spellings = [
            `${a(127)}.${b(0)}.${c(low)}`,
            `${a(127)}.${b(low)}`,
            `${a(127)}.0.${b(low >> 8)}.${c(low & 0xff)}`,
            a(127 * 0x1000000 + low),
          ]
          for (const host of spellings)
            expect(await failureOf(fetch(`http://${put(host)}:${port}/`))).toMatchObject({
              code: 'egress_denied',
            })
        },
      ),
      { numRuns: 50 },
    )
    expect(visited).toBe(0)
  })

  it.each([
    'file:///etc/passwd',
    'ftp://a.example/',
    'data:text/plain,x',
    'blob:x',
    'gopher://a.example/',
    'ws://a.example/',
    '/relative',
    'http://[fe80::1%25eth0]/',
    '',
  ])('refuses an address that is not a web address: %j', async (url) => {
    expect(await failureOf(open()(url))).toMatchObject({ code: 'egress_denied' })
  })

  it('a URL with credentials is refused, and they are not repeated', async () => {
    const error = await failureOf(open(ALLOW)(`http://alice:hunter2@127.0.0.1:${port}/`))
    expect(error.code).toBe('egress_denied')
    expect(JSON.stringify([error.message, error.developerMessage, String(error.cause)])).not.toMatch(
      /hunter2|alice/,
    )
  })

  it('a header that cannot be sent is refused, and its value is not repeated', async () => {
    const headers = { authorization: 'Bearer hunter2\n' + 'x: y' }
    await expect(open(ALLOW)(`http://127.0.0.1:${port}/`, { headers })).rejects.toThrow(
      /^(?!.*hunter2)fetch: /,
    )
  })

  it('OWP-81: a connection upgrade in the request', async () => {
    for (const headers of [{ upgrade: 'websocket', connection: 'Upgrade' }, { connection: 'upgrade' }])
      expect(await failureOf(open(ALLOW)(`http://127.0.0.1:${port}/`, { headers }))).toMatchObject({
        code: 'egress_denied',
      })
    expect(visited).toBe(0)
  })

  it('OWP-81: a connection upgrade in the answer', async () => {
    const server = tracked(
      createTcpServer((socket) => {
        socket.once('data', () =>
          socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
        )
      }),
    )
    const upgrading = await listen(server, '127.0.0.1')
    closing.push(() => closeServer(server))
    expect(await failureOf(open(ALLOW)(`http://127.0.0.1:${upgrading}/`))).toMatchObject({
      code: 'upstream_failed',
      canRetry: false,
    })
  })

  it('rule 33: a connection of one policy is not used for another', async () => {
    const local = await site((_visit, response) => response.end('ok'))
    const url = `http://127.0.0.1:${local.port}/`
    const [lax, strict] = [open(ALLOW), open()]
    await (await lax(url)).text()
    // A connection is used again one turn of the event loop after its answer.
    await setImmediate()
    await (await lax(url)).text()
    expect(await failureOf(strict(url))).toMatchObject({ code: 'egress_denied' })
    expect([local.connections(), local.visits.length]).toEqual([1, 2])
  })
})

describe('successful requests', () => {
  it('behaves like fetch: method, headers, body with its length, status, url', async () => {
    const local = await site((visit, response) =>
      response
        .writeHead(201, 'Made', { 'x-seen': 'yes', 'set-cookie': ['a=1', 'b=2'], connection: 'close' })
        .end(visit.body),
    )
    const fetch = open(ALLOW)
    const url = `http://127.0.0.1:${local.port}/a?b=c#d`
    const response = await fetch(url, {
      method: 'POST',
      body: new URLSearchParams({ q: 'ä' }),
      headers: { 'x-mine': '1' },
    })
    expect(response).toBeInstanceOf(Response)
    expect([response.status, response.statusText, response.ok, response.redirected]).toEqual([
      201,
      'Made',
      true,
      false,
    ])
    expect(response.url).toBe(`http://127.0.0.1:${local.port}/a?b=c`)
    expect(response.headers.get('connection')).toBeNull()
    expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
    expect(await response.text()).toBe('q=%C3%A4')
    const [visit] = local.visits
    expect([visit?.method, visit?.path, visit?.headers['x-mine']]).toEqual(['POST', '/a?b=c', '1'])
    expect(visit?.headers).toMatchObject({
      'content-type': 'application/x-www-form-urlencoded;charset=UTF-8',
      'content-length': '8',
      host: `127.0.0.1:${local.port}`,
    })
  })

  it('accepts a Request, a URL, and a stream', async () => {
    const local = await site((visit, response) => response.end(`${visit.method} ${visit.body}`))
    const fetch = open(ALLOW)
    const url = new URL(`http://127.0.0.1:${local.port}/`)
    const textOf = async (response: Promise<Response>) => await (await response).text()
    expect(await textOf(fetch(url))).toBe('GET ')
    expect(await textOf(fetch(new Request(url, { method: 'PUT', body: 'x' })))).toBe('PUT x')
    const body = new Blob(['streamed']).stream()
    expect(await textOf(fetch(url, { method: 'POST', body, duplex: 'half' }))).toBe('POST streamed')
    expect(local.visits[2]?.headers['transfer-encoding']).toBe('chunked')
    expect((await fetch(url, { method: 'HEAD' })).body).toBeNull()
  })

  it.skipIf(!HAS_IPV6)('IPv6 works as IPv4 does', async () => {
    const local = await site((_visit, response) => response.end('six'), '::1')
    const url = `http://[::1]:${local.port}/`
    expect(await (await open(ALLOW)(url)).text()).toBe('six')
    expect(local.visits[0]?.headers.host).toBe(`[::1]:${local.port}`)
    expect(await failureOf(open()(url))).toMatchObject({ code: 'egress_denied' })
  })

  it('a name in the allow-list may be local, and the next address is tried if one does not answer', async () => {
    const local = await site((_visit, response) => response.end('ok'))
    const fetch = open({ allow: ['crm.internal'], lookup: async () => ['::1', '127.0.0.1'] })
    expect(await (await fetch(`http://crm.internal:${local.port}/`)).text()).toBe('ok')
    expect(await failureOf(fetch(`http://other.internal:${local.port}/`))).toMatchObject({
      code: 'egress_denied',
    })
  })
})

describe('failures', () => {
  it('rule 9: a refused connection: nothing was sent', async () => {
    const gone = await startSite(() => undefined)
    await gone.close()
    expect(
      await failureOf(open(ALLOW)(`http://127.0.0.1:${gone.port}/`, { method: 'POST', body: 'x' })),
    ).toMatchObject({
      code: 'upstream_failed',
      canRetry: true,
      developerMessage: 'Not connected: ECONNREFUSED.',
      cause: { code: 'ECONNREFUSED' },
    })
  })

  it.each(['GET', 'POST'])(
    'rule 9, rule 33: after a reset %s is not sent again, and the failure does not suggest a retry',
    async (method) => {
      const local = await site((_visit, response) => response.destroy())
      expect(await failureOf(open(ALLOW)(`http://127.0.0.1:${local.port}/`, { method }))).toMatchObject({
        code: 'upstream_failed',
        canRetry: false,
      })
      expect(local.visits).toHaveLength(1)
    },
  )

  it('rule 33: a request sent on a pooled connection that ends is not repeated', async () => {
    const local = await site((visit, response, request) => {
      if (visit.path === '/first') response.end('ok')
      else request.socket.destroy()
    })
    const fetch = open(ALLOW)
    await (await fetch(`http://127.0.0.1:${local.port}/first`)).text()
    const error = await failureOf(
      fetch(`http://127.0.0.1:${local.port}/second`, { method: 'POST', body: 'pay' }),
    )
    expect(error).toMatchObject({ code: 'upstream_failed', canRetry: false })
    expect(local.visits.map(({ path }) => path)).toEqual(['/first', '/second'])
  })

  it('nothing is sent after close', async () => {
    const local = await site((_visit, response) => response.end('ok'))
    const url = `http://127.0.0.1:${local.port}/`
    const [used, unused] = [open(ALLOW), open(ALLOW)]
    await (await used(url)).text()
    for (const fetch of [used, unused]) {
      await fetch.close()
      expect(await failureOf(fetch(url))).toMatchObject({ code: 'upstream_failed', canRetry: false })
    }
    expect(local.visits).toHaveLength(1)
  })

  it('an abort by the caller rejects with its reason', async () => {
    const local = await site(() => undefined)
    const abort = new AbortController()
    const reason = new DOMException('enough', 'AbortError')
    const fetching = open(ALLOW)(`http://127.0.0.1:${local.port}/`, { signal: abort.signal })
    await expect.poll(() => local.visits.length).toBe(1)
    abort.abort(reason)
    await expect(fetching).rejects.toBe(reason)
    await expect(open(ALLOW)('http://127.0.0.1:1/', { signal: abort.signal })).rejects.toBe(reason)
  })
})
