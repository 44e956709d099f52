import type { ErrorCode } from '#core/errors'
import type { SafetyTier } from '#core/tool'

interface CallEventBase {
  readonly at: number
  readonly record: string
  readonly tenant: string
  readonly principal: string
  readonly tool: string
  readonly attempt: number
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

export interface CallAmbiguous extends CallEventBase {
  readonly type: 'call.ambiguous'
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

export interface ChallengeChanged {
  readonly type: 'challenge.opened' | 'challenge.completed'
  readonly at: number
  readonly challenge: string
  readonly tenant: string
  readonly principal: string
  readonly provider: string
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
  | CallAmbiguous
  | CallSettled
  | CallCancelRequested
  | ChallengeChanged
  | WriterStarted
  | WriterStopped
  | ResultsPurged
