import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { describe, expect, it } from 'vitest'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { Secret } from '#kernel/base/secret'
import { OAuthClient, type Return } from './client.ts'

const ISSUER = 'https://accounts.example.com'
const METADATA = {
  issuer: ISSUER,
  authorization_endpoint: `${ISSUER}/authorize`,
  token_endpoint: `${ISSUER}/token`,
}

const SETTINGS = {
  issuer: ISSUER,
  clientId: 'collet',
  clientSecret: undefined,
  clientAuth: 'none',
  authorizationEndpoint: undefined,
  tokenEndpoint: undefined,
  revocationEndpoint: undefined,
} as const

describe('a sign-in', () => {
  /** A provider that can sign id tokens with a key other than the published one. */
  async function signIn(isForged: boolean) {
    const [own, other] = await Promise.all([generateKeyPair('ES256'), generateKeyPair('ES256')])
    const idToken = await new SignJWT({ nonce: 'n' })
      .setProtectedHeader({ alg: 'ES256', kid: 'k' })
      .setIssuer(ISSUER)
      .setAudience('collet')
      .setSubject('ceo')
      .setIssuedAt()
      .setExpirationTime('5m')
      .sign((isForged ? other : own).privateKey)
    const answers: Record<string, unknown> = {
      '/token': { access_token: 'a', token_type: 'bearer', id_token: idToken },
      '/keys': { keys: [{ ...(await exportJWK(own.publicKey)), kid: 'k', alg: 'ES256', use: 'sig' }] },
    }
    const metadata = {
      ...METADATA,
      jwks_uri: `${ISSUER}/keys`,
      id_token_signing_alg_values_supported: ['ES256'],
    }
    const answer: typeof fetch = async (resource) =>
      Response.json(answers[new URL(String(resource)).pathname] ?? metadata)
    const back: Return = {
      state: 's',
      verifier: 'v'.repeat(43),
      nonce: 'n',
      redirectUri: 'https://tools.example.com/oauth/callback',
      parameters: new URLSearchParams({ state: 's', code: 'c' }),
    }
    const client = new OAuthClient(SETTINGS, { fetch: answer, clock: SYSTEM_CLOCK })
    return await client.exchange(back, { scopes: ['openid'], identify: true })
  }

  it('rule 25: accepts an id token only if the key of its issuer signed it', async () => {
    expect(await signIn(false)).toMatchObject({ kind: 'tokens', claims: { sub: 'ceo' } })
    expect(await signIn(true)).toMatchObject({ kind: 'failed' })
  })
})

describe('a refresh', () => {
  it('rule 26: has one deadline for discovery and request, shorter than its lease', async () => {
    const signals = new Map<string, AbortSignal | null | undefined>()
    const answer: typeof fetch = async (resource, init) => {
      const { pathname } = new URL(String(resource))
      signals.set(pathname, init?.signal)
      return pathname === '/token'
        ? Response.json({ access_token: 'a', token_type: 'bearer' })
        : Response.json(METADATA)
    }
    const client = new OAuthClient(SETTINGS, { fetch: answer, clock: SYSTEM_CLOCK })
    expect(await client.refresh({ refreshToken: new Secret('r'), scopes: ['s'] })).toMatchObject({
      kind: 'tokens',
    })
    const [discovery, request] = [...signals.values()]
    expect([...signals.keys()]).toEqual(['/.well-known/openid-configuration', '/token'])
    expect(discovery).toBeInstanceOf(AbortSignal)
    expect(request).toBe(discovery)
  })
})
