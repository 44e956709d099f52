import type { JsonValue } from '#core/json'
import type { ApprovalRecord, ApprovalState, ApproverDecision } from '#core/ports/approval-store'
import type { SafetyTier } from '#core/tool'

/** All that can be shown of an approval. Each surface chooses what its reader may see, and in which words. */
export interface ApprovalView {
  readonly id: string
  /** As it is now. */
  readonly state: ApprovalState
  /** Its tool's definition changed since it was asked: it cannot be approved, and its call never runs. */
  readonly isStale: boolean
  readonly tenant: string
  /** Who called. */
  readonly principal: string
  readonly record: string
  readonly callId: string
  readonly runId: string
  readonly userId: string | undefined
  /** Whether the caller's credential proves that user; otherwise the id is the caller's word. */
  readonly isUserProven: boolean
  readonly attempt: number
  /** `Toolkit.Name@x.y.z`. */
  readonly tool: string
  readonly toolId: string
  readonly safetyTier: SafetyTier
  readonly argsHash: string
  readonly definitionHash: string
  readonly summary: JsonValue
  /** All of it, but for credentials that the tool declares. */
  readonly input: JsonValue
  readonly inputBytes: number
  /** How many values of it are hidden by those. */
  readonly hiddenValues: number
  /** Whether this is not all of the input, because no more was kept of it. */
  readonly isPartial: boolean
  /** Whether a yes needs `acceptHidden`, because something of the input cannot be seen. */
  readonly hidesSomething: boolean
  readonly quorum: number
  readonly requiredScope: string
  readonly createdAtMs: number
  readonly expiresAtMs: number
  readonly decidedAtMs: number | undefined
  readonly decisions: readonly ApproverDecision[]
}

/** `at` says what is not in the record: when it is looked at, and whether its tool is another one by now. */
export function approvalView(
  approval: ApprovalRecord,
  at: { readonly nowMs: number; readonly isStale: boolean },
): ApprovalView {
  const { id, tenant, principal, record, attempt, tool, toolId, tier, definitionHash, subject } = approval
  const { callId, runId, userId, isUserProven, argsHash, summaryJson, inputJson, hidden, isPartial } = subject
  const { quorum, requiredScope, createdAtMs, expiresAtMs, decidedAtMs, decisions } = approval
  return {
    ...{ id, state: stateOf(approval, at.nowMs), isStale: at.isStale, tenant, principal },
    ...{ record, callId, runId, userId, isUserProven, attempt },
    ...{ tool, toolId, safetyTier: tier, argsHash, definitionHash },
    // Read only by those who show them: an input may be large.
    get summary(): JsonValue {
      return JSON.parse(summaryJson)
    },
    get input(): JsonValue {
      return JSON.parse(inputJson)
    },
    get inputBytes() {
      return Buffer.byteLength(inputJson)
    },
    hiddenValues: hidden,
    isPartial: isPartial === true,
    hidesSomething: hidesSomething(approval),
    ...{ quorum, requiredScope, createdAtMs, expiresAtMs, decidedAtMs, decisions },
  }
}

/** The state as it is now, although its end may not have been written yet. */
export function stateOf(
  { state, expiresAtMs }: Pick<ApprovalRecord, 'state' | 'expiresAtMs'>,
  nowMs: number,
): ApprovalState {
  const isOver = (state === 'pending' || state === 'granted') && expiresAtMs <= nowMs
  return isOver ? 'expired' : state
}

/** A yes is for all of it: what its approver cannot see needs a word of its own. */
export function hidesSomething({ subject: { hidden, isPartial } }: Pick<ApprovalRecord, 'subject'>): boolean {
  return hidden > 0 || isPartial === true
}
