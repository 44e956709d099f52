import type { IdentifiedCall } from '#core/call/identified-call'
import { canonicalJson } from '#core/canonical-json'
import type { ApprovalStore } from '#core/ports/approval-store'
import type { Tool } from '#core/tool'
import { boundValue } from './bound-value.ts'

export interface BoundCall {
  readonly call: IdentifiedCall
  readonly tool: Tool
  /** What `run` gets. */
  readonly input: unknown
  /** One opaque tag per credential: an HMAC of what the caller sent, or a reference to what is kept for it. */
  readonly credentials: readonly string[]
}

/** Everything a yes is for, as one keyed digest (rule 21). */
export function bindCall(approvals: ApprovalStore, { call, tool, input, credentials }: BoundCall): string {
  const { tenant, principal, record, request, inputJson } = call
  const parts = [
    ...[tenant, principal.id, record],
    ...[request.userId ?? null, request.sessionId ?? null],
    ...[tool.id, tool.definitionHash],
    ...[inputJson, boundValue(input)],
    [...credentials].sort(),
    // Calls without it keep the form they had before it reached tools.
    ...(request.userInfo === undefined ? [] : [canonicalJson(request.userInfo)]),
    // An approver was told whether the user is proven; an array, so that it is no text of anybody.
    ...(call.isUserProven === true ? [['proven user']] : []),
  ]
  return approvals.sign('grant', JSON.stringify(parts))
}
