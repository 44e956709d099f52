import { APPROVAL_FILTER } from '#admin-api/approvals'
import type { ApprovalState } from '#kernel/approval/approval'
import type { Approvals } from '#kernel/approval/approvals'
import type { ApprovalView } from '#kernel/approval/decisions'
import { defined } from '#kernel/base/defined'
import { fault } from '#kernel/base/errors'
import type { Principal } from '#kernel/base/principal'
import { readAs } from '#server/admin/admin-route'
import { checkApprover, decided, readDecision } from '#server/admin/approvals'

/*
 * Approvals for programs that embed the gateway.
 * Exposed as `gateway.approvals` of `createGateway`.
 * Invariant: decisions follow the same rules as in the admin API and on the approval pages.
 */

const DEFAULT_LIMIT = 100

/** A call that waits or waited for an approval: ids and the input. */
export interface GatewayApproval extends Readonly<ReturnType<typeof shown>> {}

export interface GatewayApprovalFilter {
  readonly state?: ApprovalState
  /** From 1 to 1000; default 100. */
  readonly limit?: number
}

export interface GatewayDecision {
  /** Journaled, and shown to the caller after a refusal; at most 1000 characters. */
  readonly reason?: string
  /** Also approves hidden parts of the input. */
  readonly acceptHidden?: boolean
}

/**
 * Approvals from the same process. The embedding program names the approver and is responsible for it: the principal needs
 * the scope `approvals:respond` and those of the tool, sees its own tenant, and cannot approve its own calls. Refusals
 * throw a `ToolError`, except `show` of an unknown approval.
 */
export interface GatewayApprovals {
  /** Newest first. */
  list(approver: Principal, filter?: GatewayApprovalFilter): Promise<readonly GatewayApproval[]>
  /** `undefined` when the approver's tenant has no such approval. */
  show(approver: Principal, id: string): Promise<GatewayApproval | undefined>
  /** Approves without running: the call runs when its caller repeats it. An override needs `approvals:override` and a reason. */
  approve(
    approver: Principal,
    id: string,
    decision?: GatewayDecision & { readonly override?: boolean },
  ): Promise<GatewayApproval>
  /** Rejects for good. */
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
    return shown(approvals.view(decided(await approvals.decide(approver, found, decision))))
  }
  return {
    async list(principal, { state, limit = DEFAULT_LIMIT } = {}) {
      const approver = checkApprover(approvals, principal)
      const filter = readAs(APPROVAL_FILTER(), { state, limit }, 'The filter')
      const found = await approvals.list(approver, defined({ limit: filter.limit, state: filter.state }))
      return found.map((approval) => shown(approvals.view(approval)))
    },
    async show(principal, id) {
      const found = await approvals.find(checkApprover(approvals, principal), id)
      return found === undefined ? undefined : shown(approvals.view(found))
    },
    approve: (principal, id, decision) => decide('approve', principal, id, decision),
    reject: (principal, id, decision) => decide('reject', principal, id, decision),
  }
}

/** A copy that the embedding program may keep. Its members are the public type. */
function shown(view: ApprovalView) {
  const { id, state, tenant, principal, callId, runId, userId, isUserProven, tool, safetyTier } = view
  const { input, hiddenValues, hidesSomething, isStale, quorum, requiredScope } = view
  const { createdAtMs, expiresAtMs, decidedAtMs, decisions } = view
  return {
    ...{ id, state, tenant, principal, callId, runId, userId, isUserProven, tool, safetyTier },
    ...{ input, hiddenValues, hidesSomething, isStale, quorum, requiredScope },
    ...{ createdAtMs, expiresAtMs, decidedAtMs, decisions },
  }
}
