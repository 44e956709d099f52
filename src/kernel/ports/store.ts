import type { ErrorCode } from '#kernel/base/errors'
import type { MaybePromise } from '#kernel/base/waiting'
import type { CallError, CallProtocol, CallState, Outcome } from '#kernel/call/call'
import type { JournalChain, JournalGroup, JournalHead, JournalPosition } from '#kernel/journal/events'
import type { CallLabel, RunEvent, SessionOutcome } from '#kernel/run/events'
import type { ReplayPolicy, SafetyTier } from '#kernel/tool/tool'
import type { ApprovalStore, EndedParked } from './approval-store.ts'

export type { MaybePromise } from '#kernel/base/waiting'

/**
 * The kernel's port to its store: calls, runs, sessions, the journal, and their records. `store/store.ts` implements it for
 * every engine; the ladder, recovery and operators' surfaces call it.
 * A method that changes something resolves only after the change and its journal events are durable, and rejects with a
 * `StoreError` otherwise.
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
  /** Until when a run cut by a crash may run again; 0 = never, Infinity = always (rule 8). */
  readonly rerunUntilMs: number
  readonly inputJson: string
  readonly atMs: number
  /** For a step of a workflow: the workflow's call, and the outermost call. */
  readonly step?: { readonly parent: string; readonly root: string } | undefined
  /** A workflow: repeats nothing when it runs again (rule 31). */
  readonly resumable?: true | undefined
}

export interface CallRecord extends CallAddress, CallLabel {
  readonly principal: string
  /** The operator who ran it in the principal's name; absent when the principal itself called. */
  readonly by?: string | undefined
  /** The run id that the caller named; `undefined` = a run of its own. */
  readonly runId: string | undefined
  /** The run that has its events; `undefined` when this record alone describes them. */
  readonly run: string | undefined
  /** The session of its last attempt. */
  readonly sessionId: string | undefined
  /** Protocol of the request; `undefined` for in-process calls. */
  readonly protocol: CallProtocol | undefined
  readonly userId: string | undefined
  readonly fingerprint: string
  readonly tool: string
  readonly definitionHash: string
  readonly tier: SafetyTier
  readonly replay: ReplayPolicy
  readonly rerunUntilMs: number
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
  /** The run that has its events. */
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

/** At most one challenge is open per need (rule 22). */
export interface ChallengeNeed {
  readonly tenant: string
  readonly principal: string
  /** Keyed digest of the user id, or `''` for none. */
  readonly user: string
  readonly provider: string
  readonly scopes: readonly string[]
}

export interface NewChallenge extends ChallengeNeed {
  readonly id: string
  readonly tool: string
  readonly atMs: number
  readonly expiresAtMs: number
  /** Its page can ask a person at the provider; the token is then stored in the vault. */
  readonly consent?: true
}

type ChallengeStatus = 'pending' | 'completed' | 'failed'

export interface ChallengeRecord extends NewChallenge {
  readonly status: ChallengeStatus
}

export interface RetentionPolicy {
  readonly resultsMs: number
  readonly journalMs: number
}

export interface CallPage {
  readonly calls: readonly CallRecord[]
  /** The position to continue from; absent on the last page. A short or empty page may have one. */
  readonly next?: number
}

export interface OwnCallsQuery {
  readonly tenant: string
  readonly principal: string
  /** Only calls before this position; absent: from the newest on. */
  readonly before?: number
  readonly limit: number
}

interface RecoveryReport {
  readonly deadWriters: number
  readonly ambiguous: number
}

export interface KernelStore extends RunStore, SessionStore {
  /** This process's writer, named in every claim (rule 17). */
  readonly writer: string
  /** Whether several processes serve from it: they then share rates and forward calls to each other. */
  readonly isShared: boolean
  /** Changes that wait for their commit, and reads that wait for a remote database. */
  readonly pendingWrites: number
  /** Calls that wait for approval (rules 20 to 23). */
  readonly approvals: ApprovalStore
  /** Keyed one-way digest: equal texts have equal digests, which reveal nothing without the key. */
  digest(text: string): string
  find(address: CallAddress): MaybePromise<CallRecord | undefined>
  /** Inserts a `running` call if the key is free. */
  claim(call: NewCall): MaybePromise<ClaimResult>
  /**
   * Takes a `released` call, or a `running` one whose run will not continue, for the next attempt: one update, conditional on
   * state, writer and attempt being those of `previous`. A correction replaces fingerprint, input and caller text, and both
   * fingerprints are journaled.
   */
  reclaim(previous: CallRecord, next: NextAttempt): MaybePromise<ClaimResult>
  /** Ends an attempt of this writer; conditional on it still being `running` and its own. */
  finish(finished: FinishedRun): MaybePromise<FinishResult>
  /** Writes a call that skipped its claim, with its outcome, if the key is free (rule 7). */
  insertFinished(call: NewCall, finished: Omit<FinishedRun, 'run'>): MaybePromise<FinishResult>
  /** Stores and journals a result that arrived after the end. Never changes the outcome. */
  recordLate(run: Attempt, late: Outcome, atMs: number): MaybePromise<void>
  /** Asks the process that runs the call to stop it. */
  requestCancel(address: CallAddress, by: string, atMs: number): MaybePromise<boolean>
  /** Running calls of this writer that a caller asked to stop. */
  cancelRequests(): MaybePromise<readonly CallAddress[]>
  settle(settlement: Settlement): MaybePromise<SettleResult>
  /**
   * Turns running calls of dead writers into `ambiguous`, unless they may run again (rule 8) or were lost with their session,
   * and closes the sessions of such writers (rule 30).
   */
  recover(nowMs: number): MaybePromise<RecoveryReport>
  isWriterAlive(writer: string): MaybePromise<boolean>
  /** Whether another process has written here and still lives. */
  hasOtherWriters(): Promise<boolean>
  /**
   * A principal's own calls, newest first, without steps of workflows. It scans a limited number of calls of all principals, so
   * that a principal with few calls does not slow down a store with many.
   */
  listOwn(query: OwnCallsQuery): MaybePromise<CallPage>
  /** Groups in commit order after the given position of each chain. */
  readJournal(after: readonly JournalPosition[], limit: number): MaybePromise<readonly JournalGroup[]>
  /** Every chain with its current end. */
  journalChains(): MaybePromise<readonly JournalChain[]>
  /** One small step of retention (rule 13); `true` while there is more to do. */
  purge(nowMs: number, policy: RetentionPolicy): MaybePromise<boolean>
  /** Whether it is this process's turn at work that one process does for all, once per interval. */
  takeTurn(work: string, everyMs: number): MaybePromise<boolean>
  /** Reports changes of other processes until it is ended. It may report too much, and late. */
  watch(notify: NotifyChange): StoreWatcher
  /** Requests of operators that servers read their configuration again. */
  readonly reloads: ReloadStore
  /** Why no run may start now, as text for an operator; `undefined` when one may (rule 18). */
  obstacle(): string | undefined
  /** Whether a call claimed by this writer may still be started (rule 18). */
  mayStart(writer: string): boolean
  /** Rejects while writes do not work. */
  probe(): MaybePromise<void>
  /** Throws when a change could not be written; unlike `probe` it writes nothing, not even to the journal. */
  checkWritable(waitMs?: number): MaybePromise<void>
  close(): MaybePromise<void>
}

/** Called with the runs and calls that another process changed; without names when they are unknown. */
export type NotifyChange = (names: readonly string[] | undefined) => void

export interface StoreWatcher {
  /** Asks to be notified when this run or call changes. Valid for some seconds: a waiter repeats it. */
  want(name: string): void
  end(): void
}

export interface Suspending {
  /** The step it waits for, if that one is recorded; else `''`. */
  readonly waitsFor: string
  readonly atMs: number
}

/**
 * Calls of workflows that are suspended while a step waits (rule 31): `parked`, with `waitsFor`, and with the same attempt when
 * they continue. Steps are calls too, with the workflow's call as their `parent`.
 */
export interface WorkflowStore {
  /** `running → parked` of an own attempt; conditional like `finish`. */
  suspend(run: Attempt, suspending: Suspending): MaybePromise<FinishResult>
  /** `parked → running` of a suspended workflow. */
  resume(
    previous: CallRecord,
    next: { readonly atMs: number; readonly rerunUntilMs: number },
  ): MaybePromise<ClaimResult>
  /** Ends a suspended workflow at the request of its caller; empty when there is no such call. */
  cancel(address: CallAddress, by: string, atMs: number): MaybePromise<readonly EndedParked[]>
  /** One small step of ending workflows that were not continued in time. */
  expire(nowMs: number): MaybePromise<readonly EndedParked[]>
  /** Steps of a workflow's call that run or wait. */
  openSteps(parent: CallAddress): MaybePromise<readonly CallAddress[]>
}

/** `open`: takes calls. `closing`: takes none, and is about to close. */
type SessionState = 'open' | 'closing' | 'closed'

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

export interface SessionRecord extends SessionAddress {
  readonly principal: string
  readonly tool: string
  readonly toolId: string
  readonly run: string
  readonly state: SessionState
  /** The writer that holds its state. */
  readonly writer: string
  readonly address: string | undefined
  readonly outcome: SessionOutcome | undefined
}

/** Sessions of stateful tools: their brackets in the run they belong to (rule 30). The state itself is never stored. */
export interface SessionStore {
  findSession(address: SessionAddress): MaybePromise<SessionRecord | undefined>
  openSession(session: NewSession): MaybePromise<'opened' | 'run_ended'>
  /** `open → closing`; `false` when another process closes or closed it. */
  beginSessionClose(address: SessionAddress, atMs: number): MaybePromise<boolean>
  /**
   * `closing → closed` with its event, and the end of a run made for it, in one transaction; `false` when it is closed already,
   * and for the session of another writer: recovery closes those of dead ones.
   */
  closeSession(address: SessionAddress, outcome: SessionOutcome, atMs: number): MaybePromise<boolean>
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
export interface RefusedCall extends CallLabel {
  readonly tenant: string
  readonly record: string
  readonly principal: string
  readonly scope: RunScope
  readonly sessionId: string | undefined
  readonly userId: string | undefined
  /** Full id of the resolved version. */
  readonly tool: string
  readonly code: ErrorCode
  readonly atMs: number
}

/** Runs with events of their own. The run of a single undisturbed call needs none: its record describes it. */
export interface RunStore {
  findRun(address: RunAddress): MaybePromise<RunRecord | undefined>
  /** Events after a sequence, in order. */
  readRun(address: RunAddress, after: number, limit: number): MaybePromise<readonly RunEvent[]>
  /** Refuses new calls in it; `false` when there is no such run or it has ended. */
  endRun(address: RunAddress, atMs: number): MaybePromise<boolean>
  /** Appends that the call was made and refused; `false` when there is no such open run. */
  noteRefusal(refused: RefusedCall): MaybePromise<boolean>
}

/** The first group of a chain that is not as it was written. */
export interface BadGroup {
  readonly writer: string
  readonly group: number
  readonly reason: string
}

/** A guarded row that is not as it was written. */
export interface BadRow {
  /** Its table and primary key. */
  readonly row: string
  readonly reason: string
}

export interface VerificationWatch {
  /** Aborts the verification, which then rejects with the reason. */
  readonly signal: AbortSignal
  /** Called now and then with the number of groups checked so far. */
  onGroups(checked: number): void
}

export interface JournalVerification {
  readonly ok: boolean
  /** Number of guarded rows checked: approvals, decisions, keys, their owners, pins. */
  readonly rows: number
  readonly badRows: readonly BadRow[]
  readonly chains: number
  readonly groups: number
  readonly events: number
  readonly firstBad?: BadGroup | undefined
  /** The newest link of each chain: keep one elsewhere to detect a cut tail later. */
  readonly heads: readonly JournalHead[]
  /** What this check cannot detect, as text. */
  readonly cannotSee: readonly string[]
}

/** How an operator asks the servers of a store to read their configuration again. */
export interface ReloadStore {
  /** Changes with each request, whichever process made it. */
  epoch(): MaybePromise<number>
  /** Returns the new number. */
  ask(): Promise<number>
}
