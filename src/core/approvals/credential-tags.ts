import type { CallRequest } from '#core/call/call-request'
import type { ApprovalStore } from '#core/ports/approval-store'
import type { Tool } from '#core/tool'

/** Tells equal credentials without telling them: one HMAC tag per declared one that the caller sent (rule 21). */
export function credentialTags(
  approvals: ApprovalStore,
  tool: Tool,
  request: CallRequest,
): readonly string[] {
  const { authorization = [], secrets = [] } = tool.requirements ?? {}
  const tagOf = (kind: string, id: string, value: string | undefined) =>
    value === undefined ? [] : [approvals.sign('credential', JSON.stringify([kind, id, value]))]
  return [
    ...authorization.flatMap(({ id }) => tagOf('token', id, request.tokens.get(id)?.reveal())),
    ...secrets.flatMap(({ id }) => tagOf('secret', id, request.secrets.get(id)?.reveal())),
  ]
}
