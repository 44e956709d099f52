import { childPointer, isJsonObject, type JsonValue } from '#kernel/base/json'

/**
 * The meta-schema of JSON Schema 2020-12 as a table of keywords, which is quicker than checking against the published
 * documents. `check.ts` uses it on every schema of a tool.
 * Its verdicts equal those of the published meta-schema, with `format` as an annotation; a test compares them.
 */

/** `message` describes the expected value, without a full stop. */
interface MetaSchemaProblem {
  readonly pointer: string
  readonly message: string
}

/** Enough to repair a schema; a longer list would not help. */
const MAX_PROBLEMS = 50

export function metaSchemaProblems(schema: JsonValue): readonly MetaSchemaProblem[] {
  const problems: MetaSchemaProblem[] = []
  checkOne(schema, '', (pointer, message) => {
    if (problems.length < MAX_PROBLEMS) problems.push({ pointer, message })
  })
  return problems
}

type Add = (pointer: string, message: string) => void
type Check = (value: JsonValue, pointer: string, add: Add) => void

function checkOne(schema: JsonValue, pointer: string, add: Add): void {
  if (typeof schema === 'boolean') return
  if (!isJsonObject(schema)) {
    add(pointer, 'Must be an object or a boolean')
    return
  }
  for (const [keyword, value] of Object.entries(schema))
    KEYWORDS.get(keyword)?.(value, childPointer(pointer, keyword), add)
}

function mustBe(kind: string, fits: (value: JsonValue) => boolean): Check {
  return (value, pointer, add) => {
    if (!fits(value)) add(pointer, `Must be ${kind}`)
  }
}

const aString = mustBe('a string', (value) => typeof value === 'string')
const aBoolean = mustBe('a boolean', (value) => typeof value === 'boolean')
const aNumber = mustBe('a number', (value) => typeof value === 'number')
const aList = mustBe('an array', Array.isArray)

const aCount: Check = (value, pointer, add) => {
  if (!Number.isInteger(value)) add(pointer, 'Must be a whole number')
  else if (Number(value) < 0) add(pointer, 'Must be at least 0')
}

const aStep: Check = (value, pointer, add) => {
  if (typeof value !== 'number') add(pointer, 'Must be a number')
  else if (value <= 0) add(pointer, 'Must be more than 0')
}

function aStringLike(pattern: RegExp): Check {
  return (value, pointer, add) => {
    if (typeof value !== 'string') add(pointer, 'Must be a string')
    else if (!pattern.test(value)) add(pointer, `Must match the pattern ${pattern.source}`)
  }
}

const anAnchor = aStringLike(/^[A-Za-z_][-A-Za-z0-9._]*$/u)

function listOf(check: Check, options: { readonly min?: 1; readonly isSet?: true } = {}): Check {
  return (value, pointer, add) => {
    if (!Array.isArray(value)) return add(pointer, 'Must be an array')
    if (value.length < (options.min ?? 0)) add(pointer, 'Must have at least 1 item')
    for (const [index, item] of value.entries()) check(item, childPointer(pointer, index), add)
    // Items of a set are strings; any other item is a problem by itself.
    if (options.isSet && new Set(value).size < value.length) add(pointer, 'Must not contain an item twice')
  }
}

function mapOf(check: Check): Check {
  return (value, pointer, add) => {
    if (!isJsonObject(value)) add(pointer, 'Must be an object')
    else for (const [name, member] of Object.entries(value)) check(member, childPointer(pointer, name), add)
  }
}

const schemas = listOf(checkOne, { min: 1 })
const schemaMap = mapOf(checkOne)
const stringSet = listOf(aString, { isSet: true })

const TYPES = new Set<unknown>(['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'])
const ONE_OF_TYPES = `one of: ${[...TYPES].map((type) => JSON.stringify(type)).join(', ')}`
const typeSet = listOf(
  mustBe(ONE_OF_TYPES, (value) => TYPES.has(value)),
  { min: 1, isSet: true },
)

const aType: Check = (value, pointer, add) => {
  if (Array.isArray(value)) typeSet(value, pointer, add)
  else if (!TYPES.has(value)) add(pointer, `Must be ${ONE_OF_TYPES}, or an array of these`)
}

/** The value of `dependencies` in earlier drafts: required names, or a schema. */
const aDependency: Check = (value, pointer, add) => {
  if (Array.isArray(value)) stringSet(value, pointer, add)
  else checkOne(value, pointer, add)
}

/** Every keyword whose value is restricted. */
const KEYWORDS: ReadonlyMap<string, Check> = new Map(
  Object.entries({
    $id: aStringLike(/^[^#]*#?$/u),
    $schema: aString,
    $ref: aString,
    $anchor: anAnchor,
    $dynamicRef: aString,
    $dynamicAnchor: anAnchor,
    $recursiveRef: aString,
    $recursiveAnchor: anAnchor,
    $vocabulary: mapOf(aBoolean),
    $comment: aString,
    $defs: schemaMap,
    definitions: schemaMap,
    prefixItems: schemas,
    items: checkOne,
    contains: checkOne,
    additionalProperties: checkOne,
    properties: schemaMap,
    patternProperties: schemaMap,
    dependentSchemas: schemaMap,
    dependencies: mapOf(aDependency),
    propertyNames: checkOne,
    if: checkOne,
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema, in an object that is never awaited.
    then: checkOne,
    else: checkOne,
    allOf: schemas,
    anyOf: schemas,
    oneOf: schemas,
    not: checkOne,
    unevaluatedItems: checkOne,
    unevaluatedProperties: checkOne,
    type: aType,
    enum: aList,
    multipleOf: aStep,
    maximum: aNumber,
    exclusiveMaximum: aNumber,
    minimum: aNumber,
    exclusiveMinimum: aNumber,
    maxLength: aCount,
    minLength: aCount,
    pattern: aString,
    maxItems: aCount,
    minItems: aCount,
    uniqueItems: aBoolean,
    maxContains: aCount,
    minContains: aCount,
    maxProperties: aCount,
    minProperties: aCount,
    required: stringSet,
    dependentRequired: mapOf(stringSet),
    format: aString,
    contentEncoding: aString,
    contentMediaType: aString,
    contentSchema: checkOne,
    title: aString,
    description: aString,
    deprecated: aBoolean,
    readOnly: aBoolean,
    writeOnly: aBoolean,
    examples: aList,
  } satisfies Record<string, Check>),
)

/** All keywords of 2020-12, and those of earlier drafts that validators still obey. */
export const KEYWORD_NAMES: ReadonlySet<string> = new Set([...KEYWORDS.keys(), 'const', 'default'])
