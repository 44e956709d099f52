import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import {
  type RefusalHints,
  readChallenges,
  readMessage,
  readRefusal,
  readToolError,
  type WireFailure,
} from './codec-client-failure.ts'
import type { ServerWire } from './codec-client-wire.ts'

/** What a server's answer to a call says. */
export type CallReading =
  | {
      readonly kind: 'value'
      readonly value: JsonValue
      readonly callId?: string
      readonly durationMs?: number
    }
  | { readonly kind: 'failure'; readonly failure: WireFailure }
  /** 2xx, but not a call response in any dialect. */
  | { readonly kind: 'unreadable' }

export function readCallReply(
  status: number,
  body: JsonValue | undefined,
  wire: Pick<ServerWire, 'dialect'> & RefusalHints,
): CallReading {
  if (status < 200 || status > 299) return { kind: 'failure', failure: readRefusal(status, body, wire) }
  const reply = isJsonObject(body) ? replyIn(body) : undefined
  if (reply === undefined) return { kind: 'unreadable' }
  const inner = 'value' in reply || 'error' in reply || !isJsonObject(reply.output) ? reply : reply.output
  const meta = readMeta(reply)
  const authorization = inner.requires_authorization ?? utsChallenge(inner.value, wire)
  if (typeof authorization === 'object' && authorization !== null) {
    const missing = { authorization: readChallenges(authorization) }
    const error = isJsonObject(inner.error) ? inner.error : {}
    return { kind: 'failure', failure: { ...readToolError(error, missing), ...meta } }
  }
  if (reply.success === true) return { kind: 'value', value: inner.value ?? inner.artifact ?? null, ...meta }
  if (reply.success === false || isJsonObject(inner.error)) {
    const error = isJsonObject(inner.error) ? inner.error : {}
    return { kind: 'failure', failure: { ...readToolError(error, undefined), ...meta } }
  }
  return { kind: 'unreadable' }
}

/**
 * Whether a 404 or 405 means that the path does not exist. A 404 that names a tool is the answer of a server
 * that has the path but not the tool (C-01).
 */
export function isRouteMiss(status: number, body: JsonValue | undefined, toolId: string): boolean {
  if (status === 405) return true
  if (status !== 404) return false
  const message = readMessage(body) ?? ''
  const [base = toolId] = toolId.split('@')
  return !/\btool\b/i.test(message) && !message.includes(base)
}

/** `result`, else `response`, else the body itself if it has `success` (C-03). */
function replyIn(body: JsonObject): JsonObject | undefined {
  if (isJsonObject(body.result)) return body.result
  if (isJsonObject(body.response)) return body.response
  return 'success' in body ? body : undefined
}

/** `call_id`, else `execution_id` (C-04). */
function readMeta(reply: JsonObject): { readonly callId?: string; readonly durationMs?: number } {
  const callId = reply.call_id ?? reply.execution_id
  return {
    ...(typeof callId === 'string' ? { callId } : {}),
    ...(typeof reply.duration === 'number' ? { durationMs: reply.duration } : {}),
  }
}

/** Elsewhere such an object is an ordinary value, so it counts only in uts mode (C-27). */
function utsChallenge(
  value: JsonValue | undefined,
  { dialect }: Pick<ServerWire, 'dialect'>,
): JsonValue | undefined {
  return dialect === 'uts' && isJsonObject(value) && value.auth_required === true ? value : undefined
}
