import type { ErrorCode } from '#core/errors'
import type { SafetyTier } from '#core/tool'

/** How the host reaches the tool behind a call (OWP-51). */
export type Transport = 'mcp' | 'http' | 'native'

export type SessionOutcome = 'completed' | 'failed' | 'cancelled'

/** Which call an event is about, as its readers know it. */
export interface CallLabel {
  /** The caller's key, or the one made for it. */
  readonly callId: string
  /** Catalog id of the tool. */
  readonly toolId: string
  readonly transport: Transport
  /** Lower-case hex SHA-256 of the canonical input, with the call's own credentials cut out (OWP-52). */
  readonly argsHash: string
  /** The caller's trace, or the one of its request; `''` when nobody traces. */
  readonly traceId: string
}

interface CallFact {
  readonly record: string
  readonly attempt: number
  readonly call: CallLabel
  /** The session the call ran in. */
  readonly sessionId?: string
}

export interface ToolCalled extends CallFact {
  readonly type: 'called'
  readonly principal: string
}

export interface ToolReturned extends CallFact {
  readonly type: 'returned'
  /** Absent when the call gave a value. */
  readonly code?: ErrorCode
  /** Absent when the call never started, or nobody saw its end (OWP-53). */
  readonly durationMs?: number
}

export interface SessionOpened {
  readonly type: 'session.opened'
  readonly sessionId: string
  readonly toolId: string
}

export interface SessionClosed {
  readonly type: 'session.closed'
  readonly sessionId: string
  readonly toolId: string
  readonly outcome: SessionOutcome
}

/** A call waits for a yes (OWP-64). */
export interface InterruptRequested {
  readonly type: 'interrupt.requested'
  readonly record: string
  readonly attempt: number
  readonly approval: string
  readonly call: CallLabel
  readonly requiredScope: string
  readonly quorum: number
  readonly tier: SafetyTier
  readonly timeoutMs: number
}

export interface NodeSuspended {
  readonly type: 'node.suspended'
  readonly record: string
  readonly attempt: number
  readonly approval: string
}

/** One approver's word (OWP-70). */
export interface ApprovalDecided {
  readonly type: 'approval.granted' | 'approval.rejected' | 'approval.overridden'
  readonly record: string
  readonly approval: string
  /** Opaque (OWP-72). */
  readonly by: string
  readonly reason?: string
  /** Only of a grant: how many of how many. */
  readonly granted?: number
  readonly required?: number
}

export interface InterruptResolved {
  readonly type: 'interrupt.resolved'
  readonly record: string
  readonly attempt: number
  readonly approval: string
  readonly action: 'accept' | 'reject' | 'cancel'
  /** Opaque; absent when time ran out. */
  readonly by?: string
  readonly reason?: string
}

/** A call waits for a person's consent at a provider (OWP-78). */
export interface ConsentRequested {
  readonly type: 'consent.requested'
  readonly record: string
  readonly challenge: string
  readonly call: CallLabel
  readonly provider: string
  readonly scopes: readonly string[]
  /** Our own page. */
  readonly url: string
  readonly timeoutMs: number
}

export interface ConsentSuspended {
  readonly type: 'consent.suspended'
  readonly record: string
  readonly challenge: string
}

export interface ConsentResolved {
  readonly type: 'consent.resolved'
  readonly record: string
  readonly challenge: string
  readonly action: 'accept' | 'reject'
  readonly reason?: string
}

/** A consent was given; the reference alone tells which credential it made (OWP-79). */
export interface ConnectorAuthorized {
  readonly type: 'connector.authorized'
  readonly record: string
  readonly provider: string
  readonly credentialRef: string
  readonly scopes: readonly string[]
}

/** A provider refused to renew an authorization: somebody has to consent again (OWP-78). */
export interface ConnectorAuthExpired {
  readonly type: 'connector.auth_expired'
  readonly record: string
  readonly provider: string
}

/** What a run tells about itself: ids and ends, never an argument or a result. */
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

/** A fact at its place in its run: sequences count from 0 without gaps (rule 16). */
export type RunEvent = RunFact & { readonly sequence: number; readonly atMs: number }
