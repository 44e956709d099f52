import { ANONYMOUS } from '#kernel/base/principal'
import type { BrokerObstacle } from '#kernel/base/token-broker'
import type { ChallengeRecord } from '#kernel/call/stages'

/**
 * Why a person cannot be asked for an authorization, and what an operator can do about it. Answers, pages, `collet tools show`,
 * the console and the warnings at start-up all use these texts, so that they give the same reason.
 */

export type ConsentObstacle =
  | BrokerObstacle
  /** The caller has no credential, and is not the person at this machine (rules 3 and 28). */
  | 'no_vault'
  /** The caller's credential does not prove the user that the call names (rule 24). */
  | 'unproven_user'
  /** The tool needs a user, and the call names none. */
  | 'no_user'

interface RequestedConsent {
  readonly provider: string
  readonly scopes: readonly string[]
  readonly principal: string
  /** The user id as the caller wrote it; absent on pages, which have only a digest. */
  readonly userId?: string | undefined
}

interface Explanation {
  readonly reason: string
  /** What the operator of the server can do; `undefined` = the caller has to act. */
  readonly operator: string | undefined
}

export function explainObstacle(obstacle: ConsentObstacle, asked: RequestedConsent): Explanation {
  return EXPLANATIONS[obstacle](asked)
}

const EXPLANATIONS = {
  no_provider: ({ provider }) => ({
    reason: `This server has no sign-in service for ${provider}.`,
    operator: `Add oauth.providers.${provider} to the config.`,
  }),
  no_sign_in: ({ provider }) => ({
    reason: `Only a person at the server's own machine can be asked for access to ${provider}, because the server cannot identify other people.`,
    operator: 'Set oauth.signIn in the config.',
  }),
  scopes: ({ provider, scopes }) => ({
    reason: `The config does not allow all the scopes of ${provider} that the tool needs (${scopes.join(', ')}).`,
    operator: `Add them to oauth.providers.${provider}.scopes.`,
  }),
  no_vault: () => ({
    reason: 'Callers without a key have no vault here.',
    operator: 'Create a key with collet keys create NAME, and let the caller send it.',
  }),
  unproven_user: ({ principal, userId }) => ({
    reason: `${principal} may not act for ${userId ?? 'the user that the call names'} (scope users:assert).`,
    operator: "Give its key the scope users:assert, or let the caller send the user's own token.",
  }),
  no_user: () => ({
    reason: 'The tool needs a user id, and the call names none.',
    operator: undefined,
  }),
} satisfies Record<ConsentObstacle, (asked: RequestedConsent) => Explanation>

export function obstacleOf(
  challenge: ChallengeRecord,
  known: { readonly ofProvider: BrokerObstacle | undefined; readonly hasLocalCaller: boolean },
): ConsentObstacle | undefined {
  if (known.ofProvider !== undefined) return known.ofProvider
  if (challenge.principal === ANONYMOUS.id && !known.hasLocalCaller) return 'no_vault'
  if (challenge.consent === true) return undefined
  return challenge.user === '' ? 'no_user' : 'unproven_user'
}
