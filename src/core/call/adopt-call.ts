import type { Tool } from '#core/tool'
import { adaptInput } from './adapt-input.ts'
import type { CallServices } from './call-services.ts'
import type { IdentifiedCall } from './identified-call.ts'

/**
 * Rule 6: a request without a key that equals one of its principal's calls which waits for a yes, or has one that is
 * unused, is that call: clients that cannot send keys can still resume.
 */
export async function adoptCall(services: CallServices, call: IdentifiedCall): Promise<IdentifiedCall> {
  const tool = services.registry.catalogFor(call.principal).resolve(call.request.tool)
  if (tool === undefined || !mayWait(tool)) return call
  const { tenant, principal, fingerprint } = adaptInput(services.store, call, tool)
  const { definitionHash } = tool
  const like = { tenant, principal: principal.id, fingerprint, definitionHash }
  const found = await services.store.approvals.findParked(like)
  if (found === undefined) return call
  return { ...call, record: found.record, callId: found.callId, keyed: true }
}

/** A workflow may also wait for a step of its own, whatever that one needs. */
function mayWait({ policy, workflow }: Tool): boolean {
  return policy.approval !== 'never' || workflow !== undefined
}
