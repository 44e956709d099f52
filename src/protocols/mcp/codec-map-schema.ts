import { isJsonObject, type JsonObject, type JsonValue, setMember } from '#core/json'
import { SUBSCHEMAS } from '#core/schema/keywords'

/** A copy in which every schema, the inner ones first, went through `change`; data inside schemas stays as it is. */
export function mapSchema(schema: JsonObject, change: (schema: JsonObject) => JsonObject): JsonObject {
  const copy: Record<string, JsonValue> = {}
  for (const [keyword, value] of Object.entries(schema))
    setMember(copy, keyword, mapMember(SUBSCHEMAS.get(keyword), value, change))
  return change(copy)
}

function mapMember(
  holds: 'one' | 'list' | 'map' | undefined,
  value: JsonValue,
  change: (schema: JsonObject) => JsonObject,
): JsonValue {
  const mapOne = (inner: JsonValue): JsonValue => (isJsonObject(inner) ? mapSchema(inner, change) : inner)
  if (holds === undefined) return value
  if (holds === 'one') return mapOne(value)
  if (Array.isArray(value)) return value.map(mapOne)
  if (!isJsonObject(value)) return value
  const copy: Record<string, JsonValue> = {}
  for (const [name, member] of Object.entries(value)) setMember(copy, name, mapOne(member))
  return copy
}
