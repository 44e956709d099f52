import type { StandardSchemaV1 } from '@standard-schema/spec'
import { isJsonObject, type JsonObject, type JsonValue } from './json.ts'
import { createSchemaValidator, NO_ISSUES, type ValidatorOptions } from './schema-validator.ts'
import { standardIssues } from './standard-issues.ts'
import type { ParsedInput, Tool } from './tool.ts'

const NOT_AN_OBJECT = Object.freeze([{ pointer: '', message: 'Must be an object' }])
const NO_PROBLEMS: readonly string[] = Object.freeze([])

export function createInputCheck(schema: JsonObject, options: ValidatorOptions = {}): Tool['checkInput'] {
  const validate = createSchemaValidator(schema, options)
  // Also when the schema is `{}`: parameters have names (T-13).
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

/** A tool without output has its value dropped, so there is nothing to check (T-14). */
export function createOutputCheck(
  schema: JsonObject | null,
  options: ValidatorOptions = {},
): Tool['checkOutput'] {
  if (schema === null) return () => NO_PROBLEMS
  const validate = createSchemaValidator(schema, options)
  return (value) => {
    const issues = validate(value)
    if (issues === NO_ISSUES) return NO_PROBLEMS
    return issues.map(({ pointer, message }) => `${pointer === '' ? 'value' : pointer}: ${message}`)
  }
}

function takeAsIs(input: JsonValue): ParsedInput {
  return { ok: true, input }
}

function toParsed(result: StandardSchemaV1.Result<unknown>): ParsedInput {
  return result.issues === undefined
    ? { ok: true, input: result.value }
    : { ok: false, issues: standardIssues(result.issues) }
}
