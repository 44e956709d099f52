import { checkCallKey } from '#core/ids'
import type { JsonValue } from '#core/json'
import { configFailure } from './call-failure.ts'

export function checkCallId(callId: string): string {
  if (typeof callId !== 'string') throw configFailure('A call id must be a string.')
  try {
    return checkCallKey(callId)
  } catch (error) {
    throw configFailure(error instanceof Error ? error.message : 'The call id cannot be used.')
  }
}

/** Taken once, so that a change made while we wait cannot turn a retry into another request. */
export function copyJson(value: JsonValue, name = 'The input'): JsonValue {
  try {
    return JSON.parse(JSON.stringify(value))
  } catch (cause) {
    const message = `${name} cannot be written as JSON: it must not hold cycles, functions or BigInts.`
    throw configFailure(message, { cause })
  }
}
