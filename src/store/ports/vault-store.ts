import type { Secret } from '#kernel/base/secret'
import type { MaybePromise } from '#kernel/base/waiting'
import type { ChallengeNeed, RunScope } from '#kernel/ports/store'
import type { CallLabel } from '#kernel/run/events'

/** `sign_in` and `approver`: prove who sits at the browser, before a consent or a decision. `provider`: asks for the authorization itself. */
export const CONSENT_STAGES = ['sign_in', 'provider', 'approver'] as const

type ConsentStage = (typeof CONSENT_STAGES)[number]

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
  /** Where it is reported; the run is made if it is new. */
  readonly scope: RunScope
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
  /** Whether a run learned that the call waits for the challenge, and not yet how that ended. */
  isAsked(challenge: string, record: string): MaybePromise<boolean>
  /** Tells once per challenge and call; `false`, and nothing, when its run takes nothing any more. */
  ask(asked: AskedConsent): MaybePromise<boolean>
  /** Tells the end to all that wait for this need; gives the runs that learned of it. */
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

/** `secret`: set by an operator for `requirements.secrets`. `token`: for `requirements.authorization`. */
export type CredentialKind = 'secret' | 'token'

/** Whose credential it is, and for what. There is no other key, so nobody's credential stands in for another's (rule 24). */
export interface VaultAddress {
  readonly tenant: string
  readonly principal: string
  /** Keyed digest of the user id, or `''` for the principal's own. */
  readonly user: string
  /** Id of the requirement: an authorization provider or a secret's name. */
  readonly provider: string
  readonly kind: CredentialKind
}

/** Whose part of the vault. */
export type VaultOwner = Pick<VaultAddress, 'tenant' | 'principal' | 'user'>

/** What is known of a credential without its value. */
export interface VaultFacts extends VaultAddress {
  /** Opaque name of this entry (OWP-74); it says nothing about the value, and changes when the entry is set anew. */
  readonly ref: string
  /** Raised with every change; changes are conditional on it. */
  readonly version: number
  /** What a token may do; empty for secrets. */
  readonly scopes: readonly string[]
  /** `undefined` = does not end by itself. */
  readonly expiresAtMs: number | undefined
  /** The provider refused to renew it: its value is gone, its scopes are asked for again (OWP-78). */
  readonly isSpent: boolean
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

export interface VaultEntry extends VaultFacts {
  /** `undefined` once spent. */
  readonly value: Secret | undefined
}

export interface NewCredential extends VaultAddress {
  readonly ref: string
  readonly value: Secret
  readonly scopes: readonly string[]
  readonly expiresAtMs: number | undefined
  /** Who put it there, for the journal: an operator, or `consent`. */
  readonly by: string
  readonly atMs: number
}

/** What a refresh changes. */
export type RenewedCredential = Pick<NewCredential, 'value' | 'scopes' | 'expiresAtMs' | 'atMs'>

/** Credentials at rest. Stores that outlive the process seal every value under a data key of its tenant. */
export interface VaultStore {
  /** Takes the place of what is there. */
  put(credential: NewCredential): MaybePromise<void>
  /** Throws `unreadable` when it is there but cannot be decrypted (rule 14). */
  find(address: VaultAddress): MaybePromise<VaultEntry | undefined>
  /** Lets one caller of all processes refresh this version until `untilMs`; `false` = another caller may (rule 26). */
  lease(previous: VaultFacts, nowMs: number, untilMs: number): MaybePromise<boolean>
  /** Gives a lease back unused. */
  unlease(previous: VaultFacts): MaybePromise<void>
  /** The refreshed value; `false` when the entry changed meanwhile, which then stays as it is. */
  renew(previous: VaultFacts, renewed: RenewedCredential): MaybePromise<boolean>
  /** Forgets the value of this version and keeps its scopes; `false` when the entry changed meanwhile. */
  spend(previous: VaultFacts, atMs: number): MaybePromise<boolean>
  /** Only the entry of this reference; one that was set meanwhile stays. */
  remove(entry: VaultAddress & Pick<VaultFacts, 'ref'>, by: string, atMs: number): MaybePromise<boolean>

  /** Operators' views: facts only, newest first. An absent tenant means all of them. */
  list(filter: { readonly tenant?: string; readonly limit: number }): MaybePromise<readonly VaultFacts[]>
  /** What one owner has, facts only. */
  listOf(owner: VaultOwner): MaybePromise<readonly VaultFacts[]>
  findByRef(ref: string): MaybePromise<VaultFacts | undefined>
  /** Gives every tenant a new data key and seals everything anew; gives how many entries. */
  rotate(by: string, atMs: number): MaybePromise<{ readonly tenants: number; readonly entries: number }>
}
