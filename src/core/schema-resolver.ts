import { isJsonObject, type JsonObject, type JsonValue } from './json.ts'
import { pointerSteps } from './json-pointer.ts'
import { ANCHORS, visitSchemas } from './schema-keywords.ts'

/** What a reference points to inside its own document; `undefined` when it leads nowhere. */
export type SchemaResolver = (reference: string) => JsonValue | undefined

export function createSchemaResolver(root: JsonObject): SchemaResolver {
  let index: SchemaIndex | undefined
  return (reference) => {
    const fragment = localFragment(reference, root)
    if (fragment === undefined) return undefined
    index ??= indexSchemas(root)
    const target = isPointer(fragment) ? followPointer(root, fragment) : index.anchors.get(fragment)
    // Only what stands where a schema stands has been checked as one.
    return !isJsonObject(target) || index.schemas.has(target) ? target : undefined
  }
}

interface SchemaIndex {
  readonly schemas: ReadonlySet<JsonObject>
  readonly anchors: ReadonlyMap<string, JsonObject>
}

function indexSchemas(root: JsonObject): SchemaIndex {
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

function isPointer(fragment: string): boolean {
  return fragment === '' || fragment.startsWith('/')
}

/** The decoded part after `#`, if what stands before it is this document. */
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
    const next: JsonValue | undefined = Array.isArray(place) ? place[Number(step)] : memberOf(place, step)
    if (next === undefined) return undefined
    place = next
  }
  return place
}

function memberOf(place: JsonValue, step: string): JsonValue | undefined {
  return isJsonObject(place) ? place[step] : undefined
}
