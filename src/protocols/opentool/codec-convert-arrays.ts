import { childPointer, isJsonObject, type JsonArray, type JsonObject, type JsonValue } from '#core/json'
import type { ReadBelow } from './codec-convert-keywords.ts'
import { createAnything, type Shape } from './codec-convert-shape.ts'
import { inferType, joinShapes } from './codec-convert-union.ts'

/** Keywords this file reads. */
export const ARRAY_KEYWORDS: ReadonlySet<string> = new Set(['items', 'prefixItems', 'additionalItems'])

/** `items` and tuples, `prefixItems` as well as a list in `items` (draft-07). `false` if written wrongly. */
export function readArrayKeywords(shape: Shape, schema: JsonObject, read: ReadBelow): boolean {
  const { items, prefixItems, additionalItems } = schema
  if (items !== undefined || prefixItems !== undefined) shape.hints.add('array')
  if (prefixItems !== undefined) {
    if (!Array.isArray(prefixItems)) return false
    readTuple(shape, 'prefixItems', prefixItems, read, { keyword: 'items', schema: items })
  } else if (Array.isArray(items)) {
    readTuple(shape, 'items', items, read, { keyword: 'additionalItems', schema: additionalItems })
  } else if (items !== undefined) {
    if (typeof items !== 'boolean' && !isJsonObject(items)) return false
    shape.items = items === false ? readNoItems(shape) : read(items, 'items')
  }
  return true
}

/** Only the empty array fits, which cannot be said. */
function readNoItems(shape: Shape): Shape {
  const pointer = childPointer(shape.pointer, 'items')
  shape.notes.add('exactly 0 items')
  shape.losses.push({ pointer, keyword: 'items', severity: 'dropped' })
  return createAnything(pointer)
}

interface Rest {
  readonly keyword: string
  readonly schema: JsonValue | undefined
}

/** Items of one type become an array of it; of different types, an array of anything. */
function readTuple(shape: Shape, keyword: string, tuple: JsonArray, read: ReadBelow, rest: Rest): void {
  const places = tuple.map((schema, index) => read(schema, keyword, index))
  const closed = rest.schema === false
  if (closed) shape.notes.add(`exactly ${tuple.length} items`)
  if (rest.schema !== undefined && !closed) places.push(read(rest.schema, rest.keyword))
  const pointer = childPointer(shape.pointer, keyword)
  shape.losses.push({ pointer, keyword, severity: 'approximated' })
  for (const place of places) inferType(place)
  const joined = joinShapes(places, pointer)
  shape.items = joined?.types === undefined ? createAnything(pointer) : joined
}
