import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { jwtMinter } from './credentials.ts'

const NOW_MS = 1_700_000_000_000

function claimsOf(token: string) {
  const [header = '', claims = '', signature = ''] = token.split('.')
  const decode = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString())
  return { header: decode(header), claims: decode(claims), signature, signed: `${header}.${claims}` }
}

describe('jwtMinter', () => {
  it('OTC-105, OTC-106, OTC-107, OTC-109, C-33: signs HS256 with exp, and with sub, aud and iss when given', async () => {
    const signing = { secret: 'test-secret', subject: 'søren', audience: 'otcserver', issuer: 'me' }
    const { header, claims, signature, signed } = claimsOf(await jwtMinter(signing, () => NOW_MS)())
    expect(header).toEqual({ alg: 'HS256', typ: 'JWT' })
    expect(claims).toEqual({
      iss: 'me',
      sub: 'søren',
      aud: 'otcserver',
      iat: 1_700_000_000,
      exp: 1_700_000_600,
    })
    expect(signature).toBe(createHmac('sha256', 'test-secret').update(signed).digest('base64url'))
  })

  it('OTC-110: returns the same token until it is about to expire, then a new one', async () => {
    let now = NOW_MS
    const mint = jwtMinter({ secret: 's', lifetimeSeconds: 300 }, () => now)
    const first = await mint()
    now += 179_000
    expect(await mint()).toBe(first)
    now += 2_000
    const second = await mint()
    expect(second).not.toBe(first)
    expect(claimsOf(second).claims.exp - now / 1000).toBeGreaterThanOrEqual(299)
  })

  it.each([299, 901, 450.5, Number.NaN])('OTC-110: refuses a lifetime of %d seconds', (lifetimeSeconds) => {
    expect(() => jwtMinter({ secret: 's', lifetimeSeconds }, Date.now)).toThrow(/300 to 900/)
  })

  it('refuses an empty secret', () => {
    expect(() => jwtMinter({ secret: '' }, Date.now)).toThrow(/jwt.secret is empty/)
  })
})
