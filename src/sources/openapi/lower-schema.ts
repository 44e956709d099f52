import { isJsonObject, type JsonObject, type JsonValue, setMember } from '#core/json'
import { SUBSCHEMAS } from '#core/schema/keywords'
import { splitDiscriminator } from './discriminator.ts'
import { hiddenNames, isHidden } from './hidden-members.ts'
import type { Located } from './located.ts'
import { isPattern, PLAIN_KEYWORDS, typesOf } from './plain-keywords.ts'
import type { Lowering } from './schema-shelf.ts'

const DEEPEST = 100
const ANNOTATIONS: ReadonlySet<string> = new Set(['title', 'description', 'default', 'deprecated'])
/** Reached by references alone, or of no use to a validator. */
const LEFT_OUT: ReadonlySet<string> = new Set(['$defs', 'definitions', 'contentSchema'])

/** A schema of any version of OpenAPI as JSON Schema 2020-12; references become `#/$defs/…` of the shelf. */
export function lowerSchema(located: Located, lowering: Lowering, depth = 0): JsonValue {
  const { value, document } = located
  if (typeof value === 'boolean') return value
  if (!isJsonObject(value)) return {}
  if (depth > DEEPEST) {
    lowering.warn(`A schema is nested more than ${DEEPEST} levels deep; anything fits below.`)
    return {}
  }
  const { $ref: reference, ...siblings } = value
  if (typeof reference === 'string')
    return lowerReference({ value: siblings, document }, reference, lowering, depth)
  return lowerMembers(value, document, lowering, depth)
}

function lowerReference(
  { value: siblings, document }: { readonly value: JsonObject; readonly document: string },
  reference: string,
  lowering: Lowering,
  depth: number,
): JsonValue {
  const name = lowering.refer(reference, document)
  // Before 3.1 a reference stands alone; people write what it is for beside it all the same.
  const kept =
    lowering.dialect === '3.1'
      ? siblings
      : Object.fromEntries(Object.entries(siblings).filter(([keyword]) => ANNOTATIONS.has(keyword)))
  const around = lowerMembers(kept, document, lowering, depth)
  if (name === undefined) return around
  const target: JsonObject = { $ref: `#/$defs/${name}` }
  if (siblings.nullable !== true) return { ...around, ...target }
  const { anyOf, ...rest } = around
  const nullable = { anyOf: [target, { type: 'null' }] }
  return anyOf === undefined ? { ...rest, ...nullable } : { ...rest, allOf: [{ anyOf }, nullable] }
}

function lowerMembers(schema: JsonObject, document: string, lowering: Lowering, depth: number): JsonObject {
  const lowered: Record<string, JsonValue> = {}
  const hidden = hiddenNames({ value: schema, document }, lowering)
  for (const [keyword, value] of Object.entries(schema)) {
    if (LEFT_OUT.has(keyword)) continue
    const holds = SUBSCHEMAS.get(keyword)
    if (holds !== undefined) lowerSubschemas(keyword, { value, document }, { lowered, lowering, depth })
    else if (PLAIN_KEYWORDS.get(keyword)?.(value) === true)
      lowered[keyword] = typeof value === 'string' ? value.toWellFormed() : value
  }
  lowerBounds(schema, lowered)
  lowerPattern(schema, lowered, lowering)
  const required = requiredNames(schema, hidden)
  if (required.length > 0) lowered.required = required
  // For whoever writes an input; answers come with their own, and are most of what a document says.
  if (lowering.direction === 'input' && schema.example !== undefined && isShort(schema.example)) {
    lowered.examples = [schema.example]
  }
  splitDiscriminator({ value: schema, document }, lowered, lowering)
  // Last, because a schema without a type becomes one of two ways as a whole.
  lowerTypes(schema, lowered)
  return lowered
}

interface Target {
  readonly lowered: Record<string, JsonValue>
  readonly lowering: Lowering
  readonly depth: number
}

function lowerSubschemas(
  keyword: string,
  { value, document }: Located,
  { lowered, lowering, depth }: Target,
): void {
  const lower = (member: JsonValue): JsonValue =>
    lowerSchema({ value: member, document }, lowering, depth + 1)
  const holds = SUBSCHEMAS.get(keyword)
  if (keyword === 'items' && Array.isArray(value)) {
    if (value.length > 0) lowered.prefixItems = value.map(lower)
  } else if (holds === 'one') {
    if (typeof value === 'boolean' || isJsonObject(value)) lowered[keyword] = lower(value)
  } else if (holds === 'list') {
    if (Array.isArray(value) && value.length > 0) lowered[keyword] = value.map(lower)
  } else if (isJsonObject(value)) {
    const members: Record<string, JsonValue> = {}
    for (const [name, member] of Object.entries(value)) {
      if (name === '__proto__' || (keyword === 'patternProperties' && !isPattern(name))) {
        lowering.warn(
          `The member ${JSON.stringify(name)} of \`${keyword}\` cannot be checked and is left out.`,
        )
      } else if (keyword !== 'properties' || !isHidden({ value: member, document }, lowering, 'drop')) {
        setMember(members, name, lower(member))
      }
    }
    lowered[keyword] = members
  }
}

/** `nullable` of 3.0 and `x-nullable` of 2.0 as a type. */
function lowerTypes(schema: JsonObject, lowered: Record<string, JsonValue>): void {
  const types = typesOf(schema.type)
  const nullable = schema.nullable === true || schema['x-nullable'] === true
  if (schema.format === 'byte') lowered.contentEncoding = 'base64'
  if (types !== undefined) {
    const all = nullable && !types.includes('null') ? [...types, 'null'] : types
    lowered.type = all.length === 1 && all[0] !== undefined ? all[0] : all
  }
  if (!nullable) return
  if (Array.isArray(lowered.enum) && !lowered.enum.includes(null)) lowered.enum = [...lowered.enum, null]
  if (types !== undefined) return
  // Without a type the whole schema is one way, and null the other.
  const { title, description, default: usual, deprecated, ...checks } = lowered
  if (Object.keys(checks).length === 0) return
  for (const keyword of Object.keys(checks)) delete lowered[keyword]
  lowered.anyOf = [checks, { type: 'null' }]
}

/** Until 3.0 an exclusive bound was a flag beside the bound. */
function lowerBounds(schema: JsonObject, lowered: Record<string, JsonValue>): void {
  for (const [flag, bound] of [
    ['exclusiveMinimum', 'minimum'],
    ['exclusiveMaximum', 'maximum'],
  ] as const) {
    const value = lowered[bound]
    if (schema[flag] !== true || typeof value !== 'number') continue
    lowered[flag] = value
    delete lowered[bound]
  }
}

function lowerPattern({ pattern }: JsonObject, lowered: Record<string, JsonValue>, lowering: Lowering): void {
  if (pattern === undefined) return
  if (isPattern(pattern)) lowered.pattern = pattern
  else lowering.warn(`The pattern ${JSON.stringify(pattern)} is no ECMA-262 expression and is not checked.`)
}

function requiredNames({ required }: JsonObject, hidden: ReadonlySet<string>): readonly string[] {
  if (!Array.isArray(required)) return []
  const names = required.filter((name) => typeof name === 'string')
  return [...new Set(names)].filter((name) => !hidden.has(name) && name !== '__proto__')
}

const LONGEST_EXAMPLE = 200

function isShort(example: JsonValue): boolean {
  return JSON.stringify(example).length <= LONGEST_EXAMPLE
}
