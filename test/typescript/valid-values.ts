import { isJsonObject, type JsonObject, type JsonValue, setMember } from '#kernel/base/json'
import { createSchemaResolver } from '#schema/keywords'

/**
 * Candidates for values of a schema. They are often valid and sometimes not, so a validator has to choose; they have
 * no members that the schema does not name, because TypeScript refuses those in literals.
 */
export function candidates(schema: JsonValue, random: () => number, count: number): readonly JsonValue[] {
  const resolve = createSchemaResolver(isJsonObject(schema) ? schema : {})
  const pick = <T>(list: readonly T[]): T | undefined => list[Math.floor(random() * list.length)]
  const lists = (value: JsonValue | undefined): readonly JsonValue[] => (Array.isArray(value) ? value : [])

  function anyValue(each: JsonValue | undefined, depth: number): JsonValue {
    if (!isJsonObject(each)) return pick<JsonValue>(['text', 7, true, null, [1], { any: 1 }]) ?? null
    if (each.const !== undefined) return each.const
    if (Array.isArray(each.enum)) return pick<JsonValue>(each.enum) ?? null
    if (each.nullable === true && random() < 0.3) return null
    const branches = [
      ...(typeof each.$ref === 'string' && depth < 12 ? [resolve(each.$ref)] : []),
      ...lists(each.allOf),
      ...[each.anyOf, each.oneOf].flatMap((list) => (Array.isArray(list) ? [pick<JsonValue>(list)] : [])),
    ]
    const type = each.type ?? (branches.length === 0 ? shapeOf(each) : undefined)
    const typed = type === undefined ? {} : { type }
    let value =
      type === undefined && !('properties' in each) ? undefined : plainValue({ ...each, ...typed }, depth)
    for (const branch of branches) {
      const isUntyped = isJsonObject(branch) && branch.type === undefined
      const found = anyValue(isUntyped ? { ...branch, ...typed } : branch, depth + 1)
      if (isJsonObject(value) && isJsonObject(found)) value = { ...value, ...found }
      else if (value === undefined || isJsonObject(value)) value = found
    }
    return value ?? null
  }

  function plainValue(each: JsonObject, depth: number): JsonValue {
    const type = Array.isArray(each.type) ? pick<JsonValue>(each.type) : (each.type ?? 'object')
    if (type === 'string') return pick(['', 'text', '2026-01-01', 'a@b.example', 'x'.repeat(12)]) ?? ''
    if (type === 'integer') return pick([0, 1, 5, 42]) ?? 0
    if (type === 'number') return pick([0, 1, -1.5, 1e21]) ?? 0
    if (type === 'boolean') return random() < 0.5
    if (type === 'null') return null
    if (type === 'array') {
      const first = lists(each.prefixItems)
      const length = depth > 8 ? 0 : Math.floor(random() * 4)
      return Array.from({ length }, (_, index) => anyValue(first[index] ?? each.items, depth + 1))
    }
    return objectValue(each, depth)
  }

  function objectValue(each: JsonObject, depth: number): JsonObject {
    const members: Record<string, JsonValue> = {}
    const required = new Set(lists(each.required))
    const properties = isJsonObject(each.properties) ? each.properties : {}
    for (const [name, member] of Object.entries(properties))
      if (required.delete(name) || (random() < 0.6 && depth < 8))
        setMember(members, name, anyValue(member, depth + 1))
    for (const name of required)
      if (typeof name === 'string') setMember(members, name, anyValue(each.additionalProperties, depth + 1))
    if (isJsonObject(each.additionalProperties) && depth < 6 && random() < 0.5)
      setMember(members, 'another', anyValue(each.additionalProperties, depth + 1))
    return members
  }
  return Array.from({ length: count }, () => anyValue(schema, 0))
}

function shapeOf(schema: JsonObject): JsonValue | undefined {
  if ('items' in schema || 'prefixItems' in schema) return 'array'
  return 'required' in schema || 'additionalProperties' in schema ? 'object' : undefined
}

/** A linear congruential generator, so that a run can be repeated. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
