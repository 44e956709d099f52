import type { JsonObject, JsonValue } from '#core/json'
import type { CallPath, ServerWire } from './codec-client-wire.ts'

/** One call, ready to be written in any dialect. */
export interface WireCall {
  readonly toolId: string
  readonly callId: string
  readonly input: JsonValue
  readonly traceId?: string
  readonly context?: WireContext
}

export interface WireContext {
  readonly authorization?: readonly { readonly id: string; readonly token: string }[]
  readonly secrets?: readonly { readonly id: string; readonly value: string }[]
  readonly userId?: string
  readonly userInfo?: JsonValue
}

/** The body of a call: only members the closed request schema knows (OTC-57, C-05, C-06). */
export function buildCallBody(wire: ServerWire, path: CallPath, call: WireCall): JsonObject {
  const executing = path === '/execute' || path === '/tools/execute'
  const request: JsonObject = {
    // The execute drafts know a call's id only under its first name (C-04).
    [executing ? 'execution_id' : 'call_id']: call.callId,
    ...(call.traceId === undefined ? {} : { trace_id: call.traceId }),
    tool_id: call.toolId,
    input: call.input,
    ...(call.context === undefined ? {} : { context: contextMembers(call.context) }),
  }
  if (wire.dialect === 'oxp-header' && !executing) return request
  return { ...(wire.schemaId === undefined ? {} : { $schema: wire.schemaId }), request }
}

/** Arrays of `{id, token}` and `{id, value}`, never the older objects (C-26). */
function contextMembers(context: WireContext): JsonObject {
  const { authorization = [], secrets = [], userId, userInfo } = context
  return {
    ...(authorization.length === 0
      ? {}
      : { authorization: authorization.map(({ id, token }) => ({ id, token })) }),
    ...(secrets.length === 0 ? {} : { secrets: secrets.map(({ id, value }) => ({ id, value })) }),
    ...(userId === undefined ? {} : { user_id: userId }),
    ...(userInfo === undefined ? {} : { user_info: userInfo }),
  }
}
