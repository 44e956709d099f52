import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { FunctionCall } from '#protocols/opentool/codec-convert-to-json'
import { configFailure } from './call-failure.ts'

/** What a function gave, under the id of its call (OTS-67). */
export interface ToolReturn {
  readonly id: string
  readonly result: JsonObject
}

/** Reads a call as models and agents pass it on: `{ id, name, arguments }` (OTS-67). */
export function functionCallFromJson(json: unknown): FunctionCall {
  const { id, name, arguments: given } = membersOf(json)
  if (typeof id === 'string' && typeof name === 'string' && isJsonObject(given ?? {})) {
    return { id, name, arguments: isJsonObject(given) ? given : {} }
  }
  throw configFailure('A function call needs the strings "id" and "name" and the object "arguments".')
}

export function functionCallToJson({ id, name, arguments: given }: FunctionCall): JsonObject {
  return { id, name, arguments: given }
}

export function toolReturnFromJson(json: unknown): ToolReturn {
  const { id, result } = membersOf(json)
  if (typeof id === 'string' && isJsonObject(result)) return { id, result }
  throw configFailure('A tool return needs the string "id" and the object "result".')
}

export function toolReturnToJson({ id, result }: ToolReturn): JsonObject {
  return { id, result }
}

/**
 * Samples of two SDKs return a tool's exception as a successful result, which is not taken for an error by itself: it
 * may be what the function is about (OTS-65).
 */
export function errorInResult(
  result: JsonObject,
): { readonly code: number; readonly message: string } | undefined {
  const { code, message, ...others } = result
  const isError = typeof code === 'number' && typeof message === 'string' && Object.keys(others).length === 0
  return isError ? { code, message } : undefined
}

function membersOf(json: unknown): JsonObject {
  try {
    const copy: JsonValue = JSON.parse(typeof json === 'string' ? json : (JSON.stringify(json) ?? 'null'))
    return isJsonObject(copy) ? copy : {}
  } catch {
    return {}
  }
}
