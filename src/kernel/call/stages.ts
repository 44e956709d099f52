import type { EndedParked } from '#kernel/approval/approval'
import { fault, type ToolError } from '#kernel/base/errors'
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
 * `call-tool.ts` has a fixed place for each. The composition root opens them (`OpenStages`) and hands them to the gateway;
 * without them calls have no limits, and tools that need a session, a credential or steps are refused.
 * A stage answers at once where it can: every promise costs each call a turn of the event loop.
 */
export interface CallStages {
  readonly limits: LimitStage
  readonly sessions: SessionStage
  readonly credentials: CredentialStage
  readonly workflows: WorkflowStage
}

export type OpenStages = (context: StageContext) => CallStages

export interface StageContext
  extends Followers,
    Pick<KernelOptions, 'store' | 'clock' | 'log' | 'registry' | 'hooks' | 'newCallId'> {
  readonly running: RunningCalls
  /** Ends of calls and sessions that the store refused, to be written later. */
  readonly unsaved: Pick<UnsavedOutcomes, 'flush' | 'keep'>
  /** Repeats work until the gateway has drained; failures are logged as `what` failed. */
  every(ms: number, what: string, act: () => Promise<void>): void
  /** The whole ladder in this process; `step` marks a step of a workflow. */
  callTool(principal: Principal, request: CallRequest, step?: StepOrigin): Promise<CallReply>
}

export type Release = () => void

/**
 * How many calls, runs and waiting requests a caller may have, and what they may spend. Refusals are `ToolError`s.
 */
export interface LimitStage {
  checkCaller(principal: Principal): MaybePromise<void>
  checkTool(principal: Principal, tool: Tool): MaybePromise<void>
  /** Takes a slot for a run; a step runs within the slot of its workflow. */
  enter(principal: Principal, tool: Tool, isStep: boolean): Slot
  /** Reserves the most that the run may spend; `undefined` at once for calls that no budget counts. */
  reserve(principal: Principal, tool: Tool): MaybePromise<Reservation> | undefined
  /** Counts a request that is held open until it is released. */
  enterWaiting(principal: Principal): Release
  /** Like `enterWaiting`; `undefined` instead of a refusal. */
  tryEnterWaiting(principal: Principal): Release | undefined
  shortenWait(waitMs: number): number
  /** Records in the call's run that a limit refused it; never throws. */
  noteRefusal(
    refused: UnstartedCall & { readonly sessionId: string | undefined },
    error: unknown,
  ): MaybePromise<void>
  /** Gives back what was reserved and not used. */
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

/** A call that did not begin. */
export interface UnstartedCall {
  readonly principal: Principal
  readonly record: string
  readonly tool: Tool
  /** The run it named. */
  readonly run: RunScope | undefined
  /** Computed only for the few calls that are recorded in their run. */
  name(): NamedCall
}

/** State that a tool keeps across calls (rule 30). */
interface SessionStage {
  newId(): string
  /** A session of this process that takes calls of this principal and user. */
  find(principal: Principal, userId: string | undefined, sessionId: string): LiveSession | undefined
  /** Why `find` found none. */
  notFound(principal: Principal, sessionId: string): Promise<ToolError>
  /** Runs a call that names a session in the process that holds the session's state. */
  call(principal: Principal, request: CallRequest): Promise<CallReply>
  open(principal: Principal, request: SessionRequest): Promise<OpenedSession>
  /** `false` for any session that is not the principal's or is closed already. `here` never asks another process. */
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
  /** Set when it takes no more calls. */
  readonly closing: Promise<void> | undefined
  enter(call: RunningCall): void
  leave(call: RunningCall): void
}

/** Asks for state to be kept across calls of one tool. */
export interface SessionRequest {
  /** The tool by any of its names. */
  readonly toolId: string
  /** The run to belong to, already checked by `checkRunId`; absent = a new one. */
  readonly runId?: string
  /** Calls must come for the same user. */
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

export interface ChallengeRecord extends NewChallenge {
  readonly status: 'pending' | 'completed' | 'failed'
}

/** Tokens and secrets that tools declare (OTC-73). */
interface CredentialStage {
  /** The call with every credential that its tool declares; otherwise a challenge is stored and the call is refused (rule 20). */
  check(requiring: RequiringCall): MaybePromise<IdentifiedCall>
  /** Ends consents that were not given in time. */
  expire(): Promise<void>
  findChallenge(id: string): Promise<ChallengeRecord | undefined>
}

/** Tools made of tools (rule 31). */
interface WorkflowStage {
  run(running: RunningCall, context: RunContext, input: unknown): Promise<unknown>
  /** Ends whatever of a workflow's steps runs or waits. */
  endSteps(
    parent: CallAddress,
    ended: { readonly by: string; readonly why: 'timeout' | 'cancel' },
  ): Promise<void>
  /** `parked → running` of a suspended workflow, and back. */
  readonly store: WorkflowStore
}

export interface Suspending {
  /** The step it waits for, if that one is recorded; else `''`. */
  readonly waitsFor: string
  readonly atMs: number
}

/**
 * Calls of workflows that are suspended while a step waits (rule 31): `parked`, with `waitsFor`, and with the same attempt when
 * they continue.
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
}

/** For a run that no limit counts. */
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
