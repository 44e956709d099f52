import { defined } from '#kernel/base/json'
import { toBase64Url } from '#protocols/call-wire'
import { type ApiKeyHeader, apiKeyHeaderOf, type ClientDialect } from '#protocols/otc/codec-client'
import { CallFailure, configFailure } from './failure.ts'
import type { ClientOptions, ServerUrl } from './options.ts'

/**
 * Credentials of a client as request headers: an API key, a JWT, or JWTs signed with a secret. They are resolved for every request,
 * because tokens expire. Invariant: credentials are sent over TLS or loopback only (OTC-101), and their values never appear
 * in an error.
 */

export type JwtOption = string | (() => string | Promise<string>) | JwtSigning

/** Returns the headers that identify the caller; a JWT is preferred to a static key (OTC-113). */
export interface Credentials {
  /** Whether the static key is sent. */
  readonly usesApiKey: boolean
  headers(
    dialect: ClientDialect | undefined,
    keyHeader?: ApiKeyHeader,
  ): Promise<Readonly<Record<string, string>>>
  /** Headers with the key or token as a bearer, the only form that OpenTool servers know (OTS-47). */
  bearer(): Promise<Readonly<Record<string, string>>>
}

/** Characters allowed in a header. Other values are refused here, because the platform's error would contain them. */
const HEADER_SAFE = /^[\x21-\x7e]+$/

export function readCredentials(
  { apiKey, jwt }: Pick<ClientOptions, 'apiKey' | 'jwt'>,
  server: ServerUrl,
  now: () => number,
): Credentials {
  if (apiKey === undefined && jwt === undefined) {
    return { usesApiKey: false, headers: async () => ({}), bearer: async () => ({}) }
  }
  // Credentials are sent only over TLS or loopback, because a loopback connection does not leave the machine (OTC-101).
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
      const message = 'The jwt function of this client failed; nothing was sent.'
      throw new CallFailure('unauthenticated', message, { cause })
    }
  }
}

/** Errors name the option, never its value. */
function checkHeaderSafe(value: unknown, option: string): string {
  if (typeof value === 'string' && HEADER_SAFE.test(value)) return value
  throw configFailure(
    `${option} must be a non-empty string without spaces, line breaks or characters outside ASCII.`,
  )
}

/** How to sign tokens for a server that shares a secret with the client. */
export interface JwtSigning {
  /** Secret shared with the server. */
  readonly secret: string
  /** `sub`: the caller. Without it the server cannot distinguish callers. */
  readonly subject?: string
  /** `aud`, as the server documents it. */
  readonly audience?: string
  /** `iss`: the issuer of the token. */
  readonly issuer?: string
  /** Lifetime of a token, 300 to 900, default 600. */
  readonly lifetimeSeconds?: number
}

const MIN_SECONDS = 300
const MAX_SECONDS = 900
const DEFAULT_SECONDS = 600
/** A token is replaced this long before it expires, so that it outlives the request. */
const RENEW_BEFORE_MS = 120_000

/** Signs an HS256 token and reuses it until it is about to expire. */
export function jwtMinter(signing: JwtSigning, now: () => number): () => Promise<string> {
  const lifetimeSeconds = signing.lifetimeSeconds ?? DEFAULT_SECONDS
  const isInRange = lifetimeSeconds >= MIN_SECONDS && lifetimeSeconds <= MAX_SECONDS
  if (!Number.isInteger(lifetimeSeconds) || !isInRange) {
    throw configFailure(`jwt.lifetimeSeconds must be a whole number from ${MIN_SECONDS} to ${MAX_SECONDS}.`)
  }
  if (typeof signing.secret !== 'string' || signing.secret === '') {
    throw configFailure('jwt.secret is empty; use the secret that the server was configured with.')
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
    ...defined({ iss: signing.issuer, sub: signing.subject, aud: signing.audience }),
    iat: issuedAt,
    exp: expiresAt,
  }
  const signed = `${encodePart({ alg: 'HS256', typ: 'JWT' })}.${encodePart(claims)}`
  const encoder = new TextEncoder()
  const algorithm = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', encoder.encode(signing.secret), algorithm, false, ['sign'])
  const signature = await crypto.subtle.sign('HMAC', key, encoder.encode(signed))
  return `${signed}.${toBase64Url(new Uint8Array(signature))}`
}

function encodePart(value: object): string {
  return toBase64Url(new TextEncoder().encode(JSON.stringify(value)))
}
