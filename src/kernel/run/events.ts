import type { ErrorCode } from '#kernel/base/errors'
import type { Outcome } from '#kernel/call/call'
import type { CallRecord, RefusedCall } from '#kernel/call/call-record'
import type { SafetyTier, Transport } from '#kernel/tool/tool'

/**
 * Facts and events of runs, and how calls, sessions and consents become facts. Stores append them; openwop, the console and
 * clients read them. A fact contains ids and error codes, never an argument or a result. A run's sequence numbers start at 0
 * and have no gaps.
 */

/** The members that both facts of an attempt share. */
type Attempted = Omit<CallFact, 'sessionId'> & { readonly sessionId: string | undefined }

export function calledFact(attempted: Attempted, principal: string): ToolCalled {
  return { type: 'called', ...named(attempted), principal }
}

/** `cut`: the process that ran the attempt died, so the duration is unknown. */
export function returnedFact(attempted: Attempted, end: Outcome | 'cut'): ToolReturned {
  const base = { type: 'returned', ...named(attempted) } as const
  if (end === 'cut') return { ...base, code: 'ambiguous' }
  const took = end.durationMs === undefined ? {} : { durationMs: Math.round(end.durationMs) }
  if (end.ok) return { ...base, ...took }
  const { code } = end.error
  const isUntimed = code === 'session_lost' || end.neverStarted === true
  return isUntimed ? { ...base, code } : { ...base, code, ...took }
}

/** Both facts of a call that a limit refused and that never began (C10, OWP-53). */
export function refusedFacts(refused: RefusedCall, call: CallLabel): readonly [ToolCalled, ToolReturned] {
  const { record, principal, sessionId, code } = refused
  const attempted = { record, attempt: 1, call, sessionId }
  return [calledFact(attempted, principal), { type: 'returned', ...named(attempted), code }]
}

/** How a fact changes the number of open calls and sessions in its run. */
export function openCountChange({ type }: RunFact): 1 | 0 | -1 {
  return OPEN_COUNT_CHANGES[type]
}

const OPEN_COUNT_CHANGES = {
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

/** The outcome of a session that was made for a single attempt (OWP-44, C2). */
export function ownSessionOutcome(outcome: Outcome): SessionOutcome {
  if (outcome.ok) return 'completed'
  return outcome.error.code === 'cancelled' ? 'cancelled' : 'failed'
}

/** The parts of a call from which the events of its own run are derived. */
export type OwnRunCall = CallLabel &
  Pick<
    CallRecord,
    'record' | 'attempt' | 'principal' | 'state' | 'createdAtMs' | 'finishedAtMs' | 'outcome' | 'sessionId'
  >

/** The events of a call that is alone in its run and had one attempt; they are derived from its record instead of stored. */
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

/** The members that identify the call of an event to its readers. */
export interface CallLabel {
  /** The caller's key, or a call id made by the server. */
  readonly callId: string
  readonly toolId: string
  readonly transport: Transport
  /** Lower-case hex SHA-256 of the canonical input without the call's credentials. */
  readonly argsHash: string
  /** Trace id of the caller or of its request; `''` without tracing. */
  readonly traceId: string
}

interface CallFact {
  readonly record: string
  readonly attempt: number
  readonly call: CallLabel
  /** The session that the call ran in. */
  readonly sessionId?: string
}

interface ToolCalled extends CallFact {
  readonly type: 'called'
  readonly principal: string
}

export interface ToolReturned extends CallFact {
  readonly type: 'returned'
  /** Absent if the call returned a value. */
  readonly code?: ErrorCode
  /** Absent if the call never started, or if its end was not observed. */
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
  /** Only for a grant: number of approvals so far, and number needed. */
  readonly granted?: number
  readonly required?: number
}

export interface InterruptResolved extends ApprovalFact {
  readonly type: 'interrupt.resolved'
  readonly action: 'accept' | 'reject' | 'cancel'
  /** Opaque id of the approver; absent after a timeout. */
  readonly by?: string
  readonly reason?: string
}

/** A call waits for a person's consent at a provider. */
interface ConsentRequested extends Omit<ConsentSuspended, 'type'> {
  readonly type: 'consent.requested'
  readonly call: CallLabel
  readonly provider: string
  readonly scopes: readonly string[]
  /** Address of a page on this server. */
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

/** A person consented; the credential is only referred to, never included. */
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

/** A fact with its position in its run. */
export type RunEvent = RunFact & { readonly sequence: number; readonly atMs: number }
