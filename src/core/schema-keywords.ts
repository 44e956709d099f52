import type { JsonObject, JsonValue } from './json.ts'
import { isJsonObject } from './json.ts'
import { childPointer } from './json-pointer.ts'
import { setMember } from './set-member.ts'

/**
 * Where JSON Schema 2020-12 holds further schemas. Everything else is data or annotation: a `$ref` inside
 * `const` is a value, and a property named `$defs` is a property (OTC-34).
 */
export const SUBSCHEMAS: ReadonlyMap<string, 'one' | 'list' | 'map'> = new Map([
  ['additionalProperties', 'one'],
  ['unevaluatedProperties', 'one'],
  ['propertyNames', 'one'],
  ['items', 'one'],
  ['unevaluatedItems', 'one'],
  ['contains', 'one'],
  ['contentSchema', 'one'],
  ['not', 'one'],
  ['if', 'one'],
  ['then', 'one'],
  ['else', 'one'],
  ['allOf', 'list'],
  ['anyOf', 'list'],
  ['oneOf', 'list'],
  ['prefixItems', 'list'],
  ['properties', 'map'],
  ['patternProperties', 'map'],
  ['dependentSchemas', 'map'],
  ['dependencies', 'map'],
  ['$defs', 'map'],
  ['definitions', 'map'],
])

/** Keywords that point elsewhere; one schema document has one scope, so both resolve alike. */
export const REFERENCES: ReadonlySet<string> = new Set(['$ref', '$dynamicRef'])
export const DEFINITIONS: ReadonlySet<string> = new Set(['$defs', 'definitions'])
export const ANCHORS: ReadonlySet<string> = new Set(['$anchor', '$dynamicAnchor'])

/** Calls `visit` for a schema and every schema inside it. The schema is known to fit the meta-schema. */
export function visitSchemas(
  schema: JsonValue,
  pointer: string,
  visit: (schema: JsonObject, pointer: string) => void,
): void {
  if (!isJsonObject(schema)) return
  visit(schema, pointer)
  for (const [keyword, value] of Object.entries(schema)) {
    const holds = SUBSCHEMAS.get(keyword)
    if (holds === undefined) continue
    const place = childPointer(pointer, keyword)
    if (holds === 'one') visitSchemas(value, place, visit)
    else if (Array.isArray(value)) {
      for (const [index, member] of value.entries()) visitSchemas(member, childPointer(place, index), visit)
    } else if (isJsonObject(value)) {
      for (const [name, member] of Object.entries(value)) {
        visitSchemas(member, childPointer(place, name), visit)
      }
    }
  }
}

/** What a keyword holds, with the schemas directly inside it mapped; anything else is given back as it is. */
export function mapSubschemas(
  keyword: string,
  value: JsonValue,
  map: (schema: JsonValue) => JsonValue,
): JsonValue {
  const holds = SUBSCHEMAS.get(keyword)
  if (holds === undefined) return value
  if (Array.isArray(value)) return value.map(map)
  if (holds === 'one' || !isJsonObject(value)) return map(value)
  const members: Record<string, JsonValue> = {}
  for (const [name, member] of Object.entries(value)) setMember(members, name, map(member))
  return members
}
