import type { ErrorCode } from '#kernel/base/errors'
import type { Outcome } from '#kernel/call/call'
import type { CallRecord, RefusedCall } from '#kernel/call/call-record'
import type { SafetyTier, Transport } from '#kernel/tool/tool'

/**
 * Facts and events of runs, and how calls, sessions and consents turn into them. Stores append them; openwop, the console and
 * clients read them. A fact holds ids and ends, never an argument or a result. Sequences of a run count from 0 without gaps.
 */

/** One attempt of one call, as both of its facts name it. */
type Attempted = Omit<CallFact, 'sessionId'> & { readonly sessionId: string | undefined }

export function calledFact(attempted: Attempted, principal: string): ToolCalled {
  return { type: 'called', ...named(attempted), principal }
}

/** `cut`: the process that ran it is gone, so the duration is unknown. */
export function returnedFact(attempted: Attempted, end: Outcome | 'cut'): ToolReturned {
  const base = { type: 'returned', ...named(attempted) } as const
  if (end === 'cut') return { ...base, code: 'ambiguous' }
  const took = end.durationMs === undefined ? {} : { durationMs: Math.round(end.durationMs) }
  if (end.ok) return { ...base, ...took }
  const { code } = end.error
  const isUntimed = code === 'session_lost' || end.neverStarted === true
  return isUntimed ? { ...base, code } : { ...base, code, ...took }
}

/** The pair of facts of a call that a limit refused: it never began (C10, OWP-53). */
export function refusedFacts(refused: RefusedCall, call: CallLabel): readonly [ToolCalled, ToolReturned] {
  const { record, principal, sessionId, code } = refused
  const attempted = { record, attempt: 1, call, sessionId }
  return [calledFact(attempted, principal), { type: 'returned', ...named(attempted), code }]
}

/** How a fact changes the number of open calls and sessions of its run. */
export function opens({ type }: RunFact): 1 | 0 | -1 {
  return OPENS[type]
}

const OPENS = {
  called: 1,
  returned: -1,
  'session.opened': 1,
  'session.closed': -1,
  'interrupt.requested': 0,
  'node.suspended': 0,
  'approval.granted': 0,
  'approval.rejected': 0,
  'approval.overridden': 0,
  'interrupt.resolved': 0,
  'consent.requested': 0,
  'consent.suspended': 0,
  'consent.resolved': 0,
  'connector.authorized': 0,
  'connector.auth_expired': 0,
} as const satisfies Record<RunFact['type'], 1 | 0 | -1>

/** How the session of a single attempt ends (OWP-44, C2). */
export function ownSessionOutcome(outcome: Outcome): SessionOutcome {
  if (outcome.ok) return 'completed'
  return outcome.error.code === 'cancelled' ? 'cancelled' : 'failed'
}

/** The parts of a call that the events of its own run are made from. */
export type OwnRunCall = CallLabel &
  Pick<
    CallRecord,
    'record' | 'attempt' | 'principal' | 'state' | 'createdAtMs' | 'finishedAtMs' | 'outcome' | 'sessionId'
  >

/** The events of a call that is alone in its run and was tried once: its record describes it, so nothing else is stored. */
export function ownRunEvents(call: OwnRunCall): readonly RunEvent[] {
  const { record, attempt, sessionId } = call
  const attempted = { record, attempt, call: labelOf(call), sessionId }
  const called = { ...calledFact(attempted, call.principal), sequence: 0, atMs: call.createdAtMs }
  if (call.state === 'running' || call.state === 'parked') return [called]
  const atMs = call.finishedAtMs ?? call.createdAtMs
  return [called, { ...returnedFact(attempted, call.outcome ?? 'cut'), sequence: 1, atMs }]
}

/** The label without the other members of an object. */
export function labelOf({ callId, toolId, transport, argsHash, traceId }: CallLabel): CallLabel {
  return { callId, toolId, transport, argsHash, traceId }
}

function named({ record, attempt, call, sessionId }: Attempted) {
  const base = { record, attempt, call }
  return sessionId === undefined ? base : { ...base, sessionId }
}

export type SessionOutcome = 'completed' | 'failed' | 'cancelled'

/** The call of an event, as its readers know it. */
export interface CallLabel {
  /** The caller's key, or the one the server made. */
  readonly callId: string
  readonly toolId: string
  readonly transport: Transport
  /** Lower-case hex SHA-256 of the canonical input without the call's credentials. */
  readonly argsHash: string
  /** The caller's trace, or that of its request; `''` without tracing. */
  readonly traceId: string
}

interface CallFact {
  readonly record: string
  readonly attempt: number
  readonly call: CallLabel
  /** The session the call ran in. */
  readonly sessionId?: string
}

interface ToolCalled extends CallFact {
  readonly type: 'called'
  readonly principal: string
}

export interface ToolReturned extends CallFact {
  readonly type: 'returned'
  /** Absent when the call returned a value. */
  readonly code?: ErrorCode
  /** Absent when the call never started, or its end was not seen. */
  readonly durationMs?: number
}

interface SessionOpened {
  readonly type: 'session.opened'
  readonly sessionId: string
  readonly toolId: string
}

interface SessionClosed extends Omit<SessionOpened, 'type'> {
  readonly type: 'session.closed'
  readonly outcome: SessionOutcome
}

/** The attempt that an approval is for. */
interface ApprovalFact {
  readonly record: string
  readonly attempt: number
  readonly approval: string
}

export interface InterruptRequested extends ApprovalFact {
  readonly type: 'interrupt.requested'
  readonly call: CallLabel
  readonly requiredScope: string
  readonly quorum: number
  readonly tier: SafetyTier
  readonly timeoutMs: number
}

export interface NodeSuspended extends ApprovalFact {
  readonly type: 'node.suspended'
}

export interface ApprovalDecided extends Omit<ApprovalFact, 'attempt'> {
  readonly type: 'approval.granted' | 'approval.rejected' | 'approval.overridden'
  readonly by: string
  readonly reason?: string
  /** Only for a grant: approvals so far, and approvals needed. */
  readonly granted?: number
  readonly required?: number
}

export interface InterruptResolved extends ApprovalFact {
  readonly type: 'interrupt.resolved'
  readonly action: 'accept' | 'reject' | 'cancel'
  /** Opaque; absent after a timeout. */
  readonly by?: string
  readonly reason?: string
}

/** A call waits for a person's consent at a provider. */
interface ConsentRequested extends Omit<ConsentSuspended, 'type'> {
  readonly type: 'consent.requested'
  readonly call: CallLabel
  readonly provider: string
  readonly scopes: readonly string[]
  /** A page of this server. */
  readonly url: string
  readonly timeoutMs: number
}

interface ConsentSuspended {
  readonly type: 'consent.suspended'
  readonly record: string
  readonly challenge: string
}

interface ConsentResolved extends Omit<ConsentSuspended, 'type'> {
  readonly type: 'consent.resolved'
  readonly action: 'accept' | 'reject'
  readonly reason?: string
}

/** A consent was given; its credential is named by reference only. */
interface ConnectorAuthorized {
  readonly type: 'connector.authorized'
  readonly record: string
  readonly provider: string
  readonly credentialRef: string
  readonly scopes: readonly string[]
}

/** A provider refused to renew an authorization: the user has to consent again. */
interface ConnectorAuthExpired {
  readonly type: 'connector.auth_expired'
  readonly record: string
  readonly provider: string
}

export type RunFact =
  | ToolCalled
  | ToolReturned
  | SessionOpened
  | SessionClosed
  | InterruptRequested
  | NodeSuspended
  | ApprovalDecided
  | InterruptResolved
  | ConsentRequested
  | ConsentSuspended
  | ConsentResolved
  | ConnectorAuthorized
  | ConnectorAuthExpired

/** A fact at its position in its run. */
export type RunEvent = RunFact & { readonly sequence: number; readonly atMs: number }
