import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { findWeakCredentials } from './api-keys.ts'

const strong = randomBytes(32).toString('base64')
const keys = (...texts: string[]) =>
  texts.map((text, index) => ({ id: `p${index}`, key: new Secret(text), tenant: 'default', scopes: [] }))
const jwt = (secret: string) => ({
  secret: new Secret(secret),
  audiences: [],
  maxLifetimeSeconds: 900,
  tenant: 'default',
})

describe('findWeakCredentials', () => {
  it('OTC-103: accepts 32 random bytes, in base64 or hex', () => {
    const hex = randomBytes(32).toString('hex')
    expect(findWeakCredentials({ apiKeys: keys(strong, hex), jwt: jwt(strong) })).toEqual([])
  })

  it('OTC-103: names each short or repetitive credential, and never prints one', () => {
    const weak = findWeakCredentials({
      apiKeys: keys('k-alice', strong, 'ab'.repeat(30)),
      jwt: jwt('test-secret'),
    })
    expect(weak).toHaveLength(3)
    expect(weak[0]).toMatch(/"p0" has only 7 bytes.*openssl rand/)
    expect(weak[1]).toMatch(/"p2" repeats itself/)
    expect(weak[2]).toMatch(/JWT secret has only 11 bytes/)
    expect(weak.join(' ')).not.toMatch(/k-alice|abab|test-secret/)
  })
})
