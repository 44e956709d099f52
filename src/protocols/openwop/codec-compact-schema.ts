import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { SUBSCHEMAS } from '#core/schema/keywords'
import { intersectSchemas, uniteSchemas } from './codec-schema-merge.ts'

/** What RFC 0112 forbids at any depth. */
export const FORBIDDEN = [
  '$ref',
  'oneOf',
  'allOf',
  'anyOf',
  'not',
  'patternProperties',
  'dependentSchemas',
] as const

/** Gone, because they hold what is forbidden or count on it, or because a model has no use for them. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  ...FORBIDDEN,
  '$dynamicRef',
  'if',
  'then',
  'else',
  'dependencies',
  'maxContains',
  'unevaluatedProperties',
  'unevaluatedItems',
  '$schema',
  '$id',
  '$comment',
  '$defs',
  'definitions',
  'examples',
])

/**
 * An input schema without the forbidden keywords (OWP-25): alternatives and conjunctions are folded into one
 * plain schema, the rest is dropped. Whatever the tool accepts fits the result; the reverse need not hold.
 * `undefined` when nothing worth telling is left.
 */
export function compactSchema(schema: JsonObject): JsonObject | undefined {
  const reduced = reduce(schema)
  if (!isJsonObject(reduced)) return undefined
  const { type: _always, properties = {}, ...others } = reduced
  const isEmpty = isJsonObject(properties) && Object.keys(properties).length === 0
  // `{ type, properties: {} }` would read as "takes no parameters".
  if (isEmpty && hasForbidden(schema)) return undefined
  return { type: 'object', properties, ...others }
}

function hasForbidden(schema: JsonObject): boolean {
  return FORBIDDEN.some((keyword) => Object.hasOwn(schema, keyword))
}

function reduce(schema: JsonValue): JsonValue {
  if (!isJsonObject(schema)) return schema
  const conjunction = [reduceOwn(schema), ...listOf(schema.allOf).map(reduce)]
  for (const alternatives of [schema.anyOf, schema.oneOf]) {
    if (alternatives !== undefined) conjunction.push(uniteSchemas(listOf(alternatives).map(reduce)))
  }
  return conjunction.reduce(intersectSchemas)
}

function reduceOwn(schema: JsonObject): JsonObject {
  const isPatterned = Object.hasOwn(schema, 'patternProperties')
  return Object.fromEntries(
    Object.entries(schema)
      // Without the patterns, `additionalProperties` would refuse what they allow.
      .filter(([keyword]) => !LEFT_OUT.has(keyword) && !(isPatterned && keyword === 'additionalProperties'))
      .map(([keyword, value]) => [keyword, reduceKeyword(keyword, value)]),
  )
}

function reduceKeyword(keyword: string, value: JsonValue): JsonValue {
  const holds = SUBSCHEMAS.get(keyword)
  if (holds === 'one') return reduce(value)
  if (holds === 'list') return listOf(value).map(reduce)
  if (holds !== 'map' || !isJsonObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, reduce(member)]))
}

function listOf(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : []
}
