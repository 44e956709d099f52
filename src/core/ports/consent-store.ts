import type { Secret } from '#core/secret'
import type { MaybePromise } from './maybe-promise.ts'

/** `sign_in` and `approver`: prove who sits at the browser, before a consent or a decision. `provider`: asks for the authorization itself. */
export const CONSENT_STAGES = ['sign_in', 'provider', 'approver'] as const

export type ConsentStage = (typeof CONSENT_STAGES)[number]

/** One way out to a provider that has to come back: what `state` stands for, kept here and not in the browser. */
export interface Consent {
  /** Keyed digest of `state`. */
  readonly id: string
  readonly tenant: string
  /** The challenge it is for, or the digest of an approver's link. */
  readonly challenge: string
  readonly stage: ConsentStage
  /** Keyed digest of the cookie that only the browser which began has (rule 25). */
  readonly browser: string
  /** PKCE verifier and nonce, sealed at rest. */
  readonly held: Secret
  readonly expiresAtMs: number
}

/** Consents under way: single use, minutes long. */
export interface ConsentStore {
  /** Keeps at most `most` of one challenge: the oldest make room. */
  begin(consent: Consent, most: number): MaybePromise<void>
  find(id: string): MaybePromise<Consent | undefined>
  /** Of many that try exactly one gets `true`. */
  take(id: string): MaybePromise<boolean>
  purge(nowMs: number): MaybePromise<void>
}
