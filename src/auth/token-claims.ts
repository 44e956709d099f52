import type { JWTPayload } from 'jose'
import { hasControlCharacter } from '#core/json'
import { ANONYMOUS, makePrincipal, type Principal } from '#core/principal'
import { refusedToken } from './refused-token.ts'

const LONGEST_SUBJECT = 512

/** A verified token: who it is, and until when it is good. */
export interface VerifiedToken {
  readonly principal: Principal
  /** `exp` in seconds, skew not counted. */
  readonly expiresAt: number
}

/** The principal of a verified token. Tokens without a subject share the one that decides nothing (rule 3). */
export function principalOfToken(
  token: { readonly issuer: string; readonly subject: unknown },
  granted: { readonly tenant: string; readonly scopes: readonly string[] },
): Principal {
  const { issuer, subject } = token
  const { tenant, scopes } = granted
  if (subject !== undefined && typeof subject !== 'string')
    throw refusedToken("The token's `sub` claim is not a string.")
  if (subject === undefined || subject === '') return Object.freeze({ ...ANONYMOUS, tenant })
  // It becomes part of an id that is stored and shown to operators.
  if (subject.length > LONGEST_SUBJECT || hasControlCharacter(subject) || !subject.isWellFormed())
    throw refusedToken("The token's `sub` claim is too long or has characters that no name has.")
  return makePrincipal({ id: `jwt:${withoutHash(issuer)}#${subject}`, tenant, scopes })
}

/** Keeps two (issuer, subject) pairs from ever giving one principal. */
function withoutHash(issuer: string): string {
  return issuer.replaceAll('%', '%25').replaceAll('#', '%23')
}

/** A list of words, written as one text or as an array. */
export function wordsOf(claim: unknown, what: string): readonly string[] {
  if (claim === undefined) return []
  if (typeof claim === 'string') return claim.split(' ').filter((word) => word !== '')
  if (Array.isArray(claim) && claim.every((word) => typeof word === 'string')) return claim
  throw refusedToken(`The token's ${what} are neither a string nor an array of strings.`)
}

/** The claim at a path of own members; `undefined` when there is none. */
export function claimAt(claims: JWTPayload, path: readonly string[]): unknown {
  let value: unknown = claims
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = Reflect.get(value, name)
  }
  return value
}
