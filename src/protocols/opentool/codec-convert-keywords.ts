import { canonicalJson, isJsonObject, type JsonValue, setMember } from '#core/json'
import { distinctValues, type JsonType, labelOf, type Shape, typeOfValue } from './codec-convert-shape.ts'
import { isOpenToolType, type OpenToolType } from './codec-document.ts'

/** One keyword of a schema, where it stands. */
export interface Keyword {
  readonly name: string
  readonly value: JsonValue
  readonly pointer: string
  /** The schema has no other. */
  readonly alone: boolean
}

/** Reads a schema below the one a keyword belongs to. */
export type ReadBelow = (schema: JsonValue, ...steps: (string | number)[]) => Shape

/** Adds what a keyword says to its schema's shape; `false` if the keyword is not written as it must be. */
export type KeywordRule = (shape: Shape, keyword: Keyword, read: ReadBelow) => boolean

const exact: KeywordRule = () => true

/** Not expressible: the result accepts more. */
const drop: KeywordRule = (shape, { pointer, name }) => {
  shape.losses.push({ pointer, keyword: name, severity: 'dropped' })
  return true
}

/** A constraint that moves into the description, and the type of the values it speaks of. */
function annotate(...hints: OpenToolType[]): KeywordRule {
  return (shape, keyword) => {
    const { name, value } = keyword
    // `uniqueItems: false` and the like say nothing.
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

const LONGEST_WORDS = 200

/** A value in a description, short enough to be read. */
export function wordsOf(value: JsonValue): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > LONGEST_WORDS ? `${text.slice(0, LONGEST_WORDS)}…` : text
}

/** Drops the keyword, and knows from it that the schema speaks of objects or arrays. */
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

/** `const` is an `enum` of one; of both, what they share. */
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

/** A closed object cannot be said; a typed map becomes a free-form object with a note. */
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

/** OTS-81 and OTS-82, keyword by keyword; `$ref`, `allOf`, `anyOf`, `oneOf` and arrays have files of their own. */
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

/** The rule of a keyword: `x-*` is kept, what nobody knows is an annotation that is dropped. */
export function ruleOf(name: string): KeywordRule {
  if (name.startsWith('x-')) return keepExtension
  return RULES.get(name) ?? drop
}

const keepExtension: KeywordRule = (shape, { name, value }) => {
  setMember(shape.extensions, name, value)
  return true
}

/** Values say their types when no keyword does. */
export function typesOfEnum(shape: Shape): void {
  if (shape.enum === undefined || shape.types !== undefined) return
  shape.types = [...new Set(shape.enum.map(typeOfValue))]
  shape.typesFrom = shape.enumFrom
}
