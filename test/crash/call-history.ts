import type { Effect, EffectTool } from './effect-log.ts'
import type { DrivenSession } from './session-history.ts'

/** The protocols that carry calls; openwop has the runs and sessions that calls are in. */
export const WAYS = ['otc', 'opentool', 'mcp'] as const
export type Way = (typeof WAYS)[number]

/** What the server answered to one call, read from the wire. */
export interface Reply {
  readonly way: Way
  /** As OTC answers the same end, whatever protocol it came over. */
  readonly status: number
  /** The server says that nothing ran and the same request may come again. */
  readonly comeAgain: boolean
  readonly errorCode: string | undefined
  /** The run the server says the call is in. */
  readonly runId: string | undefined
  readonly success: boolean
  readonly canRetry: boolean
  /** The whole body: what must never change over one protocol, not in one byte, once it is final. */
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
  /** What the tool is given; absent: the call's key. */
  readonly input?: { readonly key: string }
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

/** A server ended, or could not do its work for a while. */
export interface Kill {
  readonly server: number
  /** Taken before the signal is sent. */
  readonly atMs: number
  /** Of a pause, an outage or a restart: when it was over. */
  untilMs?: number
  /** `pause`: the process lived on and may have lost its lease. `restart`: it was asked to leave. Absent: it was killed. */
  readonly kind?: 'pause' | 'restart'
}

/** Whether a kill, or a pause that may have cost the lease, was under way then or came later. */
export function isCutSince({ kind, atMs, untilMs }: Kill, sinceMs: number): boolean {
  return kind !== 'restart' && (untilMs ?? atMs) >= sinceMs
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

/** An approver rejected it: final, although nothing ran. */
export function isRejected({ errorCode }: Reply): boolean {
  return errorCode === 'approval_rejected'
}

/** Whether the promise "never changes or vanishes" covers this reply: not released, not `outcome_unknown`. */
export function isFinal(reply: Reply): boolean {
  if (isRejected(reply)) return true
  return reply.status === 200 && !reply.canRetry && reply.errorCode !== 'outcome_unknown'
}
