import {
  canonicalJson,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
} from '#kernel/base/json'
import { type BoundedPattern, type BoundedWork, isStructured, type Position } from './bounded-work.ts'

type Check = (value: JsonValue, look: { readonly work: BoundedWork; readonly position: Position }) => boolean

/** Keywords that look at a value itself and at no schema inside, and what reads them, in the order of the checks. */
export const VALUE_READERS: readonly (readonly [keywords: readonly string[], read: ReadValueKeywords])[] = [
  [['type'], typeChecks],
  [['const', 'enum', 'uniqueItems'], equalityChecks],
  [['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'], numberChecks],
  [['minLength', 'maxLength', 'pattern'], textChecks],
  [['minItems', 'maxItems', 'minProperties', 'maxProperties'], sizeChecks],
  [['required', 'dependentRequired', 'dependencies'], nameChecks],
]

type ReadValueKeywords = (
  schema: JsonObject,
  patternOf: (source: string) => BoundedPattern,
) => Iterable<Check>

const KINDS: Readonly<Record<string, (value: JsonValue) => boolean>> = {
  array: (value) => Array.isArray(value),
  boolean: (value) => typeof value === 'boolean',
  integer: (value) => Number.isInteger(value),
  null: (value) => value === null,
  // NaN and Infinity are no numbers of JSON.
  number: (value) => Number.isFinite(value),
  object: isJsonObject,
  string: (value) => typeof value === 'string',
}

function* typeChecks({ type }: JsonObject): Iterable<Check> {
  if (type === undefined) return
  const kinds = (Array.isArray(type) ? type : [type]).map((name) => KINDS[String(name)])
  yield (value, { work, position }) =>
    kinds.some((isKind) => isKind?.(value) === true) || work.fail('type', { type }, position)
}

function* equalityChecks(schema: JsonObject): Iterable<Check> {
  const { enum: values, uniqueItems } = schema
  if (schema.const !== undefined) {
    const { const: allowedValue } = schema
    yield equals([allowedValue], 'const', { allowedValue })
  }
  if (Array.isArray(values)) yield equals(values, 'enum', { allowedValues: values })
  if (uniqueItems === true) {
    yield (value, { work, position }) =>
      !Array.isArray(value) || hasNoTwins(value, work) || work.fail('uniqueItems', {}, position)
  }
}

function equals(values: JsonArray, keyword: string, params: Readonly<Record<string, unknown>>): Check {
  const scalars = new Set(values.filter((value) => !isStructured(value)))
  const structured = new Set(values.filter(isStructured).map(canonicalJson))
  return (value, { work, position }) => {
    if (typeof value === 'string') work.spendText(value)
    const isEqual = isStructured(value)
      ? structured.size > 0 && structured.has(equalityKey(value, work))
      : scalars.has(value)
    return isEqual || work.fail(keyword, params, position)
  }
}

function hasNoTwins(items: JsonArray, work: BoundedWork): boolean {
  const scalars = new Set<JsonValue>()
  const structured = new Set<string>()
  for (const item of items) {
    work.spendKept(item)
    if (isStructured(item)) structured.add(equalityKey(item, work))
    else scalars.add(item)
  }
  return scalars.size + structured.size === items.length
}

function equalityKey(value: JsonValue, work: BoundedWork): string {
  work.spendWhole(value)
  return canonicalJson(value)
}

const BOUNDS: Readonly<Record<string, (value: number, limit: number) => boolean>> = {
  minimum: (value, limit) => value >= limit,
  maximum: (value, limit) => value <= limit,
  exclusiveMinimum: (value, limit) => value > limit,
  exclusiveMaximum: (value, limit) => value < limit,
}

function* numberChecks(schema: JsonObject): Iterable<Check> {
  for (const [keyword, holds] of Object.entries(BOUNDS)) {
    const limit = schema[keyword]
    if (typeof limit !== 'number') continue
    yield (value, { work, position }) =>
      typeof value !== 'number' || holds(value, limit) || work.fail(keyword, { limit }, position)
  }
  const { multipleOf } = schema
  if (typeof multipleOf !== 'number') return
  yield (value, { work, position }) =>
    typeof value !== 'number' ||
    isMultiple(value, multipleOf) ||
    work.fail('multipleOf', { multipleOf }, position)
}

/** 19.99 is a multiple of 0.01, although no binary fraction of it is. */
function isMultiple(value: number, unit: number): boolean {
  const times = value / unit
  return Math.abs(times - Math.round(times)) <= Math.abs(times) * Number.EPSILON
}

function* textChecks(
  { minLength, maxLength, pattern, format }: JsonObject,
  patternOf: (source: string) => BoundedPattern,
): Iterable<Check> {
  if (typeof minLength === 'number') {
    yield (value, { work, position }) =>
      typeof value !== 'string' ||
      countOf(value, work) >= minLength ||
      work.fail('minLength', { limit: minLength }, position)
  }
  if (typeof maxLength === 'number') {
    yield (value, { work, position }) =>
      typeof value !== 'string' ||
      value.length <= maxLength ||
      countOf(value, work) <= maxLength ||
      work.fail('maxLength', { limit: maxLength }, position)
  }
  if (typeof pattern !== 'string') return
  const compiled = patternOf(pattern)
  const params = { pattern, ...(format === undefined ? {} : { format }) }
  yield (value, { work, position }) =>
    typeof value !== 'string' || work.matches(compiled, value) || work.fail('pattern', params, position)
}

/** Characters as Unicode counts them. */
function countOf(text: string, work: BoundedWork): number {
  work.spend(1 + text.length / 4)
  let count = 0
  for (const _character of text) count += 1
  return count
}

function* sizeChecks({ minItems, maxItems, minProperties, maxProperties }: JsonObject): Iterable<Check> {
  const limits = [
    { keyword: 'minItems', limit: minItems, holds: BOUNDS.minimum, sizeOf: lengthOf },
    { keyword: 'maxItems', limit: maxItems, holds: BOUNDS.maximum, sizeOf: lengthOf },
    { keyword: 'minProperties', limit: minProperties, holds: BOUNDS.minimum, sizeOf: memberCountOf },
    { keyword: 'maxProperties', limit: maxProperties, holds: BOUNDS.maximum, sizeOf: memberCountOf },
  ]
  for (const { keyword, limit, holds, sizeOf } of limits) {
    if (typeof limit !== 'number') continue
    yield (value, { work, position }) => {
      const size = sizeOf(value, work)
      return size === undefined || holds?.(size, limit) === true || work.fail(keyword, { limit }, position)
    }
  }
}

function lengthOf(value: JsonValue): number | undefined {
  return Array.isArray(value) ? value.length : undefined
}

function memberCountOf(value: JsonValue, work: BoundedWork): number | undefined {
  return isJsonObject(value) ? work.namesOf(value).length : undefined
}

function* nameChecks({ required, dependentRequired, dependencies }: JsonObject): Iterable<Check> {
  if (Array.isArray(required)) {
    const names = required.filter((name) => typeof name === 'string')
    yield (value, { work, position }) =>
      !isJsonObject(value) ||
      hasAll(value, names, work, (missingProperty) => work.fail('required', { missingProperty }, position))
  }
  for (const [keyword, written] of Object.entries({ dependentRequired, dependencies })) {
    for (const [property, names] of Object.entries(isJsonObject(written) ? written : {})) {
      if (!Array.isArray(names)) continue
      const wanted = names.filter((name) => typeof name === 'string')
      yield (value, { work, position }) =>
        !isJsonObject(value) ||
        !Object.hasOwn(value, property) ||
        hasAll(value, wanted, work, (missingProperty) =>
          work.fail(keyword, { property, missingProperty }, position),
        )
    }
  }
}

function hasAll(
  value: JsonObject,
  names: readonly string[],
  work: BoundedWork,
  tell: (missing: string) => false,
): boolean {
  work.spend(names.length)
  let hasEvery = true
  for (const name of names) {
    if (Object.hasOwn(value, name)) continue
    hasEvery = tell(name)
    if (work.endsAtFirst) break
  }
  return hasEvery
}
