import { canonicalJson } from '#core/canonical-json'
import type { JsonObject, JsonValue } from '#core/json'

/** What a change does to the values that are taken. `other`: some more and some less, or nobody can tell. */
export type SchemaEffect = 'narrower' | 'wider' | 'other' | 'wording'

/** A bound that moves; one that is absent refuses nothing. */
export function boundEffect(
  direction: 'least' | 'most',
  before: JsonValue | undefined,
  after: JsonValue | undefined,
): SchemaEffect | undefined {
  if (before === after) return undefined
  if (before === undefined) return 'narrower'
  if (after === undefined) return 'wider'
  if (typeof before !== 'number' || typeof after !== 'number') return 'other'
  return after > before === (direction === 'least') ? 'narrower' : 'wider'
}

const TYPES = ['null', 'boolean', 'object', 'array', 'number', 'integer', 'string']

export function typeEffect(
  before: JsonValue | undefined,
  after: JsonValue | undefined,
): SchemaEffect | undefined {
  return setEffect(typesOf(before), typesOf(after))
}

/** Every number type takes whole numbers. */
export function typesOf(type: JsonValue | undefined): ReadonlySet<string> {
  const named = type === undefined ? TYPES : (Array.isArray(type) ? type : [type]).map(String)
  return new Set(named.includes('number') ? [...named, 'integer'] : named)
}

/** `enum` and `const` say the same thing. */
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

function setEffect(before: ReadonlySet<string>, after: ReadonlySet<string>): SchemaEffect | undefined {
  const keeps = [...before].every((member) => after.has(member))
  const adds = [...after].some((member) => !before.has(member))
  if (keeps) return adds ? 'wider' : undefined
  return adds ? 'other' : 'narrower'
}
