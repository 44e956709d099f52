import { hash } from 'node:crypto'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'

/*
 * Converts names and schemas to the form that model providers accept. `tool-list.ts` converts each tool with it, and `toolset.ts` undoes the strict form in inputs.
 * Invariants: a converted schema accepts every input that the tool accepts, except in the strict form, where `null`
 * replaces an absent parameter; the notes name everything that was widened or left out.
 */

export interface SchemaLimits {
  readonly nameLength: number
  /** Whether to make all parameters required and forbid others, as strict modes need. */
  readonly strict: boolean
}

export interface FittedSchema {
  readonly schema: JsonObject
  /** False if the strict form cannot express the schema. */
  readonly isStrict: boolean
  readonly notes: readonly string[]
}

/** A free name that every provider accepts: letters, digits, `_` and `-`. */
export function fitName(name: string, maxLength: number, taken: ReadonlySet<string>): string {
  const legal = name.replace(/[^A-Za-z0-9_-]/g, '_') || 'tool'
  if (legal.length <= maxLength && !taken.has(legal)) return legal
  const suffix = `_${hash('sha256', name, 'hex').slice(0, 6)}`
  return legal.slice(0, maxLength - suffix.length) + suffix
}

const UNIONS = ['oneOf', 'anyOf', 'allOf'] as const
/** Keywords that providers refuse at the top level of a schema. */
const ROOT_CHECKS = [
  'not',
  'if',
  'then',
  'else',
  'enum',
  'const',
  'dependentRequired',
  'dependentSchemas',
] as const

export function fitSchema(schema: JsonObject, { strict }: SchemaLimits): FittedSchema {
  const notes: string[] = []
  const root = openRoot(schema, notes)
  if (!strict) return { schema: root, isStrict: false, notes }
  const problem = strictProblem(root)
  if (problem !== undefined)
    return { schema: root, isStrict: false, notes: [...notes, `not strict, because ${problem}`] }
  return { schema: toStrict(root, notes), isStrict: true, notes: [...new Set(notes)] }
}

/** Makes the top level an object without unions, whose members become optional parameters. */
function openRoot(schema: JsonObject, notes: string[]): JsonObject {
  const { $schema: _, ...members } = schema
  const branches = UNIONS.flatMap((keyword) => objectsIn(members[keyword]))
  const named = [...UNIONS, ...ROOT_CHECKS].filter((keyword) => members[keyword] !== undefined)
  if (named.length > 0) notes.push(`left out at the top of the schema: ${named.join(', ')}`)
  const kept = Object.fromEntries(
    Object.entries(members).filter(([name]) => !named.some((one) => one === name)),
  )
  const properties = Object.assign({}, ...branches.map(propertiesOf), propertiesOf(members))
  const required = [
    ...textsIn(members.required),
    ...objectsIn(members.allOf).flatMap((one) => textsIn(one.required)),
  ]
  return {
    ...kept,
    type: 'object',
    properties,
    ...(required.length === 0 ? {} : { required: [...new Set(required)] }),
    // A branch may allow members that the top level forbids.
    ...(branches.length > 0 ? { additionalProperties: true } : {}),
  }
}

function propertiesOf(schema: JsonObject): JsonObject {
  return isJsonObject(schema.properties) ? schema.properties : {}
}

function objectsIn(value: JsonValue | undefined): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : []
}

function textsIn(value: JsonValue | undefined): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}

const MAX_STRICT_DEPTH = 10
const MAX_STRICT_PROPERTIES = 5_000

/** Why the strict form cannot express a schema; `undefined` if it can. */
function strictProblem(schema: JsonObject): string | undefined {
  let properties = 0
  const problemOf = (value: JsonValue, depth: number): string | undefined => {
    if (!isJsonObject(value)) return value === true ? 'a parameter may be anything' : undefined
    if (depth > MAX_STRICT_DEPTH) return `it has more than ${MAX_STRICT_DEPTH} levels`
    const own = Object.values(propertiesOf(value))
    properties += own.length
    if (properties > MAX_STRICT_PROPERTIES) return `it has more than ${MAX_STRICT_PROPERTIES} parameters`
    if (Object.keys(value).every((keyword) => keyword === 'description')) return 'a parameter may be anything'
    const { additionalProperties: others, patternProperties } = value
    const isOpen = others !== undefined && others !== false
    const isMap = value.type === 'object' && own.length === 0 && others === undefined && depth > 0
    if (isOpen || isMap || patternProperties !== undefined) return 'an object may have any members'
    const unions = UNIONS.flatMap((keyword) => objectsIn(value[keyword]))
    const inner = [...own, ...unions, ...(value.items === undefined ? [] : [value.items])]
    return inner.map((each) => problemOf(each, depth + 1)).find((problem) => problem !== undefined)
  }
  return problemOf(schema, 0)
}

/** Keywords that strict modes do not accept. */
const NOT_STRICT = [
  ...['not', 'if', 'then', 'else', 'dependentRequired', 'dependentSchemas', 'propertyNames', 'minProperties'],
  ...['maxProperties', 'uniqueItems', 'contains', 'minContains', 'maxContains', 'minLength', 'maxLength'],
  ...['default', 'examples', 'unevaluatedProperties', 'unevaluatedItems', 'prefixItems', 'contentEncoding'],
]

function toStrict(schema: JsonObject, notes: string[]): JsonObject {
  const dropped = Object.keys(schema).filter((keyword) => NOT_STRICT.includes(keyword))
  if (dropped.length > 0) notes.push(`left out: ${dropped.join(', ')}`)
  const { oneOf, allOf, ...kept } = Object.fromEntries(
    Object.entries(schema).filter(([keyword]) => !dropped.includes(keyword)),
  )
  if (allOf !== undefined) notes.push('left out: allOf')
  const unions = [...objectsIn(oneOf), ...objectsIn(kept.anyOf)]
  const strict = {
    ...kept,
    ...(unions.length === 0 ? {} : { anyOf: unions.map((one) => toStrict(one, notes)) }),
    ...(isJsonObject(kept.items) ? { items: toStrict(kept.items, notes) } : {}),
  }
  if (kept.type !== 'object' && !isJsonObject(kept.properties)) return strict
  const required = new Set(textsIn(schema.required))
  const members = Object.entries(propertiesOf(schema)).map(([name, member]) => {
    const inner = isJsonObject(member) ? toStrict(member, notes) : {}
    if (required.has(name)) return [name, inner]
    notes.push('optional parameters may be null')
    return [name, withNull(inner)]
  })
  const properties: JsonObject = Object.fromEntries(members)
  return { ...strict, properties, required: Object.keys(properties), additionalProperties: false }
}

function withNull(schema: JsonObject): JsonObject {
  const { type, enum: choices } = schema
  if (typeof type !== 'string') return { anyOf: [schema, { type: 'null' }] }
  const nullable: JsonObject = { ...schema, type: type === 'null' ? type : [type, 'null'] }
  return Array.isArray(choices) ? { ...nullable, enum: [...choices, null] } : nullable
}

/** Undoes the strict form: removes members that are `null` in place of an absent parameter. */
export function withoutWidening(input: JsonValue, schema: JsonValue | undefined): JsonValue {
  if (!isJsonObject(schema)) return input
  if (Array.isArray(input)) return input.map((item) => withoutWidening(item, schema.items))
  if (!isJsonObject(input)) return input
  const properties = propertiesOf(schema)
  const required = textsIn(schema.required)
  const kept = Object.entries(input).filter(([name, value]) => {
    if (value !== null || !Object.hasOwn(properties, name)) return true
    return required.includes(name) || takesNull(properties[name])
  })
  return Object.fromEntries(
    kept.map(([name, value]) => [name, withoutWidening(value ?? null, properties[name])]),
  )
}

function takesNull(schema: JsonValue | undefined): boolean {
  if (!isJsonObject(schema)) return true
  const { type, enum: choices } = schema
  if (type === 'null' || (Array.isArray(type) && type.includes('null'))) return true
  if (Array.isArray(choices) && choices.includes(null)) return true
  if (UNIONS.some((keyword) => objectsIn(schema[keyword]).some(takesNull))) return true
  return (
    type === undefined && choices === undefined && !UNIONS.some((keyword) => schema[keyword] !== undefined)
  )
}
