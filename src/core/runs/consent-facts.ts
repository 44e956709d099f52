import type { AskedConsent, ConsentEnd } from '#core/ports/consent-store'
import type { CallLabel, RunFact } from './run-event.ts'

/** A call that lacks a consent, as its run tells it: what was refused before, the question, and that it waits (OWP-64, OWP-78). */
export function askedConsentFacts(asked: AskedConsent, call: CallLabel): readonly RunFact[] {
  const { record, challenge, need, url, hasExpired, expiresAtMs, atMs } = asked
  const { provider, scopes } = need
  const expired = { type: 'connector.auth_expired', record, provider } as const
  return [
    ...(hasExpired ? [expired] : []),
    {
      ...{ type: 'consent.requested', record, challenge, call, provider, scopes, url },
      timeoutMs: Math.max(0, expiresAtMs - atMs),
    },
    { type: 'consent.suspended', record, challenge },
  ]
}

/** A call whose run was told that it waits for a consent. */
export interface WaitingConsent {
  readonly record: string
  readonly challenge: string
  readonly provider: string
}

/** How it ended. The credential is told by its reference alone, and only if it is one of the vault (OWP-79). */
export function endedConsentFacts(
  { record, challenge, provider }: WaitingConsent,
  { as, credential, reason }: Omit<ConsentEnd, 'atMs'>,
): readonly RunFact[] {
  const authorized: readonly RunFact[] =
    as === 'completed' && credential !== undefined
      ? [
          {
            type: 'connector.authorized',
            record,
            provider,
            credentialRef: credential.ref,
            scopes: credential.scopes,
          },
        ]
      : []
  const action = as === 'completed' ? 'accept' : 'reject'
  const why = reason === undefined ? {} : { reason }
  return [...authorized, { type: 'consent.resolved', record, challenge, action, ...why }]
}
