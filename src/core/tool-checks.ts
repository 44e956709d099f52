import type { StandardSchemaV1 } from '@standard-schema/spec'
import { isJsonObject, type JsonObject, type JsonValue } from './json.ts'
import {
  createLateValidator,
  createSchemaValidator,
  NO_ISSUES,
  type SchemaValidator,
} from './schema-validator.ts'
import { standardIssues } from './standard-issues.ts'
import type { ParsedInput, Tool } from './tool.ts'

const NOT_AN_OBJECT = Object.freeze([{ pointer: '', message: 'Must be an object' }])
const NO_PROBLEMS: readonly string[] = Object.freeze([])

/** What values are held against: a schema of our own, or one of somebody else's that is made ready at the first call. */
export type EnforcedSchema = JsonObject | (() => JsonObject)

export function createInputCheck(schema: EnforcedSchema): Tool['checkInput'] {
  const validate = validatorOf(schema)
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
