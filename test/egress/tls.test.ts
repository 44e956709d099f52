import { createServer } from 'node:https'
import { setImmediate } from 'node:timers/promises'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createGuardedFetch, type GuardedFetch } from '#egress/guarded-fetch'
import { failureOf } from './failure-of.ts'
import { closeServer, listen, tracked } from './local-site.ts'
import { makeSelfSigned } from './self-signed.ts'

const known = getCACertificates('default')
const own = makeSelfSigned('secure.example', Date.now())
const asked: string[] = []
const server = tracked(
  createServer(own, (request, response) => {
    asked.push(`${request.headers.host} ${request.url}`)
    response.end('sealed')
  }),
)
let port = 0
let fetch: GuardedFetch

beforeAll(async () => {
  setDefaultCACertificates([...known, own.cert])
  port = await listen(server, '127.0.0.1')
  fetch = createGuardedFetch({ allow: ['127.0.0.1'], lookup: async () => ['127.0.0.1'] })
})

afterAll(async () => {
  setDefaultCACertificates(known)
  await fetch.close()
  await closeServer(server)
})

describe('https', () => {
  it('OWP-80: the certificate is checked for the name, the connection goes to the checked address', async () => {
    for (const path of ['/a', '/b']) {
      expect(await (await fetch(`https://secure.example:${port}${path}`)).text()).toBe('sealed')
      await setImmediate()
    }
    expect(asked).toEqual([`secure.example:${port} /a`, `secure.example:${port} /b`])
  })

  it('rule 9: another name is refused before anything is sent', async () => {
    const before = asked.length
    expect(
      await failureOf(fetch(`https://other.example:${port}/`, { method: 'POST', body: 'x' })),
    ).toMatchObject({
      code: 'upstream_failed',
      canRetry: true,
      cause: { code: 'ERR_TLS_CERT_ALTNAME_INVALID' },
    })
    expect(await failureOf(fetch(`https://127.0.0.1:${port}/`))).toMatchObject({ code: 'upstream_failed' })
    expect(asked).toHaveLength(before)
  })

  it('a diagnosis checks the certificate for the name or the literal address of the URL', async () => {
    const reach = async (host: string): Promise<string> => {
      const url = new URL(`https://${host}:${port}/`)
      let last = ''
      for await (const step of fetch.reach(url, AbortSignal.timeout(5_000))) last = step
      return last
    }
    expect(await reach('secure.example')).toMatch(/^The certificate is valid until /)
    await expect(reach('127.0.0.1')).rejects.toMatchObject({
      code: 'ERR_TLS_CERT_ALTNAME_INVALID',
      host: '127.0.0.1',
    })
  })
})
