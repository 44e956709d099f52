import { createHmac } from 'node:crypto'
import { exportSPKI, importJWK, SignJWT, UnsecuredJWT } from 'jose'
import { beforeEach, describe, expect, it } from 'vitest'
import { createAuthenticator } from '#auth/authenticator'
import type { IssuerSettings, Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { FakeClock } from '#testing/test-gateway'
import { FakeIssuer } from './fake-issuer.ts'

const NOW_MS = 1_800_000_000_000
const NOW = NOW_MS / 1_000
const MINUTE_MS = 60_000
const SECRET = 'a secret that only this test shares'.padEnd(64, '.')
const valid = { sub: 'ann', aud: 'collet', exp: NOW + 300 }
const refused = { code: 'unauthenticated' }

let clock: FakeClock
let idp: FakeIssuer

beforeEach(async () => {
  clock = new FakeClock(NOW_MS)
  idp = new FakeIssuer()
  await idp.addKey('k1')
})

function issuerSettings(changes: Partial<IssuerSettings> = {}): IssuerSettings {
  return {
    issuer: idp.url,
    audiences: ['collet'],
    jwksUri: undefined,
    claims: { tenant: undefined, scopes: undefined, roles: undefined },
    tenant: 'acme',
    algorithms: undefined,
    ...changes,
  }
}

function authenticator(changes: Partial<Settings['auth']> = {}, fetcher: typeof fetch = idp.fetch) {
  const auth = { apiKeys: [], jwt: undefined, issuers: [issuerSettings()], ...changes }
  const made = createAuthenticator(auth, clock, { fetch: fetcher })
  return async (token: string) => await made.authenticate({ authorization: `Bearer ${token}` })
}

describe('tokens of an OpenID Connect issuer', () => {
  it.each(['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA'])('accepts %s, found by discovery', async (alg) => {
    await idp.addKey('k2', alg)
    const check = authenticator()
    const token = await idp.sign({ ...valid, scope: 'mail:send mail:read' }, { kid: 'k2', typ: 'at+jwt' })
    expect(await check(token)).toEqual({
      id: 'jwt:https://idp.test#ann',
      tenant: 'acme',
      scopes: ['mail:send', 'mail:read'],
    })
    expect(idp.asked).toEqual([`${idp.url}/.well-known/openid-configuration`, `${idp.url}/jwks`])
    await check(token)
    expect(idp.asked).toHaveLength(2)
  })

  it('OWP-23, OWP-60, OWP-61: maps claims to tenant, scopes and roles, and grants nothing for an unknown role', async () => {
    const claims = { tenant: ['https://acme.test/org'], scopes: ['scp'], roles: ['realm_access', 'roles'] }
    const roles = new Map([['viewer', { scopes: ['fs:*:read'] }]])
    const check = authenticator({ issuers: [issuerSettings({ claims })], roles })
    const token = await idp.sign({
      ...valid,
      scope: 'not:read',
      scp: ['mail:send'],
      realm_access: { roles: ['viewer', 'admin', '__proto__'] },
      'https://acme.test/org': 'globex',
    })
    expect(await check(token)).toEqual({
      id: 'jwt:https://idp.test#ann',
      tenant: 'globex',
      scopes: ['mail:send', 'fs:*:read'],
    })
  })

  it('rule 3: a token without the required tenant claim, or with an invalid tenant, is refused', async () => {
    const check = authenticator({
      issuers: [issuerSettings({ claims: { tenant: ['org'], scopes: undefined, roles: undefined } })],
    })
    for (const org of [undefined, '', 7, ['acme'], 'a b', '../x', 'x'.repeat(200)]) {
      await expect(check(await idp.sign({ ...valid, org }))).rejects.toMatchObject(refused)
    }
  })

  it('rule 3: a token may name the tenant `default`, which manages the server, only where the operator allows it', async () => {
    const issuerWith = (more: object) =>
      authenticator({
        issuers: [
          issuerSettings({ claims: { tenant: ['org'], scopes: undefined, roles: undefined }, ...more }),
        ],
      })
    const token = await idp.sign({ ...valid, org: 'default', scope: 'admin:sources' })
    await expect(issuerWith({})(token)).rejects.toMatchObject(refused)
    expect((await issuerWith({ allowDefaultTenant: true })(token)).tenant).toBe('default')
  })

  it('drops wildcards from a token: only the operator can grant them', async () => {
    const { scopes } = await authenticator()(await idp.sign({ ...valid, scope: '* mail:* mail:read' }))
    expect(scopes).toEqual(['mail:read'])
  })

  it('rule 3: tokens without a subject share a principal that cannot decide approvals', async () => {
    const { sub: _sub, ...nobody } = valid
    const principal = await authenticator()(await idp.sign({ ...nobody, scope: 'admin:keys' }))
    expect(principal).toEqual({ id: 'anonymous', tenant: 'acme', scopes: [] })
  })

  it.each([
    ['another audience', { aud: 'other' }],
    ['no audience', { aud: undefined }],
    ['another issuer', { iss: 'https://evil.test' }],
    ['the issuer with a slash', { iss: 'https://idp.test/' }],
    ['no expiry', { exp: undefined }],
    ['an expiry in the past', { exp: NOW - 61 }],
    ['a start in the future', { nbf: NOW + 61 }],
    ['a subject that is not a string', { sub: { $ne: '' } }],
    ['a subject with a line break', { sub: 'ann\nbob' }],
    ['scopes that are not strings', { scope: [{}] }],
  ])('OTC-108, OWP-12: refuses %s', async (_title, claims) => {
    await expect(authenticator()(await idp.sign({ ...valid, ...claims }))).rejects.toMatchObject(refused)
  })

  it('OTC/T-15: tolerates a minute of clock skew', async () => {
    const check = authenticator()
    expect(await check(await idp.sign({ ...valid, exp: NOW - 59, nbf: NOW + 59 }))).toMatchObject({
      tenant: 'acme',
    })
  })

  it('OTC-105: refuses `alg: none`, with and without a signature', async () => {
    const unsecured = new UnsecuredJWT({ ...valid, iss: idp.url }).encode()
    const good = await idp.sign(valid)
    const forged = `${unsecured.split('.').slice(0, 2).join('.')}.${good.split('.')[2]}`
    for (const token of [unsecured, forged])
      await expect(authenticator()(token)).rejects.toMatchObject(refused)
  })

  it('OTC-105: refuses HS256 signed with the public key, in every spelling of that key', async () => {
    const jwk = await idp.publicKey('k1')
    const key = await importJWK(jwk, 'RS256')
    const pem = key instanceof Uint8Array ? '' : await exportSPKI(key)
    const both = authenticator({
      jwt: { secret: new Secret(SECRET), audiences: [], maxLifetimeSeconds: 900, tenant: 'x' },
    })
    for (const secret of [pem, pem.trim(), JSON.stringify(jwk), jwk.n ?? '']) {
      const parts = [
        { alg: 'HS256', kid: 'k1', typ: 'JWT' },
        { ...valid, iss: idp.url },
      ]
      const head = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
      const token = `${head}.${createHmac('sha256', secret).update(head).digest('base64url')}`
      await expect(authenticator()(token)).rejects.toMatchObject(refused)
      await expect(both(token)).rejects.toMatchObject(refused)
    }
  })

  it('refuses a symmetric key in the key set, and an algorithm that is not the key’s own', async () => {
    const k = Buffer.from(SECRET).toString('base64url')
    idp.foreignKeys = [
      { kty: 'oct', k, kid: 'k1', alg: 'HS256' },
      7,
      null,
      { kty: 'RSA' },
      { kty: 'EC', crv: 'x' },
    ]
    const forged = await new SignJWT({ ...valid, iss: idp.url })
      .setProtectedHeader({ alg: 'HS256', kid: 'k1' })
      .sign(new TextEncoder().encode(SECRET))
    await expect(authenticator()(forged)).rejects.toMatchObject(refused)
    const otherIssuer = new FakeIssuer()
    await otherIssuer.addKey('k9', 'RS512')
    idp.foreignKeys = [{ ...(await otherIssuer.publicKey('k9')), alg: 'RS256' }]
    await expect(authenticator()(await otherIssuer.sign(valid, { kid: 'k9' }))).rejects.toMatchObject(refused)
    const { alg: _alg, ...unbound } = await otherIssuer.publicKey('k9')
    idp.foreignKeys = [unbound]
    expect(await authenticator()(await otherIssuer.sign(valid, { kid: 'k9' }))).toMatchObject({
      tenant: 'acme',
    })
    const narrow = authenticator({ issuers: [issuerSettings({ algorithms: ['ES256'] })] })
    await expect(narrow(await idp.sign(valid))).rejects.toMatchObject({ code: expect.any(String) })
  })

  it.each(['logout+jwt', 'dpop+jwt', 'secevent+jwt'])('refuses the type %s', async (typ) => {
    await expect(authenticator()(await idp.sign(valid, { typ }))).rejects.toMatchObject(refused)
  })

  it('refuses an oversized token before parsing it', async () => {
    const token = await idp.sign({ ...valid, more: 'x'.repeat(20_000) })
    await expect(authenticator()(token)).rejects.toThrow(/longer than/)
    expect(idp.asked).toEqual([])
  })

  it('the holder of the shared secret cannot issue tokens as the issuer', async () => {
    const jwt = { secret: new Secret(SECRET), audiences: ['collet'], maxLifetimeSeconds: 900, tenant: 'acme' }
    const check = authenticator({ jwt })
    const mint = (iss: string) =>
      new SignJWT({ ...valid, iss })
        .setProtectedHeader({ alg: 'HS256' })
        .sign(new TextEncoder().encode(SECRET))
    await expect(check(await mint(idp.url))).rejects.toMatchObject(refused)
    expect(await check(await mint('https://own.test'))).toMatchObject({ id: 'jwt:https://own.test#ann' })
  })

  it('two issuers with the same kid are kept apart', async () => {
    const other = new FakeIssuer('https://other.test')
    await other.addKey('k1')
    const fetcher: typeof fetch = (input) => (String(input).startsWith(other.url) ? other : idp).fetch(input)
    const issuers = [issuerSettings(), issuerSettings({ issuer: other.url, tenant: 'globex' })]
    const check = authenticator({ issuers }, fetcher)
    expect(await check(await idp.sign(valid))).toMatchObject({ id: `jwt:${idp.url}#ann`, tenant: 'acme' })
    expect(await check(await other.sign(valid))).toMatchObject({
      id: `jwt:${other.url}#ann`,
      tenant: 'globex',
    })
    await expect(check(await idp.sign({ ...valid, iss: other.url }))).rejects.toMatchObject(refused)
    await expect(check(await other.sign({ ...valid, iss: idp.url }))).rejects.toMatchObject(refused)
  })
})

describe('the keys of an issuer', () => {
  it('a new key is found by one more request, and requests for a flood of unknown kids are rate-limited', async () => {
    const check = authenticator()
    await check(await idp.sign(valid))
    clock.advance(MINUTE_MS)
    await idp.addKey('k2')
    const otherIssuer = new FakeIssuer()
    for (const kid of ['x1', 'x2', 'x3']) await otherIssuer.addKey(kid)
    expect(await check(await idp.sign(valid, { kid: 'k2' }))).toMatchObject({ tenant: 'acme' })
    expect(idp.asked).toHaveLength(4)
    for (const kid of ['x1', 'x2', 'x3']) {
      await expect(check(await otherIssuer.sign(valid, { kid }))).rejects.toMatchObject(refused)
    }
    expect(idp.asked).toHaveLength(4)
  })

  it('a withdrawn key is accepted only until the cache expires', async () => {
    await idp.addKey('k2')
    const check = authenticator()
    const token = await idp.sign({ ...valid, exp: NOW + 3_600 }, { kid: 'k2' })
    await check(token)
    idp.removeKey('k2')
    clock.advance(11 * MINUTE_MS)
    await check(await idp.sign({ ...valid, exp: NOW + 3_600 }, { kid: 'k1' }))
    await expect.poll(() => idp.asked.length).toBe(4)
    await expect
      .poll(() =>
        check(token).then(
          () => 'taken',
          () => 'refused',
        ),
      )
      .toBe('refused')
  })

  it('cached keys are used while the issuer is down, for a limited time', async () => {
    const check = authenticator()
    const long = { ...valid, exp: NOW + 86_400 }
    await check(await idp.sign(long))
    idp.answer = () => new Response('down', { status: 503 })
    clock.advance(60 * MINUTE_MS)
    expect(await check(await idp.sign({ ...long, jti: '1' }))).toMatchObject({ tenant: 'acme' })
    clock.advance(200 * MINUTE_MS)
    await expect(check(await idp.sign({ ...long, jti: '2' }))).rejects.toMatchObject({ code: 'not_ready' })
    idp.answer = undefined
    clock.advance(MINUTE_MS)
    expect(await check(await idp.sign({ ...long, jti: '3' }))).toMatchObject({ tenant: 'acme' })
  })

  it.each<[string, (url: string) => Response | Promise<Response>]>([
    ['is down', () => Promise.reject(new TypeError('fetch failed'))],
    ['answers 500', () => new Response('', { status: 500 })],
    ['answers something else', () => new Response('<html>')],
    ['answers a list', () => Response.json([])],
    ['answers without end', () => new Response(new Blob(['x'.repeat(600 * 1_024)]))],
    [
      'has a thousand keys',
      () =>
        Response.json({
          issuer: 'https://idp.test',
          jwks_uri: 'https://idp.test/jwks',
          keys: Array(1_000).fill({}),
        }),
    ],
    [
      'has no keys',
      () => Response.json({ issuer: 'https://idp.test', jwks_uri: 'https://idp.test/jwks', keys: [] }),
    ],
  ])(
    'an issuer that %s authenticates no caller, and is not requested again for a while',
    async (_title, answer) => {
      idp.answer = answer
      const check = authenticator()
      const token = await idp.sign(valid)
      for (let time = 0; time < 3; time += 1) {
        await expect(check(token)).rejects.toMatchObject({ code: 'not_ready' })
      }
      expect(idp.asked.length).toBeLessThanOrEqual(2)
    },
  )

  it.each([
    [{ issuer: 'https://evil.test' }],
    [{ issuer: 'https://idp.test/' }],
    [{ jwks_uri: 'http://idp.test/jwks' }],
    [{ jwks_uri: 'file:///jwks' }],
    [{ jwks_uri: ['https://idp.test/jwks'] }],
    [{ jwks_uri: undefined }],
  ])('a discovery document with %j is refused, whatever its keys', async (discovery) => {
    idp.discovery = discovery
    idp.answer = (url) => idp.document(url.endsWith('/jwks') ? `${idp.url}/jwks` : url)
    await expect(authenticator()(await idp.sign(valid))).rejects.toMatchObject({ code: 'not_ready' })
    expect(idp.asked).toEqual([`${idp.url}/.well-known/openid-configuration`])
  })

  it.each([{ use: 'enc' }, { key_ops: ['encrypt'] }, { key_ops: 'verify' }])(
    'a key with %j verifies no signature',
    async (purpose) => {
      const otherIssuer = new FakeIssuer()
      await otherIssuer.addKey('k9')
      idp.foreignKeys = [{ ...(await otherIssuer.publicKey('k9')), ...purpose }]
      await expect(authenticator()(await otherIssuer.sign(valid, { kid: 'k9' }))).rejects.toMatchObject(
        refused,
      )
    },
  )

  it('never follows a redirect and always has a time limit', async () => {
    let seen: RequestInit | undefined
    const watching: typeof fetch = (input, init) => {
      seen = init
      return idp.fetch(input)
    }
    await authenticator({}, watching)(await idp.sign(valid))
    expect(seen?.redirect).toBe('error')
    expect(seen?.signal).toBeInstanceOf(AbortSignal)
  })
})
