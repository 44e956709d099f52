import {
  canonicalJson,
  childPointer,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
  setMember,
} from '#kernel/base/json'
import { createSchemaResolver, type SchemaResolver, visitSchemas } from '#schema/keywords'
import {
  applyUnion,
  createAnything,
  createShape,
  distinctValues,
  inferType,
  intersect,
  type JsonType,
  joinShapes,
  labelOf,
  type Shape,
  typeOfValue,
} from './codec-convert-shape.ts'
import { isOpenToolType, type OpenToolType } from './codec-document.ts'

/*
 * Reads JSON Schema, keyword by keyword, into the shapes of `codec-convert-shape.ts`.
 * Used by `codec-convert-from-json.ts`.
 * Invariant: reading is bounded in schemas, characters and depth, so that references cannot expand without
 * limit (OTS-26).
 */

/** Models cannot use larger schemas, and references can expand a small one without limit (OTS-26). */
const MAX_SCHEMAS = 20_000
const MAX_CHARACTERS = 4_000_000
/** Each schema takes up to two levels of JSON, so a document of this depth still loads. */
const MAX_DEPTH = 100

/** Keywords that combine schemas; read last, so that their siblings are known. */
const COMBINING: ReadonlySet<string> = new Set([
  '$ref',
  '$dynamicRef',
  '$recursiveRef',
  'allOf',
  'anyOf',
  'oneOf',
])

export class ShapeReader {
  readonly #resolve: SchemaResolver
  readonly #places = new Map<JsonObject, string>()
  /** Schemas being read now; meeting one again means recursion. */
  readonly #open = new Set<JsonObject>()
  #schemasLeft = MAX_SCHEMAS
  #charactersLeft = MAX_CHARACTERS

  constructor(root: JsonObject) {
    this.#resolve = createSchemaResolver(root)
    visitSchemas(root, '', (schema, pointer) => this.#places.set(schema, pointer))
  }

  read(schema: JsonValue, pointer: string, depth = 0): Shape {
    const shape = createShape(pointer)
    if (typeof schema === 'boolean') {
      shape.never = !schema
      return shape
    }
    this.#schemasLeft -= 1
    if (!isJsonObject(schema)) fail(shape, pointer, 'type')
    else if (depth > MAX_DEPTH || this.#schemasLeft < 0 || this.#charactersLeft < 0)
      fail(shape, pointer, '$ref')
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
    const combining: Keyword[] = []
    const alone = Object.keys(schema).length === 1
    for (const [name, value] of Object.entries(schema)) {
      const keyword = { name, value, pointer: childPointer(pointer, name), alone }
      if (COMBINING.has(name)) combining.push(keyword)
      else if (!ARRAY_KEYWORDS.has(name)) {
        if (!isSchemaKeyword(name)) this.#charactersLeft -= lengthOf(value)
        if (!ruleOf(name)(shape, keyword, read)) fail(shape, keyword.pointer, name)
      }
    }
    if (!readArrayKeywords(shape, schema, read)) fail(shape, childPointer(pointer, 'items'), 'items')
    typesOfEnum(shape)
    combining.sort((left, right) => rankOf(left) - rankOf(right))
    for (const keyword of combining) this.#combine(shape, keyword, depth)
  }

  #combine(shape: Shape, keyword: Keyword, depth: number): void {
    const { name, value, pointer } = keyword
    const from = { pointer, keyword: name }
    if (name === '$ref') this.#follow(shape, keyword, depth)
    else if (!Array.isArray(value) || value.length === 0) fail(shape, pointer, name)
    else {
      const parts = this.#readEach(value, pointer, depth)
      if (name !== 'allOf') applyUnion(shape, parts, from)
      else for (const part of parts) intersect(shape, part, from)
    }
  }

  #readEach(schemas: JsonArray, pointer: string, depth: number): readonly Shape[] {
    return schemas.map((schema, index) => this.read(schema, childPointer(pointer, index), depth + 1))
  }

  /** Resolves only within the document; nothing is fetched. Siblings of `$ref` apply together with the target. */
  #follow(shape: Shape, { name, value, pointer, alone }: Keyword, depth: number): void {
    const target = typeof value === 'string' ? this.#resolve(value) : undefined
    if (typeof target !== 'boolean' && !isJsonObject(target)) fail(shape, pointer, name)
    else if (isJsonObject(target) && this.#open.has(target)) cut(shape)
    else {
      const place = isJsonObject(target) ? (this.#places.get(target) ?? pointer) : pointer
      intersect(shape, this.read(target, place, depth + 1), { pointer, keyword: name })
      if (alone) shape.pointer = place
    }
  }
}

/** Replaces a recursive schema with a free-form object. */
function cut(shape: Shape): void {
  const rest = createShape(shape.pointer)
  rest.types = ['object']
  rest.losses.push({ pointer: shape.pointer, keyword: '$ref', severity: 'approximated' })
  intersect(shape, rest, { pointer: shape.pointer, keyword: '$ref' })
}

function fail(shape: Shape, pointer: string, keyword: string): void {
  shape.reported = true
  shape.losses.push({ pointer, keyword, severity: 'unrepresentable' })
}

/** Unions come last: a branch without a type inherits the type of its siblings. */
function rankOf({ name }: Keyword): number {
  return name === 'anyOf' || name === 'oneOf' ? 1 : 0
}

/** The schemas inside these are counted when they are read. */
function isSchemaKeyword(name: string): boolean {
  return name === 'properties' || name === '$defs' || name === 'definitions'
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
    readTuple(shape, 'prefixItems', prefixItems, read, { keyword: 'items', schema: items })
  } else if (Array.isArray(items)) {
    readTuple(shape, 'items', items, read, { keyword: 'additionalItems', schema: additionalItems })
  } else if (items !== undefined) {
    if (typeof items !== 'boolean' && !isJsonObject(items)) return false
    shape.items = items === false ? readNoItems(shape) : read(items, 'items')
  }
  return true
}

/** Only the empty array is valid, which OpenTool cannot express. */
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

/** Items of one type become an array of that type; items of different types an array of anything. */
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

interface Keyword {
  readonly name: string
  readonly value: JsonValue
  readonly pointer: string
  /** True if the schema has no other keyword. */
  readonly alone: boolean
}

/** Reads a subschema of the keyword's schema. */
type ReadBelow = (schema: JsonValue, ...steps: (string | number)[]) => Shape

/** Adds a keyword's meaning to its schema's shape; returns `false` if the keyword is malformed. */
type KeywordRule = (shape: Shape, keyword: Keyword, read: ReadBelow) => boolean

const exact: KeywordRule = () => true

/** OpenTool cannot express the keyword: the result accepts more. */
const drop: KeywordRule = (shape, { pointer, name }) => {
  shape.losses.push({ pointer, keyword: name, severity: 'dropped' })
  return true
}

/** Moves a constraint into the description; `hints` are the types that it applies to. */
function annotate(...hints: OpenToolType[]): KeywordRule {
  return (shape, keyword) => {
    const { name, value } = keyword
    // `uniqueItems: false` and similar have no effect.
    if (value === false && name !== 'default') return true
    return note(shape, `${name} ${wordsOf(value)}`, keyword, hints)
  }
}

function note(shape: Shape, text: string, keyword: Keyword, hints: readonly OpenToolType[]): true {
  shape.notes.add(text)
  for (const hint of hints) shape.hints.add(hint)
  shape.losses.push({ pointer: keyword.pointer, keyword: keyword.name, severity: 'annotated' })
  return true
}

const MAX_WORDS = 200

/** A value for a description, shortened. */
export function wordsOf(value: JsonValue): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > MAX_WORDS ? `${text.slice(0, MAX_WORDS)}…` : text
}

/** Drops the keyword, and infers from it that the schema is about objects or arrays. */
function dropFor(hint: OpenToolType): KeywordRule {
  return (shape, keyword, read) => {
    shape.hints.add(hint)
    return drop(shape, keyword, read)
  }
}

const readTypes: KeywordRule = (shape, { name, value, pointer }) => {
  const types: JsonType[] = []
  for (const type of Array.isArray(value) ? value : [value]) {
    if (type !== 'null' && !isOpenToolType(type)) return false
    types.push(type)
  }
  if (types.length === 0) return false
  shape.types = types
  shape.typesFrom = { pointer, keyword: name }
  return true
}

/** `const` is an `enum` of one value; together they intersect. */
const readEnum: KeywordRule = (shape, { name, value, pointer }) => {
  const values = name === 'const' ? [value] : value
  if (!Array.isArray(values)) return false
  const before = shape.enum === undefined ? undefined : new Set(shape.enum.map(canonicalJson))
  const shared = before === undefined ? values : values.filter((each) => before.has(canonicalJson(each)))
  if (shared.length === 0) return false
  shape.enum = distinctValues(shared)
  shape.enumFrom = { pointer, keyword: name }
  return true
}

const readNullable: KeywordRule = (shape, { name, value, pointer }) => {
  if (value === true) shape.nullable = { pointer, keyword: name }
  return true
}

const readProperties: KeywordRule = (shape, { value }, read) => {
  if (!isJsonObject(value)) return false
  shape.hints.add('object')
  for (const [name, property] of Object.entries(value)) {
    shape.properties.set(name, read(property, 'properties', name))
  }
  return true
}

const readRequired: KeywordRule = (shape, { value }) => {
  if (!Array.isArray(value)) return false
  if (value.length > 0) shape.hints.add('object')
  for (const name of value) {
    if (typeof name !== 'string') return false
    shape.required.add(name)
  }
  return true
}

/** A closed object cannot be expressed; a typed map becomes a free-form object with a note. */
const readAdditional: KeywordRule = (shape, keyword, read) => {
  const { value } = keyword
  shape.hints.add('object')
  if (value === true || (isJsonObject(value) && Object.keys(value).length === 0)) return true
  if (value === false) return drop(shape, keyword, read)
  const label = labelOf(read(value, 'additionalProperties'))
  return note(shape, `map of string to ${label}`, keyword, ['object'])
}

const readPatterns: KeywordRule = (shape, keyword, read) => {
  const { value } = keyword
  if (!isJsonObject(value)) return false
  for (const [pattern, schema] of Object.entries(value)) {
    const label = labelOf(read(schema, 'patternProperties', pattern))
    note(shape, `map of string matching ${wordsOf(pattern)} to ${label}`, keyword, ['object'])
  }
  return true
}

const readDescription: KeywordRule = (shape, { value }) => {
  if (typeof value !== 'string') return false
  shape.description = value
  return true
}

const readTitle: KeywordRule = (shape, { name, value, pointer }) => {
  if (typeof value !== 'string') return false
  shape.title = { text: value, from: { pointer, keyword: name } }
  return true
}

/** OTS-81 and OTS-82, keyword by keyword; `$ref`, `allOf`, `anyOf`, `oneOf` and array keywords are handled by `ShapeReader`. */
const RULES: ReadonlyMap<string, KeywordRule> = new Map(
  Object.entries({
    type: readTypes,
    enum: readEnum,
    const: readEnum,
    nullable: readNullable,
    properties: readProperties,
    required: readRequired,
    additionalProperties: readAdditional,
    patternProperties: readPatterns,
    description: readDescription,
    title: readTitle,
    propertyNames: annotate('object'),
    minProperties: annotate('object'),
    maxProperties: annotate('object'),
    minItems: annotate('array'),
    maxItems: annotate('array'),
    uniqueItems: annotate('array'),
    minLength: annotate('string'),
    maxLength: annotate('string'),
    pattern: annotate('string'),
    format: annotate('string'),
    contentEncoding: annotate('string'),
    contentMediaType: annotate('string'),
    contentSchema: annotate('string'),
    minimum: annotate('number'),
    maximum: annotate('number'),
    exclusiveMinimum: annotate('number'),
    exclusiveMaximum: annotate('number'),
    multipleOf: annotate('number'),
    default: annotate(),
    examples: annotate(),
    example: annotate(),
    deprecated: annotate(),
    readOnly: annotate(),
    writeOnly: annotate(),
    unevaluatedProperties: dropFor('object'),
    dependentRequired: dropFor('object'),
    dependentSchemas: dropFor('object'),
    dependencies: dropFor('object'),
    unevaluatedItems: dropFor('array'),
    contains: dropFor('array'),
    minContains: dropFor('array'),
    maxContains: dropFor('array'),
    not: drop,
    if: drop,
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: drop,
    else: drop,
    $schema: exact,
    $id: exact,
    $comment: exact,
    $defs: exact,
    definitions: exact,
    $anchor: exact,
    $dynamicAnchor: exact,
    $vocabulary: exact,
  } satisfies Record<string, KeywordRule>),
)

/** The rule of a keyword: `x-*` is kept, unknown keywords are dropped as annotations. */
function ruleOf(name: string): KeywordRule {
  if (name.startsWith('x-')) return keepExtension
  return RULES.get(name) ?? drop
}

const keepExtension: KeywordRule = (shape, { name, value }) => {
  setMember(shape.extensions, name, value)
  return true
}

/** Infers types from the enum's values when no keyword declares them. */
function typesOfEnum(shape: Shape): void {
  if (shape.enum === undefined || shape.types !== undefined) return
  shape.types = [...new Set(shape.enum.map(typeOfValue))]
  shape.typesFrom = shape.enumFrom
}
