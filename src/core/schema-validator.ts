import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { createBoundedCheck, NO_ISSUES } from './bounded-check.ts'
import { isLarge } from './bounded-work.ts'
import type { InputIssue } from './errors.ts'
import type { JsonObject, JsonValue } from './json.ts'
import { addEqualityKeywords } from './schema-equality.ts'
import { schemaIssues } from './schema-issues.ts'
import { visitSchemas } from './schema-keywords.ts'

export { NO_ISSUES }

/** Refused, because what nobody could check must not run. */
const UNCHECKED: readonly InputIssue[] = Object.freeze([
  { pointer: '', message: 'Cannot be checked: the schema of this tool is too entangled for this value' },
])

export interface ValidatorOptions {
  /** Somebody else wrote the schema: a check is work that is counted, and ends. */
  readonly untrusted?: boolean
}

export type SchemaValidator = (value: JsonValue) => readonly InputIssue[]

/**
 * Checks values against a schema that `checkSchema` accepted: no coercion, no defaults, `format` is an
 * annotation (T-18), and nothing is read from a prototype. Compiled at the first use, because ten thousand
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
  let explain: ValidateFunction | undefined
  return (value) => {
    if (accepts === undefined) {
      accepts = compile(schema, { allErrors: false })
      // Ajv 8.20 skips keywords beside `prefixItems` where a list is shorter, unless it collects all errors.
      tuples = uses(schema, 'prefixItems')
    }
    const fits = verdictOf(accepts, value)
    if (fits === true && !tuples) return NO_ISSUES
    if (fits === false && isLarge(value)) return takeIssues(accepts, schema)
    explain ??= compile(schema, { allErrors: true })
    const verdict = verdictOf(explain, value)
    if (verdict === undefined) return UNCHECKED
    return verdict ? NO_ISSUES : takeIssues(explain, schema)
  }
}

/** The same for a schema that is made at the first use: thousands of imported tools are never called. */
export function createLateValidator(make: () => JsonObject, options: ValidatorOptions): SchemaValidator {
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
