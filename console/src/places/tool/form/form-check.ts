import { type Schema as CheckedSchema, Validator } from '@cfworker/json-schema'
import type { RJSFSchema, ValidatorType } from '@rjsf/utils'
import { isRecord, type Schema } from '../tool-data.ts'

/*
 * Checks an input against the schema of a tool. Used by `input-form.tsx` and `places/tool/try-panel.tsx`. The server's check is
 * authoritative.
 */

/** One error, and the path to the value. */
interface InputError {
  readonly path: readonly string[]
  readonly message: string
}

/**
 * Errors of the input against the schema; the server's check is authoritative. The schema is interpreted, because the page's
 * policy forbids generated code. `undefined`: the schema cannot be read here.
 */
export function checkInput(schema: Schema, input: unknown): readonly InputError[] | undefined {
  try {
    const { valid, errors } = validatorOf(schema).validate(input)
    if (valid) return []
    const leaves = errors.filter(({ keyword }) => !PARENT_KEYWORDS.has(keyword))
    return (leaves.length > 0 ? leaves : errors).map(({ instanceLocation, error }) =>
      toInputError(pathIn(instanceLocation), error),
    )
  } catch {
    return undefined
  }
}

/** Rewrites the library's message, which calls the value "instance". */
function toInputError(path: readonly string[], error: string): InputError {
  const [, member] = /required property "(.+)"/.exec(error) ?? []
  if (member !== undefined) return { path: [...path, member], message: 'Required.' }
  const [, expected] = /Expected "(.+)"/.exec(error) ?? []
  if (expected !== undefined) return { path, message: `Must be ${expected}.` }
  return { path, message: error.replace(/^Instance /, 'It ').replace(/ instance /g, ' it ') }
}

/** Keywords whose errors only report that a nested value is invalid. */
const PARENT_KEYWORDS = new Set(['properties', 'items', '$ref', 'allOf', 'prefixItems', 'additionalItems'])

const validators = new WeakMap<object, Validator>()

function validatorOf(schema: Schema): Validator {
  const known = validators.get(schema)
  if (known !== undefined) return known
  const validator = new Validator(isChecked(schema) ? schema : {}, '2020-12', false)
  validators.set(schema, validator)
  return validator
}

/** Schemas are untrusted: any object may be one. */
function isChecked(schema: unknown): schema is CheckedSchema {
  return isRecord(schema)
}

function pathIn(location: string): readonly string[] {
  return location
    .replace(/^#\/?/, '')
    .split('/')
    .filter((part) => part !== '')
    .map((part) => decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** Tells the form library which alternative an input matches. The server checks the rest. */
export const formValidator: ValidatorType = {
  isValid: (schema, value, root) => matchesSchema(schema, value, root),
  validateFormData: () => ({ errors: [], errorSchema: {} }),
  rawValidation: () => ({}),
}

function matchesSchema(schema: RJSFSchema, value: unknown, root: RJSFSchema): boolean {
  const text = JSON.stringify(value)
  if (text === undefined) return false
  try {
    // References in a subschema point to definitions in the root schema.
    const whole = { ...schema, $defs: root.$defs, definitions: root.definitions }
    return isChecked(whole) && new Validator(whole, '2020-12').validate(JSON.parse(text)).valid
  } catch {
    return false
  }
}
