import { type ApiKeyHeader, apiKeyHeaderOf, type ClientDialect } from '#protocols/otc/codec-client'
import { CallFailure, configFailure } from './failure.ts'
import type { ServerUrl } from './options.ts'

export type JwtOption = string | (() => string | Promise<string>) | JwtSigning

interface CredentialOptions {
  readonly apiKey?: string | undefined
  readonly jwt?: JwtOption | undefined
}

/** Gives the headers that say who calls; a JWT is preferred to a static key (OTC-113). */
export interface Credentials {
  /** The static key, when it is what gets sent. */
  readonly usesApiKey: boolean
  headers(
    dialect: ClientDialect | undefined,
    keyHeader?: ApiKeyHeader,
  ): Promise<Readonly<Record<string, string>>>
  /** The same as a bearer, key or token: OpenTool servers know nothing else (OTS-47). */
  bearer(): Promise<Readonly<Record<string, string>>>
}

/** What may stand in a header; anything else would come back inside the platform's error text. */
const HEADER_SAFE = /^[\x21-\x7e]+$/

export function readCredentials(
  options: CredentialOptions,
  server: ServerUrl,
  now: () => number,
): Credentials {
  const { apiKey, jwt } = options
  if (apiKey === undefined && jwt === undefined) {
    return { usesApiKey: false, headers: async () => ({}), bearer: async () => ({}) }
  }
  // OTC-101: keys only over TLS; a loopback connection leaves no machine.
  if (!server.mayCarryCredentials) {
    throw configFailure(
      `Credentials are not sent to ${server.origin} over plain http; use its https address.`,
    )
  }
  if (apiKey !== undefined) checkHeaderSafe(apiKey, 'apiKey')
  if (jwt !== undefined) {
    const token = tokenSource(jwt, now)
    const bearer = async () => ({ Authorization: `Bearer ${checkHeaderSafe(await token(), 'jwt')}` })
    return { usesApiKey: false, headers: bearer, bearer }
  }
  return {
    usesApiKey: true,
    headers: async (dialect, keyHeader = apiKeyHeaderOf(dialect)) => ({ [keyHeader]: apiKey ?? '' }),
    bearer: async () => ({ Authorization: `Bearer ${apiKey ?? ''}` }),
  }
}

function tokenSource(jwt: JwtOption, now: () => number): () => Promise<string> {
  if (typeof jwt === 'object') return jwtMinter(jwt, now)
  if (typeof jwt === 'string') {
    checkHeaderSafe(jwt, 'jwt')
    return async () => jwt
  }
  return async () => {
    try {
      return await jwt()
    } catch (cause) {
      throw new CallFailure('unauthenticated', 'The jwt function of this client failed; nothing was sent.', {
        cause,
      })
    }
  }
}

/** Names the option, never its content. */
function checkHeaderSafe(value: unknown, option: string): string {
  if (typeof value === 'string' && HEADER_SAFE.test(value)) return value
  throw configFailure(
    `${option} must be a non-empty text without spaces, line breaks or characters outside ASCII.`,
  )
}

/** How to sign tokens for a server that shares a secret with us. */
export interface JwtSigning {
  /** Secret shared with the server. */
  readonly secret: string
  /** `sub`: who calls. Without it the server cannot tell callers apart. */
  readonly subject?: string
  /** `aud`: what the server documents. */
  readonly audience?: string
  /** `iss`. */
  readonly issuer?: string
  /** 300 to 900, default 600. */
  readonly lifetimeSeconds?: number
}

const MIN_SECONDS = 300
const MAX_SECONDS = 900
const USUAL_SECONDS = 600
/** A token is replaced this long before it ends, so that it outlives the request it travels with. */
const RENEW_BEFORE_MS = 120_000

/** Gives a signed HS256 token, the same one until it is about to end. */
export function jwtMinter(signing: JwtSigning, now: () => number): () => Promise<string> {
  const lifetimeSeconds = signing.lifetimeSeconds ?? USUAL_SECONDS
  const isInRange = lifetimeSeconds >= MIN_SECONDS && lifetimeSeconds <= MAX_SECONDS
  if (!Number.isInteger(lifetimeSeconds) || !isInRange) {
    throw configFailure(`jwt.lifetimeSeconds must be a whole number from ${MIN_SECONDS} to ${MAX_SECONDS}.`)
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
