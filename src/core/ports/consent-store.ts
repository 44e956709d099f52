import type { CallLabel } from '#core/runs/run-event'
import type { Secret } from '#core/secret'
import type { MaybePromise } from './maybe-promise.ts'
import type { RunPlace } from './run-store.ts'
import type { ChallengeNeed } from './store.ts'

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

/** A call that lacks a consent: nothing of it is stored but what its run tells (rule 20). */
export interface AskedConsent extends CallLabel {
  readonly tenant: string
  readonly record: string
  readonly principal: string
  /** Where it is told; the run is made if it is new. */
  readonly place: RunPlace
  readonly traceId: string
  readonly userId: string | undefined
  readonly challenge: string
  readonly need: ChallengeNeed
  /** Our own page, never the provider's (OWP-78). */
  readonly url: string
  /** The provider refused to renew what there was. */
  readonly hasExpired: boolean
  readonly expiresAtMs: number
  readonly atMs: number
}

export interface ConsentEnd {
  readonly as: 'completed' | 'failed'
  /** What lies in the vault now; absent when the caller brought a token of its own. */
  readonly credential?: { readonly ref: string; readonly scopes: readonly string[] }
  readonly reason?: 'denied' | 'scopes' | 'timeout'
  readonly atMs: number
}

/** What runs tell of consents: each call that waits for one hears its end once. */
export interface ConsentRunStore {
  /** Whether a run was told that the call waits for the challenge, and not yet how that ended. */
  isTold(challenge: string, record: string): MaybePromise<boolean>
  /** Tells once per challenge and call; `false`, and nothing, when its run takes nothing any more. */
  tell(asked: AskedConsent): MaybePromise<boolean>
  /** Tells the end to all that wait for this need; gives the runs that were told. */
  resolve(need: ChallengeNeed, end: ConsentEnd): MaybePromise<readonly string[]>
  /** The same for what nobody gave in time. */
  expire(nowMs: number): MaybePromise<readonly string[]>
}

/** Consents under way: single use, minutes long. */
export interface ConsentStore {
  readonly runs: ConsentRunStore
  /** Keeps at most `most` of one challenge and stage: the oldest make room. */
  begin(consent: Consent, most: number): MaybePromise<void>
  find(id: string): MaybePromise<Consent | undefined>
  /** Of many that try exactly one gets `true`. */
  take(id: string): MaybePromise<boolean>
  purge(nowMs: number): MaybePromise<void>
}
