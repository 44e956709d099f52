import { isJsonObject, type JsonObject, type JsonValue, setMember } from '#kernel/base/json'
import { mapSubschemas, REFERENCES } from './keywords.ts'

/**
 * Makes schemas that accept at least what the original accepts, for imported schemas of which parts are cut or not enforced.
 * Used by `inline.ts`, by `imported.ts` and by the OpenAPI source.
 * A part may accept more only where that cannot make the whole accept less.
 */

/** Changes the keywords of one schema so that it accepts more; returns the same object if there is nothing to change. */
type Relax = (schema: JsonObject) => JsonObject

/** Relaxes a schema and all schemas inside it. References may lead to something that accepts more. */
export function loosenSchema(schema: JsonValue, relax: Relax = (same) => same): JsonValue {
  return loosen(schema, relax).schema
}

/** The schema without patterns that are not enforced here. */
export function withoutPatterns(schema: JsonObject, patterns: ReadonlySet<string>): JsonObject {
  if (patterns.size === 0) return schema
  const loosened = loosenSchema(schema, (inner) => {
    const { pattern, patternProperties, ...rest } = inner
    const names = Object.entries(isJsonObject(patternProperties) ? patternProperties : {})
    const keptNames = names.filter(([name]) => !patterns.has(name))
    const isKept = typeof pattern !== 'string' || !patterns.has(pattern)
    if (isKept && keptNames.length === names.length) return inner
    // The empty pattern matches every name, so that `additionalProperties` refuses none that a lost one accepted.
    if (keptNames.length < names.length) keptNames.push(['', true])
    return {
      ...rest,
      ...(isKept && pattern !== undefined ? { pattern } : {}),
      ...(names.length > 0 ? { patternProperties: Object.fromEntries(keptNames) } : {}),
    }
  })
  return isJsonObject(loosened) ? loosened : {}
}

/** If `mayAcceptMore` is set, it is also set for every schema around this one. */
function loosen(
  schema: JsonValue,
  relax: Relax,
): { readonly schema: JsonValue; readonly mayAcceptMore: boolean } {
  if (!isJsonObject(schema)) return { schema, mayAcceptMore: false }
  const relaxed = relax(schema)
  const made: Record<string, JsonValue> = {}
  const touched = new Set<string>()
  for (const [keyword, value] of Object.entries(relaxed)) {
    if (REFERENCES.has(keyword)) touched.add(keyword)
    const mapped = mapSubschemas(keyword, value, (inner) => {
      const { schema: rest, mayAcceptMore } = loosen(inner, relax)
      if (mayAcceptMore) touched.add(keyword)
      return rest
    })
    setMember(made, keyword, mapped)
  }
  if (touched.size === 0 && relaxed === schema) return { schema, mayAcceptMore: false }
  return { schema: loosenAround(made, touched), mayAcceptMore: true }
}

/**
 * Changes the keywords around those parts that accept more (`touched`) so that the whole accepts no less: `oneOf` becomes
 * `anyOf`, and a keyword that would now refuse more is left out.
 */
export function loosenAround(schema: JsonObject, touched: ReadonlySet<string>): JsonObject {
  const made: Record<string, JsonValue> = { ...schema }
  // These keywords refuse what no other keyword evaluates, and a part that was cut evaluates nothing.
  const dropped = ['unevaluatedProperties', 'unevaluatedItems']
  if (touched.has('not')) dropped.push('not')
  if (touched.has('contains')) dropped.push('maxContains')
  if (touched.has('if')) dropped.push('if', 'then', 'else')
  for (const keyword of dropped) delete made[keyword]
  const { oneOf, anyOf, allOf } = made
  if (oneOf === undefined || !touched.has('oneOf')) return made
  delete made.oneOf
  if (anyOf === undefined) made.anyOf = oneOf
  else made.allOf = [...(Array.isArray(allOf) ? allOf : []), { anyOf: oneOf }]
  return made
}
