import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { ANCHORS, mapSubschemas, REFERENCES, type SchemaResolver, SUBSCHEMAS } from '#schema/keywords'

/**
 * The meaning of JSON Schemas for comparisons: checks without annotations, in a canonical order. `schema-diff` uses it.
 * Invariant: two schemas with the same meaning accept the same values.
 */

/** Keywords that decide which values are accepted. Every other keyword is an annotation. */
const CHECKING: ReadonlySet<string> = new Set([
  ...SUBSCHEMAS.keys(),
  ...REFERENCES,
  ...ANCHORS,
  ...[
    'type',
    'enum',
    'const',
    'required',
    'dependentRequired',
    'format',
    'pattern',
    'multipleOf',
    'uniqueItems',
  ],
  ...[
    'minimum',
    'maximum',
    'exclusiveMinimum',
    'exclusiveMaximum',
    'minLength',
    'maxLength',
    'minItems',
    'maxItems',
  ],
  ...['minProperties', 'maxProperties', 'minContains', 'maxContains', 'contentEncoding', 'contentMediaType'],
])
/** Keywords whose lists have no meaningful order. */
const SETS: ReadonlySet<string> = new Set(['required', 'enum', 'type'])
const MAX_CHAIN_LENGTH = 50

/** The checks of a schema, without annotations and in a canonical order. */
export function checkedMeaning(schema: JsonObject): string {
  return canonicalJson(withoutAnnotations(schema))
}

/** Like `checkedMeaning`, for the value of one keyword. */
export function keywordMeaning(keyword: string, value: JsonValue): string {
  return canonicalJson(meaningOf(keyword, value))
}

function withoutAnnotations(schema: JsonValue): JsonValue {
  if (!isJsonObject(schema)) return schema
  const kept = Object.entries(schema).filter(([keyword]) => CHECKING.has(keyword))
  return Object.fromEntries(kept.map(([keyword, value]) => [keyword, meaningOf(keyword, value)]))
}

function meaningOf(keyword: string, value: JsonValue): JsonValue {
  if (SETS.has(keyword) && Array.isArray(value)) return value.map((item) => canonicalJson(item)).sort()
  return mapSubschemas(keyword, value, withoutAnnotations)
}

interface FlatSchema {
  /** The schema with its reference followed. */
  readonly schema: JsonObject
  /** The keywords next to the reference. */
  readonly siblings: JsonObject
  /** The original object, to recognise recursion. */
  readonly from: JsonObject
}

export function flatten(schema: JsonValue, resolve: SchemaResolver): FlatSchema {
  let from = asObject(schema)
  let collected: JsonObject = {}
  for (let steps = 0; steps < MAX_CHAIN_LENGTH; steps += 1) {
    const { $ref: reference, ...siblings } = from
    if (typeof reference !== 'string') break
    const target = resolve(reference)
    if (target === undefined || Object.keys(siblings).some((keyword) => CHECKING.has(keyword))) break
    collected = { ...siblings, ...collected }
    from = asObject(target)
  }
  return { schema: { ...from, ...collected }, siblings: collected, from }
}

const ANY: JsonObject = Object.freeze({})
const NOTHING: JsonObject = Object.freeze({ not: ANY })

/** True if the schema accepts no value. */
export function isNothing({ from }: FlatSchema): boolean {
  const { not, ...others } = from
  return isJsonObject(not) && Object.keys(not).length === 0 && Object.keys(others).length === 0
}

function asObject(schema: JsonValue): JsonObject {
  if (isJsonObject(schema)) return schema
  return schema === false ? NOTHING : ANY
}

export function hasReference(value: JsonValue): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (!isJsonObject(value)) return value.some(hasReference)
  return Object.entries(value).some(([name, member]) => REFERENCES.has(name) || hasReference(member))
}

/** The effect of a change on the accepted values. `other`: both more and fewer, or unknown. */
export type SchemaEffect = 'narrower' | 'wider' | 'other' | 'wording'

/** Compares two values of a bound; an absent bound refuses nothing. */
export function boundEffect(
  direction: 'min' | 'max',
  before: JsonValue | undefined,
  after: JsonValue | undefined,
): SchemaEffect | undefined {
  if (before === after) return undefined
  if (before === undefined) return 'narrower'
  if (after === undefined) return 'wider'
  if (typeof before !== 'number' || typeof after !== 'number') return 'other'
  return after > before === (direction === 'min') ? 'narrower' : 'wider'
}

export const TYPES = ['null', 'boolean', 'object', 'array', 'number', 'integer', 'string']

/** The types that a schema accepts; `number` includes `integer`. */
export function typesOf(type: JsonValue | undefined): ReadonlySet<string> {
  const named = type === undefined ? TYPES : (Array.isArray(type) ? type : [type]).map(String)
  return new Set(named.includes('number') ? [...named, 'integer'] : named)
}

/** Compares the listed values; `const` counts as an `enum` of one value. */
export function valuesEffect(before: JsonObject, after: JsonObject): SchemaEffect | undefined {
  const [left, right] = [valuesOf(before), valuesOf(after)]
  if (left === undefined) return right === undefined ? undefined : 'narrower'
  return right === undefined ? 'wider' : setEffect(left, right)
}

function valuesOf(schema: JsonObject): ReadonlySet<string> | undefined {
  const { enum: list, const: value } = schema
  if (value !== undefined) return new Set([canonicalJson(value)])
  return Array.isArray(list) ? new Set(list.map(canonicalJson)) : undefined
}

/** Compares the accepted members of two sets. */
export function setEffect(before: ReadonlySet<string>, after: ReadonlySet<string>): SchemaEffect | undefined {
  const keeps = [...before].every((member) => after.has(member))
  const adds = [...after].some((member) => !before.has(member))
  if (keeps) return adds ? 'wider' : undefined
  return adds ? 'other' : 'narrower'
}
