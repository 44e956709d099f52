import type { ApprovalRecord, ApprovalState, ApproverDecision } from '#core/ports/approval-store'

/** A yes leaves at least this long to use it, however late it came. */
export const LEAST_USE_MS = 5 * 60_000

/** What one more word does to a question; every store obeys this. */
export type Judgement =
  /** It stays as it was: decided, used up, or out of time. */
  | { readonly kind: 'closed' }
  /** The same approver said so before (OWP-72). */
  | { readonly kind: 'repeated' }
  | { readonly kind: 'counted'; readonly granted: number }
  | {
      readonly kind: 'decided'
      readonly state: Extract<ApprovalState, 'granted' | 'rejected'>
      readonly granted: number
      readonly expiresAtMs: number
    }

/** Distinct approvers count; one no is enough; a late word changes nothing (OWP-68, OWP-71, OWP-72). */
export function judgeDecision(approval: ApprovalRecord, decision: ApproverDecision): Judgement {
  const { state, expiresAtMs, quorum, decisions, overrideBypassesQuorum } = approval
  if (state !== 'pending' || expiresAtMs <= decision.atMs) return { kind: 'closed' }
  const said = decisions.some(({ by }) => by === decision.by)
  if (decision.action === 'reject') {
    return { kind: 'decided', state: 'rejected', granted: decisions.length, expiresAtMs }
  }
  const bypasses = decision.action === 'override' && overrideBypassesQuorum
  if (said && !bypasses) return { kind: 'repeated' }
  const granted = decisions.length + (said ? 0 : 1)
  if (granted < quorum && !bypasses) return { kind: 'counted', granted }
  return {
    kind: 'decided',
    state: 'granted',
    granted,
    expiresAtMs: Math.max(expiresAtMs, decision.atMs + LEAST_USE_MS),
  }
}

/** Whether an attempt may run on it now. */
export function isUsable(approval: ApprovalRecord, binding: string, nowMs: number): boolean {
  return approval.state === 'granted' && approval.expiresAtMs > nowMs && approval.binding === binding
}

export function isOpen({ state }: Pick<ApprovalRecord, 'state'>): boolean {
  return state === 'pending' || state === 'granted'
}
