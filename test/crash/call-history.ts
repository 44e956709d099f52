import type { Effect, EffectTool } from './effect-log.ts'
import type { DrivenSession } from './session-history.ts'

/** The protocols that carry calls; openwop has the runs and sessions that calls are in. */
export const PROTOCOLS = ['otc', 'opentool', 'mcp'] as const
export type CallProtocol = (typeof PROTOCOLS)[number]

/** What the server answered to one call, read from the wire. */
export interface Reply {
  readonly protocol: CallProtocol
  /** The status that OTC has for this outcome, whatever the protocol. */
  readonly status: number
  /** The server states that nothing ran and that the same request may be repeated. */
  readonly asksForRetry: boolean
  readonly errorCode: string | undefined
  /** The run of the call, according to the server. */
  readonly runId: string | undefined
  readonly success: boolean
  readonly canRetry: boolean
  /** The whole body, which must not change by one byte over the same protocol once it is final. */
  readonly body: string
  readonly value: string | undefined
}

/** A call, sent identically each time. */
export interface PlannedCall {
  readonly tool: EffectTool
  /** Sent as `Collet-Run`. */
  readonly runId: string | undefined
  /** Sent as `Collet-Session`. */
  readonly session: DrivenSession | undefined
  /** Input of the tool; absent: the call's key. */
  readonly input?: { readonly key: string }
}

/** One request of one call, answered or not. Times are the driver's, in milliseconds. */
export interface Sending {
  readonly key: string
  readonly server: number
  readonly sentAtMs: number
  readonly endedAtMs: number
  /** `undefined` = the connection broke. */
  readonly reply: Reply | undefined
}

/** A server ended, or could not work for a while. */
export interface Kill {
  readonly server: number
  /** Taken before the signal is sent. */
  readonly atMs: number
  /** End of a pause, an outage or a restart. */
  untilMs?: number
  /** `pause`: the process survived and may have lost its lease. `restart`: it was asked to stop. Absent: it was killed. */
  readonly kind?: 'pause' | 'restart'
}

/** Whether a kill, or a pause that may have cost the lease, was in progress then or happened later. */
export function isCutSince({ kind, atMs, untilMs }: Kill, sinceMs: number): boolean {
  return kind !== 'restart' && (untilMs ?? atMs) >= sinceMs
}

/** State of a call after the last restart, read once from each server. */
export interface FinalCheck {
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
  readonly finalChecks: ReadonlyMap<string, readonly FinalCheck[]>
}

/** The call waits for approval, and its caller repeats it. */
export function isParked({ errorCode }: Reply): boolean {
  return errorCode === 'approval_required'
}

/** An approver rejected it: final, although nothing ran. */
export function isRejected({ errorCode }: Reply): boolean {
  return errorCode === 'approval_rejected'
}

/** Whether the promise "never changes or vanishes" covers this reply: not released, not `outcome_unknown`. */
export function isFinal(reply: Reply): boolean {
  if (isRejected(reply)) return true
  return reply.status === 200 && !reply.canRetry && reply.errorCode !== 'outcome_unknown'
}
