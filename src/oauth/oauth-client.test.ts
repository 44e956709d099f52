import { describe, expect, it } from 'vitest'
import { SYSTEM_CLOCK } from '#core/ports/clock'
import { Secret } from '#core/secret'
import { OAuthClient } from './oauth-client.ts'

const ISSUER = 'https://accounts.example.com'
const METADATA = {
  issuer: ISSUER,
  authorization_endpoint: `${ISSUER}/authorize`,
  token_endpoint: `${ISSUER}/token`,
}

describe('a refresh', () => {
  it('rule 26: has one time for discovery and request, shorter than its lease', async () => {
    const signals = new Map<string, AbortSignal | null | undefined>()
    const answer: typeof fetch = async (resource, init) => {
      const { pathname } = new URL(String(resource))
      signals.set(pathname, init?.signal)
      return pathname === '/token'
        ? Response.json({ access_token: 'a', token_type: 'bearer' })
        : Response.json(METADATA)
    }
    const client = new OAuthClient(
      {
        issuer: ISSUER,
        clientId: 'collet',
        clientSecret: undefined,
        clientAuth: 'none',
        authorizationEndpoint: undefined,
        tokenEndpoint: undefined,
        revocationEndpoint: undefined,
      },
      { fetch: answer, clock: SYSTEM_CLOCK },
    )
    expect(await client.refresh(new Secret('r'), ['s'])).toMatchObject({ kind: 'tokens' })
    const [discovery, request] = [...signals.values()]
    expect([...signals.keys()]).toEqual(['/.well-known/openid-configuration', '/token'])
    expect(discovery).toBeInstanceOf(AbortSignal)
    expect(request).toBe(discovery)
  })
})
