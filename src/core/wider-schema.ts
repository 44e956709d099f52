import { isJsonObject, type JsonObject, type JsonValue } from './json.ts'
import { mapSubschemas, REFERENCES } from './schema-keywords.ts'
import { setMember } from './set-member.ts'

/**
 * A schema around parts that accept more than they did, changed so that the whole accepts no less: `oneOf` becomes
 * `anyOf`, and what turns around (`not`, `if`, an upper number of matches) or depends on what was looked at is left out.
 */
export function loosenAround(schema: JsonObject, isTouched: (keyword: string) => boolean): JsonObject {
  const made: Record<string, JsonValue> = { ...schema }
  // What they refuse depends on what others have looked at, also on what is gone.
  delete made.unevaluatedProperties
  delete made.unevaluatedItems
  if (isTouched('not')) delete made.not
  if (isTouched('contains')) delete made.maxContains
  if (isTouched('if')) {
    delete made.if
    delete made.then
    delete made.else
  }
  const { oneOf, anyOf, allOf } = made
  if (oneOf === undefined || !isTouched('oneOf')) return made
  delete made.oneOf
  if (anyOf === undefined) made.anyOf = oneOf
  else made.allOf = [...(Array.isArray(allOf) ? allOf : []), { anyOf: oneOf }]
  return made
}

/** The same for a schema whose references may lead to something that accepts more. */
export function loosenReferences(schema: JsonValue): JsonValue {
  return loosened(schema).schema
}

/** `mayAcceptMore` holds for what is around it as well. */
function loosened(schema: JsonValue): { readonly schema: JsonValue; readonly mayAcceptMore: boolean } {
  if (!isJsonObject(schema)) return { schema, mayAcceptMore: false }
  const made: Record<string, JsonValue> = {}
  const touched = new Set<string>()
  for (const [keyword, value] of Object.entries(schema)) {
    if (REFERENCES.has(keyword)) touched.add(keyword)
    const mapped = mapSubschemas(keyword, value, (inner) => {
      const { schema: rest, mayAcceptMore } = loosened(inner)
      if (mayAcceptMore) touched.add(keyword)
      return rest
    })
    setMember(made, keyword, mapped)
  }
  if (touched.size === 0) return { schema, mayAcceptMore: false }
  return { schema: loosenAround(made, (keyword) => touched.has(keyword)), mayAcceptMore: true }
}
