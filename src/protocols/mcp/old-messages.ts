import { isJsonObject } from '#core/json'
import type { Principal } from '#core/principal'
import { isJsonRpcId } from '#protocols/json-rpc'
import type { Methods } from './methods.ts'
import type { RequestsUnderWay } from './requests-under-way.ts'
import type { Message } from './wire.ts'

/** MCP-05, MCP-18: nothing is answered, and what we do not know is ignored. */
export function takeNotification(
  { underWay }: { readonly underWay: RequestsUnderWay },
  { tenant }: Principal,
  session: { readonly id: string },
  { method, params }: Message & { readonly kind: 'notification' },
): void {
  const requestId = isJsonObject(params) ? params.requestId : undefined
  if (method !== 'notifications/cancelled' || !isJsonRpcId(requestId)) return
  underWay.cancel({ tenant, session: session.id, requestId: JSON.stringify(requestId) })
}

/** The answer to a question of ours, whichever process asked it; an error is a no (MCP-79). */
export async function takeResponse(
  { methods }: { readonly methods: Methods },
  principal: Principal,
  { id, result }: Message & { readonly kind: 'response' },
): Promise<void> {
  if (typeof id !== 'string') return
  await methods.calls.questions.deliver(id, principal, isJsonObject(result) ? result : { action: 'cancel' })
}
