import { type Approvals, hidesSomething, stateOf } from '#core/approvals/approvals'
import { fault } from '#core/errors'
import type { JsonValue } from '#core/json'
import type { ApprovalRecord, ApprovalState, ApproverDecision } from '#core/ports/approval-store'
import type { Principal } from '#core/principal'
import type { Clock } from '#core/runtime'
import type { SafetyTier } from '#core/tool'
import { checkApprover, checkFilter, decided, readDecision } from '#server/admin/approvals'

const DEFAULT_LIMIT = 100

/** A call that waits for a yes, or waited: ids, and the input. */
export interface GatewayApproval {
  readonly id: string
  readonly state: ApprovalState
  readonly tenant: string
  /** Who called. */
  readonly principal: string
  readonly callId: string
  readonly runId: string
  readonly userId: string | undefined
  /** Whether the caller's credential proves that user; otherwise the id is the caller's word. */
  readonly isUserProven: boolean
  /** `Toolkit.Name@x.y.z`. */
  readonly tool: string
  readonly safetyTier: SafetyTier
  /** All of it, but for credentials that the tool declares. */
  readonly input: JsonValue
  /** How many values of it are hidden by those. */
  readonly hiddenValues: number
  /** Whether a yes needs `acceptHidden`, because something of the input cannot be seen. */
  readonly hidesSomething: boolean
  /** Its tool's definition changed since it was asked: it cannot be approved, and its call never runs. */
  readonly isStale: boolean
  readonly quorum: number
  readonly requiredScope: string
  readonly createdAtMs: number
  readonly expiresAtMs: number
  readonly decidedAtMs: number | undefined
  readonly decisions: readonly ApproverDecision[]
}

export interface GatewayApprovalFilter {
  readonly state?: ApprovalState
  /** From 1 to 1000; default 100. */
  readonly limit?: number
}

export interface GatewayDecision {
  /** Journaled, and told to the caller after a no; at most 1000 characters. */
  readonly reason?: string
  /** Says yes to what of the input is hidden, too. */
  readonly acceptHidden?: boolean
}

/**
 * Approvals from the same process. Your program says who decides, and answers for it: the principal needs the scope
 * `approvals:respond` and what the tool asks for besides, sees its own tenant, and does not approve its own calls.
 * Everything but `show` of what is not there throws a `ToolError` when it is refused.
 */
export interface GatewayApprovals {
  /** Newest first. */
  list(approver: Principal, filter?: GatewayApprovalFilter): Promise<readonly GatewayApproval[]>
  /** `undefined` when the approver's tenant has no such approval. */
  show(approver: Principal, id: string): Promise<GatewayApproval | undefined>
  /** Says yes; runs nothing: the call runs when its caller repeats it. An override needs `approvals:override` and a reason. */
  approve(
    approver: Principal,
    id: string,
    decision?: GatewayDecision & { readonly override?: boolean },
  ): Promise<GatewayApproval>
  /** Says no, for good. */
  reject(approver: Principal, id: string, decision?: GatewayDecision): Promise<GatewayApproval>
}

export function gatewayApprovals(approvals: Approvals, clock: Clock): GatewayApprovals {
  const decide = async (
    verb: 'approve' | 'reject',
    principal: Principal,
    { id, decision }: { readonly id: string; readonly decision: object },
  ): Promise<GatewayApproval> => {
    const said = readDecision(verb, { ...decision })
    const approver = checkApprover(approvals, principal)
    const found = await approvals.find(approver, id)
    if (found === undefined) {
      throw fault('request_invalid', `There is no approval '${id}'; approvals.list shows what there is.`)
    }
    return viewOf(decided(await approvals.decide(approver, found, said)), approvals, clock)
  }
  return {
    async list(principal, { state, limit = DEFAULT_LIMIT } = {}) {
      const approver = checkApprover(approvals, principal)
      const found = await approvals.list(approver, checkFilter({ state, limit }))
      return found.map((approval) => viewOf(approval, approvals, clock))
    },
    async show(principal, id) {
      const found = await approvals.find(checkApprover(approvals, principal), id)
      return found === undefined ? undefined : viewOf(found, approvals, clock)
    },
    approve: (principal, id, decision = {}) => decide('approve', principal, { id, decision }),
    reject: (principal, id, decision = {}) => decide('reject', principal, { id, decision }),
  }
}

function viewOf(approval: ApprovalRecord, approvals: Approvals, clock: Clock): GatewayApproval {
  const { id, tenant, principal, tool, tier, subject, quorum, requiredScope } = approval
  const { callId, runId, userId, isUserProven, inputJson, hidden } = subject
  const input: JsonValue = JSON.parse(inputJson)
  return {
    id,
    state: stateOf(approval, clock.nowMs()),
    tenant,
    principal,
    callId,
    runId,
    userId,
    isUserProven,
    tool,
    safetyTier: tier,
    input,
    hiddenValues: hidden,
    hidesSomething: hidesSomething(approval),
    isStale: approvals.isStale(approval),
    quorum,
    requiredScope,
    createdAtMs: approval.createdAtMs,
    expiresAtMs: approval.expiresAtMs,
    decidedAtMs: approval.decidedAtMs,
    decisions: approval.decisions,
  }
}
