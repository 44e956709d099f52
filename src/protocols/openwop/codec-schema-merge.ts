import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '#core/json'

/** Both functions take schemas without references and applicators other than those of objects and arrays. */

const ARRAY_KEYWORDS = [
  'items',
  'prefixItems',
  'minItems',
  'maxItems',
  'uniqueItems',
  'contains',
  'minContains',
] as const

/** The keywords that say something about values of one type only. */
const KEYWORDS_OF = {
  null: [],
  boolean: [],
  string: ['minLength', 'maxLength', 'pattern', 'format', 'contentEncoding', 'contentMediaType'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  array: ARRAY_KEYWORDS,
  object: [
    'properties',
    'required',
    'additionalProperties',
    'propertyNames',
    'minProperties',
    'maxProperties',
    'dependentRequired',
  ],
} as const

const KINDS = ['null', 'boolean', 'string', 'number', 'array', 'object'] as const
type Kind = (typeof KINDS)[number]

const ANNOTATIONS = ['title', 'description', 'default'] as const

/** A schema that everything fits which fits both. */
export function intersectSchemas(left: JsonValue, right: JsonValue): JsonValue {
  if (!isJsonObject(left)) return left === false ? false : right
  if (!isJsonObject(right)) return right === false ? false : left
  const merged = new Map(Object.entries(left))
  // These count from each other's ends, so they come from one side or the other.
  const hasArrays = ARRAY_KEYWORDS.some((keyword) => merged.has(keyword))
  for (const [keyword, value] of Object.entries(right)) {
    const earlier = merged.get(keyword)
    if (keyword === 'properties' && isJsonObject(value) && isJsonObject(earlier)) {
      merged.set(keyword, intersectProperties(earlier, value))
    } else if (keyword === 'required' && Array.isArray(value) && Array.isArray(earlier)) {
      merged.set(keyword, [...new Set([...earlier, ...value])])
    } else if (earlier !== undefined) continue
    else if (hasArrays && ARRAY_KEYWORDS.some((name) => name === keyword)) continue
    else merged.set(keyword, value)
  }
  return Object.fromEntries(merged)
}

function intersectProperties(left: JsonObject, right: JsonObject): JsonObject {
  const merged = new Map(Object.entries(left))
  for (const [name, schema] of Object.entries(right)) {
    merged.set(name, intersectSchemas(merged.get(name) ?? true, schema))
  }
  return Object.fromEntries(merged)
}

/** A schema that everything fits which fits one of them. */
export function uniteSchemas(schemas: readonly JsonValue[]): JsonValue {
  const possible = schemas.filter((schema) => schema !== false)
  const branches = possible.filter((schema) => isJsonObject(schema))
  const [only] = branches
  if (branches.length < possible.length || only === undefined) return possible.length === 0 ? false : {}
  if (branches.length === 1) return only
  const annotations = annotationsOf(branches)
  const types = branches.map(typesOf)
  const isTyped = types.every((names) => names.length > 0)
  const type = isTyped ? { type: single(simplify(types.flat())) } : {}
  const values = branches.map(valuesOf)
  if (values.every((known) => known !== undefined)) {
    return { ...annotations, ...type, enum: distinct(values.flat()) }
  }
  if (!isTyped) return annotations
  const said = KINDS.flatMap((kind) => Object.entries(uniteKind(kind, branches)))
  return { ...annotations, ...type, ...Object.fromEntries(said) }
}

/** What all branches that allow this kind of value agree on. */
function uniteKind(kind: Kind, branches: readonly JsonObject[]): JsonObject {
  const concerned = branches
    .filter((branch) => typesOf(branch).some((name) => kindOf(name) === kind))
    .map((branch) => pick(branch, KEYWORDS_OF[kind]))
  if (distinct(concerned).length <= 1) return concerned[0] ?? {}
  return kind === 'object' ? uniteObjects(concerned) : {}
}

function uniteObjects(branches: readonly JsonObject[]): JsonObject {
  const names = new Set(branches.flatMap((branch) => Object.keys(propertiesOf(branch))))
  const properties = [...names].map((name) => {
    // A branch that does not list the property says by `additionalProperties` what it may be.
    const schemas = branches.map(
      (branch) => propertiesOf(branch)[name] ?? branch.additionalProperties ?? true,
    )
    const described = schemas.filter((schema) => isJsonObject(schema))
    return [name, intersectSchemas(uniteSchemas(schemas), annotationsOf(described))] as const
  })
  const [first = [], ...others] = branches.map(({ required }) => (Array.isArray(required) ? required : []))
  const required = first.filter((name) => others.every((list) => list.includes(name)))
  const rest = distinct(branches.map(({ additionalProperties = true }) => additionalProperties))
  return {
    properties: Object.fromEntries(properties),
    ...(required.length === 0 ? {} : { required }),
    ...(rest.length === 1 && rest[0] !== undefined && rest[0] !== true
      ? { additionalProperties: rest[0] }
      : {}),
  }
}

function propertiesOf({ properties }: JsonObject): JsonObject {
  return isJsonObject(properties) ? properties : {}
}

/** The finite list of values a schema allows, if it says so. */
function valuesOf(schema: JsonObject): readonly JsonValue[] | undefined {
  if (schema.const !== undefined) return [schema.const]
  if (Array.isArray(schema.enum)) return schema.enum
  return schema.type === 'null' ? [null] : undefined
}

function typesOf({ type }: JsonObject): readonly string[] {
  return [type].flat().filter((name) => typeof name === 'string')
}

function kindOf(type: string): string {
  return type === 'integer' ? 'number' : type
}

/** Each type once, and no `integer` beside `number`. */
function simplify(types: readonly string[]): readonly string[] {
  const names = new Set(types)
  if (names.has('number')) names.delete('integer')
  return [...names]
}

function single(names: readonly string[]): JsonValue {
  const [only] = names
  return names.length === 1 && only !== undefined ? only : names
}

/** Title and text of the only branch that has any: a text about one alternative does not describe them all. */
function annotationsOf(branches: readonly JsonObject[]): JsonObject {
  const [only, ...others] = distinct(
    branches.map((branch) => pick(branch, ANNOTATIONS)).filter((texts) => Object.keys(texts).length > 0),
  )
  return others.length === 0 && isJsonObject(only) ? only : {}
}

function pick(schema: JsonObject, keywords: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(schema).filter(([keyword]) => keywords.includes(keyword)))
}

function distinct<Value extends JsonValue>(values: readonly Value[]): readonly Value[] {
  return [...new Map(values.map((value) => [canonicalJson(value), value])).values()]
}
