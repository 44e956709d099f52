import type { ErrorCode } from '#kernel/base/errors'
import type { CallError, CallProtocol, CallState, Outcome } from '#kernel/call/call'
import type { CallLabel, SessionOutcome } from '#kernel/run/events'
import type { ReplayPolicy, SafetyTier } from '#kernel/tool/tool'

/**
 * Calls, runs and sessions as the store keeps them, and the changes to a call: claim, next attempt, end, settlement. The ladder
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
  /** The session was made for this attempt alone: it opens with the claim and closes with the outcome. */
  readonly isOwn: boolean
}

/**
 * A call as it is first written, by a claim or together with its outcome. The call id in its label is the caller's text, so it
 * is stored encrypted (rule 15).
 */
export interface NewCall extends CallAddress, CallLabel {
  readonly principal: string
  /** The operator who ran the call in the principal's name; absent if the principal itself called. */
  readonly by?: string | undefined
  /** The run that the caller named; `undefined` if the call has an implicit run. */
  readonly scope: RunScope | undefined
  readonly session: CallSession | undefined
  /** Protocol of the request; `undefined` for in-process calls. */
  readonly protocol: CallProtocol | undefined
  readonly userId: string | undefined
  readonly fingerprint: string
  /** Full id of the tool, with the resolved version. */
  readonly tool: string
  readonly definitionHash: string
  readonly tier: SafetyTier
  readonly replay: ReplayPolicy
  /** Time until which an attempt interrupted by a crash may be repeated; 0 = never, `MAX_SAFE_INTEGER` = always (rule 8). */
  readonly rerunUntilMs: number
  readonly inputJson: string
  readonly atMs: number
  /** For a step of a workflow: the workflow's call, and the outermost call. */
  readonly step?: { readonly parent: string; readonly root: string } | undefined
  /** The call is a workflow, which repeats no finished step when it runs again (rule 31). */
  readonly resumable?: true | undefined
}

export interface CallRecord
  extends Omit<NewCall, 'scope' | 'session' | 'inputJson' | 'atMs' | 'step' | 'resumable'> {
  /** The public id of the run that the caller named; `undefined` if the call is a run of its own. */
  readonly runId: string | undefined
  /** The internal key of the run whose event list holds the events of this call; `undefined` if they are derived from this record. */
  readonly run: string | undefined
  /** The session of the last attempt. */
  readonly sessionId: string | undefined
  readonly state: CallState
  /** 1 for the first attempt. Every change to a running call is conditional on this number. */
  readonly attempt: number
  /** The writer that made the last claim. */
  readonly writer: string
  readonly createdAtMs: number
  readonly finishedAtMs: number | undefined
  /** Run time of the last attempt; absent while the tool runs, if it did not run, and if an operator settled the call. */
  readonly ranMs?: number | undefined
  /** `undefined` if the call is not final, is `ambiguous`, or was settled as succeeded without a value, and after retention removed it. */
  readonly outcome: Outcome | undefined
  /** Retention removed the input and the outcome; the key still cannot be reused (rule 13). */
  readonly expired: boolean
  /** The tool's answer after the call was ended by timeout, cancel or shutdown (rule 10). */
  readonly late: Outcome | undefined
  /** The workflow's call; only for a step. */
  readonly parent: string | undefined
  /** The outermost call; only for a step. A step is never purged before its outermost call (rule 13). */
  readonly root: string | undefined
  readonly resumable: boolean
  /** Only for a suspended workflow: the step it waits for, or `''` if no step is recorded. */
  readonly waitsFor: string | undefined
}

/** One attempt of one call by one writer, with the facts that the process keeps in memory during the attempt. */
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
  /** The new content of a released call that is repeated with different input (rule 9). */
  readonly corrected?: NewCall | undefined
}

export type ClaimResult =
  | { readonly kind: 'claimed'; readonly attempt: number }
  | { readonly kind: 'found'; readonly record: CallRecord }
  /** The run that the call names has ended. */
  | { readonly kind: 'run_ended' }
  /** The session that the call names is closed, or belonged to an earlier writer of this process (rule 30). */
  | { readonly kind: 'session_ended' }

export type FinishResult =
  | { readonly kind: 'recorded' }
  | { readonly kind: 'found'; readonly record: CallRecord }

/** The end of an attempt: `run` is the attempt that ended. */
export interface FinishedAttempt {
  readonly run: Attempt
  readonly state: 'succeeded' | 'failed' | 'released'
  readonly outcome: Outcome
  readonly atMs: number
}

export interface Settlement {
  readonly record: string
  readonly as: 'succeeded' | 'failed' | 'not-run'
  /** Only with `succeeded`: the value that the tool is known to have returned. */
  readonly valueJson: string | undefined
  readonly error: CallError | undefined
  readonly who: string
  readonly why: string
  readonly atMs: number
}

export type SettleResult = 'settled' | 'not_found' | 'not_ambiguous'

export interface CallPage {
  readonly calls: readonly CallRecord[]
  /** Position at which the next page starts; absent on the last page. A short or empty page may still have a next page. */
  readonly next?: number
}

export interface OwnCallsQuery {
  readonly tenant: string
  readonly principal: string
  /** Lists only calls before this position; absent for the first page. */
  readonly before?: number | undefined
  readonly limit: number
}

/** `run` is the record of the run's only call, or the keyed digest of tenant, principal and run id. */
export interface RunAddress {
  readonly tenant: string
  readonly run: string
}

/** A run that callers name in requests; the first call or session in it creates it. */
export interface RunScope extends RunAddress {
  readonly principal: string
  /** Public id of the run. */
  readonly runId: string
}

export interface RunRecord extends RunAddress {
  readonly principal: string
  /** Number of calls and sessions in this run that have not ended. */
  readonly open: number
  /** Time of the last event. */
  readonly touchedAtMs: number
  readonly endedAtMs: number | undefined
}

/** A call that a limit refused; it is recorded only in its run's events (openwop C10). */
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
  /** Unguessable id, made by the server. */
  readonly sessionId: string
}

export interface NewSession extends SessionAddress {
  readonly principal: string
  /** Id, with version, of the tool whose state the session holds. */
  readonly tool: string
  /** Its openwop id, without a version. */
  readonly toolId: string
  readonly scope: RunScope
  /** The run was made for this session and ends with it. */
  readonly endsRun?: boolean
  /** Address at which the process that holds the state accepts forwarded calls. */
  readonly address?: string | undefined
  readonly atMs: number
}

export interface SessionRecord extends SessionAddress, Pick<NewSession, 'principal' | 'tool' | 'toolId'> {
  readonly run: string
  /** `open`: accepts calls. `closing`: accepts no new calls and is about to close. */
  readonly state: 'open' | 'closing' | 'closed'
  /** The writer that holds the session's state. */
  readonly writer: string
  readonly address: string | undefined
  readonly outcome: SessionOutcome | undefined
}
