import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { SignJWT } from 'jose'
import { describe, expect, it } from 'vitest'
import { createAuthenticator } from '#auth/authenticator'
import type { Settings } from '#config/settings'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { Secret } from '#kernel/base/secret'
import { API_KEY_HEADERS as SERVER_HEADERS } from '#protocols/http-exchange'
import { API_KEY_HEADERS as CLIENT_HEADERS } from '#protocols/otc/codec-client'

const ROOT = resolve(import.meta.dirname, '../..')
/** Long enough for every HMAC algorithm, so that only the algorithm can be the reason for a refusal. */
const SECRET = 'a secret that only this test shares'.padEnd(64, '.')
const auth: Settings['auth'] = {
  apiKeys: [{ id: 'alice', key: new Secret('k-alice'), tenant: 'default', scopes: [] }],
  jwt: { secret: new Secret(SECRET), audiences: [], maxLifetimeSeconds: 900, tenant: 'default' },
}
const authenticator = createAuthenticator(auth, SYSTEM_CLOCK)

const token = (algorithm: string) =>
  new SignJWT({ sub: 'ann' })
    .setProtectedHeader({ alg: algorithm })
    .setExpirationTime('5m')
    .sign(new TextEncoder().encode(SECRET))

/** Every method: its name in the documents, and a request that uses it. */
const METHODS: readonly { readonly named: RegExp; readonly headers: Record<string, string> }[] = [
  ...CLIENT_HEADERS.map((name) => ({
    named: new RegExp(`\`${name}\``),
    headers: { [name.toLowerCase()]: 'k-alice' },
  })),
  { named: /`Authorization: Bearer <key>`/, headers: { authorization: 'Bearer k-alice' } },
]

describe.each(['docs/protocols/otc.md', 'docs/security-model.md'])('%s', (file) => {
  const text = readFileSync(join(ROOT, file), 'utf8')

  it('OTC-111: names every header an API key is read from, and each of them works', async () => {
    for (const { named, headers } of METHODS) {
      expect(text).toMatch(named)
      expect(await authenticator.authenticate(headers)).toMatchObject({ id: 'key:alice' })
    }
  })

  it('OTC-111: names no API key header that is not read', async () => {
    const documented = [...text.matchAll(/`([A-Za-z-]+-API-Key)`/gi)].map(([, name = '']) =>
      name.toLowerCase(),
    )
    expect([...new Set(documented)].sort()).toEqual([...SERVER_HEADERS].sort())
    expect(() => authenticator.authenticate({ 'api-key': 'k-alice' })).toThrow(/needs a credential/)
  })

  it('OTC-111: names the JWT, its algorithm and where it goes; no other algorithm works', async () => {
    expect(text).toMatch(/JWT[^\n]*`Authorization: Bearer <token>`[^\n]*HS256/)
    const bearer = async (algorithm: string) =>
      await authenticator.authenticate({ authorization: `Bearer ${await token(algorithm)}` })
    expect(await bearer('HS256')).toMatchObject({ id: expect.stringMatching(/^jwt:.*#ann$/) })
    for (const algorithm of ['HS384', 'HS512']) {
      await expect(bearer(algorithm)).rejects.toMatchObject({ code: 'unauthenticated' })
    }
  })
})

describe('the three lists of key headers', () => {
  it('OTC-111, C-25: the server, the protocol and the client accept the same headers', () => {
    expect(CLIENT_HEADERS.map((name) => name.toLowerCase())).toEqual([...SERVER_HEADERS])
    for (const name of SERVER_HEADERS) {
      expect(() => authenticator.authenticate({ [name]: 'wrong' })).toThrow(/not valid here/)
    }
  })
})
