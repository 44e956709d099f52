import { type ApiKeyHeader, apiKeyHeaderOf, type ClientDialect } from '#protocols/otc/codec-client'
import { CallFailure, configFailure } from './call-failure.ts'
import { type JwtSigning, jwtMinter } from './mint-jwt.ts'
import type { ServerUrl } from './server-url.ts'

export type JwtOption = string | (() => string | Promise<string>) | JwtSigning

export interface CredentialOptions {
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
