import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'

const MAX_DEPTH = 5

/** An input from the schema: its example or default, else the simplest value of its type. */
export function sampleInput(schema: JsonObject): JsonObject {
  const sample = sampleOf(schema, 0)
  return isJsonObject(sample) ? sample : {}
}

function sampleOf(schema: JsonValue | undefined, depth: number): JsonValue {
  if (!isJsonObject(schema) || depth > MAX_DEPTH) return null
  const { examples, enum: choices, type } = schema
  if (Array.isArray(examples) && examples[0] !== undefined) return examples[0]
  if (schema.default !== undefined) return schema.default
  if (schema.const !== undefined) return schema.const
  if (Array.isArray(choices) && choices[0] !== undefined) return choices[0]
  const kind = Array.isArray(type) ? type[0] : type
  if (kind === 'object' || isJsonObject(schema.properties)) return objectOf(schema, depth)
  if (kind === 'string') return 'a'.repeat(Math.max(1, numberOf(schema.minLength)))
  if (kind === 'number' || kind === 'integer') return numberOf(schema.minimum)
  if (kind === 'boolean') return false
  return kind === 'array' ? [] : null
}

function objectOf({ properties, required }: JsonObject, depth: number): JsonObject {
  const members = isJsonObject(properties) ? properties : {}
  const names = Array.isArray(required) ? required.filter((name) => typeof name === 'string') : []
  return Object.fromEntries(names.map((name) => [name, sampleOf(members[name], depth + 1)]))
}

function numberOf(value: JsonValue | undefined): number {
  return typeof value === 'number' ? value : 0
}
