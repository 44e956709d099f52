import {
  childPointer,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
  setMember,
} from '#kernel/base/json'
import {
  ANCHORS,
  createSchemaResolver,
  DEFINITIONS,
  type SchemaResolver,
  visitSchemas,
} from '#schema/keywords'
import {
  applyUnion,
  commonValues,
  createAnything,
  distinctValues,
  inferType,
  intersect,
  type JsonType,
  joinShapes,
  labelOf,
  type Origin,
  Shape,
  typeOfValue,
} from './codec-convert-shape.ts'
import { isOpenToolType, type OpenToolType } from './codec-document.ts'

/*
 * Reads JSON Schema, keyword by keyword, into the shapes of `codec-convert-shape.ts`. Used by `codec-convert-from-json.ts`.
 * Invariant: reading is bounded in schemas, characters and depth, so that references cannot expand without
 * limit (OTS-26).
 */

/** Models cannot use larger schemas, and references can expand a small schema without limit (OTS-26). */
const MAX_SCHEMAS = 20_000
const MAX_CHARACTERS = 4_000_000
/** Each schema takes up to two levels of JSON, so a document of this depth still loads. */
const MAX_DEPTH = 100

/**
 * Keywords that combine schemas. They are read after their siblings and in this order: a branch of a union
 * without a type inherits the type of its siblings.
 */
const COMBINERS: readonly string[] = ['$ref', '$dynamicRef', '$recursiveRef', 'allOf', 'anyOf', 'oneOf']

export class ShapeReader {
  readonly #resolve: SchemaResolver
  readonly #pointers = new Map<JsonObject, string>()
  /** Schemas that are being read; finding one of them again means recursion. */
  readonly #open = new Set<JsonObject>()
  #schemasLeft = MAX_SCHEMAS
  #charactersLeft = MAX_CHARACTERS

  constructor(root: JsonObject) {
    this.#resolve = createSchemaResolver(root)
    visitSchemas(root, '', (schema, pointer) => this.#pointers.set(schema, pointer))
  }

  read(schema: JsonValue, pointer: string, depth = 0): Shape {
    const shape = new Shape(pointer)
    if (typeof schema === 'boolean') {
      shape.never = !schema
      return shape
    }
    this.#schemasLeft -= 1
    if (!isJsonObject(schema)) fail(shape, { pointer, keyword: 'type' })
    else if (depth > MAX_DEPTH || this.#schemasLeft < 0 || this.#charactersLeft < 0)
      fail(shape, { pointer, keyword: '$ref' })
    else {
      this.#open.add(schema)
      this.#readKeywords(shape, schema, depth)
      this.#open.delete(schema)
    }
    return shape
  }

  #readKeywords(shape: Shape, schema: JsonObject, depth: number): void {
    const { pointer } = shape
    const read: ReadBelow = (inner, ...steps) =>
      this.read(inner, steps.reduce(childPointer, pointer), depth + 1)
    const originOf = (keyword: string): Origin => ({ pointer: childPointer(pointer, keyword), keyword })
    for (const [name, value] of Object.entries(schema)) {
      if (COMBINERS.includes(name) || ARRAY_KEYWORDS.has(name)) continue
      // The schemas inside these keywords are counted when they are read.
      if (name !== 'properties' && !DEFINITIONS.has(name)) this.#charactersLeft -= lengthOf(value)
      const from = originOf(name)
      if (!ruleOf(name)(shape, value, from, read)) fail(shape, from)
    }
    if (!readArrayKeywords(shape, schema, read)) fail(shape, originOf('items'))
    typesOfEnum(shape)
    const isAlone = Object.keys(schema).length === 1
    for (const name of COMBINERS) {
      const value = schema[name]
      if (value === undefined) continue
      const from = originOf(name)
      if (name === '$ref') this.#follow(shape, value, from, depth, isAlone)
      else if (!Array.isArray(value) || value.length === 0) fail(shape, from)
      else {
        const parts = value.map((part, index) => read(part, name, index))
        if (name !== 'allOf') applyUnion(shape, parts, from)
        else for (const part of parts) intersect(shape, part, from)
      }
    }
  }

  /** Follows a reference within the document; nothing is fetched. Siblings of `$ref` apply together with the target. */
  #follow(shape: Shape, value: JsonValue, from: Origin, depth: number, isAlone: boolean): void {
    const target = typeof value === 'string' ? this.#resolve(value) : undefined
    if (typeof target !== 'boolean' && !isJsonObject(target)) fail(shape, from)
    else if (isJsonObject(target) && this.#open.has(target)) replaceRecursive(shape)
    else {
      const pointer = isJsonObject(target) ? (this.#pointers.get(target) ?? from.pointer) : from.pointer
      intersect(shape, this.read(target, pointer, depth + 1), from)
      if (isAlone) shape.pointer = pointer
    }
  }
}

/** Replaces a recursive schema with a free-form object. */
function replaceRecursive(shape: Shape): void {
  const from = { pointer: shape.pointer, keyword: '$ref' }
  const rest = new Shape(shape.pointer)
  rest.types = ['object']
  rest.lose(from, 'approximated')
  intersect(shape, rest, from)
}

function fail(shape: Shape, from: Origin): void {
  shape.reported = true
  shape.lose(from, 'unrepresentable')
}

function lengthOf(value: JsonValue): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 1
  let length = 1
  for (const [name, member] of Object.entries(value)) length += name.length + lengthOf(member)
  return length
}

const ARRAY_KEYWORDS: ReadonlySet<string> = new Set(['items', 'prefixItems', 'additionalItems'])

/** Reads `items` and tuples, both `prefixItems` and a list in `items` (draft-07). `false` if malformed. */
function readArrayKeywords(shape: Shape, schema: JsonObject, read: ReadBelow): boolean {
  const { items, prefixItems, additionalItems } = schema
  if (items !== undefined || prefixItems !== undefined) shape.hints.add('array')
  if (prefixItems !== undefined) {
    if (!Array.isArray(prefixItems)) return false
    readTuple(shape, read, ['prefixItems', prefixItems], ['items', items])
  } else if (Array.isArray(items)) {
    readTuple(shape, read, ['items', items], ['additionalItems', additionalItems])
  } else if (items !== undefined) {
    if (typeof items !== 'boolean' && !isJsonObject(items)) return false
    shape.items = items === false ? readNoItems(shape) : read(items, 'items')
  }
  return true
}

/** Reads `items: false`: only the empty array is valid, which OpenTool cannot express. */
function readNoItems(shape: Shape): Shape {
  const pointer = childPointer(shape.pointer, 'items')
  shape.notes.add('exactly 0 items')
  shape.lose({ pointer, keyword: 'items' }, 'dropped')
  return createAnything(pointer)
}

/** Items of one type become an array of that type; items of different types an array of anything. */
function readTuple(
  shape: Shape,
  read: ReadBelow,
  [keyword, tuple]: readonly [string, JsonArray],
  [restKeyword, rest]: readonly [string, JsonValue | undefined],
): void {
  const places = tuple.map((schema, index) => read(schema, keyword, index))
  if (rest === false) shape.notes.add(`exactly ${tuple.length} items`)
  else if (rest !== undefined) places.push(read(rest, restKeyword))
  const pointer = childPointer(shape.pointer, keyword)
  shape.lose({ pointer, keyword }, 'approximated')
  for (const target of places) inferType(target)
  const joined = joinShapes(places, pointer)
  shape.items = joined?.types === undefined ? createAnything(pointer) : joined
}

/** Reads a subschema of the keyword's schema. */
type ReadBelow = (schema: JsonValue, ...steps: (string | number)[]) => Shape

/** Adds a keyword's meaning to its schema's shape; returns `false` if the keyword is malformed. */
type KeywordRule = (shape: Shape, value: JsonValue, from: Origin, read: ReadBelow) => boolean

const ignore: KeywordRule = () => true

/** A rule for keywords that OpenTool cannot express, so that the result accepts more. `hints` are the types that it applies to. */
function drop(...hints: OpenToolType[]): KeywordRule {
  return (shape, _value, from) => {
    for (const hint of hints) shape.hints.add(hint)
    shape.lose(from, 'dropped')
    return true
  }
}

/** Moves a constraint into the description; `hints` are the types that it applies to. */
function annotate(...hints: OpenToolType[]): KeywordRule {
  return (shape, value, from) => {
    // `uniqueItems: false` and similar have no effect.
    if (value === false && from.keyword !== 'default') return true
    return note(shape, `${from.keyword} ${shortText(value)}`, from, hints)
  }
}

function note(shape: Shape, text: string, from: Origin, hints: readonly OpenToolType[]): true {
  shape.notes.add(text)
  for (const hint of hints) shape.hints.add(hint)
  shape.lose(from, 'annotated')
  return true
}

const MAX_TEXT_LENGTH = 200

/** A value for a description, shortened. */
export function shortText(value: JsonValue): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > MAX_TEXT_LENGTH ? `${text.slice(0, MAX_TEXT_LENGTH)}…` : text
}

const readTypes: KeywordRule = (shape, value, from) => {
  const types: JsonType[] = []
  for (const type of Array.isArray(value) ? value : [value]) {
    if (type !== 'null' && !isOpenToolType(type)) return false
    types.push(type)
  }
  if (types.length === 0) return false
  shape.types = types
  shape.typesFrom = from
  return true
}

/** `const` is an `enum` of one value; together they intersect. */
const readEnum: KeywordRule = (shape, value, from) => {
  const values = from.keyword === 'const' ? [value] : value
  if (!Array.isArray(values)) return false
  const shared = shape.enum === undefined ? values : commonValues(values, shape.enum)
  if (shared.length === 0) return false
  shape.enum = distinctValues(shared)
  shape.enumFrom = from
  return true
}

const readNullable: KeywordRule = (shape, value, from) => {
  if (value === true) shape.nullable = from
  return true
}

const readProperties: KeywordRule = (shape, value, _from, read) => {
  if (!isJsonObject(value)) return false
  shape.hints.add('object')
  for (const [name, property] of Object.entries(value)) {
    shape.properties.set(name, read(property, 'properties', name))
  }
  return true
}

const readRequired: KeywordRule = (shape, value) => {
  if (!Array.isArray(value)) return false
  if (value.length > 0) shape.hints.add('object')
  for (const name of value) {
    if (typeof name !== 'string') return false
    shape.required.add(name)
  }
  return true
}

/** A closed object cannot be expressed; a typed map becomes a free-form object with a note. */
const readAdditional: KeywordRule = (shape, value, from, read) => {
  shape.hints.add('object')
  if (value === true || (isJsonObject(value) && Object.keys(value).length === 0)) return true
  if (value === false) return drop()(shape, value, from, read)
  const label = labelOf(read(value, 'additionalProperties'))
  return note(shape, `map of string to ${label}`, from, [])
}

const readPatterns: KeywordRule = (shape, value, from, read) => {
  if (!isJsonObject(value)) return false
  for (const [pattern, schema] of Object.entries(value)) {
    const label = labelOf(read(schema, 'patternProperties', pattern))
    note(shape, `map of string matching ${shortText(pattern)} to ${label}`, from, ['object'])
  }
  return true
}

const readDescription: KeywordRule = (shape, value) => {
  if (typeof value !== 'string') return false
  shape.description = value
  return true
}

const readTitle: KeywordRule = (shape, value, from) => {
  if (typeof value !== 'string') return false
  shape.title = { text: value, from }
  return true
}

/** The rule of each keyword (OTS-81, OTS-82). `ShapeReader` handles `$ref`, `allOf`, `anyOf`, `oneOf` and array keywords. */
const RULES: ReadonlyMap<string, KeywordRule> = new Map([
  ['type', readTypes],
  ['enum', readEnum],
  ['const', readEnum],
  ['nullable', readNullable],
  ['properties', readProperties],
  ['required', readRequired],
  ['additionalProperties', readAdditional],
  ['patternProperties', readPatterns],
  ['description', readDescription],
  ['title', readTitle],
  ...rows(annotate('object'), 'propertyNames', 'minProperties', 'maxProperties'),
  ...rows(annotate('array'), 'minItems', 'maxItems', 'uniqueItems'),
  ...rows(annotate('string'), 'minLength', 'maxLength', 'pattern', 'format'),
  ...rows(annotate('string'), 'contentEncoding', 'contentMediaType', 'contentSchema'),
  ...rows(annotate('number'), 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'),
  ...rows(annotate(), 'default', 'examples', 'example', 'deprecated', 'readOnly', 'writeOnly'),
  ...rows(drop('object'), 'unevaluatedProperties', 'dependentRequired', 'dependentSchemas', 'dependencies'),
  ...rows(drop('array'), 'unevaluatedItems', 'contains', 'minContains', 'maxContains'),
  ...rows(ignore, '$schema', '$id', '$comment', '$vocabulary', ...DEFINITIONS, ...ANCHORS),
])

/** Entries of keywords that share a rule. */
function rows(rule: KeywordRule, ...keywords: string[]): readonly (readonly [string, KeywordRule])[] {
  return keywords.map((keyword) => [keyword, rule])
}

/** The rule of a keyword: `x-*` is kept; `not`, `if` and unknown keywords are dropped. */
function ruleOf(name: string): KeywordRule {
  return name.startsWith('x-') ? keepExtension : (RULES.get(name) ?? drop())
}

const keepExtension: KeywordRule = (shape, value, { keyword }) => {
  setMember(shape.extensions, keyword, value)
  return true
}

/** Infers types from the enum's values when no keyword declares them. */
function typesOfEnum(shape: Shape): void {
  if (shape.enum === undefined || shape.types !== undefined) return
  shape.types = [...new Set(shape.enum.map(typeOfValue))]
  shape.typesFrom = shape.enumFrom
}
