import type { ErrorCode } from '#kernel/base/errors'
import type { MaybePromise } from '#kernel/base/waiting'
import type { CallError, CallProtocol, CallState, Outcome } from '#kernel/call/call'
import type { JournalChain, JournalGroup, JournalHead, JournalPosition } from '#kernel/journal/events'
import type { CallLabel, RunEvent, SessionOutcome } from '#kernel/run/events'
import type { ReplayPolicy, SafetyTier } from '#kernel/tool/tool'
import type { ApprovalStore, EndedParked } from './approval-store.ts'

export type { MaybePromise } from '#kernel/base/waiting'

/** Where a call lives. `record` is the keyed digest of tenant, principal and key, so it is unguessable and unique. */
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
 * A call as it is first written, by a claim or together with its outcome. Its label's call id is caller text,
 * and so stored encrypted (rule 15).
 */
export interface NewCall extends CallAddress, CallLabel {
  readonly principal: string
  /** The operator who ran it under the principal's name; absent when the principal itself called. */
  readonly by?: string | undefined
  /** The run it was asked to belong to; `undefined` = it is a run of its own. */
  readonly scope: RunScope | undefined
  readonly session: CallSession | undefined
  /** What it was asked over; `undefined` = from code in this process. */
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
  /** Of a step of a workflow: the workflow's call, and the call that began it all. */
  readonly step?: { readonly parent: string; readonly root: string } | undefined
  /** A workflow: repeats nothing when it runs again (rule 31). */
  readonly resumable?: true | undefined
}

export interface CallRecord extends CallAddress, CallLabel {
  readonly principal: string
  /** The operator who ran it under the principal's name; absent when the principal itself called. */
  readonly by?: string | undefined
  /** What its caller calls the run it belongs to; `undefined` = its own. */
  readonly runId: string | undefined
  /** The run that has its events; `undefined` when this record alone tells them. */
  readonly run: string | undefined
  /** The session of its last attempt. */
  readonly sessionId: string | undefined
  /** What it was asked over; `undefined` = from code in this process, or before that was kept. */
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
  /** Who claimed it last. */
  readonly writer: string
  readonly createdAtMs: number
  readonly finishedAtMs: number | undefined
  /** How long the tool ran in its last attempt; absent while it runs, if it did not run, and of a call that a person settled. */
  readonly ranMs?: number | undefined
  /** `undefined` while not final, for `ambiguous`, and after retention removed it. */
  readonly outcome: Outcome | undefined
  /** Retention removed input and outcome; the key is still taken (rule 13). */
  readonly expired: boolean
  /** What the tool answered after the call was already ended by timeout, cancel or shutdown (rule 10). */
  readonly late: Outcome | undefined
  /** The workflow's call; only of a step. */
  readonly parent: string | undefined
  /** The call that began it all; only of a step. Nothing of it is purged before that one (rule 13). */
  readonly root: string | undefined
  readonly resumable: boolean
  /** Only of a suspended workflow: the step it waits for, or `''` when none is recorded. */
  readonly waitsFor: string | undefined
}

/** One attempt of one call by one writer: what a started run holds in its hand. */
export interface Attempt extends CallAddress {
  readonly principal: string
  readonly tool: string
  readonly attempt: number
  /** The run that has its events. */
  readonly run: string | undefined
  readonly session: CallSession | undefined
}

/** The next attempt of a recorded call. */
export interface NextAttempt {
  readonly session: CallSession | undefined
  readonly atMs: number
  /** Of a released call that brings other input: what the call is from now on (rule 9). */
  readonly corrected?: NewCall | undefined
}

export type ClaimResult =
  | { readonly kind: 'claimed'; readonly attempt: number }
  | { readonly kind: 'found'; readonly record: CallRecord }
  /** The run it names takes nothing new. */
  | { readonly kind: 'run_ended' }
  /** The session it names is closed, or was held by the writer that this process was before (rule 30). */
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

/** What a challenge is about: at most one is open per need (rule 22). */
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
  /** Its page can ask a person at the provider; the token then lies in the vault. */
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
  /** Where to go on; absent when there is nothing more. A page with fewer than asked, or with none, may have one. */
  readonly next?: number
}

/** One page of a principal's own calls. */
export interface OwnCallsQuery {
  readonly tenant: string
  readonly principal: string
  /** Only those before this place; absent: from the newest on. */
  readonly before?: number
  readonly limit: number
}

interface RecoveryReport {
  readonly deadWriters: number
  readonly ambiguous: number
}

/**
 * Where calls and their journal live: the part of a store that every gateway needs. Every method that changes something
 * resolves only after the change **and** its journal events are durable, and rejects with a `StoreError` otherwise.
 */
export interface KernelStore extends RunStore, SessionStore {
  /** This process's writer, named in every claim (rule 17). */
  readonly writer: string
  /** Whether processes that serve together have it: they then share rates, and pass on what belongs to another. */
  readonly isShared: boolean
  /** Changes that wait for their commit, and reads of a database that is far away. */
  readonly pendingWrites: number
  /** Calls that wait for approval (rules 20 to 23). */
  readonly approvals: ApprovalStore
  /** Keyed one-way digest: equal texts, equal digests; tells nothing about the text without the key. */
  digest(text: string): string
  find(address: CallAddress): MaybePromise<CallRecord | undefined>
  /** Inserts a `running` call if the key is free. */
  claim(call: NewCall): MaybePromise<ClaimResult>
  /**
   * Takes a `released` call, or a `running` one whose run is known not to go on, for the next attempt: one
   * update, conditional on state, writer and attempt being those of `previous`. What it is corrected to replaces fingerprint,
   * input and caller text, and both fingerprints are journaled.
   */
  reclaim(previous: CallRecord, next: NextAttempt): MaybePromise<ClaimResult>
  /** Ends our own attempt; conditional on it still being `running` and ours. */
  finish(finished: FinishedRun): MaybePromise<FinishResult>
  /** Writes a call that skipped its claim, with its outcome, if the key is free (rule 7). */
  insertFinished(call: NewCall, finished: Omit<FinishedRun, 'run'>): MaybePromise<FinishResult>
  /** Keeps and journals what arrived after the end. Never changes the outcome. */
  recordLate(run: Attempt, late: Outcome, atMs: number): MaybePromise<void>
  /** Asks the process that runs the call to stop it. */
  requestCancel(address: CallAddress, by: string, atMs: number): MaybePromise<boolean>
  /** Our own running calls that a caller asked to stop. */
  cancelRequests(): MaybePromise<readonly CallAddress[]>
  settle(settlement: Settlement): MaybePromise<SettleResult>
  /**
   * Turns running calls of dead writers into `ambiguous`, unless they may run again (rule 8) or were lost with
   * their session, and closes the sessions such writers held (rule 30).
   */
  recover(nowMs: number): MaybePromise<RecoveryReport>
  isWriterAlive(writer: string): MaybePromise<boolean>
  /** Whether another process has written here and still lives. */
  hasOtherWriters(): Promise<boolean>
  /**
   * A principal's own calls, newest first, without steps of workflows. Looks at so many calls of everybody and no more, so
   * that nobody with few calls holds up a store with many.
   */
  listOwn(query: OwnCallsQuery): MaybePromise<CallPage>
  /** Groups in commit order after the given position of each chain. */
  readJournal(after: readonly JournalPosition[], limit: number): MaybePromise<readonly JournalGroup[]>
  /** Every chain, and where it ends now. */
  journalChains(): MaybePromise<readonly JournalChain[]>
  /** One small step of forgetting (rule 13); `true` while there is more to do. */
  purge(nowMs: number, policy: RetentionPolicy): MaybePromise<boolean>
  /** Whether it is this process's turn at work that one of all processes is to do, once in so long. */
  takeTurn(work: string, everyMs: number): MaybePromise<boolean>
  /** Tells what other processes change, until it is ended; own changes do not count. It may tell too much, and late. */
  watch(tell: TellChange): StoreWatcher
  /** The wish of an operator that servers read their configuration again. */
  readonly reloads: ReloadStore
  /** Why no run may start now, in words for an operator; `undefined` when one may (rule 18). */
  obstacle(): string | undefined
  /** Whether what was claimed under this name of ours may still be started (rule 18). */
  mayStart(writer: string): boolean
  /** Rejects while writes do not work. */
  probe(): MaybePromise<void>
  /** Throws when a change could not be written; unlike `probe` it writes nothing, not even to the journal. */
  checkWritable(waitMs?: number): MaybePromise<void>
  close(): MaybePromise<void>
}

/** Called with the runs and calls that another process changed; without names when those may be any. */
export type TellChange = (names: readonly string[] | undefined) => void

export interface StoreWatcher {
  /** Asks to be told when this run or call changes. Holds for some seconds: who still waits says so again. */
  want(name: string): void
  end(): void
}

/** Why a workflow is suspended. */
export interface Suspending {
  /** The step it waits for, when that one is recorded; else `''`. */
  readonly waitsFor: string
  readonly atMs: number
}

/**
 * Calls of workflows that are suspended while a step waits (rule 31): `parked`, with `waitsFor`, and the same attempt when
 * they go on. Steps are calls too, with the workflow's call as their `parent`.
 */
export interface WorkflowStore {
  /** `running → parked` of our own attempt; conditional like `finish`. */
  suspend(run: Attempt, suspending: Suspending): MaybePromise<FinishResult>
  /** `parked → running`, of a suspended one. */
  resume(
    previous: CallRecord,
    next: { readonly atMs: number; readonly rerunUntilMs: number },
  ): MaybePromise<ClaimResult>
  /** Ends a suspended one, because its caller wants it; empty when there is no such call. */
  cancel(address: CallAddress, by: string, atMs: number): MaybePromise<readonly EndedParked[]>
  /** One small step of ending what nobody went on with in time. */
  expire(nowMs: number): MaybePromise<readonly EndedParked[]>
  /** Steps of a workflow's call that run or wait. */
  openSteps(parent: CallAddress): MaybePromise<readonly CallAddress[]>
}

/** `open`: takes calls. `closing`: takes none, and its close is on its way. */
type SessionState = 'open' | 'closing' | 'closed'

export interface SessionAddress {
  readonly tenant: string
  /** Unguessable, made by us. */
  readonly sessionId: string
}

export interface NewSession extends SessionAddress {
  readonly principal: string
  /** Full id of the version whose state it holds. */
  readonly tool: string
  /** Catalog id. */
  readonly toolId: string
  readonly scope: RunScope
  /** Its run was made for it, and ends with it. */
  readonly endsRun?: boolean
  /** Where the process that holds its state takes calls that reached another one. */
  readonly address?: string | undefined
  readonly atMs: number
}

export interface SessionRecord extends SessionAddress {
  readonly principal: string
  readonly tool: string
  readonly toolId: string
  readonly run: string
  readonly state: SessionState
  /** Who holds its state. */
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
   * `closing → closed` with its event, and the end of a run made for it, in one transaction; `false` when it is closed already, and
   * for the session of another writer: recovery closes what a dead one held.
   */
  closeSession(address: SessionAddress, outcome: SessionOutcome, atMs: number): MaybePromise<boolean>
}

/** Where a run lives. `run` is the record of its only call, or the keyed digest of tenant, principal and run id. */
export interface RunAddress {
  readonly tenant: string
  readonly run: string
}

/** A run that calls and sessions name; made by the first that does. */
export interface RunScope extends RunAddress {
  readonly principal: string
  /** What callers call it. */
  readonly runId: string
}

export interface RunRecord extends RunAddress {
  readonly principal: string
  /** Calls and sessions that began here and have not ended. */
  readonly open: number
  /** When something last happened in it. */
  readonly touchedAtMs: number
  readonly endedAtMs: number | undefined
}

/** A call that a limit kept from running: nothing of it is stored but what its run tells (C10). */
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

/** Runs that have events of their own. The run of a single undisturbed call needs none: its record says it all. */
export interface RunStore {
  findRun(address: RunAddress): MaybePromise<RunRecord | undefined>
  /** Events after a sequence, in order. */
  readRun(address: RunAddress, after: number, limit: number): MaybePromise<readonly RunEvent[]>
  /** Lets nothing new begin in it; `false` when there is no such run or it has ended. */
  endRun(address: RunAddress, atMs: number): MaybePromise<boolean>
  /** Appends that the call was made and refused; `false`, and nothing, when there is no such run or it has ended. */
  noteRefusal(refused: RefusedCall): MaybePromise<boolean>
}

/** The first group of a chain that is not as it was written. */
export interface BadGroup {
  readonly writer: string
  readonly group: number
  readonly reason: string
}

/** A row that decides and is not what it should be. */
export interface BadRow {
  /** Its table and what names it. */
  readonly row: string
  readonly reason: string
}

export interface VerificationWatch {
  /** Ends it: it rejects with the reason. */
  readonly signal: AbortSignal
  /** Called now and then with how many groups were checked so far. */
  onGroups(checked: number): void
}

export interface JournalVerification {
  readonly ok: boolean
  /** How many rows that decide were checked: approvals, words of approvers, keys, their owners, pins. */
  readonly rows: number
  readonly badRows: readonly BadRow[]
  readonly chains: number
  readonly groups: number
  readonly events: number
  readonly firstBad?: BadGroup | undefined
  /** The newest link of each chain: keep one elsewhere to see a cut tail later. */
  readonly heads: readonly JournalHead[]
  /** What this check cannot see, in words. */
  readonly cannotSee: readonly string[]
}

/** How servers that share a store hear that their configuration is to be read again. */
export interface ReloadStore {
  /** Another number after each wish, whichever process had it. */
  epoch(): MaybePromise<number>
  /** Gives the number from now on. */
  ask(): Promise<number>
}
