import { childPointer, isJsonObject, type JsonValue } from '#kernel/base/json'

/** Where a schema is not JSON Schema 2020-12, and what must stand there instead; without a full stop. */
interface MetaSchemaProblem {
  readonly pointer: string
  readonly message: string
}

/** Enough to repair a schema; a list of thousands helps nobody. */
const MAX_PROBLEMS = 50

/**
 * What the meta-schema of JSON Schema 2020-12 says, as a table: the general validator takes longer to compile that schema than a
 * server takes for the rest of its tools. That both judge alike is tested. `format` is an annotation, here too.
 */
export function metaSchemaProblems(schema: JsonValue): readonly MetaSchemaProblem[] {
  const problems: MetaSchemaProblem[] = []
  checkOne(schema, '', (pointer, message) => {
    if (problems.length < MAX_PROBLEMS) problems.push({ pointer, message })
  })
  return problems
}

type Say = (pointer: string, message: string) => void
type Check = (value: JsonValue, pointer: string, say: Say) => void

function checkOne(schema: JsonValue, pointer: string, say: Say): void {
  if (typeof schema === 'boolean') return
  if (!isJsonObject(schema)) {
    say(pointer, 'Must be an object or a boolean')
    return
  }
  for (const [keyword, value] of Object.entries(schema))
    KEYWORDS.get(keyword)?.(value, childPointer(pointer, keyword), say)
}

function mustBe(kind: string, fits: (value: JsonValue) => boolean): Check {
  return (value, pointer, say) => {
    if (!fits(value)) say(pointer, `Must be ${kind}`)
  }
}

const aString = mustBe('a string', (value) => typeof value === 'string')
const aBoolean = mustBe('a boolean', (value) => typeof value === 'boolean')
const aNumber = mustBe('a number', (value) => typeof value === 'number')
const aList = mustBe('an array', Array.isArray)

const aCount: Check = (value, pointer, say) => {
  if (!Number.isInteger(value)) say(pointer, 'Must be a whole number')
  else if (Number(value) < 0) say(pointer, 'Must be at least 0')
}

const aStep: Check = (value, pointer, say) => {
  if (typeof value !== 'number') say(pointer, 'Must be a number')
  else if (value <= 0) say(pointer, 'Must be more than 0')
}

function aStringLike(pattern: RegExp): Check {
  return (value, pointer, say) => {
    if (typeof value !== 'string') say(pointer, 'Must be a string')
    else if (!pattern.test(value)) say(pointer, `Must match the pattern ${pattern.source}`)
  }
}

const anAnchor = aStringLike(/^[A-Za-z_][-A-Za-z0-9._]*$/u)

/** A list whose items are checked one by one. */
function listOf(check: Check, options: { readonly least?: 1; readonly isSet?: true } = {}): Check {
  return (value, pointer, say) => {
    if (!Array.isArray(value)) {
      say(pointer, 'Must be an array')
      return
    }
    if (value.length < (options.least ?? 0)) say(pointer, 'Must have at least 1 item')
    for (const [index, item] of value.entries()) check(item, childPointer(pointer, index), say)
    // Items of a set are strings: of others the problem is not that they come twice.
    if (options.isSet && new Set(value).size < value.length) say(pointer, 'Must not hold an item twice')
  }
}

function mapOf(check: Check): Check {
  return (value, pointer, say) => {
    if (!isJsonObject(value)) say(pointer, 'Must be an object')
    else for (const [name, member] of Object.entries(value)) check(member, childPointer(pointer, name), say)
  }
}

const schemas = listOf(checkOne, { least: 1 })
const schemaMap = mapOf(checkOne)
const stringSet = listOf(aString, { isSet: true })

const TYPES: ReadonlySet<unknown> = new Set([
  'array',
  'boolean',
  'integer',
  'null',
  'number',
  'object',
  'string',
])
const ONE_OF_TYPES = `one of: ${[...TYPES].map((type) => JSON.stringify(type)).join(', ')}`
const typeSet = listOf(
  mustBe(ONE_OF_TYPES, (value) => TYPES.has(value)),
  { least: 1, isSet: true },
)

const aType: Check = (value, pointer, say) => {
  if (Array.isArray(value)) typeSet(value, pointer, say)
  else if (!TYPES.has(value)) say(pointer, `Must be ${ONE_OF_TYPES}, or an array of these`)
}

/** Of earlier drafts: names that a member asks for, or a schema. */
const aDependency: Check = (value, pointer, say) => {
  if (Array.isArray(value)) stringSet(value, pointer, say)
  else checkOne(value, pointer, say)
}

/** Every keyword that may not hold just anything. */
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
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema, in an object that nobody awaits.
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
