import { createHmac } from 'node:crypto'

export const JWT_SECRET = 'test-secret'
export const JWT_AUDIENCE = 'otcserver'
export const JWT_KINDS = [
  'valid',
  'expired',
  'none',
  'hs512',
  'badsig',
  'noexp',
  'aud-ok',
  'aud-bad',
  'far',
] as const
export type JwtKind = (typeof JWT_KINDS)[number]

interface Recipe {
  readonly algorithm: 'HS256' | 'HS512' | 'none'
  readonly secret: string
  readonly claims: object
}

/** The tokens of the legend's `{{jwt:KIND}}`, made when they are used. */
export function vectorJwt(kind: JwtKind): string {
  const now = Math.floor(Date.now() / 1_000)
  const fresh = { sub: 'tester', iat: now, exp: now + 300 }
  const hs256 = { algorithm: 'HS256', secret: JWT_SECRET } as const
  const recipes = {
    valid: { ...hs256, claims: fresh },
    expired: { ...hs256, claims: { ...fresh, iat: now - 900, exp: now - 600 } },
    none: { algorithm: 'none', secret: '', claims: fresh },
    hs512: { algorithm: 'HS512', secret: JWT_SECRET, claims: fresh },
    badsig: { algorithm: 'HS256', secret: `${JWT_SECRET}-not`, claims: fresh },
    noexp: { ...hs256, claims: { sub: 'tester', iat: now } },
    'aud-ok': { ...hs256, claims: { ...fresh, aud: JWT_AUDIENCE } },
    'aud-bad': { ...hs256, claims: { ...fresh, aud: 'somebody-else' } },
    far: { ...hs256, claims: { ...fresh, exp: now + 7_200 } },
  } satisfies Record<JwtKind, Recipe>
  return sign(recipes[kind])
}

function sign({ algorithm, secret, claims }: Recipe): string {
  const signed = `${base64url({ alg: algorithm, typ: 'JWT' })}.${base64url(claims)}`
  if (algorithm === 'none') return `${signed}.`
  const hash = algorithm === 'HS256' ? 'sha256' : 'sha512'
  return `${signed}.${createHmac(hash, secret).update(signed).digest('base64url')}`
}

function base64url(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url')
}
