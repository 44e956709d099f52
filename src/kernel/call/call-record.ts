import type { ErrorCode } from '#kernel/base/errors'
import type { CallError, CallProtocol, CallState, Outcome } from '#kernel/call/call'
import type { CallLabel, SessionOutcome } from '#kernel/run/events'
import type { ReplayPolicy, SafetyTier } from '#kernel/tool/tool'

/**
 * Calls, runs and sessions as the store keeps them, and the changes of a call: claim, next attempt, end, settlement. The ladder
 * and the session stage make them; the store's modules write and read them.
 */

/** `record` is the keyed digest of tenant, principal and key, so it is unguessable and unique. */
export interface CallAddress {
  readonly tenant: string
  readonly record: string
}

/** A session in which one attempt runs. */
export interface CallSession {
  readonly sessionId: string
  /** Made for this attempt alone: it opens with the claim and closes with the outcome. */
  readonly isOwn: boolean
}

/**
 * A call as it is first written, by a claim or together with its outcome. The call id of its label is text of the caller, and
 * so stored encrypted (rule 15).
 */
export interface NewCall extends CallAddress, CallLabel {
  readonly principal: string
  /** The operator who ran it in the principal's name; absent when the principal itself called. */
  readonly by?: string | undefined
  /** The run that the caller named; `undefined` = a run of its own. */
  readonly scope: RunScope | undefined
  readonly session: CallSession | undefined
  /** Protocol of the request; `undefined` for in-process calls. */
  readonly protocol: CallProtocol | undefined
  readonly userId: string | undefined
  readonly fingerprint: string
  /** Full id of the resolved version. */
  readonly tool: string
  readonly definitionHash: string
  readonly tier: SafetyTier
  readonly replay: ReplayPolicy
  /** Until when a run cut by a crash may run again; 0 = never, `MAX_SAFE_INTEGER` = always (rule 8). */
  readonly rerunUntilMs: number
  readonly inputJson: string
  readonly atMs: number
  /** For a step of a workflow: the workflow's call, and the outermost call. */
  readonly step?: { readonly parent: string; readonly root: string } | undefined
  /** A workflow: repeats nothing when it runs again (rule 31). */
  readonly resumable?: true | undefined
}

export interface CallRecord
  extends Omit<NewCall, 'scope' | 'session' | 'inputJson' | 'atMs' | 'step' | 'resumable'> {
  /** The run id that the caller named; `undefined` = a run of its own. */
  readonly runId: string | undefined
  /** The run that has its events; `undefined` when this record alone describes them. */
  readonly run: string | undefined
  /** The session of its last attempt. */
  readonly sessionId: string | undefined
  readonly state: CallState
  /** 1 for the first run. Every change of a running call is conditional on it. */
  readonly attempt: number
  /** The writer that claimed it last. */
  readonly writer: string
  readonly createdAtMs: number
  readonly finishedAtMs: number | undefined
  /** How long the tool ran in its last attempt; absent while it runs, if it did not run, and of a call that a person settled. */
  readonly ranMs?: number | undefined
  /** `undefined` while not final, for `ambiguous`, and after retention removed it. */
  readonly outcome: Outcome | undefined
  /** Retention removed input and outcome; the key is still taken (rule 13). */
  readonly expired: boolean
  /** The tool's answer after the call was ended by timeout, cancel or shutdown (rule 10). */
  readonly late: Outcome | undefined
  /** The workflow's call; only for a step. */
  readonly parent: string | undefined
  /** The outermost call; only for a step. A step is not purged before it (rule 13). */
  readonly root: string | undefined
  readonly resumable: boolean
  /** Only for a suspended workflow: the step it waits for, or `''` when none is recorded. */
  readonly waitsFor: string | undefined
}

/** One attempt of one call by one writer, as a started run knows it. */
export interface Attempt extends CallAddress {
  readonly principal: string
  readonly tool: string
  readonly attempt: number
  readonly run: string | undefined
  readonly session: CallSession | undefined
}

export interface NextAttempt {
  readonly session: CallSession | undefined
  readonly atMs: number
  /** For a released call with other input: its new content (rule 9). */
  readonly corrected?: NewCall | undefined
}

export type ClaimResult =
  | { readonly kind: 'claimed'; readonly attempt: number }
  | { readonly kind: 'found'; readonly record: CallRecord }
  /** The run it names accepts nothing new. */
  | { readonly kind: 'run_ended' }
  /** The session it names is closed, or belonged to an earlier writer of this process (rule 30). */
  | { readonly kind: 'session_ended' }

export type FinishResult =
  | { readonly kind: 'recorded' }
  | { readonly kind: 'found'; readonly record: CallRecord }

export interface FinishedRun {
  readonly run: Attempt
  readonly state: 'succeeded' | 'failed' | 'released'
  readonly outcome: Outcome
  readonly atMs: number
}

export interface Settlement {
  readonly record: string
  readonly as: 'succeeded' | 'failed' | 'not-run'
  /** Only with `succeeded`: the value the tool is known to have given. */
  readonly valueJson: string | undefined
  readonly error: CallError | undefined
  readonly who: string
  readonly why: string
  readonly atMs: number
}

export type SettleResult = 'settled' | 'not_found' | 'not_ambiguous'

export interface CallPage {
  readonly calls: readonly CallRecord[]
  /** The position to continue from; absent on the last page. A short or empty page may have one. */
  readonly next?: number
}

export interface OwnCallsQuery {
  readonly tenant: string
  readonly principal: string
  /** Only calls before this position; absent: from the newest on. */
  readonly before?: number | undefined
  readonly limit: number
}

/** `run` is the record of its only call, or the keyed digest of tenant, principal and run id. */
export interface RunAddress {
  readonly tenant: string
  readonly run: string
}

/** A run that calls and sessions name; created by the first that does. */
export interface RunScope extends RunAddress {
  readonly principal: string
  /** Public id. */
  readonly runId: string
}

export interface RunRecord extends RunAddress {
  readonly principal: string
  /** Calls and sessions that began here and have not ended. */
  readonly open: number
  /** Time of the last event. */
  readonly touchedAtMs: number
  readonly endedAtMs: number | undefined
}

/** A call that a limit refused: only its run's events record it (C10). */
export interface RefusedCall
  extends CallAddress,
    CallLabel,
    Pick<NewCall, 'principal' | 'userId' | 'tool' | 'atMs'> {
  readonly scope: RunScope
  readonly sessionId: string | undefined
  readonly code: ErrorCode
}

export interface SessionAddress {
  readonly tenant: string
  /** Unguessable, made by the server. */
  readonly sessionId: string
}

export interface NewSession extends SessionAddress {
  readonly principal: string
  /** Full id of the version whose state it holds. */
  readonly tool: string
  readonly toolId: string
  readonly scope: RunScope
  /** Its run was made for it, and ends with it. */
  readonly endsRun?: boolean
  /** Where the process that holds its state accepts forwarded calls. */
  readonly address?: string | undefined
  readonly atMs: number
}

export interface SessionRecord extends SessionAddress, Pick<NewSession, 'principal' | 'tool' | 'toolId'> {
  readonly run: string
  /** `open`: takes calls. `closing`: takes none, and is about to close. */
  readonly state: 'open' | 'closing' | 'closed'
  /** The writer that holds its state. */
  readonly writer: string
  readonly address: string | undefined
  readonly outcome: SessionOutcome | undefined
}
