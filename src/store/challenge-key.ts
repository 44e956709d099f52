import type { NewChallenge } from '#core/ports/store'

/** What makes two challenges the same need (rule 22). */
export function challengeKey(challenge: NewChallenge): string {
  const { tenant, principal, user, provider, scopes } = challenge
  return JSON.stringify([tenant, principal, user, provider, scopes])
}
