import type { Effect, EffectTool } from './effect-log.ts'
import type { DrivenSession } from './session-history.ts'

/** What the server answered to one call, read from the wire. */
export interface Reply {
  readonly status: number
  /** The server says that nothing ran and the same request may come again. */
  readonly comeAgain: boolean
  readonly errorCode: string | undefined
  /** The run the server says the call is in. */
  readonly runId: string | undefined
  readonly success: boolean
  readonly canRetry: boolean
  /** The whole body: what must never change, not in one byte, once it is final. */
  readonly body: string
  readonly value: string | undefined
}

/** A call as it is sent, each time alike. */
export interface PlannedCall {
  readonly tool: EffectTool
  /** Sent as `Collet-Run`. */
  readonly runId: string | undefined
  /** Sent as `Collet-Session`. */
  readonly session: DrivenSession | undefined
}

/** One request of one call, whatever became of it. Times are the driver's own, in milliseconds. */
export interface Sending {
  readonly key: string
  readonly server: number
  readonly sentAtMs: number
  readonly endedAtMs: number
  /** `undefined` = the connection broke. */
  readonly reply: Reply | undefined
}

export interface Kill {
  readonly server: number
  /** Taken before the signal is sent. */
  readonly atMs: number
}

/** How a call looks after the last restart, seen once from each server. */
export interface LastLook {
  readonly reply: Reply
  /** From `GET /calls/{id}`; `undefined` = the server does not know the call. */
  readonly state: string | undefined
}

/** Everything a run saw from outside. */
export interface CallHistory {
  readonly calls: ReadonlyMap<string, PlannedCall>
  readonly sendings: readonly Sending[]
  readonly kills: readonly Kill[]
  readonly effects: readonly Effect[]
  readonly lastLooks: ReadonlyMap<string, readonly LastLook[]>
}

/** The call waits for a yes, and its caller comes again. */
export function isParked({ errorCode }: Reply): boolean {
  return errorCode === 'approval_required'
}

/** Somebody said no: final, although nothing ran. */
export function isRejected({ errorCode }: Reply): boolean {
  return errorCode === 'approval_rejected'
}

/** Whether the promise "never changes or vanishes" covers this reply: not released, not `outcome_unknown`. */
export function isFinal(reply: Reply): boolean {
  if (isRejected(reply)) return true
  return reply.status === 200 && !reply.canRetry && reply.errorCode !== 'outcome_unknown'
}
