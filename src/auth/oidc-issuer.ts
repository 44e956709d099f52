import {
  decodeProtectedHeader,
  errors,
  type JWTPayload,
  jwtVerify,
  type ProtectedHeaderParameters,
} from 'jose'
import { ISSUER_ALGORITHMS, type IssuerAlgorithm, type IssuerSettings } from '#config/settings'
import { DEFAULT_TENANT, grantedScopes, type RoleTable } from '#core/principal'
import type { Clock, Logger } from '#core/runtime'
import { IssuerKeySet } from './issuer-key-set.ts'
import type { IssuerKey } from './issuer-keys.ts'
import { refusedToken, SKEW_SECONDS } from './refused-token.ts'
import { claimAt, principalOfToken, type VerifiedToken, wordsOf } from './token-claims.ts'

/** Other kinds of signed tokens (logout tokens, DPoP proofs …) are no access tokens (RFC 8725 §3.11). */
const TYPES: ReadonlySet<string> = new Set(['jwt', 'at+jwt', 'application/at+jwt'])
/** Without a `kid` several keys may have signed; no real issuer has more than these. */
const MOST_TRIED = 4
const TENANT = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$/

export interface OidcIssuerOptions {
  readonly roles: RoleTable
  readonly fetch: typeof fetch
  readonly clock: Clock
  readonly log: Logger
}

/** Access tokens of one OpenID Connect issuer: JWTs signed with one of its published keys. */
export class OidcIssuer {
  readonly #settings: IssuerSettings
  readonly #options: OidcIssuerOptions
  readonly #keys: IssuerKeySet

  constructor(settings: IssuerSettings, options: OidcIssuerOptions) {
    const { issuer, jwksUri } = settings
    this.#settings = settings
    this.#options = options
    const { fetch: send, clock, log } = options
    this.#keys = new IssuerKeySet({
      issuer,
      jwksUri,
      algorithms: algorithmsOf(settings),
      fetch: send,
      clock,
      log,
    })
  }

  /** Throws `unauthenticated`, or `not_ready` when the issuer's keys cannot be had. */
  async verify(token: string): Promise<VerifiedToken> {
    const { alg, kid, typ } = readHeader(token)
    if (alg === undefined || !algorithmsOf(this.#settings).some((name) => name === alg))
      throw refusedToken(`The token is signed with an algorithm that is not taken here.`)
    if (typ !== undefined && !TYPES.has(typ.toLowerCase()))
      throw refusedToken('The token is not an access token.')
    const keys = await this.#keys.candidates(kid, alg)
    const claims = await this.#checkSignature(token, keys.slice(0, MOST_TRIED))
    const { iss, sub, exp } = claims
    if (exp === undefined || iss !== this.#settings.issuer)
      throw refusedToken('The token has no `exp` claim, or another issuer.')
    const principal = principalOfToken(
      { issuer: iss, subject: sub },
      { tenant: this.#tenantOf(claims), scopes: this.#scopesOf(claims) },
    )
    return { principal, expiresAt: exp }
  }

  async #checkSignature(token: string, keys: readonly IssuerKey[]): Promise<JWTPayload> {
    for (const { key, algorithms } of keys) {
      try {
        const { payload } = await jwtVerify(token, key, {
          algorithms: [...algorithms],
          issuer: this.#settings.issuer,
          audience: [...this.#settings.audiences],
          requiredClaims: ['exp'],
          clockTolerance: SKEW_SECONDS,
          currentDate: new Date(this.#options.clock.nowMs()),
        })
        return payload
      } catch (cause) {
        if (cause instanceof errors.JWTExpired) throw refusedToken('The token has expired; get a new one.')
        if (cause instanceof errors.JWTClaimValidationFailed)
          throw refusedToken(`The token's \`${cause.claim}\` claim is not acceptable.`)
      }
    }
    throw refusedToken('The token is not signed with a key of its issuer.')
  }

  /** From the claim that was configured for it, and then never from anywhere else (rule 3). */
  #tenantOf(claims: JWTPayload): string {
    const path = this.#settings.claims.tenant
    if (path === undefined) return this.#settings.tenant
    const tenant = claimAt(claims, path)
    if (typeof tenant !== 'string' || !TENANT.test(tenant))
      throw refusedToken('The token names no tenant that this server can use.')
    // Its credentials look after the whole server: an issuer's customer may be called so, and must not be it by chance.
    if (tenant === DEFAULT_TENANT && this.#settings.allowDefaultTenant !== true)
      throw refusedToken('The token names the tenant `default`, which is not for tokens of this issuer.')
    return tenant
  }

  /** Wildcards are for the operator to give, by a role; a scope a client asked its issuer for has none. */
  #scopesOf(claims: JWTPayload): readonly string[] {
    const { scopes: scopePath, roles: rolePath } = this.#settings.claims
    const scopes = wordsOf(claimAt(claims, scopePath ?? ['scope']), 'scopes').filter(
      (scope) => !scope.includes('*'),
    )
    const roles = rolePath === undefined ? [] : wordsOf(claimAt(claims, rolePath), 'roles')
    return grantedScopes(this.#options.roles, { scopes, roles })
  }
}

function algorithmsOf({ algorithms }: IssuerSettings): readonly IssuerAlgorithm[] {
  return algorithms ?? ISSUER_ALGORITHMS
}

function readHeader(token: string): ProtectedHeaderParameters {
  try {
    return decodeProtectedHeader(token)
  } catch {
    throw refusedToken('The token is not a JWT.')
  }
}
