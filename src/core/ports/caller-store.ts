import type { JsonObject } from '#core/json'
import type { MaybePromise } from './maybe-promise.ts'

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
export interface CallerStore {
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
  /** Asks whoever serves it to stop; `false` when nobody does. */
  cancelRequest(request: CallerRequest): MaybePromise<boolean>
  isCancelled(request: CallerRequest): MaybePromise<boolean>
  endRequest(request: CallerRequest): MaybePromise<void>

  ask(question: NewQuestion): MaybePromise<void>
  /** Of many answers the first counts; `false` for one that is late, or to a question of somebody else. */
  answer(to: QuestionAddress, principal: string, answer: JsonObject): MaybePromise<boolean>
  findAnswer(to: QuestionAddress): MaybePromise<JsonObject | undefined>
  /** Unanswered questions of a principal's call, oldest first. */
  openQuestions(tenant: string, principal: string, callId: string): MaybePromise<readonly OpenQuestion[]>
  endQuestion(address: QuestionAddress): MaybePromise<void>

  /** Of many that use one mark exactly one gets `true`: what may be sent back once. */
  spend(tenant: string, mark: string, expiresAtMs: number): MaybePromise<boolean>
}
