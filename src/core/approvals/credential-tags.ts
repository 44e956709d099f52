import type { IdentifiedCall } from '#core/call/identified-call'
import type { ApprovalStore } from '#core/ports/approval-store'
import type { Tool } from '#core/tool'

/**
 * Tells equal credentials without telling them, one tag per declared one (rule 21): of what the caller sent, and of the
 * place in the vault whatever else comes from, because its value may be renewed while the call waits.
 */
export function credentialTags(
  approvals: ApprovalStore,
  tool: Tool,
  { request, vaultRefs }: Pick<IdentifiedCall, 'request' | 'vaultRefs'>,
): readonly string[] {
  const { authorization = [], secrets = [] } = tool.requirements ?? {}
  const tagOf = (kind: 'authorization' | 'secrets', id: string, value: string | undefined) => {
    const ref = vaultRefs?.get(`${kind}:${id}`)
    if (value === undefined && ref === undefined) return []
    const what = ref === undefined ? [kind, id, value] : [kind, id, 'vault', ref]
    return [approvals.sign('credential', JSON.stringify(what))]
  }
  return [
    ...authorization.flatMap(({ id }) => tagOf('authorization', id, request.tokens.get(id)?.reveal())),
    ...secrets.flatMap(({ id }) => tagOf('secrets', id, request.secrets.get(id)?.reveal())),
  ]
}
