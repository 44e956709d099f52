import { hidesSomething, stateOf } from '#core/approvals/approvals'
import type { JsonObject, JsonValue } from '#core/json'
import type { ApprovalRecord } from '#core/ports/approval-store'

/** What is not in the record: when it is looked at, and whether its tool is another one by now. */
export interface ApprovalView {
  readonly nowMs: number
  readonly isStale: boolean
}

/** A question as operators see it: ids, a summary of the input, and all of it. */
export function renderApproval(approval: ApprovalRecord, view: ApprovalView): JsonObject {
  const input: JsonValue = JSON.parse(approval.subject.inputJson)
  return { ...renderInList(approval, view), input }
}

/** The same in lists and where room is bounded: how large the whole is stands in its place. */
export function renderInList(approval: ApprovalRecord, { nowMs, isStale }: ApprovalView): JsonObject {
  const { id, tenant, principal, record, attempt, tool, toolId, tier, subject, decidedAtMs } = approval
  const summary: JsonValue = JSON.parse(subject.summaryJson)
  return {
    id,
    state: stateOf(approval, nowMs),
    stale: isStale,
    tenant,
    principal,
    record,
    call_id: subject.callId,
    run_id: subject.runId,
    user_id: subject.userId ?? null,
    user_proven: subject.isUserProven,
    attempt,
    tool,
    tool_id: toolId,
    safety_tier: tier,
    args_hash: subject.argsHash,
    definition_hash: approval.definitionHash,
    summary,
    input_bytes: Buffer.byteLength(subject.inputJson),
    hidden_values: subject.hidden,
    hides_something: hidesSomething(approval),
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
