import type { JsonObject, JsonValue } from '#core/json'
import { SUBSCHEMAS } from '#core/schema/keywords'
import { isWireArray, isWireObject } from './wire.ts'

export type RaisedSchema =
  | { readonly ok: true; readonly schema: JsonObject }
  | { readonly ok: false; readonly problem: string }

const NEWEST = 'https://json-schema.org/draft/2020-12/schema'
/** What servers write; most of those in use say draft-07, because their library does (MCP-54). */
const OLDER = /^https?:\/\/json-schema\.org\/(?:draft-0[4-7]\/schema|draft\/2019-09\/schema)$/
const DEEPEST = 200
/** All that counts beside a reference in drafts up to 7. */
const BESIDE_REFERENCE: ReadonlySet<string> = new Set([
  '$ref',
  'definitions',
  '$defs',
  'title',
  'description',
])

/**
 * The same schema in 2020-12, the one dialect that is enforced here. One that names none is read as 2020-12, but for
 * forms that only older ones have.
 */
export function raiseSchema(schema: JsonObject): RaisedSchema {
  const { $schema: dialect, ...rest } = schema
  const name = typeof dialect === 'string' ? dialect.replace(/#$/, '') : ''
  if (name === NEWEST) return { ok: true, schema }
  if (dialect !== undefined && !OLDER.test(name))
    return { ok: false, problem: `its schema is in a dialect that is not known: "${name}"` }
  return { ok: true, schema: raise(rest, { isLonely: /draft-0[4-7]/.test(name), depth: 0 }) }
}

interface Place {
  /** Whether a reference stands alone, whatever is written beside it. */
  readonly isLonely: boolean
  readonly depth: number
}

function raise(schema: JsonObject, place: Place): JsonObject {
  if (place.depth > DEEPEST) return schema
  const isReference = place.isLonely && typeof schema.$ref === 'string'
  const raised: Record<string, JsonValue> = {}
  for (const [keyword, value] of Object.entries(schema)) {
    if (isReference && !BESIDE_REFERENCE.has(keyword)) continue
    for (const [newer, meaning] of Object.entries(raiseKeyword(keyword, value, schema))) {
      const holds = SUBSCHEMAS.get(newer)
      raised[newer] = holds === undefined ? meaning : raiseInside(meaning, holds, place)
    }
  }
  return raised
}

function raiseInside(value: JsonValue, holds: 'one' | 'list' | 'map', { isLonely, depth }: Place): JsonValue {
  const each = (member: JsonValue): JsonValue =>
    isWireObject(member) ? raise(member, { isLonely, depth: depth + 1 }) : member
  if (holds === 'one') return each(value)
  if (holds === 'list') return isWireArray(value) ? value.map(each) : value
  if (!isWireObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, each(member)]))
}

/** What has another name or form in 2020-12. */
function raiseKeyword(keyword: string, value: JsonValue, schema: JsonObject): JsonObject {
  const isTuple = isWireArray(schema.items)
  switch (keyword) {
    case 'items':
      return isTuple ? { prefixItems: value } : { items: value }
    case 'additionalItems':
      return isTuple ? { items: value } : {}
    case 'dependencies':
      return isWireObject(value) ? splitDependencies(value) : {}
    case 'exclusiveMinimum':
      return raiseLimit(keyword, value, schema.minimum)
    case 'exclusiveMaximum':
      return raiseLimit(keyword, value, schema.maximum)
    case 'type':
      return { type: schema.nullable === true && typeof value === 'string' ? [value, 'null'] : value }
    case '$recursiveRef':
      return { $ref: value }
    case '$schema':
    case 'id':
    case '$async':
    case 'nullable':
    case '$recursiveAnchor':
      return {}
    default:
      return { [keyword]: value }
  }
}

/** Draft 4 has a yes or no beside the limit. */
function raiseLimit(keyword: string, value: JsonValue, limit: JsonValue | undefined): JsonObject {
  if (typeof value !== 'boolean') return { [keyword]: value }
  return value && limit !== undefined ? { [keyword]: limit } : {}
}

function splitDependencies(dependencies: JsonObject): JsonObject {
  const entries = Object.entries(dependencies)
  const required = entries.filter(([, value]) => isWireArray(value))
  const schemas = entries.filter(([, value]) => !isWireArray(value))
  return {
    ...(required.length === 0 ? {} : { dependentRequired: Object.fromEntries(required) }),
    ...(schemas.length === 0 ? {} : { dependentSchemas: Object.fromEntries(schemas) }),
  }
}
