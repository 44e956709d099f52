import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec'
import type { InputIssue, Report } from '#kernel/base/errors'
import {
  childPointer,
  copyJson,
  defined,
  describeValue,
  isJsonObject,
  isRecord,
  type JsonObject,
  type JsonValue,
} from '#kernel/base/json'
import { didYouMean, misspelledName } from '#kernel/base/nearest-name'
import type { MaybePromise } from '#kernel/base/waiting'
import { propertiesOf, REFERENCES, visitSchemas } from './keywords.ts'
import { KEYWORD_NAMES } from './meta-schema.ts'

/**
 * Reads the schemas of authored tools: JSON Schema, or a schema of zod, arktype, valibot or any other library that implements
 * Standard Schema. `prepare-tool.ts` uses it.
 * The published schema is the input side of the library's schema; `run` gets the value that the library parses.
 */

/** The issues of a schema library, in its own words. */
export function standardIssues(issues: readonly StandardSchemaV1.Issue[]): readonly InputIssue[] {
  return issues.map(({ message, path }) => {
    const steps = (path ?? []).map((step) => String(typeof step === 'object' ? step.key : step))
    const pointer = steps.reduce(childPointer, '')
    const [parameter] = steps
    return parameter === undefined ? { pointer, message } : { parameter, pointer, message }
  })
}

/** JSON Schema 2020-12, with the parse function of the library if one made the schema. */
export interface SchemaSource {
  readonly json: JsonObject
  readonly validate?: StandardSchemaV1.Props['validate']
}

const PLAIN_TYPES =
  'JSON has strings, numbers, booleans, null, arrays and objects: write a date as an ISO string, a bigint as a string, a Map as an object.'

export function readInputSchema(source: unknown, report: Report): SchemaSource | undefined {
  const json = readSide(source, 'input', 'input', report)
  if (json === undefined) return undefined
  if (isShape(source)) return { json, validate: (value) => validateShape(source, value) }
  if (!isStandardSchema(source)) return { json }
  const standard = source['~standard']
  return { json, validate: (value) => standard.validate(value) }
}

/** The value that `run` returns is sent without another parse, so a schema that would change the value is refused. */
export function readOutputSchema(source: unknown, report: Report): JsonObject | undefined {
  const json = readSide(source, 'output', 'input', report)
  if (json === undefined || !(isShape(source) || isStandardSchema(source))) return json
  const after = readSide(source, 'output', 'output', report)
  if (after === undefined) return undefined
  if (isSameShape(json, after)) return json
  return report(
    'output',
    'The schema transforms its value, and outputs are sent as `run` returns them.',
    'Transform inside `run`, and describe here the JSON that is sent.',
  )
}

function readSide(source: unknown, where: Side, side: Side, report: Report): JsonObject | undefined {
  if (isShape(source)) return convertShape(source, where, side, report)
  return isStandardSchema(source)
    ? convert(source, where, side, report)
    : readPlainSchema(source, where, report)
}

function readPlainSchema(source: unknown, where: Side, report: Report): JsonObject | undefined {
  if (!isRecord(source)) {
    const any =
      where === 'output' ? ', `null` for no output, or `{}` for any value' : ', or `{}` for no parameters'
    const fix = `Write a schema of zod, arktype or valibot, JSON Schema as an object${any}.`
    return report(where, `Is ${describeValue(source)}.`, fix)
  }
  const json = asJson(source, where, report)
  if (json !== undefined) checkPlainSchema(json, where, report)
  return json
}

/** The value before or after the library's parse. */
type Side = 'input' | 'output'

/** Members with a library schema each, as in `{ city: z.string() }`, which the MCP SDK takes. */
type Shape = Readonly<Record<string, StandardSchemaV1>>

function isShape(source: unknown): source is Shape {
  if (typeof source !== 'object' || source === null || isStandardSchema(source)) return false
  const members = Object.values(source)
  return members.length > 0 && members.every(isStandardSchema)
}

/** The object schema around a shape. A member is optional if its schema accepts `undefined`. */
function convertShape(shape: Shape, where: Side, side: Side, report: Report): JsonObject | undefined {
  const properties: Record<string, JsonObject> = {}
  for (const [name, member] of Object.entries(shape)) {
    const pointer = childPointer('/properties', name)
    const json = convert(member, `${where}${pointer}`, side, report)
    if (json === undefined) continue
    const { $schema: _dialect, ...schema } = json
    properties[name] = withRoot(schema, `#${pointer}`)
  }
  if (Object.keys(properties).length < Object.keys(shape).length) return undefined
  const required = Object.keys(shape).filter((name) => !acceptsUndefined(shape[name]))
  return { type: 'object', properties, ...(required.length === 0 ? {} : { required }) }
}

/** Rewrites the references of a member, whose document is now a part of another. */
function withRoot(schema: JsonObject, root: string): JsonObject {
  const moved = (value: JsonValue): JsonValue => {
    if (Array.isArray(value)) return value.map(moved)
    return isJsonObject(value) ? withRoot(value, root) : value
  }
  return Object.fromEntries(
    Object.entries(schema).map(([name, value]) =>
      name === '$ref' && typeof value === 'string' && value.startsWith('#')
        ? [name, `${root}${value.slice(1)}`]
        : [name, moved(value)],
    ),
  )
}

function acceptsUndefined(member: StandardSchemaV1 | undefined): boolean {
  try {
    const result = member?.['~standard'].validate(undefined)
    if (result instanceof Promise) result.catch(() => undefined)
    return result !== undefined && !(result instanceof Promise) && result.issues === undefined
  } catch {
    return false
  }
}

type Parsed = StandardSchemaV1.Result<unknown>

/** Parses each member by its schema; undeclared members are dropped, as the libraries do with objects. */
function validateShape(shape: Shape, value: unknown): MaybePromise<Parsed> {
  const given = new Map(typeof value === 'object' && value !== null ? Object.entries(value) : [])
  const names = Object.keys(shape)
  const results = Object.entries(shape).map(([name, member]) => member['~standard'].validate(given.get(name)))
  const join = (parsed: readonly Parsed[]): Parsed => joinMembers(names, parsed)
  const atOnce = results.filter((result): result is Parsed => !(result instanceof Promise))
  return atOnce.length === results.length ? join(atOnce) : Promise.all(results).then(join)
}

function joinMembers(names: readonly string[], parsed: readonly Parsed[]): Parsed {
  const issues: StandardSchemaV1.Issue[] = []
  const read: [string, unknown][] = []
  for (const [index, name] of names.entries()) {
    const result = parsed[index]
    if (result?.issues !== undefined) {
      issues.push(...result.issues.map((issue) => ({ ...issue, path: [name, ...(issue.path ?? [])] })))
    } else if (result?.value !== undefined) read.push([name, result.value])
  }
  return issues.length > 0 ? { issues } : { value: Object.fromEntries(read) }
}

function convert(
  source: StandardSchemaV1,
  where: string,
  side: Side,
  report: Report,
): JsonObject | undefined {
  const { vendor } = source['~standard']
  if (!convertsToJsonSchema(source)) {
    return report(where, `This ${vendor} schema cannot be converted to JSON Schema.`, converterOf(vendor))
  }
  try {
    const options = defined({ target: 'draft-2020-12', libraryOptions: OPTIONS.get(vendor) })
    return asJson(source['~standard'].jsonSchema[side](options), where, report)
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error)
    const problem = `JSON Schema cannot express it: ${detail.replace(/\.$/, '')}.`
    const nothing = where === 'output' ? ' For no output write `output: null`.' : ''
    return report(where, problem, `${PLAIN_TYPES}${nothing}`)
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
  if (copied.ok) return isJsonObject(copied.value) ? copied.value : {}
  const fix = Object.values(source).some(isStandardSchema)
    ? 'Give every member a schema of the library, or write `z.object({ … })` around all of them.'
    : 'Write plain JSON Schema.'
  return report(`${where}${copied.pointer}`, copied.problem, fix)
}

/** Whether two schemas are equal apart from defaults and strictness, in which the two sides of a library's schema differ even without a transform. */
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
  return typeof standardOf(value)?.validate === 'function'
}

function convertsToJsonSchema(value: unknown): value is StandardJSONSchemaV1 {
  const converter = standardOf(value)?.jsonSchema
  return isRecord(converter) && 'input' in converter && 'output' in converter
}

/** Schemas of some libraries are functions. */
function standardOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return undefined
  const standard = '~standard' in value ? value['~standard'] : undefined
  return isRecord(standard) ? standard : undefined
}

/**
 * Options that make the converters of all libraries behave alike: checks that only code can do are left to the library's
 * parse, and types that JSON lacks are refused instead of accepting any value.
 */
const OPTIONS: ReadonlyMap<string, Record<string, unknown>> = new Map([
  [
    'arktype',
    {
      fallback: {
        date: () => refuse('Date'),
        proto: (found: { readonly proto: { readonly name: string } }) => refuse(found.proto.name),
        domain: (found: { readonly domain: string }) => refuse(found.domain),
        unit: (found: { readonly unit: unknown }) => refuse(String(found.unit)),
        symbolKey: () => refuse('A symbol as key'),
      },
    },
  ],
  ['valibot', { ignoreActions: ['check', 'check_items', 'partial_check', 'raw_check'] }],
])

function refuse(what: string): never {
  throw new Error(`${what} cannot be represented in JSON Schema`)
}

/**
 * Finds misspelled keywords in JSON Schema written by hand: the standard reads them as annotations, which restrict nothing.
 * Schemas of libraries are not checked: their keywords are right, and their users may add annotations.
 */
function checkPlainSchema(schema: JsonObject, where: string, report: Report): void {
  visitSchemas(schema, '', (inner, pointer) => {
    for (const keyword of Object.keys(inner)) {
      const similar = misspelledKeyword(keyword)
      if (similar === undefined) continue
      report(
        `${where}${childPointer(pointer, keyword)}`,
        `Is not a keyword of JSON Schema 2020-12. Did you mean "${similar}"?`,
        `Write \`${similar}\`, or \`x-${keyword}\` for an annotation of your own.`,
      )
    }
  })
  checkRequired(schema, where, report)
}

/** Keywords of OpenAPI and of older drafts that only look misspelled. */
const OTHER_KEYWORDS: ReadonlySet<string> = new Set(['example', 'id', 'formatMinimum', 'formatMaximum'])

/** How many letters may be wrong. A short keyword resembles other words: `note` is not `not`. */
const TOLERANCES: readonly { readonly letters: number; readonly keywords: readonly string[] }[] = [
  { letters: 1, keywords: keywordsOf(4, 7) },
  { letters: 2, keywords: keywordsOf(8, 15) },
  { letters: 3, keywords: keywordsOf(16, Number.POSITIVE_INFINITY) },
]

function keywordsOf(min: number, max: number): readonly string[] {
  return [...KEYWORD_NAMES].filter(({ length }) => length >= min && length <= max)
}

function misspelledKeyword(keyword: string): string | undefined {
  if (KEYWORD_NAMES.has(keyword) || OTHER_KEYWORDS.has(keyword) || keyword.startsWith('x-')) return undefined
  for (const { letters, keywords } of TOLERANCES) {
    const similar = misspelledName(keyword, keywords, letters)
    if (similar !== undefined) return similar
  }
  return undefined
}

/** Keywords whose schemas are independent; for a schema in `anyOf` and similar keywords, the schemas around it may declare properties. */
const STANDALONE = ['properties', 'patternProperties', 'additionalProperties', 'items', 'prefixItems']
const COMPOSERS = ['allOf', 'anyOf', 'oneOf', 'not', 'if', 'dependentSchemas', ...REFERENCES]

/** A required name that is not declared is an error: no caller could know what to send. */
function checkRequired(schema: JsonValue | undefined, where: string, report: Report): void {
  if (!isJsonObject(schema)) return
  const { required } = schema
  if (Array.isArray(required) && !COMPOSERS.some((keyword) => keyword in schema)) {
    for (const [index, name] of required.entries()) {
      if (typeof name !== 'string' || mayContain(schema, name)) continue
      const hint = didYouMean(name, Object.keys(propertiesOf(schema)))
      const fix = 'Declare it under `properties`, or take it off this list.'
      report(`${where}/required/${index}`, `"${name}" is not among the properties.${hint}`, fix)
    }
  }
  for (const keyword of STANDALONE) {
    const place = `${where}/${keyword}`
    const value = schema[keyword]
    if (keyword === 'items' || keyword === 'additionalProperties') checkRequired(value, place, report)
    else if (typeof value === 'object' && value !== null) {
      for (const [name, member] of Object.entries(value)) {
        checkRequired(member, childPointer(place, name), report)
      }
    }
  }
}

function mayContain(schema: JsonObject, name: string): boolean {
  if (Object.hasOwn(propertiesOf(schema), name)) return true
  const { additionalProperties, unevaluatedProperties, patternProperties } = schema
  const others = additionalProperties ?? unevaluatedProperties
  if (others !== undefined && others !== false) return true
  if (!isJsonObject(patternProperties)) return false
  return Object.keys(patternProperties).some((pattern) => matches(pattern, name))
}

/** A pattern that does not compile is reported by `checkSchema`. */
function matches(pattern: string, name: string): boolean {
  try {
    return new RegExp(pattern, 'u').test(name)
  } catch {
    return true
  }
}
