import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { JsonObject, JsonValue } from '#core/json'

/** Whether a value that came off the wire, and so is JSON, is an object. */
export function isWireObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isWireArray(value: unknown): value is readonly JsonValue[] {
  return Array.isArray(value)
}

export function textOf(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/**
 * Takes any object for a result: what it means is read by us, once, and one odd member of one tool or block
 * does not cost the whole answer.
 */
export const ANY_RESULT: StandardSchemaV1<unknown, JsonObject> = {
  '~standard': {
    version: 1,
    vendor: 'collet',
    validate: (value) =>
      isWireObject(value) ? { value } : { issues: [{ message: 'the result is not an object' }] },
  },
}
