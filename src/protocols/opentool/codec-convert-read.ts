import { childPointer, isJsonObject, type JsonArray, type JsonObject, type JsonValue } from '#core/json'
import { createSchemaResolver, type SchemaResolver, visitSchemas } from '#core/schema/keywords'
import { ARRAY_KEYWORDS, readArrayKeywords } from './codec-convert-arrays.ts'
import { type Keyword, type ReadBelow, ruleOf, typesOfEnum } from './codec-convert-keywords.ts'
import { createShape, intersect, type Shape } from './codec-convert-shape.ts'
import { applyUnion } from './codec-convert-union.ts'

/** A model reads no larger schema, and references can unfold a small one without end (OTS-26). */
const MOST_SCHEMAS = 20_000
const MOST_CHARACTERS = 4_000_000
/** With two levels of JSON each, a document with them still loads. */
const DEEPEST = 100

/** Keywords that combine schemas; read after all others, so that those know their siblings. */
const COMBINING: ReadonlySet<string> = new Set([
  '$ref',
  '$dynamicRef',
  '$recursiveRef',
  'allOf',
  'anyOf',
  'oneOf',
])

/** Reads one JSON Schema document into shapes. */
export class ShapeReader {
  readonly #resolve: SchemaResolver
  readonly #places = new Map<JsonObject, string>()
  /** Schemas being read right now: meeting one again is recursion. */
  readonly #open = new Set<JsonObject>()
  #schemasLeft = MOST_SCHEMAS
  #charactersLeft = MOST_CHARACTERS

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
    else if (depth > DEEPEST || this.#schemasLeft < 0 || this.#charactersLeft < 0)
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

  /** Only within the document: nothing is fetched. Siblings hold as well as the target. */
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

/** A recursive schema ends with a free-form object. */
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

/** Unions last: a branch without a type takes it from everything beside it. */
function rankOf({ name }: Keyword): number {
  return name === 'anyOf' || name === 'oneOf' ? 1 : 0
}

/** Their values are counted where the schemas in them are read. */
function isSchemaKeyword(name: string): boolean {
  return name === 'properties' || name === '$defs' || name === 'definitions'
}

/** About the number of characters a value takes. */
function lengthOf(value: JsonValue): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 1
  let length = 1
  for (const [name, member] of Object.entries(value)) length += name.length + lengthOf(member)
  return length
}
