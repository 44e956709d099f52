import type { StandardSchemaV1 } from '@standard-schema/spec'
import { _, Ajv2020, type FuncKeywordDefinition, type ValidateFunction } from 'ajv/dist/2020.js'
import type { InputIssue } from '#kernel/base/errors'
import {
  canonicalJson,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
} from '#kernel/base/json'
import type { ParsedInput, Tool } from '#kernel/tool/tool'
import { createBoundedCheck, NO_ISSUES } from './bounded-check.ts'
import { isLarge, isStructured } from './bounded-work.ts'
import { schemaIssues } from './issues.ts'
import { visitSchemas } from './keywords.ts'
import { standardIssues } from './read.ts'

const NOT_AN_OBJECT = Object.freeze([{ pointer: '', message: 'Must be an object' }])
const NO_PROBLEMS: readonly string[] = Object.freeze([])

/** What values are held against: a schema of our own, or one of another party's that is made ready at the first call. */
export type EnforcedSchema = JsonObject | (() => JsonObject)

export function createInputCheck(schema: EnforcedSchema): Tool['checkInput'] {
  const validate = validatorOf(schema)
  // Also when the schema is `{}`: parameters have names (OTC/T-13).
  return (input) => (isJsonObject(input) ? validate(input) : NOT_AN_OBJECT)
}

/** Without a library `run` gets the input as it came. */
export function createInputParse(
  validate: StandardSchemaV1.Props['validate'] | undefined,
): Tool['parseInput'] {
  if (validate === undefined) return takeAsIs
  return (input) => {
    const result = validate(input)
    return result instanceof Promise ? result.then(toParsed) : toParsed(result)
  }
}

/** A tool without output promises nothing, so there is nothing to check (OTC/T-14). */
export function createOutputCheck(schema: EnforcedSchema | null): Tool['checkOutput'] {
  if (schema === null) return () => NO_PROBLEMS
  const validate = validatorOf(schema)
  return (value) => {
    const issues = validate(value)
    if (issues === NO_ISSUES) return NO_PROBLEMS
    return issues.map(({ pointer, message }) => `${pointer === '' ? 'value' : pointer}: ${message}`)
  }
}

function validatorOf(schema: EnforcedSchema): SchemaValidator {
  return typeof schema === 'function'
    ? createLateValidator(schema, { untrusted: true })
    : createSchemaValidator(schema)
}

function takeAsIs(input: JsonValue): ParsedInput {
  return { ok: true, input }
}

function toParsed(result: StandardSchemaV1.Result<unknown>): ParsedInput {
  return result.issues === undefined
    ? { ok: true, input: result.value }
    : { ok: false, issues: standardIssues(result.issues) }
}

export { NO_ISSUES }

/** Refused, because what nobody could check must not run. */
const UNCHECKED: readonly InputIssue[] = Object.freeze([
  { pointer: '', message: 'Cannot be checked: the schema of this tool is too entangled for this value' },
])

interface ValidatorOptions {
  /** Another party wrote the schema: a check is work that is counted, and ends. */
  readonly untrusted?: boolean
}

type SchemaValidator = (value: JsonValue) => readonly InputIssue[]

/**
 * Checks values against a schema that `checkSchema` accepted: no coercion, no defaults, `format` is an
 * annotation (OTC/T-18), and nothing is read from a prototype. Compiled at the first use, because ten thousand
 * tools must start in two seconds.
 */
export function createSchemaValidator(
  schema: JsonObject,
  { untrusted = false }: ValidatorOptions = {},
): SchemaValidator {
  if (Object.keys(schema).length === 0) return () => NO_ISSUES
  if (untrusted) return createBoundedCheck(schema)
  let accepts: ValidateFunction | undefined
  let tuples = false
  let findAll: ValidateFunction | undefined
  return (value) => {
    if (accepts === undefined) {
      accepts = compile(schema, { allErrors: false })
      // Ajv 8.20 skips keywords beside `prefixItems` where a list is shorter, unless it collects all errors.
      tuples = uses(schema, 'prefixItems')
    }
    const fits = verdictOf(accepts, value)
    if (fits === true && !tuples) return NO_ISSUES
    if (fits === false && isLarge(value)) return takeIssues(accepts, schema)
    findAll ??= compile(schema, { allErrors: true })
    const verdict = verdictOf(findAll, value)
    if (verdict === undefined) return UNCHECKED
    return verdict ? NO_ISSUES : takeIssues(findAll, schema)
  }
}

/** The same for a schema that is made at the first use: thousands of imported tools are never called. */
function createLateValidator(make: () => JsonObject, options: ValidatorOptions): SchemaValidator {
  let validate: SchemaValidator | undefined
  return (value) => {
    validate ??= createSchemaValidator(make(), options)
    return validate(value)
  }
}

/**
 * `undefined` where the code that Ajv 8.20 made fails: it sets a variable in one branch and uses it in another, and
 * references that only lead to each other, or to each other too often, never end.
 */
function verdictOf(accepts: ValidateFunction, value: JsonValue): boolean | undefined {
  try {
    return accepts(value)
  } catch (error) {
    const isCodeFault = error instanceof ReferenceError || error instanceof TypeError
    if (isCodeFault || error instanceof RangeError) return undefined
    throw error
  }
}

/** Whether a schema, or one inside it, has one of the keywords. */
function uses(schema: JsonObject, ...keywords: readonly string[]): boolean {
  let found = false
  visitSchemas(schema, '', (inner) => {
    found ||= keywords.some((keyword) => Object.hasOwn(inner, keyword))
  })
  return found
}

/** One instance a schema: a shared one would keep every schema it ever compiled. */
function compile(schema: JsonObject, { allErrors }: { readonly allErrors: boolean }): ValidateFunction {
  const ajv = new Ajv2020({
    allErrors,
    strict: false,
    // NaN is no number of JSON.
    strictNumbers: true,
    ownProperties: true,
    validateFormats: false,
    validateSchema: false,
    meta: false,
    logger: false,
  })
  addEqualityKeywords(ajv)
  // Ajv 8.20 makes failing code where it notes what was evaluated; few schemas ask for that.
  ajv.opts.unevaluated = uses(schema, 'unevaluatedProperties', 'unevaluatedItems')
  // The schema stands alone: an `$id` could only make Ajv refuse or remember it.
  const { $id: _unused, ...standalone } = schema
  return ajv.compile(standalone)
}

function takeIssues(validate: ValidateFunction, schema: JsonObject): readonly InputIssue[] {
  const errors = validate.errors ?? []
  validate.errors = null
  return schemaIssues(errors, schema)
}

/**
 * Replaces the keywords that compare values. Ajv's own call `toString` and `valueOf` of what a caller sent,
 * and take quadratic time for `uniqueItems`; canonical JSON does neither.
 */
export function addEqualityKeywords(ajv: Ajv2020): void {
  for (const keyword of EQUALITY) {
    ajv.removeKeyword(keyword.keyword)
    ajv.addKeyword(keyword)
  }
}

const EQUALITY: readonly (FuncKeywordDefinition & { readonly keyword: string })[] = [
  {
    keyword: 'const',
    errors: false,
    error: { message: 'differs', params: ({ schemaCode }) => _`{allowedValue: ${schemaCode}}` },
    compile: (value: JsonValue) => isOneOf([value]),
  },
  {
    keyword: 'enum',
    schemaType: 'array',
    errors: false,
    error: { message: 'differs', params: ({ schemaCode }) => _`{allowedValues: ${schemaCode}}` },
    compile: isOneOf,
  },
  {
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    errors: false,
    compile: (wanted: boolean) => (items: JsonArray) => !wanted || hasNoTwins(items),
  },
]

function isOneOf(values: JsonArray): (value: JsonValue) => boolean {
  const scalars = new Set(values.filter((value) => !isStructured(value)))
  const structured = new Set(values.filter(isStructured).map(canonicalJson))
  return (value) =>
    isStructured(value) ? structured.size > 0 && structured.has(canonicalJson(value)) : scalars.has(value)
}

function hasNoTwins(items: JsonArray): boolean {
  const seen = new Set<JsonValue>()
  const structured = new Set<string>()
  for (const item of items) {
    if (isStructured(item)) structured.add(canonicalJson(item))
    else seen.add(item)
  }
  return seen.size + structured.size === items.length
}
