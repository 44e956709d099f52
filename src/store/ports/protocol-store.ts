import type { JsonObject } from '#kernel/base/json'
import type { MaybePromise } from '#kernel/base/waiting'

/** What a budget counts, each a whole number: `cost` in thousandths of a unit. */
export interface Spending {
  readonly calls: number
  readonly milliseconds: number
  readonly cost: number
}

/** One window of one budget. Windows are whole multiples of their length since 1970, so every process means the same. */
export interface BudgetWindow {
  readonly tenant: string
  /** `undefined` = the tenant as a whole. */
  readonly principal: string | undefined
  readonly lengthMs: number
  readonly startMs: number
}

/**
 * How much of each window is handed out. A process takes a part before anything is spent from it, so whatever dies or
 * interleaves, no more than the limit is spent; what a crash leaves unspent is lost until the window ends.
 */
export interface BudgetStore {
  /** Takes as much of `wanted` as `limit` still leaves, each unit for itself, in one step; gives what it took. */
  lease(window: BudgetWindow, wanted: Spending, limit: Spending, atMs: number): MaybePromise<Spending>
  /** Puts back what was leased and not spent. Never repeat one whose outcome is unknown: it may have counted. */
  giveBack(window: BudgetWindow, unspent: Spending): MaybePromise<void>
  /** What is handed out. */
  read(window: BudgetWindow): MaybePromise<Spending>
}

/** How fast a bucket fills, how much it holds, and when it is asked. */
export interface SharedRate {
  readonly perMs: number
  readonly burst: number
  readonly nowMs: number
}

/** What was taken, and when nothing was: in how long there will be a token. */
export interface TakenTokens {
  readonly tokens: number
  readonly waitMs: number
}

/** Buckets of tokens that processes share. A bucket that nobody asked for is full. */
export interface RateStore {
  /** Takes as many of `wanted`, which is no more than the bucket holds, as there are, in one step. */
  take(bucket: string, wanted: number, rate: SharedRate): MaybePromise<TakenTokens>
}

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
  /** A process is about to answer it, or died over it. */
  | { readonly kind: 'under_way'; readonly writer: string }
  /** The key was used for something else. */
  | { readonly kind: 'mismatch' }

/** How long an answer is given again; a day at least (OWP-92). */
export const REPLY_KEPT_MS = 86_400_000

/** Requests by the key of their caller, and what was answered to them; answers hold callers' text, so they are sealed. */
export interface IdempotentRequestStore {
  /** Of many that begin one request exactly one gets `begun`. */
  begin(request: NewRequest): MaybePromise<BegunRequest>
  /** Keeps the answer to one that this writer began. */
  answer(to: RequestAddress, reply: KeptReply, expiresAtMs: number): MaybePromise<void>
  /** Frees the key of one that this writer began and that did nothing. */
  release(address: RequestAddress): MaybePromise<void>
}

/** A caller that keeps a session over many requests, as MCP's older revisions do; its id is unguessable. */
export interface CallerSession {
  readonly tenant: string
  readonly id: string
  /** Sessions say which requests belong together, never who asks: that is checked each time (MCP-94). */
  readonly principal: string
  /** What was agreed when it began: revision, capabilities and name of the client. */
  readonly agreed: JsonObject
  readonly touchedAtMs: number
}

/** One request of a session that is under way; its id is unique in the session only. */
export interface CallerRequest {
  readonly tenant: string
  readonly session: string
  readonly requestId: string
}

/** A question to the caller of a running call. */
export interface QuestionAddress {
  readonly tenant: string
  /** Unguessable, made by us. */
  readonly id: string
}

export interface NewQuestion extends QuestionAddress {
  readonly principal: string
  /** The call that asks, as its caller knows it. */
  readonly callId: string
  /** The question; what people are asked stays sealed at rest. */
  readonly question: JsonObject
  readonly expiresAtMs: number
}

export interface OpenQuestion extends QuestionAddress {
  readonly question: JsonObject
}

/** Sessions that were silent for so long are forgotten: clients of them know no way to begin anew (MCP-23). */
export const CALLER_SESSION_IDLE_MS = 7 * 86_400_000

/** A request that nobody ended is forgotten after a day: no call runs so long. */
export const CALLER_REQUEST_KEPT_MS = 86_400_000

export interface SessionRoom {
  readonly most: number
  readonly idleBeforeMs: number
}

/** What callers that take several requests for one exchange leave behind, so that any process can take the next one. */
export interface ProtocolSessionStore {
  /**
   * Where its principal has `room.most` of them, the one that was silent longest gives way if that was before `room.idleBeforeMs`;
   * `false` when there is no room. The count and the row are one step.
   */
  openSession(session: CallerSession, room?: SessionRoom): MaybePromise<boolean>
  findSession(tenant: string, id: string): MaybePromise<CallerSession | undefined>
  touchSession(tenant: string, id: string, atMs: number): MaybePromise<void>
  /** `false` when there is none. */
  endSession(tenant: string, id: string): MaybePromise<boolean>

  /** Notes a request under way; the same id again is the newer request. */
  beginRequest(request: CallerRequest, atMs: number): MaybePromise<void>
  /** Asks the process that serves it to stop; `false` when nobody does. */
  cancelRequest(request: CallerRequest): MaybePromise<boolean>
  isCancelled(request: CallerRequest): MaybePromise<boolean>
  endRequest(request: CallerRequest): MaybePromise<void>

  ask(question: NewQuestion): MaybePromise<void>
  /** Of many answers the first counts; `false` for one that is late, or to a question of another caller. */
  answer(to: QuestionAddress, principal: string, answer: JsonObject): MaybePromise<boolean>
  findAnswer(to: QuestionAddress): MaybePromise<JsonObject | undefined>
  /** Unanswered questions of a principal's call, oldest first. */
  openQuestions(tenant: string, principal: string, callId: string): MaybePromise<readonly OpenQuestion[]>
  endQuestion(address: QuestionAddress): MaybePromise<void>

  /** Of many that use one mark exactly one gets `true`: what may be sent back once. */
  spend(tenant: string, mark: string, expiresAtMs: number): MaybePromise<boolean>
  /** Whether somebody used it, and it is not forgotten yet. */
  isSpent(tenant: string, mark: string): MaybePromise<boolean>
}
