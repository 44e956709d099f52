import type { CallAddress, CallRecord, NextAttempt } from '#kernel/call/call-record'
import type { CommitGroup, Steps } from '#kernel/store/engine'
import type { SafetyTier } from '#kernel/tool/tool'

/**
 * Approvals as the store keeps them: requests, decisions, links, and the parked calls that wait for them. The ladder parks calls,
 * `Approvals` decides, and the store's module for approvals writes and reads these records.
 */

/**
 * `pending`: waits for decisions. `granted`: may be used once. `used`: an attempt ran with it. The other states are final
 * refusals; `cancelled` means that the caller cancelled the call, or that its run or session ended.
 */
export const APPROVAL_STATES = ['pending', 'granted', 'used', 'rejected', 'expired', 'cancelled'] as const
export type ApprovalState = (typeof APPROVAL_STATES)[number]

export interface ApprovalAddress {
  readonly tenant: string
  /** Unguessable id, made by the server. */
  readonly id: string
}

export interface ApprovalSubject {
  readonly callId: string
  /** Public id of the call's run. */
  readonly runId: string
  readonly argsHash: string
  readonly userId: string | undefined
  /** Whether the caller's credential proves that user; otherwise the caller only claims it (OTC/T-27). */
  readonly isUserProven: boolean
  /** Keyed digest of the credentials that the call uses; absent if it uses none. */
  readonly credentials?: string
  /** JSON of a short summary that states what it leaves out. */
  readonly summaryJson: string
  /** JSON of the whole input, except credentials that the tool declares. */
  readonly inputJson: string
  /** Number of values that are hidden or shortened because they contain these credentials. */
  readonly hidden: number
  /** JSON of a `RequestedDefinition`, to show how the tool has changed since the request. Absent if it was too large or not kept. */
  readonly definitionJson?: string
  /** Only a summary was kept, or the text was removed with its journal group. */
  readonly isPartial?: true
}

export interface ApprovalTerms {
  readonly expiresAfterMs: number
  readonly quorum: number
  /** The scope an approver needs besides `approvals:respond` (OWP-69). */
  readonly requiredScope: string
  readonly selfApproval: boolean
  /** Whether one override is enough for any quorum (OWP-70). */
  readonly overrideBypassesQuorum: boolean
}

/** One request for approval, which covers one attempt of one call (rule 20). */
export interface NewApproval extends ApprovalAddress, Omit<ApprovalTerms, 'expiresAfterMs'> {
  readonly subject: ApprovalSubject
  /** Keyed digest of everything an approval covers (rule 21). */
  readonly binding: string
  readonly expiresAtMs: number
}

export type DecisionAction = 'grant' | 'reject' | 'override'

export interface ApproverDecision {
  readonly by: string
  readonly action: DecisionAction
  readonly reason: string | undefined
  readonly atMs: number
}

export interface ApprovalRecord extends NewApproval, CallAddress {
  readonly attempt: number
  /** The run that contains the approval's events. */
  readonly run: string
  readonly principal: string
  readonly tool: string
  readonly toolId: string
  readonly tier: SafetyTier
  readonly definitionHash: string
  readonly state: ApprovalState
  readonly createdAtMs: number
  readonly decidedAtMs: number | undefined
  readonly decisions: readonly ApproverDecision[]
}

export interface NewDecision extends ApprovalAddress, ApproverDecision {
  /** Opaque id of the approver, for readers of the run (OWP-72). */
  readonly opaque: string
  /** A standing rule decided, so approvers get no notice. */
  readonly isAutomatic?: true
}

export type DecideResult =
  /** This decision granted or rejected the approval. */
  | { readonly kind: 'decided'; readonly approval: ApprovalRecord }
  /** The decision was counted; more approvers are needed. */
  | { readonly kind: 'counted'; readonly approval: ApprovalRecord }
  /** This approver has already approved, so nothing changed (OWP-72). */
  | { readonly kind: 'repeated'; readonly approval: ApprovalRecord }
  /** The approval was already decided, used, expired or cancelled. */
  | { readonly kind: 'closed'; readonly approval: ApprovalRecord }
  | { readonly kind: 'not_found' }

export type ParkResult =
  | { readonly kind: 'parked'; readonly approval: ApprovalRecord }
  /** The key is taken, or a call without a key equals a parked call (rule 6). */
  | { readonly kind: 'found'; readonly record: CallRecord }
  | { readonly kind: 'run_ended' | 'session_ended' }
  /** The principal has as many parked calls as allowed (rule 22). */
  | { readonly kind: 'full'; readonly parked: number }

export interface Parking {
  readonly approval: NewApproval
  readonly maxParked: number
  /** False if the call was made without a key; equal calls without a key are the same call (rule 6). */
  readonly keyed: boolean
  /** Grants the approval in the transaction that requests it, if a standing rule covers it. */
  readonly grantByRule?: GrantSteps | undefined
}

/** The steps that grant an approval by a standing rule; false if no rule covers it any more. */
export type GrantSteps = (group: CommitGroup) => Steps<boolean>

/** How a granted attempt begins. */
export interface Resumption extends NextAttempt {
  readonly approvalId: string
  /** Must equal the binding of the granted approval. */
  readonly binding: string
  readonly rerunUntilMs: number
}

export type ParkedScope = { readonly tenant: string } & (
  | { readonly record: string }
  | { readonly run: string }
  | { readonly sessionId: string }
)

/** A parked call that ended, so that readers of its run can be notified. */
export type EndedParkedCall = Pick<ApprovalRecord, 'record' | 'run'>

export interface ApprovalFilter {
  readonly state?: ApprovalState
  /** Lists only this tenant's approvals; absent for operators, who see every tenant's. */
  readonly tenant?: string
  /** Position of the last approval of the previous page. */
  readonly before?: number
  readonly limit: number
}

export interface ApprovalPage {
  readonly approvals: readonly ApprovalRecord[]
  /** Position at which the next page starts; absent at the end. */
  readonly next?: number
}

/** A link that lets its holder see or decide an approval under the name of an approver. */
export interface NewLink {
  readonly approval: Pick<ApprovalRecord, 'id' | 'tenant' | 'record' | 'attempt' | 'tool'>
  readonly by: string
  readonly for: string
  /** `inspect` only shows the approval. */
  readonly power: 'decide' | 'inspect'
  readonly atMs: number
}
