import { readFileSync } from 'node:fs'
import { SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

const SECRET = 'a-secret-of-this-test-that-is-long-enough'
let server: PrincipalsServer
let startToken: string
let expired: string

beforeAll(async () => {
  const jwt = {
    ...{ secret: new Secret(SECRET), audiences: ['otcserver'], maxLifetimeSeconds: 900, tenant: 'acme' },
  }
  server = await startPrincipalsServer({ auth: { apiKeys: [key('root', ['*'])], jwt } }, 'sqlite')
  startToken = readFileSync(server.startTokenFile, 'utf8').trim()
  expired = await new SignJWT({ sub: 'ann' })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime(1_000)
    .sign(new TextEncoder().encode(SECRET))
})

afterAll(() => server.stop())

const audit = async () => (await server.ask('/admin/audit', { key: startToken })).json.events

describe('a request that is refused for its credential', () => {
  it('is in the audit stream with the kind of credential, without the credential', async () => {
    const wrong: readonly (readonly [string, string, Record<string, string>])[] = [
      ['/v1/tools', 'bearer key at /v1', { authorization: 'Bearer k-wrong' }],
      ['/v1/tools', 'x-api-key at /v1', { 'x-api-key': 'k-wrong' }],
      ['/v1/tools', 'JWT at /v1', { authorization: `Bearer ${expired}` }],
      ['/v1/tools', 'authorization header at /v1', { authorization: 'Basic k-wrong' }],
      ['/v1/tools', 'no credential at /v1', {}],
      ['/admin/keys', 'bearer key at /admin', { authorization: 'Bearer k-wrong' }],
      ['/admin/keys', 'no credential at /admin', {}],
    ]
    for (const [path, , headers] of wrong)
      expect((await fetch(`${server.url}${path}`, { headers })).status, path).toBe(401)
    // Repeated within the minute: counted, not listed again.
    await fetch(`${server.url}/v1/tools`)
    const unknown = { tenant: 'default', principal_id: 'unknown', count: 1 }
    await expect
      .poll(audit)
      .toMatchObject(
        wrong.map(([, resource]) => ({ ...unknown, action: 'authenticate', resource, reason: 'credential' })),
      )
    const denials = JSON.stringify(await audit())
    for (const secret of ['k-wrong', expired]) expect(denials).not.toContain(secret)
  })

  it('is not listed when the credential is good', async () => {
    const before = (await audit()).length
    expect((await server.ask('/v1/tools', { key: 'k-root' })).status).toBe(200)
    expect(await audit()).toHaveLength(before)
  })
})
