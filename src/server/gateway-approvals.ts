import { APPROVAL_FILTER } from '#admin-api/approvals'
import type { ApprovalState } from '#kernel/approval/approval'
import type { Approvals } from '#kernel/approval/approvals'
import type { ApprovalView } from '#kernel/approval/decisions'
import { fault } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import { readAs } from '#server/admin/admin-route'
import { approvalAfter, checkApprover, readDecision } from '#server/admin/approvals'

/*
 * Approvals for programs that embed the gateway. Exposed as `gateway.approvals` of `createGateway`.
 * Invariant: decisions follow the same rules as in the admin API and on the approval pages.
 */

const DEFAULT_LIMIT = 100

/** A call that waits or waited for an approval: ids and the input. */
export interface GatewayApproval extends Readonly<ReturnType<typeof toGatewayApproval>> {}

export interface GatewayApprovalFilter {
  readonly state?: ApprovalState
  /** From 1 to 1000; default 100. */
  readonly limit?: number
}

export interface GatewayDecision {
  /** The reason, which is journaled and shown to the caller after a rejection; at most 1000 characters. */
  readonly reason?: string
  /** Whether hidden parts of the input are approved too. */
  readonly acceptHidden?: boolean
}

/**
 * Approvals from the same process. The embedding program names the approver and is responsible for authenticating it. The approver
 * needs the scope `approvals:respond` and the tool's scopes, sees its own tenant, and cannot approve its own calls. Refusals throw a
 * `ToolError`; only `show` returns `undefined` for an unknown approval.
 */
export interface GatewayApprovals {
  /** Lists approvals, newest first. */
  list(approver: Principal, filter?: GatewayApprovalFilter): Promise<readonly GatewayApproval[]>
  /** Resolves with `undefined` if the approver's tenant has no such approval. */
  show(approver: Principal, id: string): Promise<GatewayApproval | undefined>
  /** Approves without running: the call runs when its caller repeats it. An override needs `approvals:override` and a reason. */
  approve(
    approver: Principal,
    id: string,
    decision?: GatewayDecision & { readonly override?: boolean },
  ): Promise<GatewayApproval>
  /** Rejects permanently. */
  reject(approver: Principal, id: string, decision?: GatewayDecision): Promise<GatewayApproval>
}

export function gatewayApprovals(approvals: Approvals): GatewayApprovals {
  const decide = async (
    verb: 'approve' | 'reject',
    principal: Principal,
    id: string,
    { acceptHidden, ...rest }: GatewayDecision = {},
  ): Promise<GatewayApproval> => {
    const decision = readDecision(verb, { ...rest, accept_hidden: acceptHidden })
    const approver = checkApprover(approvals, principal)
    const found = await approvals.find(approver, id)
    if (found === undefined) {
      throw fault('request_invalid', `There is no approval '${id}'; approvals.list shows those that exist.`)
    }
    return toGatewayApproval(approvals.view(approvalAfter(await approvals.decide(approver, found, decision))))
  }
  return {
    async list(principal, { state, limit = DEFAULT_LIMIT } = {}) {
      const approver = checkApprover(approvals, principal)
      const filter = readAs(APPROVAL_FILTER(), { state, limit }, 'The filter')
      const found = await approvals.list(approver, defined({ limit: filter.limit, state: filter.state }))
      return found.map((approval) => toGatewayApproval(approvals.view(approval)))
    },
    async show(principal, id) {
      const found = await approvals.find(checkApprover(approvals, principal), id)
      return found === undefined ? undefined : toGatewayApproval(approvals.view(found))
    },
    approve: (principal, id, decision) => decide('approve', principal, id, decision),
    reject: (principal, id, decision) => decide('reject', principal, id, decision),
  }
}

/** Copies a view for the embedding program. The members of the copy are the public type. */
function toGatewayApproval(view: ApprovalView) {
  const { id, state, tenant, principal, callId, runId, userId, isUserProven, tool, safetyTier } = view
  const { input, hiddenValues, hidesSomething, isStale, quorum, requiredScope } = view
  const { createdAtMs, expiresAtMs, decidedAtMs, decisions } = view
  return {
    ...{ id, state, tenant, principal, callId, runId, userId, isUserProven, tool, safetyTier },
    ...{ input, hiddenValues, hidesSomething, isStale, quorum, requiredScope },
    ...{ createdAtMs, expiresAtMs, decidedAtMs, decisions },
  }
}
