import {
  childPointer,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  pointerSteps,
  setMember,
} from '#kernel/base/json'

/**
 * Which keywords of JSON Schema 2020-12 contain further schemas, how to visit and map them, and where references lead. Every module that
 * walks through schemas uses it.
 * A reference points only to a schema in the same document.
 */

/** `undefined` for a reference that leads nowhere. */
export type SchemaResolver = (reference: string) => JsonValue | undefined

export function createSchemaResolver(root: JsonObject): SchemaResolver {
  let index: ReturnType<typeof indexSchemas> | undefined
  return (reference) => {
    const fragment = localFragment(reference, root)
    if (fragment === undefined) return undefined
    index ??= indexSchemas(root)
    const isPointer = fragment === '' || fragment.startsWith('/')
    const target = isPointer ? followPointer(root, fragment) : index.anchors.get(fragment)
    // Objects elsewhere in the document have not been checked as schemas.
    return !isJsonObject(target) || index.schemas.has(target) ? target : undefined
  }
}

function indexSchemas(root: JsonObject) {
  const schemas = new Set<JsonObject>()
  const anchors = new Map<string, JsonObject>()
  visitSchemas(root, '', (schema) => {
    schemas.add(schema)
    for (const keyword of ANCHORS) {
      const name = schema[keyword]
      if (typeof name === 'string' && !anchors.has(name)) anchors.set(name, schema)
    }
  })
  return { schemas, anchors }
}

/** The decoded part after `#`; `undefined` if the part before it names another document. */
function localFragment(reference: string, root: JsonObject): string | undefined {
  const [document = '', fragment = '', ...more] = reference.split('#')
  const { $id: id } = root
  const itself = document === '' || (typeof id === 'string' && document === id.replace(/#$/, ''))
  if (!itself || more.length > 0) return undefined
  try {
    return decodeURIComponent(fragment)
  } catch {
    return undefined
  }
}

function followPointer(root: JsonObject, pointer: string): JsonValue | undefined {
  let place: JsonValue = root
  for (const step of pointerSteps(pointer)) {
    // A list has its indices as own keys, and nothing is read from a prototype.
    if (typeof place !== 'object' || place === null || !Object.hasOwn(place, step)) return undefined
    place = Reflect.get(place, step)
  }
  return place
}

/** Keywords that contain schemas. Every other value is data or an annotation: a `$ref` inside `const` is a value, and a property named `$defs` a property (OTC-34). */
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

/** Keywords that point elsewhere; one schema document has one scope, so both resolve in the same way. */
export const REFERENCES: ReadonlySet<string> = new Set(['$ref', '$dynamicRef'])
export const DEFINITIONS: ReadonlySet<string> = new Set(['$defs', 'definitions'])
export const ANCHORS: ReadonlySet<string> = new Set(['$anchor', '$dynamicAnchor'])

/** Calls `visit` for a schema and every schema inside it. The schema has passed the meta-schema. */
export function visitSchemas(
  schema: JsonValue,
  pointer: string,
  visit: (schema: JsonObject, pointer: string) => void,
): void {
  if (!isJsonObject(schema)) return
  visit(schema, pointer)
  for (const [keyword, value] of Object.entries(schema)) {
    const shape = SUBSCHEMAS.get(keyword)
    if (shape === undefined) continue
    const place = childPointer(pointer, keyword)
    if (shape === 'one') visitSchemas(value, place, visit)
    else if (typeof value === 'object' && value !== null) {
      for (const [step, member] of Object.entries(value)) {
        visitSchemas(member, childPointer(place, step), visit)
      }
    }
  }
}

/** Maps the schemas directly inside the value of a keyword, each with its name or index; other values are returned unchanged. */
export function mapSubschemas(
  keyword: string,
  value: JsonValue,
  map: (schema: JsonValue, step?: string | number) => JsonValue,
): JsonValue {
  const shape = SUBSCHEMAS.get(keyword)
  if (shape === undefined) return value
  if (Array.isArray(value)) return value.map((member: JsonValue, index) => map(member, index))
  if (shape === 'one' || !isJsonObject(value)) return map(value)
  const members: Record<string, JsonValue> = {}
  for (const [name, member] of Object.entries(value)) setMember(members, name, map(member, name))
  return members
}

export function propertiesOf({ properties }: JsonObject): JsonObject {
  return isJsonObject(properties) ? properties : {}
}
