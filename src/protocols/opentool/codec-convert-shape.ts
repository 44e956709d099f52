import { canonicalJson, type JsonArray, type JsonValue, setMember } from '#core/json'
import type { SchemaLoss } from './codec-convert-loss.ts'
import type { OpenToolType } from './codec-document.ts'
import { hasType } from './codec-document-schema.ts'

export type JsonType = OpenToolType | 'null'

/**
 * What one JSON Schema says, sorted by what OpenTool can say. A shape is read for one place and never
 * shared, so that `intersect` may change it.
 */
export interface Shape {
  /** Where the schema stands; behind a bare reference, where that leads. */
  pointer: string
  /** `false`: nothing fits. */
  never: boolean
  /** In the order written; `undefined` as long as no keyword says any. */
  types: readonly JsonType[] | undefined
  /** The keyword that says them. */
  typesFrom: Origin
  /** The types that other keywords speak of. */
  readonly hints: Set<OpenToolType>
  enum: JsonArray | undefined
  enumFrom: Origin
  /** OpenAPI's `nullable: true`. */
  nullable: Origin | undefined
  readonly properties: Map<string, Shape>
  readonly required: Set<string>
  items: Shape | undefined
  description: string | undefined
  title: { readonly text: string; readonly from: Origin } | undefined
  /** `x-*` members. */
  readonly extensions: Record<string, JsonValue>
  /** Constraints in words. */
  readonly notes: Set<string>
  /** What the value could be instead, in words. */
  alternatives: readonly string[]
  readonly losses: SchemaLoss[]
  /** That anything fits here is already among the losses. */
  reported: boolean
}

/** A keyword in its place. */
export interface Origin {
  readonly pointer: string
  readonly keyword: string
}

export function createShape(pointer: string): Shape {
  const itself = { pointer, keyword: 'type' }
  return {
    pointer,
    never: false,
    types: undefined,
    typesFrom: itself,
    hints: new Set(),
    enum: undefined,
    enumFrom: itself,
    nullable: undefined,
    properties: new Map(),
    required: new Set(),
    items: undefined,
    description: undefined,
    title: undefined,
    extensions: {},
    notes: new Set(),
    alternatives: [],
    losses: [],
    reported: false,
  }
}

/** Anything fits, and the keyword that made it so has reported it. */
export function createAnything(pointer: string): Shape {
  return { ...createShape(pointer), reported: true }
}

/** Narrows `target` to what fits both (allOf, `$ref` beside siblings); `from` is blamed for contradictions. */
export function intersect(target: Shape, source: Shape, from: Origin): void {
  target.never ||= source.never
  target.reported ||= source.reported
  intersectTypes(target, source, from)
  intersectEnum(target, source, from)
  target.nullable ??= source.nullable
  for (const hint of source.hints) target.hints.add(hint)
  for (const [name, property] of source.properties) {
    const known = target.properties.get(name)
    if (known === undefined) target.properties.set(name, property)
    else intersect(known, property, from)
  }
  for (const name of source.required) target.required.add(name)
  if (target.items === undefined) target.items = source.items
  else if (source.items !== undefined) intersect(target.items, source.items, from)
  target.description ??= source.description
  target.title ??= source.title
  for (const [name, value] of Object.entries(source.extensions)) {
    if (!Object.hasOwn(target.extensions, name)) setMember(target.extensions, name, value)
  }
  for (const note of source.notes) target.notes.add(note)
  if (target.alternatives.length === 0) target.alternatives = source.alternatives
  // Not `push(...losses)`: a long list would not fit on the stack.
  for (const loss of source.losses) target.losses.push(loss)
}

function intersectTypes(target: Shape, source: Shape, from: Origin): void {
  if (source.types === undefined) return
  if (target.types === undefined) {
    target.types = source.types
    target.typesFrom = source.typesFrom
    return
  }
  const types = commonTypes(target.types, source.types)
  if (types.length === 0) target.losses.push({ ...from, severity: 'unrepresentable' })
  else target.types = types
}

/** In the order of the first; an integer is a number. */
export function commonTypes(left: readonly JsonType[], right: readonly JsonType[]): readonly JsonType[] {
  const found = left.flatMap((type): readonly JsonType[] => {
    if (right.includes(type)) return [type]
    if (type === 'integer' && right.includes('number')) return [type]
    return type === 'number' && right.includes('integer') ? ['integer'] : []
  })
  return [...new Set(found)]
}

function intersectEnum(target: Shape, source: Shape, from: Origin): void {
  if (source.enum === undefined) return
  if (target.enum === undefined) {
    target.enum = source.enum
    target.enumFrom = source.enumFrom
    return
  }
  const kept = new Set(source.enum.map(canonicalJson))
  const values = target.enum.filter((value) => kept.has(canonicalJson(value)))
  if (values.length === 0) target.losses.push({ ...from, severity: 'unrepresentable' })
  else target.enum = values
}

/** Distinct values, in order. */
export function distinctValues(values: Iterable<JsonValue>): JsonArray {
  const seen = new Map<string, JsonValue>()
  for (const value of values) {
    const text = canonicalJson(value)
    if (!seen.has(text)) seen.set(text, value)
  }
  return [...seen.values()]
}

export function typeOfValue(value: JsonValue): JsonType {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  switch (typeof value) {
    case 'boolean':
      return 'boolean'
    case 'string':
      return 'string'
    case 'number':
      return Number.isInteger(value) ? 'integer' : 'number'
    default:
      return 'object'
  }
}

/** A number as well as an integer is a number. */
export function widestTypes(types: readonly JsonType[]): readonly JsonType[] {
  const wide = types.includes('number') ? types.filter((type) => type !== 'integer') : types
  return [...new Set(wide)]
}

/** Whether a value of an `enum` has one of the types. */
export function acceptsType({ types }: Shape, value: JsonValue): boolean {
  return (
    types === undefined || types.some((type) => (type === 'null' ? value === null : hasType(value, type)))
  )
}

/** Whether null is said to fit; of anything it is not said. */
export function acceptsNull(shape: Shape): boolean {
  if (shape.types === undefined || !shape.types.includes('null')) return false
  return shape.enum === undefined || shape.enum.includes(null)
}

/** A shape in a word or two: `string`, `string|integer`, `any`. */
export function labelOf({ types, hints, never }: Shape): string {
  if (never) return 'nothing'
  return (types ?? [...hints].slice(0, 1)).join('|') || 'any'
}
