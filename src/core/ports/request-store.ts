import type { MaybePromise } from './maybe-promise.ts'

/** A request that changes something and has a key of its caller's own (OWP-92). */
export interface RequestAddress {
  readonly tenant: string
  /** Keyed digest of principal, endpoint and key: all three are callers' text. */
  readonly id: string
}

export interface NewRequest extends RequestAddress {
  /** Keyed digest of what is asked. */
  readonly asked: string
  readonly expiresAtMs: number
  /** Take it over from this writer, which left it unanswered and does not go on with it. */
  readonly insteadOf?: string
}

/** An answer that is given again, as it was. */
export interface KeptReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
}

export type BegunRequest =
  | { readonly kind: 'begun' }
  | { readonly kind: 'answered'; readonly reply: KeptReply }
  /** Somebody is about to answer it, or died over it. */
  | { readonly kind: 'under_way'; readonly writer: string }
  /** The key was used for something else. */
  | { readonly kind: 'mismatch' }

/** How long an answer is given again (OWP-92: a day at least). */
export const REPLY_KEPT_MS = 86_400_000

/** Requests by the key of their caller, and what was answered to them; answers hold callers' text, so they are sealed. */
export interface RequestStore {
  /** Of many that begin one request exactly one gets `begun`. */
  begin(request: NewRequest): MaybePromise<BegunRequest>
  /** Keeps the answer to one that this writer began. */
  answer(to: RequestAddress, reply: KeptReply, expiresAtMs: number): MaybePromise<void>
  /** Frees the key of one that this writer began and that did nothing. */
  release(address: RequestAddress): MaybePromise<void>
}
