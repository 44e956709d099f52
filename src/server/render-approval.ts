import { stateOf } from '#core/approvals/approval-desk'
import type { JsonObject, JsonValue } from '#core/json'
import type { ApprovalRecord } from '#core/ports/approval-store'

/** A question as operators and webhooks see it: ids, and the input without secrets. */
export function renderApproval(approval: ApprovalRecord, nowMs: number): JsonObject {
  const { id, tenant, principal, record, attempt, tool, toolId, tier, subject, decidedAtMs } = approval
  const input: JsonValue = JSON.parse(subject.summaryJson)
  return {
    id,
    state: stateOf(approval, nowMs),
    tenant,
    principal,
    record,
    call_id: subject.callId,
    run_id: subject.runId,
    user_id: subject.userId ?? null,
    attempt,
    tool,
    tool_id: toolId,
    safety_tier: tier,
    args_hash: subject.argsHash,
    definition_hash: approval.definitionHash,
    input,
    quorum: approval.quorum,
    required_scope: approval.requiredScope,
    created_at: timeOf(approval.createdAtMs),
    expires_at: timeOf(approval.expiresAtMs),
    decided_at: decidedAtMs === undefined ? null : timeOf(decidedAtMs),
    decisions: approval.decisions.map(({ by, action, reason, atMs }) => ({
      by,
      action,
      reason: reason ?? null,
      at: timeOf(atMs),
    })),
  }
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString()
}
