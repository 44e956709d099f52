import type { ChallengeNeed } from '#core/ports/store'

/** What makes two challenges the same need (rule 22). */
export function challengeKey(need: ChallengeNeed): string {
  const { tenant, principal, user, provider, scopes } = need
  return JSON.stringify([tenant, principal, user, provider, scopes])
}
