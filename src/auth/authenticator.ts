import type { Settings } from '#config/settings'
import { fault } from '#core/errors'
import type { Clock } from '#core/ports/clock'
import type { MaybePromise } from '#core/ports/store'
import { ANONYMOUS, type Principal } from '#core/principal'
import { ApiKeys } from './api-keys.ts'
import { readBearer } from './bearer.ts'
import { JwtVerifier } from './jwt.ts'

export type RequestHeaders = Readonly<Record<string, string | undefined>>

export interface Authenticator {
  /** False when the server knows no credential at all: every caller is then `anonymous` (OTC-98). */
  readonly isConfigured: boolean
  /** Who calls; throws `unauthenticated`. */
  authenticate(headers: RequestHeaders): MaybePromise<Principal>
}

/** OXP's, OTC's and the first draft's spelling (C-25). */
const KEY_HEADERS = ['oxp-api-key', 'otc-api-key', 'x-api-key'] as const

export function createAuthenticator(settings: Settings['auth'], clock: Clock): Authenticator {
  const keys = new ApiKeys(settings.apiKeys)
  const jwt = settings.jwt === undefined ? undefined : new JwtVerifier(settings.jwt, clock)
  if (keys.size === 0 && jwt === undefined) return { isConfigured: false, authenticate: () => ANONYMOUS }
  const expected = describeMethods(keys.size > 0, jwt !== undefined)

  /** The principal of the key headers: all that are present must be valid and mean the same caller (T-28). */
  const authenticateByKeyHeader = (headers: RequestHeaders): Principal | undefined => {
    let principal: Principal | undefined
    for (const name of KEY_HEADERS) {
      const presented = headers[name]
      if (presented === undefined) continue
      const found = keys.find(presented)
      if (found === undefined) throw fault('unauthenticated', `The API key is not valid here. ${expected}`)
      if (principal !== undefined && principal.id !== found.id) {
        throw fault('unauthenticated', `The request carries the keys of two callers. ${expected}`)
      }
      principal = found
    }
    return principal
  }

  const authenticateByBearer = (authorization: string): MaybePromise<Principal> => {
    const token = readBearer(authorization)
    if (token === undefined) {
      throw fault('unauthenticated', `The Authorization header is not a bearer credential. ${expected}`)
    }
    const byKey = keys.find(token)
    if (byKey !== undefined) return byKey
    if (jwt === undefined) throw fault('unauthenticated', `The bearer API key is not valid here. ${expected}`)
    return jwt.verify(token)
  }

  return {
    isConfigured: true,
    /** Bearer first, then the key headers; whatever is present must be valid, nothing falls back (T-28). */
    authenticate(headers) {
      const byHeader = authenticateByKeyHeader(headers)
      const { authorization } = headers
      if (authorization !== undefined) return authenticateByBearer(authorization)
      if (byHeader !== undefined) return byHeader
      throw fault('unauthenticated', `This server needs a credential. ${expected}`)
    },
  }
}

function describeMethods(byKey: boolean, byJwt: boolean): string {
  if (!byJwt) return 'Send an API key in the header OXP-API-Key, or as "Authorization: Bearer <key>".'
  if (!byKey) return 'Send a JWT as "Authorization: Bearer <token>".'
  return 'Send an API key in the header OXP-API-Key, or a JWT or key as "Authorization: Bearer …".'
}
