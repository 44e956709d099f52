import { configFailure } from './call-failure.ts'

/** How to sign tokens for a server that shares a secret with us (OTC-104 to OTC-110). */
export interface JwtSigning {
  /** Secret shared with the server. */
  readonly secret: string
  /** `sub`: who calls. Without it the server cannot tell callers apart. */
  readonly subject?: string
  /** `aud`: what the server documents (C-33). */
  readonly audience?: string
  /** `iss`. */
  readonly issuer?: string
  /** 300 to 900, default 600 (OTC-110). */
  readonly lifetimeSeconds?: number
}

const SHORTEST_SECONDS = 300
const LONGEST_SECONDS = 900
const USUAL_SECONDS = 600
/** A token is replaced this long before it ends, so that it outlives the request it travels with. */
const RENEW_BEFORE_MS = 120_000

/** Gives a signed HS256 token, the same one until it is about to end. */
export function jwtMinter(signing: JwtSigning, now: () => number): () => Promise<string> {
  const lifetimeSeconds = signing.lifetimeSeconds ?? USUAL_SECONDS
  const isInRange = lifetimeSeconds >= SHORTEST_SECONDS && lifetimeSeconds <= LONGEST_SECONDS
  if (!Number.isInteger(lifetimeSeconds) || !isInRange) {
    throw configFailure(
      `jwt.lifetimeSeconds must be a whole number from ${SHORTEST_SECONDS} to ${LONGEST_SECONDS}.`,
    )
  }
  if (typeof signing.secret !== 'string' || signing.secret === '') {
    throw configFailure('jwt.secret is empty; give the secret that the server was configured with.')
  }
  let token: Promise<string> | undefined
  let renewAtMs = 0
  return () => {
    if (token === undefined || now() >= renewAtMs) {
      const issuedAt = Math.floor(now() / 1000)
      renewAtMs = (issuedAt + lifetimeSeconds) * 1000 - RENEW_BEFORE_MS
      token = mint(signing, issuedAt, issuedAt + lifetimeSeconds)
    }
    return token
  }
}

async function mint(signing: JwtSigning, issuedAt: number, expiresAt: number): Promise<string> {
  if (globalThis.crypto?.subtle === undefined) {
    throw configFailure(
      'This page cannot sign tokens (no crypto.subtle outside https); pass jwt as a function.',
    )
  }
  const claims = {
    ...(signing.issuer === undefined ? {} : { iss: signing.issuer }),
    ...(signing.subject === undefined ? {} : { sub: signing.subject }),
    ...(signing.audience === undefined ? {} : { aud: signing.audience }),
    iat: issuedAt,
    exp: expiresAt,
  }
  const signed = `${encodePart({ alg: 'HS256', typ: 'JWT' })}.${encodePart(claims)}`
  const encoder = new TextEncoder()
  const algorithm = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', encoder.encode(signing.secret), algorithm, false, ['sign'])
  const signature = await crypto.subtle.sign('HMAC', key, encoder.encode(signed))
  return `${signed}.${base64Url(new Uint8Array(signature))}`
}

function encodePart(value: object): string {
  return base64Url(new TextEncoder().encode(JSON.stringify(value)))
}

function base64Url(bytes: Uint8Array): string {
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join('')
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}
