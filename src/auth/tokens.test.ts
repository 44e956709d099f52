import { SignJWT, UnsecuredJWT } from 'jose'
import { describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { JwtVerifier, Tokens } from './tokens.ts'

const SECRET = 'test-secret'
const NOW_MS = 1_800_000_000_000
const NOW = NOW_MS / 1_000

class MovedClock {
  ms = NOW_MS
  nowMs = () => this.ms
  monotonicMs = () => this.ms
}

function verifier(clock = new MovedClock(), maxLifetimeSeconds = 900): Tokens {
  const settings = {
    secret: new Secret(SECRET),
    audiences: ['otcserver'],
    maxLifetimeSeconds,
    tenant: 'acme',
  }
  return new Tokens({ jwt: new JwtVerifier(settings, clock), issuers: new Map(), clock })
}

const sign = (claims: object, options: { alg?: string; secret?: string } = {}) =>
  new SignJWT({ ...claims })
    .setProtectedHeader({ alg: options.alg ?? 'HS256' })
    .sign(new TextEncoder().encode(options.secret ?? SECRET))

const valid = { iss: 'https://idp.test', sub: 'ann', exp: NOW + 300 }

describe('JwtVerifier', () => {
  it('OTC-104: derives the principal of a valid token from its issuer and subject', async () => {
    const principal = await verifier().verify(await sign({ ...valid, scope: 'mail:send  mail:read' }))
    expect(principal).toEqual({
      id: 'jwt:https://idp.test#ann',
      tenant: 'acme',
      scopes: ['mail:send', 'mail:read'],
    })
  })

  it('reads scopes as an array too, and a missing issuer as an empty one', async () => {
    const principal = await verifier().verify(await sign({ sub: 'ann', exp: NOW + 60, scopes: ['a:b'] }))
    expect(principal).toEqual({ id: 'jwt:#ann', tenant: 'acme', scopes: ['a:b'] })
  })

  it('rule 3: a token without a subject is anonymous and has no scope', async () => {
    for (const sub of [undefined, '']) {
      const token = await sign({
        ...valid,
        ...(sub === undefined ? { sub: undefined } : { sub }),
        scope: 'admin:calls',
      })
      expect(await verifier().verify(token)).toEqual({ id: 'anonymous', tenant: 'acme', scopes: [] })
    }
  })

  it('rule 3: no two pairs of issuer and subject share a principal', async () => {
    const first = await verifier().verify(await sign({ iss: 'a#b', sub: 'c', exp: NOW + 60 }))
    const second = await verifier().verify(await sign({ iss: 'a', sub: 'b#c', exp: NOW + 60 }))
    expect(first.id).not.toBe(second.id)
  })

  it.each(['HS384', 'HS512'])('OTC-105: refuses %s with the right secret', async (alg) => {
    await expect(async () => verifier().verify(await sign(valid, { alg }))).rejects.toThrow(/HS256/)
  })

  it('OTC-105: refuses `alg: none`', async () => {
    const token = new UnsecuredJWT({ ...valid }).encode()
    await expect(async () => verifier().verify(token)).rejects.toMatchObject({ code: 'unauthenticated' })
  })

  it('OTC-106: refuses another secret and a changed payload', async () => {
    const [header, payload, signature] = (await sign(valid)).split('.')
    const forged = Buffer.from(JSON.stringify({ ...valid, sub: 'root' })).toString('base64url')
    for (const token of [
      await sign(valid, { secret: 'other' }),
      `${header}.${forged}.${signature}`,
      `${header}.${payload}.`,
    ]) {
      await expect(async () => verifier().verify(token)).rejects.toMatchObject({ code: 'unauthenticated' })
    }
  })

  it('OTC-107: refuses a token without `exp`', async () => {
    await expect(async () => verifier().verify(await sign({ sub: 'ann' }))).rejects.toThrow(/no `exp`/)
  })

  it('OTC-108, OTC/T-15: refuses an expired token, with a tolerance of 60 seconds', async () => {
    await expect(async () => verifier().verify(await sign({ ...valid, exp: NOW - 61 }))).rejects.toThrow(
      /expired/,
    )
    expect((await verifier().verify(await sign({ ...valid, exp: NOW - 59 }))).id).toContain('ann')
  })

  it('OTC-109: checks `aud` if present, as a string or an array', async () => {
    for (const aud of ['otcserver', ['other', 'otcserver']]) {
      expect((await verifier().verify(await sign({ ...valid, aud }))).id).toContain('ann')
    }
    for (const aud of ['other', ['other'], []]) {
      await expect(async () => verifier().verify(await sign({ ...valid, aud }))).rejects.toThrow(/audience/)
    }
  })

  it('OTC-110, OTC/T-15: refuses a lifetime beyond the limit, counted from now and from `iat`', async () => {
    const far = { ...valid, exp: NOW + 961 }
    const long = { ...valid, iat: NOW - 900, exp: NOW + 100 }
    for (const claims of [far, long, { ...valid, exp: 1e300 }]) {
      await expect(async () => verifier().verify(await sign(claims))).rejects.toThrow(/lifetime is too long/)
    }
    expect((await verifier().verify(await sign({ ...valid, exp: NOW + 959 }))).id).toContain('ann')
    expect((await verifier(new MovedClock(), 7_200).verify(await sign(far))).id).toContain('ann')
  })

  it('refuses `nbf` in the future and claims of a wrong type', async () => {
    const wrong = [{ nbf: NOW + 61 }, { sub: 7 }, { iss: {} }, { scope: 5 }, { scopes: [5] }, { exp: 'soon' }]
    for (const claims of wrong) {
      await expect(async () => verifier().verify(await sign({ ...valid, ...claims }))).rejects.toMatchObject({
        code: 'unauthenticated',
      })
    }
  })

  it.each(['', 'x', 'a.b.c', '..', '{}'])('refuses the garbage %j', async (token) => {
    await expect(async () => verifier().verify(token)).rejects.toMatchObject({ code: 'unauthenticated' })
  })

  it('OTC-108: a verified token is accepted synchronously until it expires', async () => {
    const clock = new MovedClock()
    const jwt = verifier(clock)
    const token = await sign(valid)
    const first = await jwt.verify(token)
    expect(jwt.verify(token)).toBe(first)
    clock.ms += (300 + 60) * 1_000
    await expect(async () => jwt.verify(token)).rejects.toThrow(/expired/)
  })
})
