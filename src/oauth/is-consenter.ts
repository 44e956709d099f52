import type { SignInSettings } from '#config/settings'
import { userDigest } from '#core/credentials/credentials'
import type { ChallengeRecord, Store } from '#core/ports/store'

/**
 * Rule 25: whether who signed in is the (principal, user id) of the ticket. A ticket for a user is for that user; one
 * without is for the principal itself, which is the subject of a JWT of the same issuer or whoever the config names.
 */
export function isConsenter(
  store: Pick<Store, 'digest'>,
  signIn: SignInSettings,
  opened: { readonly challenge: ChallengeRecord; readonly claims: Readonly<Record<string, unknown>> },
): boolean {
  const { challenge, claims } = opened
  const userId = signedInName(signIn, claims)
  if (userId === undefined) return false
  if (challenge.user !== '') return userDigest(store, userId) === challenge.user
  const isPrincipal = challenge.principal === signedInPrincipal(claims)
  const owners = Object.hasOwn(signIn.owners, challenge.principal)
    ? signIn.owners[challenge.principal]
    : undefined
  return isPrincipal || (owners?.includes(userId) ?? false)
}

/** Whom the sign-in service says it is. An address that it says it has not verified names nobody: anybody can type one. */
export function signedInName(
  { userClaim }: Pick<SignInSettings, 'userClaim'>,
  claims: Readonly<Record<string, unknown>>,
): string | undefined {
  const name = claims[userClaim]
  const isUnverified = userClaim === 'email' && String(claims.email_verified) === 'false'
  return typeof name === 'string' && name !== '' && !isUnverified ? name : undefined
}

/** The principal that a JWT of the same issuer and subject would be (rule 3). */
export function signedInPrincipal({ iss, sub }: Readonly<Record<string, unknown>>): string | undefined {
  if (typeof iss !== 'string' || typeof sub !== 'string') return undefined
  return `jwt:${iss.replaceAll('%', '%25').replaceAll('#', '%23')}#${sub}`
}
