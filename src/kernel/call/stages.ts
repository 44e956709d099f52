import type { EndedParkedCall, GrantSteps, NewApproval } from '#kernel/approval/approval'
import { fault, type ToolError } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import type { CallLabel } from '#kernel/run/events'
import type { Followers } from '#kernel/run/runs'
import { sessionEnded } from '#kernel/run/session-ends'
import type { Tool } from '#kernel/tool/tool'
import type { CallReply, CallRequest } from './call.ts'
import type {
  Attempt,
  CallAddress,
  CallRecord,
  ClaimResult,
  FinishResult,
  RefusedCall,
  RunScope,
} from './call-record.ts'
import type { KernelOptions, UnsavedOutcomes } from './gateway.ts'
import type { IdentifiedCall } from './look-up.ts'
import type { CallScope } from './resolve.ts'
import type { RunContext, RunningCall, RunningCalls } from './running.ts'
import type { StepOrigin } from './step-origin.ts'

/**
 * The stages of a call that are not part of the kernel: limits, sessions, credentials and workflows. The ladder in
 * `call-tool.ts` calls each at a fixed point. The composition root opens them (`OpenStages`) and passes them to the gateway;
 * without them calls have no limits, and tools that need a session, a credential or steps are refused.
 * A stage returns synchronously if it can: every promise costs each call a turn of the event loop.
 */
export interface CallStages {
  readonly limits: LimitStage
  readonly sessions: SessionStage
  readonly credentials: CredentialStage
  readonly workflows: WorkflowStage
  /** Absent if tools cannot continue their work after a crash. */
  readonly resumptions?: ResumptionStore | undefined
  /** Absent if people approve each call by itself. */
  readonly standingRules?: StandingRuleStage | undefined
}

/** Rules by which a person has approved further calls in advance. */
export interface StandingRuleStage {
  /** The steps that grant this approval, if a rule covers it. The rule is checked again, and its use counted, as they run. */
  cover(
    approval: NewApproval,
    call: { readonly call: CallAddress & { readonly principal: Principal }; readonly tool: Tool },
    atMs: number,
  ): Promise<GrantSteps | undefined>
}

/** Stores what a running call needs to continue after a crash instead of becoming ambiguous (rule 8). */
export interface ResumptionStore {
  /** The state that an earlier attempt of the same request kept. */
  find(address: CallAddress, fingerprint: string): Promise<JsonObject | undefined>
  /** Stores the state; from then on the call may run again. Does nothing unless this process is running the call. */
  keep(address: CallAddress, kept: KeptResumption): Promise<void>
}

export interface KeptResumption {
  readonly fingerprint: string
  readonly state: JsonObject
  readonly untilMs: number
}

export type OpenStages = (context: StageContext) => CallStages

export interface StageContext
  extends Followers,
    Pick<KernelOptions, 'store' | 'clock' | 'log' | 'registry' | 'hooks' | 'newCallId'> {
  readonly running: RunningCalls
  /** Outcomes of calls and sessions that the store refused, to be written later. */
  readonly unsaved: Pick<UnsavedOutcomes, 'flush' | 'keep'>
  /** Repeats `act` until the gateway has drained; failures are logged as "`what` failed". */
  every(ms: number, what: string, act: () => Promise<void>): void
  /** Runs a call through the whole ladder in this process; `step` is set for a workflow step. */
  callTool(principal: Principal, request: CallRequest, step?: StepOrigin): Promise<CallReply>
}

export type Release = () => void

/**
 * Limits how many calls, runs and waiting requests a caller may have, and how much they may spend. Refusals are `ToolError`s.
 */
export interface LimitStage {
  checkCaller(principal: Principal): MaybePromise<void>
  checkTool(principal: Principal, tool: Tool): MaybePromise<void>
  /** Takes a slot for a run; a step runs within its workflow's slot. */
  enter(principal: Principal, tool: Tool, isStep: boolean): Slot
  /** Reserves the maximum that the run may spend; returns `undefined` synchronously for calls without a budget. */
  reserve(principal: Principal, tool: Tool): MaybePromise<Reservation> | undefined
  /** Counts a request that is held open until the returned function is called. */
  enterWaiting(principal: Principal): Release
  /** Like `enterWaiting`, but returns `undefined` instead of throwing a refusal. */
  tryEnterWaiting(principal: Principal): Release | undefined
  shortenWait(waitMs: number): number
  /** Records in the call's run that a limit refused it; never throws. */
  noteRefusal(
    refused: UnstartedCall & { readonly sessionId: string | undefined },
    error: unknown,
  ): MaybePromise<void>
  /** Returns budget that was reserved but not used. */
  close(): Promise<void>
}

export interface Slot {
  leave(): void
  /** Keeps the slot until a late result has settled (rule 10). */
  extend(settled: Promise<unknown>): void
}

export interface Reservation {
  settle(durationMs: number): void
  cancel(): void
}

export type NamedCall = CallLabel & Pick<RefusedCall, 'tenant' | 'record' | 'principal' | 'userId'>

/** A call that was refused before it began. */
export interface UnstartedCall {
  readonly principal: Principal
  readonly record: string
  readonly tool: Tool
  /** The run that the call named. */
  readonly run: RunScope | undefined
  /** Computed only for the few calls that are recorded in their run. */
  name(): NamedCall
}

/** State that a tool keeps across calls (rule 30). */
interface SessionStage {
  newId(): string
  /** A session of this process that takes calls of this principal and user. */
  find(principal: Principal, userId: string | undefined, sessionId: string): LiveSession | undefined
  /** The error that explains why `find` returned no session. */
  notFound(principal: Principal, sessionId: string): Promise<ToolError>
  /** Runs a call that names a session in the process that holds the session's state. */
  call(principal: Principal, request: CallRequest): Promise<CallReply>
  open(principal: Principal, request: SessionRequest): Promise<OpenedSession>
  /** `false` if the session is not the principal's or is already closed. With `here`, no other process is asked. */
  close(principal: Principal, sessionId: string, where?: 'here'): Promise<boolean>
  closeRun(run: string): Promise<void>
  closeAll(): Promise<void>
}

/** A session whose state this process holds, as calls see it. */
export interface LiveSession {
  readonly sessionId: string
  readonly tool: Tool
  readonly run: RunScope
  readonly state: unknown
  /** Set once the session accepts no more calls. */
  readonly closing: Promise<void> | undefined
  enter(call: RunningCall): void
  leave(call: RunningCall): void
}

/** Requests a session, which keeps state across calls of one tool. */
export interface SessionRequest {
  /** Any of the tool's names. */
  readonly toolId: string
  /** The session's run, already checked by `checkRunId`; absent for a new run. */
  readonly runId?: string
  /** The user of the session; its calls must name the same user. */
  readonly userId?: string
}

export interface OpenedSession {
  readonly sessionId: string
  readonly runId: string
}

export interface RequiringCall {
  readonly tool: Tool
  readonly call: IdentifiedCall
  readonly scope: CallScope
}

/** The authorization that a challenge asks for. At most one challenge is open per need (rule 22). */
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
  /** The challenge's page can request a person's consent at the provider; the token is then stored in the vault. */
  readonly consent?: true
}

export interface ChallengeRecord extends NewChallenge {
  readonly status: 'pending' | 'completed' | 'failed'
}

/** Tokens and secrets that tools declare (OTC-73). */
interface CredentialStage {
  /** Returns the call with every credential that its tool declares; otherwise stores a challenge and refuses the call (rule 20). */
  check(requiring: RequiringCall): MaybePromise<IdentifiedCall>
  /** Ends requests for consent that were not answered in time. */
  expire(): Promise<void>
  findChallenge(id: string): Promise<ChallengeRecord | undefined>
}

/** Workflows: tools that call other tools as their steps (rule 31). */
interface WorkflowStage {
  run(running: RunningCall, context: RunContext, input: unknown): Promise<unknown>
  /** Ends the workflow's steps that run or wait. */
  endSteps(
    parent: CallAddress,
    ended: { readonly by: string; readonly why: 'timeout' | 'cancel' },
  ): Promise<void>
  /** Suspends workflows and resumes them. */
  readonly store: WorkflowStore
}

export interface SuspendDetails {
  /** The step that the workflow waits for, if that step is recorded; else `''`. */
  readonly waitsFor: string
  readonly atMs: number
}

/**
 * Stores workflow calls that are suspended while a step waits (rule 31). A suspended call is `parked`, has `waitsFor`, and
 * continues with the same attempt number.
 */
export interface WorkflowStore {
  /** Changes this process's own attempt from `running` to `parked`, under the same conditions as `finish`. */
  suspend(run: Attempt, suspending: SuspendDetails): MaybePromise<FinishResult>
  /** Changes a suspended workflow from `parked` to `running`. */
  resume(
    previous: CallRecord,
    next: { readonly atMs: number; readonly rerunUntilMs: number },
  ): MaybePromise<ClaimResult>
  /** Ends a suspended workflow at its caller's request; returns an empty list if there is no such call. */
  cancel(address: CallAddress, by: string, atMs: number): MaybePromise<readonly EndedParkedCall[]>
  /** Ends a limited number of the workflows that were not continued in time, so that one call stays short. */
  expire(nowMs: number): MaybePromise<readonly EndedParkedCall[]>
}

/** The slot of a run that is not limited. */
export const FREE_SLOT: Slot = { leave: () => undefined, extend: () => undefined }

const unavailable = (what: string): ToolError => fault('request_invalid', `This gateway has no ${what}.`)
const refuse = (what: string) => () => Promise.reject(unavailable(what))

/** The kernel alone: no limits, and neither sessions, credentials nor workflows. */
export const NO_STAGES: OpenStages = ({ callTool }) => ({
  limits: {
    checkCaller: () => undefined,
    checkTool: () => undefined,
    enter: () => FREE_SLOT,
    reserve: () => undefined,
    enterWaiting: () => () => undefined,
    tryEnterWaiting: () => () => undefined,
    shortenWait: (waitMs) => waitMs,
    noteRefusal: () => undefined,
    close: async () => undefined,
  },
  sessions: {
    newId: () => {
      throw unavailable('sessions')
    },
    find: () => undefined,
    notFound: async () => sessionEnded(),
    call: callTool,
    open: refuse('sessions'),
    close: async () => false,
    closeRun: async () => undefined,
    closeAll: async () => undefined,
  },
  credentials: {
    check({ tool, call }) {
      if (tool.requirements === undefined) return call
      throw unavailable('credentials')
    },
    expire: async () => undefined,
    findChallenge: async () => undefined,
  },
  workflows: {
    run: refuse('workflows'),
    endSteps: async () => undefined,
    store: {
      suspend: refuse('workflows'),
      resume: refuse('workflows'),
      cancel: () => [],
      expire: () => [],
    },
  },
})
