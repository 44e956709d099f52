import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec'
import { checkPlainSchema } from './check-plain-schema.ts'
import { copyJson } from './copy-json.ts'
import { describeValue } from './describe-value.ts'
import type { Report } from './finding.ts'
import { isJsonObject, type JsonObject, type JsonValue } from './json.ts'
import { libraryOptions } from './schema-library.ts'

/** A schema as written, read as JSON Schema 2020-12 and, if a library made it, with that library's parse. */
export interface SchemaSource {
  readonly json: JsonObject
  readonly validate?: StandardSchemaV1.Props['validate']
}

const PLAIN_TYPES =
  'JSON has strings, numbers, booleans, null, arrays and objects: write a date as an ISO string, a bigint as a string, a Map as an object.'

/**
 * Inputs are published as what arrives: the schema's input side. `run` gets what the library makes of it.
 */
export function readInputSchema(source: unknown, report: Report): SchemaSource | undefined {
  if (!isStandardSchema(source)) {
    const json = readPlainSchema(source, 'input', report)
    return json === undefined ? undefined : { json }
  }
  const standard = source['~standard']
  const json = convert(source, 'input', 'input', report)
  return json === undefined ? undefined : { json, validate: (value) => standard.validate(value) }
}

/**
 * Outputs are published as what `run` returns, the schema's input side, because that goes out as it is: the
 * library does not run again, so a schema that would change the value is refused instead of ignored.
 */
export function readOutputSchema(source: unknown, report: Report): JsonObject | undefined {
  if (!isStandardSchema(source)) return readPlainSchema(source, 'output', report)
  const json = convert(source, 'output', 'input', report)
  if (json === undefined) return undefined
  const after = convert(source, 'output', 'output', report)
  if (after === undefined) return undefined
  if (isSameShape(json, after)) return json
  report(
    'output',
    'The schema transforms its value, and outputs are sent as `run` returns them.',
    'Transform inside `run`, and describe here the JSON that is sent.',
  )
  return undefined
}

function readPlainSchema(source: unknown, where: string, report: Report): JsonObject | undefined {
  if (typeof source !== 'object' || source === null || Array.isArray(source)) {
    const any =
      where === 'output' ? ', `null` for no output, or `{}` for any value' : ', or `{}` for no parameters'
    report(
      where,
      `Is ${describeValue(source)}.`,
      `Write a schema of zod, arktype or valibot, JSON Schema as an object${any}.`,
    )
    return undefined
  }
  const json = asJson(source, where, report)
  if (json !== undefined) checkPlainSchema(json, where, report)
  return json
}

function convert(
  source: StandardSchemaV1,
  where: 'input' | 'output',
  side: 'input' | 'output',
  report: Report,
): JsonObject | undefined {
  const { vendor } = source['~standard']
  if (!givesJsonSchema(source)) {
    report(where, `This ${vendor} schema cannot give JSON Schema.`, converterOf(vendor))
    return undefined
  }
  try {
    const options = { target: 'draft-2020-12', ...libraryOptions(vendor) }
    return asJson(source['~standard'].jsonSchema[side](options), where, report)
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error)
    const nothing = where === 'output' ? ' For no output write `output: null`.' : ''
    report(where, `JSON Schema cannot express it: ${detail.replace(/\.$/, '')}.`, `${PLAIN_TYPES}${nothing}`)
    return undefined
  }
}

function converterOf(vendor: string): string {
  if (vendor === 'valibot') return 'Write `toStandardJsonSchema(schema)` from `@valibot/to-json-schema`.'
  if (vendor === 'zod') return 'Use zod 4.2 or newer.'
  if (vendor === 'arktype') return 'Use arktype 2.2 or newer.'
  return 'Use a version of the library that implements Standard JSON Schema, or write plain JSON Schema.'
}

function asJson(source: object, where: string, report: Report): JsonObject | undefined {
  const copied = copyJson(source)
  if (!copied.ok) {
    report(`${where}${copied.pointer}`, copied.problem, 'Write plain JSON Schema.')
    return undefined
  }
  return isJsonObject(copied.value) ? copied.value : {}
}

/** Equal apart from defaults and strictness, in which the two sides of a schema differ by design. */
function isSameShape(left: JsonValue | undefined, right: JsonValue | undefined): boolean {
  if (typeof left !== 'object' || left === null || typeof right !== 'object' || right === null) {
    return left === right
  }
  if (!isJsonObject(left) || !isJsonObject(right)) {
    if (isJsonObject(left) || isJsonObject(right) || left.length !== right.length) return false
    return left.every((member, index) => isSameShape(member, right[index]))
  }
  const names = new Set([...Object.keys(left), ...Object.keys(right)])
  return [...names].every((name) => {
    if (name === 'default' || name === 'required') return true
    return isSameShape(unlessClosed(name, left[name]), unlessClosed(name, right[name]))
  })
}

function unlessClosed(name: string, value: JsonValue | undefined): JsonValue | undefined {
  return name === 'additionalProperties' && value === false ? undefined : value
}

function isStandardSchema(value: unknown): value is StandardSchemaV1 {
  const standard = standardOf(value)
  return standard !== undefined && 'validate' in standard && typeof standard.validate === 'function'
}

function givesJsonSchema(value: unknown): value is StandardJSONSchemaV1 {
  const standard = standardOf(value)
  if (standard === undefined || !('jsonSchema' in standard)) return false
  const converter: unknown = standard.jsonSchema
  return typeof converter === 'object' && converter !== null && 'input' in converter && 'output' in converter
}

/** Schemas of some libraries are functions. */
function standardOf(value: unknown): object | undefined {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return undefined
  if (!('~standard' in value)) return undefined
  const standard: unknown = value['~standard']
  return typeof standard === 'object' && standard !== null ? standard : undefined
}
