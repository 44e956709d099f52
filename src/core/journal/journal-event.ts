import type { ErrorCode } from '#core/errors'
import type { SessionOutcome } from '#core/runs/run-event'
import type { SafetyTier } from '#core/tool'

interface CallEventBase {
  readonly at: number
  readonly record: string
  readonly tenant: string
  readonly principal: string
  readonly tool: string
  readonly attempt: number
  /** The run that has this event too, and its place there (rule 16). */
  readonly run?: string
  readonly sequence?: number
}

export interface CallClaimed extends CallEventBase {
  readonly type: 'call.claimed'
  readonly tier: SafetyTier
}

export interface CallEnded extends CallEventBase {
  readonly type: 'call.succeeded' | 'call.failed' | 'call.released' | 'call.late'
  readonly durationMs: number
  readonly code?: ErrorCode
  readonly effect?: 'unknown'
}

/** `call.cut`: the attempt's process is gone, and the call may simply run again (rule 8). */
export interface CallCut extends CallEventBase {
  readonly type: 'call.ambiguous' | 'call.cut'
  readonly deadWriter: string
}

export interface CallSettled extends CallEventBase {
  readonly type: 'call.settled'
  readonly as: 'succeeded' | 'failed' | 'not-run'
  readonly who: string
  readonly why: string
}

export interface CallCancelRequested extends CallEventBase {
  readonly type: 'call.cancel_requested'
  readonly by: string
}

export interface CallParked extends CallEventBase {
  readonly type: 'call.parked'
  readonly approval: string
}

/** Who said what about a parked call, or that nobody did in time: the audit trail of approvals. */
export interface ApprovalChanged {
  readonly type:
    | 'approval.granted'
    | 'approval.rejected'
    | 'approval.overridden'
    | 'approval.expired'
    | 'approval.cancelled'
    | 'approval.used'
  readonly at: number
  readonly approval: string
  readonly tenant: string
  readonly record: string
  readonly attempt: number
  readonly tool: string
  readonly by?: string
  readonly reason?: string
}

export interface ChallengeChanged {
  readonly type: 'challenge.opened' | 'challenge.completed'
  readonly at: number
  readonly challenge: string
  readonly tenant: string
  readonly principal: string
  readonly provider: string
}

export interface SessionChanged {
  readonly type: 'session.opened' | 'session.closed'
  readonly at: number
  readonly session: string
  readonly tenant: string
  readonly principal: string
  readonly tool: string
  readonly run: string
  readonly sequence: number
  /** Only of a close. */
  readonly outcome?: SessionOutcome
}

export interface RunEnded {
  readonly type: 'run.ended'
  readonly at: number
  readonly run: string
  readonly tenant: string
  readonly principal: string
}

export interface WriterStarted {
  readonly type: 'writer.started'
  readonly at: number
  /** Heads of the chains that grew since a writer last began: a later cut of theirs shows (rule 15). */
  readonly heads: readonly { readonly writer: string; readonly group: number; readonly link: string }[]
}

export interface WriterStopped {
  readonly type: 'writer.stopped'
  readonly at: number
}

export interface ResultsPurged {
  readonly type: 'retention.purged'
  readonly at: number
  readonly calls: number
  readonly groups: number
}

/** What happened, without content: no input, no output, no text a caller chose. */
export type JournalEvent =
  | CallClaimed
  | CallEnded
  | CallCut
  | CallSettled
  | CallCancelRequested
  | CallParked
  | ApprovalChanged
  | ChallengeChanged
  | SessionChanged
  | RunEnded
  | WriterStarted
  | WriterStopped
  | ResultsPurged
