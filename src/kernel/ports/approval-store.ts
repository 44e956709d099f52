import type { MaybePromise } from '#kernel/base/waiting'
import type { SafetyTier } from '#kernel/tool/tool'
import type { CallAddress, CallRecord, ClaimResult, NewCall, NextAttempt } from './store.ts'

/**
 * `pending`: waits for approval. `granted`: may be used once. `used`: an attempt ran on it. The others are refusals and
 * final: `cancelled` when its caller, its run or its session went away.
 */
export const APPROVAL_STATES = ['pending', 'granted', 'used', 'rejected', 'expired', 'cancelled'] as const
export type ApprovalState = (typeof APPROVAL_STATES)[number]

export interface ApprovalAddress {
  readonly tenant: string
  /** Unguessable, made by us. */
  readonly id: string
}

/** What an approver is shown: ids, and the input. */
export interface ApprovalSubject {
  readonly callId: string
  /** What the call's run is called. */
  readonly runId: string
  readonly argsHash: string
  readonly userId: string | undefined
  /** Whether the caller's credential proves that user; otherwise the id is the caller's word (OTC/T-27). */
  readonly isUserProven: boolean
  /** JSON of the summary: short, and it says what it leaves out. */
  readonly summaryJson: string
  /** JSON of the whole input, but for credentials that the tool declares. */
  readonly inputJson: string
  /** How many values of it are hidden or cut by one of those. */
  readonly hidden: number
  /** JSON of an `AskedDefinition`: what the tool was then, for who asks what has changed. Absent where it was too large, or not kept. */
  readonly definitionJson?: string
  /** Asked by a version that kept a summary only, or its text is gone with its journal. */
  readonly isPartial?: true
}

/** One request for approval: for one attempt of one call (rule 20). */
export interface NewApproval extends ApprovalAddress {
  readonly subject: ApprovalSubject
  /** Keyed digest of everything an approval is for (rule 21). */
  readonly binding: string
  readonly quorum: number
  readonly requiredScope: string
  readonly selfApproval: boolean
  /** An override counts for the whole quorum (OWP-70). */
  readonly overrideBypassesQuorum: boolean
  readonly expiresAtMs: number
}

export type DecisionAction = 'grant' | 'reject' | 'override'

/** One approver's word. */
export interface ApproverDecision {
  readonly by: string
  readonly action: DecisionAction
  readonly reason: string | undefined
  readonly atMs: number
}

export interface ApprovalRecord extends NewApproval, CallAddress {
  /** Which attempt it is for. */
  readonly attempt: number
  /** The run that has its events. */
  readonly run: string
  readonly principal: string
  readonly tool: string
  readonly toolId: string
  readonly tier: SafetyTier
  readonly definitionHash: string
  readonly state: ApprovalState
  readonly createdAtMs: number
  /** When it left `pending`. */
  readonly decidedAtMs: number | undefined
  readonly decisions: readonly ApproverDecision[]
}

export interface NewDecision extends ApprovalAddress, ApproverDecision {
  /** The approver as readers of the run know it (OWP-72). */
  readonly opaque: string
}

export type DecideResult =
  /** It left `pending`, by this decision. */
  | { readonly kind: 'decided'; readonly approval: ApprovalRecord }
  /** Counted; more approvers are needed. */
  | { readonly kind: 'counted'; readonly approval: ApprovalRecord }
  /** This approver said so before: nothing changed (OWP-72). */
  | { readonly kind: 'repeated'; readonly approval: ApprovalRecord }
  /** Another decision or event ended it before. */
  | { readonly kind: 'closed'; readonly approval: ApprovalRecord }
  | { readonly kind: 'not_found' }

export type ParkResult =
  | { readonly kind: 'parked'; readonly approval: ApprovalRecord }
  /** The key is taken, or a call without a key equals one that is parked already (rule 6). */
  | { readonly kind: 'found'; readonly record: CallRecord }
  | { readonly kind: 'run_ended' }
  | { readonly kind: 'session_ended' }
  /** The principal has as many parked calls as it may (rule 22). */
  | { readonly kind: 'full'; readonly parked: number }

export interface Parking {
  readonly approval: NewApproval
  readonly maxParked: number
  /** Made without a key: it may be adopted by, and adopt, its like (rule 6). */
  readonly keyed: boolean
}

/** How a granted attempt begins. */
export interface Resumption extends NextAttempt {
  readonly approvalId: string
  /** Must be that of the grant. */
  readonly binding: string
  readonly rerunUntilMs: number
}

/** What of a principal's parked calls is meant. */
export type ParkedScope = { readonly tenant: string } & (
  | { readonly record: string }
  | { readonly run: string }
  | { readonly sessionId: string }
)

/** A parked call that ended, so that readers of its run hear of it. */
export interface EndedParked {
  readonly record: string
  readonly run: string
}

export interface ApprovalFilter {
  readonly state?: ApprovalState
  /** Absent: approvals of every tenant, for operators. */
  readonly tenant?: string
  readonly limit: number
}

/** A link that lets its holder see or decide an approval under a name. */
export interface NewLink {
  readonly approval: Pick<ApprovalRecord, 'id' | 'tenant' | 'record' | 'attempt' | 'tool'>
  readonly by: string
  readonly for: string
  readonly power: 'decide' | 'inspect'
  readonly atMs: number
}

/** Calls that wait for approval, and the approvals. Every change is one transaction with its events. */
export interface ApprovalStore {
  /** HMAC under a key of this store, different for each purpose. */
  sign(purpose: string, text: string): string
  /** Journals that somebody made a link for an approver, before it is handed out. */
  noteLink(link: NewLink): MaybePromise<void>

  /** Inserts a `parked` call with its question, if the key is free. */
  park(call: NewCall, parking: Parking): MaybePromise<ParkResult>
  /** Parks a call for its next attempt: one grant covers one (rule 20). Conditional like `reclaim`. */
  parkAgain(previous: CallRecord, next: NextAttempt, parking: Parking): MaybePromise<ParkResult>
  /** `parked → running`: consumes the grant, stamps writer and attempt, appends the events. `found` when it cannot. */
  resume(previous: CallRecord, resumption: Resumption): MaybePromise<ClaimResult>

  find(address: ApprovalAddress): MaybePromise<ApprovalRecord | undefined>
  /** The newest of a call. */
  findFor(call: CallAddress): MaybePromise<ApprovalRecord | undefined>
  /** The oldest parked call that is the same request of the same principal (rule 6). */
  findParked(like: {
    readonly tenant: string
    readonly principal: string
    readonly fingerprint: string
    readonly definitionHash: string
  }): MaybePromise<CallRecord | undefined>
  isParkedIn(session: { readonly tenant: string; readonly sessionId: string }): MaybePromise<boolean>

  decide(decision: NewDecision): MaybePromise<DecideResult>
  /** One small step of ending what nobody answered or used in time: a timeout is a refusal (OWP-71). */
  expire(nowMs: number): MaybePromise<readonly EndedParked[]>
  /** Ends parked calls because their caller wants it. */
  cancel(scope: ParkedScope, by: string, atMs: number): MaybePromise<readonly EndedParked[]>

  /** For operators and for holders of the unguessable id; says nothing about tenants. */
  findById(id: string): MaybePromise<ApprovalRecord | undefined>
  /** Newest first. */
  list(filter: ApprovalFilter): MaybePromise<readonly ApprovalRecord[]>
}
