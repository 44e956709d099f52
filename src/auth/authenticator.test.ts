import { SignJWT } from 'jose'
import { describe, expect, it } from 'vitest'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { ANONYMOUS } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import { createAuthenticator } from './authenticator.ts'

const apiKeys = ['alice', 'bob'].map((id) => ({ id, key: new Secret(`k-${id}`), tenant: 'acme', scopes: [] }))
const jwt = { secret: new Secret('test-secret'), audiences: [], maxLifetimeSeconds: 900, tenant: 'acme' }

const none = createAuthenticator({ apiKeys: [], jwt: undefined }, SYSTEM_CLOCK)
const byKey = createAuthenticator({ apiKeys, jwt: undefined }, SYSTEM_CLOCK)
const byJwt = createAuthenticator({ apiKeys: [], jwt }, SYSTEM_CLOCK)
const both = createAuthenticator({ apiKeys, jwt }, SYSTEM_CLOCK)

const token = await new SignJWT({ sub: 'ann' })
  .setProtectedHeader({ alg: 'HS256' })
  .setExpirationTime('5m')
  .sign(new TextEncoder().encode('test-secret'))

const unauthenticated = { code: 'unauthenticated' }

describe('createAuthenticator', () => {
  it('OTC-98, rule 28: without configured credentials every caller is anonymous, even with a credential', () => {
    expect(none.isConfigured).toBe(false)
    expect(none.authenticate({ authorization: 'Bearer garbage', 'x-api-key': 'x' })).toBe(ANONYMOUS)
  })

  it.each(['oxp-api-key', 'otc-api-key', 'x-api-key'])('OTC-99, C-25: accepts a key in %s', (header) => {
    expect(byKey.authenticate({ [header]: 'k-alice' })).toMatchObject({ id: 'key:alice' })
  })

  it.each(['Bearer k-alice', 'bearer k-alice', 'BEARER  k-alice '])(
    'C-25: accepts a key as %j',
    (authorization) => {
      expect(byKey.authenticate({ authorization })).toMatchObject({ id: 'key:alice' })
    },
  )

  it('OTC-102: refuses a missing or wrong key, and names what to send', () => {
    expect(() => byKey.authenticate({})).toThrow(/needs a credential.*OXP-API-Key/)
    for (const headers of [
      { 'oxp-api-key': 'nope' },
      { 'x-api-key': '' },
      { authorization: 'Bearer nope' },
    ]) {
      expect(() => byKey.authenticate(headers)).toThrow(expect.objectContaining(unauthenticated))
    }
  })

  it('OTC-102, OTC-108: distinguishes a wrong key from a wrong token only by the form of the bearer', async () => {
    expect(() => both.authenticate({ authorization: 'Bearer nope' })).toThrow(/API key is not valid/)
    await expect(async () => both.authenticate({ authorization: 'Bearer x.y.z' })).rejects.toThrow(
      /not a JWT/,
    )
  })

  it.each(['Basic abc', 'Bearer', 'Bearer ', 'k-alice', ''])(
    'refuses the Authorization %j',
    (authorization) => {
      expect(() => byKey.authenticate({ authorization })).toThrow(/not a bearer/)
    },
  )

  it('OTC-108: refuses a missing or invalid token if only JWT is configured', async () => {
    expect(() => byJwt.authenticate({})).toThrow(/JWT/)
    await expect(async () => byJwt.authenticate({ authorization: 'Bearer x.y.z' })).rejects.toMatchObject(
      unauthenticated,
    )
    expect(await byJwt.authenticate({ authorization: `Bearer ${token}` })).toMatchObject({ id: 'jwt:#ann' })
  })

  it('OTC-112: accepts a key or a JWT if both are configured', async () => {
    expect(await both.authenticate({ authorization: `Bearer ${token}` })).toMatchObject({ id: 'jwt:#ann' })
    expect(await both.authenticate({ 'oxp-api-key': 'k-bob' })).toMatchObject({ id: 'key:bob' })
    expect(await both.authenticate({ authorization: 'Bearer k-bob' })).toMatchObject({ id: 'key:bob' })
  })

  it('OTC/T-28: the bearer takes precedence over a key', async () => {
    const headers = { authorization: `Bearer ${token}`, 'oxp-api-key': 'k-bob' }
    expect(await both.authenticate(headers)).toMatchObject({ id: 'jwt:#ann' })
  })

  it('OTC/T-28: refuses an invalid credential although another one is valid', async () => {
    const pairs = [
      { authorization: 'Bearer nope', 'oxp-api-key': 'k-bob' },
      { authorization: `Bearer ${token}`, 'oxp-api-key': 'nope' },
      { 'oxp-api-key': 'k-alice', 'x-api-key': 'nope' },
    ]
    for (const headers of pairs) {
      await expect(async () => both.authenticate(headers)).rejects.toMatchObject(unauthenticated)
    }
  })

  it('OTC/T-28: keys with one name in two tenants belong to two callers', () => {
    const twice = ['acme', 'globex'].map((tenant) => ({
      id: 'alice',
      key: new Secret(`k-${tenant}`),
      tenant,
      scopes: [],
    }))
    const tenants = createAuthenticator({ apiKeys: twice, jwt: undefined }, SYSTEM_CLOCK)
    const both = { 'oxp-api-key': 'k-acme', 'x-api-key': 'k-globex' }
    expect(() => tenants.authenticate(both)).toThrow(/keys of two callers/)
    expect(tenants.authenticate({ ...both, 'x-api-key': 'k-acme' })).toMatchObject({ tenant: 'acme' })
  })

  it('never repeats a credential in its refusal', async () => {
    const headers = { authorization: 'Bearer s3cr3t-value' }
    await expect(async () => both.authenticate(headers)).rejects.not.toThrow(/s3cr3t/)
  })
})
