import { fault } from '#kernel/base/errors'
import { canonicalJson, defined, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { factsOf } from '#kernel/tool/facts'
import type { SourceKind, Tool } from '#kernel/tool/tool'
import { mapSubschemas, propertiesOf } from '#schema/keywords'
import {
  isSourceKind,
  SOURCE_KINDS,
  type WireCompactToolDescriptor,
  type WireToolDescriptor,
} from './wire.ts'

/*
 * Encodes tools as openwop descriptors, standard and compact, and decodes the query of the catalog. `routes.ts` uses it.
 * Invariant: a compact schema has none of the forbidden keywords (OWP-25) and accepts everything that the tool accepts.
 */

/** `standard` is a bare array, `envelope` puts it under `tools`, `compact` is always under `tools` (OWP/C1). */
type ListView = 'standard' | 'envelope' | 'compact'

interface ListForm {
  readonly view: ListView
  /** Only tools of this source are listed; `undefined` lists all. */
  readonly source: SourceKind | undefined
}

export interface DecodeOptions {
  /** True if `?view=compact` is served; otherwise it is ignored like any unknown parameter (OWP-26). */
  readonly compactView: boolean
}

/** Number of distinct forms: each view with each source, or without a source. */
export const MAX_FORMS = 3 * (SOURCE_KINDS.length + 1)

/** Unknown parameters and views are ignored (OWP/C11, OWP-19); an unknown source is refused. */
export function decodeListForm(query: URLSearchParams, options: DecodeOptions): ListForm {
  const source = decodeSource(query)
  if (isCompact(query, options)) return { view: 'compact', source }
  return { view: query.get('envelope') === '1' ? 'envelope' : 'standard', source }
}

export function isCompact(query: URLSearchParams, { compactView }: DecodeOptions): boolean {
  return compactView && query.get('view') === 'compact'
}

function decodeSource(query: URLSearchParams): SourceKind | undefined {
  const [source, ...others] = query.getAll('source')
  if (source === undefined) return undefined
  if (isSourceKind(source) && others.every((other) => other === source)) return source
  throw fault('request_invalid', `"source" must be one of ${SOURCE_KINDS.join(', ')}, and sent once.`)
}

export function encodeList(
  { view }: Pick<ListForm, 'view'>,
  tools: readonly Tool[],
  nextCursor?: string,
): string {
  const array = JSON.stringify(tools.map(view === 'compact' ? toCompactDescriptor : toDescriptor))
  if (view === 'standard') return array
  const next = nextCursor === undefined ? '' : `,"nextCursor":${JSON.stringify(nextCursor)}`
  return `{"tools":${array}${next}}`
}

/** RFC 0112's limit for a model-facing summary. */
const MAX_DESCRIPTION_LENGTH = 256

/**
 * The descriptor for a model's context. The parts of its schema that cannot be simplified are dropped (OWP-25).
 */
export function toCompactDescriptor(tool: Tool): WireCompactToolDescriptor {
  return defined({
    toolId: tool.catalogId,
    source: tool.source,
    safetyTier: tool.policy.safetyTier,
    title: tool.title,
    description: shorten(tool.description),
    inputSchema: compactSchema(tool.inputSchema),
  })
}

/** Cuts between words if possible, never inside a character. */
function shorten(text: string): string {
  if (text.length <= MAX_DESCRIPTION_LENGTH) return text
  const head = text.slice(0, MAX_DESCRIPTION_LENGTH - 1)
  const words = head.replace(/\s+\S*$/, '')
  const kept = words === '' ? head : words
  return `${kept.isWellFormed() ? kept : kept.slice(0, -1)}…`
}

/** Keywords that RFC 0112 forbids at any depth. */
export const FORBIDDEN_KEYWORDS = [
  '$ref',
  'oneOf',
  'allOf',
  'anyOf',
  'not',
  'patternProperties',
  'dependentSchemas',
] as const

/** Dropped keywords: they contain or depend on forbidden keywords, or a model has no use for them. */
const DROPPED_KEYWORDS: ReadonlySet<string> = new Set([
  ...FORBIDDEN_KEYWORDS,
  '$dynamicRef',
  'if',
  'then',
  'else',
  'dependencies',
  'maxContains',
  'unevaluatedProperties',
  'unevaluatedItems',
  '$schema',
  '$id',
  '$comment',
  '$defs',
  'definitions',
  'examples',
])

/**
 * An input schema without the forbidden keywords (OWP-25): alternatives and conjunctions are merged into one plain schema, and
 * the other keywords are dropped. The result accepts every input that the tool accepts, and maybe more. `undefined` if nothing
 * useful is left.
 */
export function compactSchema(schema: JsonObject): JsonObject | undefined {
  const reduced = reduce(schema)
  if (!isJsonObject(reduced)) return undefined
  const { type: _always, properties = {}, ...others } = reduced
  const isEmpty = isJsonObject(properties) && Object.keys(properties).length === 0
  // `{ type, properties: {} }` would read as "takes no parameters".
  if (isEmpty && FORBIDDEN_KEYWORDS.some((keyword) => Object.hasOwn(schema, keyword))) return undefined
  return { type: 'object', properties, ...others }
}

function reduce(schema: JsonValue): JsonValue {
  if (!isJsonObject(schema)) return schema
  const conjunction = [reduceOwn(schema), ...listOf(schema.allOf).map(reduce)]
  for (const alternatives of [schema.anyOf, schema.oneOf]) {
    if (alternatives !== undefined) conjunction.push(uniteSchemas(listOf(alternatives).map(reduce)))
  }
  return conjunction.reduce(intersectSchemas)
}

function reduceOwn(schema: JsonObject): JsonObject {
  const isPatterned = Object.hasOwn(schema, 'patternProperties')
  return Object.fromEntries(
    Object.entries(schema)
      // Without the patterns, `additionalProperties` would refuse members that they allow.
      .filter(
        ([keyword]) => !DROPPED_KEYWORDS.has(keyword) && !(isPatterned && keyword === 'additionalProperties'),
      )
      .map(([keyword, value]) => [keyword, mapSubschemas(keyword, value, reduce)]),
  )
}

function listOf(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : []
}

const ARRAY_KEYWORDS = [
  'items',
  'prefixItems',
  'minItems',
  'maxItems',
  'uniqueItems',
  'contains',
  'minContains',
] as const

/** The keywords that constrain values of one type only. */
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
} as const satisfies Readonly<Record<string, readonly string[]>>

const ANNOTATIONS = ['title', 'description', 'default'] as const

/**
 * A schema that accepts every value that both accept. This function and `uniteSchemas` take schemas without references
 * whose only applicators are those of objects and arrays.
 */
function intersectSchemas(left: JsonValue, right: JsonValue): JsonValue {
  if (!isJsonObject(left)) return left === false ? false : right
  if (!isJsonObject(right)) return right === false ? false : left
  const merged = new Map(Object.entries(left))
  // Array keywords depend on each other, so they are all taken from one side.
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

/** A schema that accepts every value that any of the schemas accepts. */
function uniteSchemas(schemas: readonly JsonValue[]): JsonValue {
  const possible = schemas.filter((schema) => schema !== false)
  const branches = possible.filter((schema) => isJsonObject(schema))
  const [only] = branches
  if (branches.length < possible.length || only === undefined) return possible.length === 0 ? false : {}
  if (branches.length === 1) return only
  const annotations = annotationsOf(branches)
  const types = branches.map(typesOf)
  const isTyped = types.every((names) => names.length > 0)
  const type = isTyped ? { type: unitedType(types.flat()) } : {}
  const values = branches.map(valuesOf)
  if (values.every((known) => known !== undefined)) {
    return { ...annotations, ...type, enum: distinct(values.flat()) }
  }
  if (!isTyped) return annotations
  const constraints = Object.entries(KEYWORDS_OF).flatMap(([kind, keywords]) =>
    Object.entries(uniteKind(kind, keywords, branches)),
  )
  return { ...annotations, ...type, ...Object.fromEntries(constraints) }
}

/** The constraints on which all branches that allow this type agree. */
function uniteKind(kind: string, keywords: readonly string[], branches: readonly JsonObject[]): JsonObject {
  const concerned = branches
    .filter((branch) => typesOf(branch).some((name) => (name === 'integer' ? 'number' : name) === kind))
    .map((branch) => pick(branch, keywords))
  if (distinct(concerned).length <= 1) return concerned[0] ?? {}
  return kind === 'object' ? uniteObjects(concerned) : {}
}

function uniteObjects(branches: readonly JsonObject[]): JsonObject {
  const names = new Set(branches.flatMap((branch) => Object.keys(propertiesOf(branch))))
  const properties = [...names].map((name) => {
    // A branch that does not list the property constrains it by `additionalProperties`.
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

/** The values that a schema allows, if it lists them. */
function valuesOf(schema: JsonObject): readonly JsonValue[] | undefined {
  if (schema.const !== undefined) return [schema.const]
  if (Array.isArray(schema.enum)) return schema.enum
  return schema.type === 'null' ? [null] : undefined
}

function typesOf({ type }: JsonObject): readonly string[] {
  return [type].flat().filter((name) => typeof name === 'string')
}

/** The `type` that covers all types: each once, and no `integer` beside `number`. */
function unitedType(types: readonly string[]): JsonValue {
  const names = new Set(types)
  if (names.has('number')) names.delete('integer')
  const [only, ...others] = names
  return only === undefined || others.length > 0 ? [...names] : only
}

/** Title, description and default if all branches that have any have the same, because they may not fit the other branches. */
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

/**
 * The standard descriptor of a tool. It has only named members, so that extra members of requirements cannot leak (OWP-24), and
 * takes tier, replay and egress only from the enforced policy (OWP-33).
 */
export function toDescriptor(tool: Tool): WireToolDescriptor {
  const { catalogId, scopes, credential, replay, ...facts } = factsOf(tool)
  return defined({
    toolId: catalogId,
    source: facts.source,
    title: tool.title,
    description: tool.description,
    inputSchema: tool.inputSchema,
    outputSchema: tool.outputSchema ?? undefined,
    auth: { scopes, credentialRef: credential },
    egress: facts.egress,
    approval: facts.approval,
    replayPolicy: replay,
    safetyTier: facts.safetyTier,
    costHint: facts.costHint,
    latencyHint: facts.latencyHint,
  })
}
