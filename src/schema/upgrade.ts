import { isJsonObject, type JsonObject, type JsonValue, pointerSteps, setMember } from '#kernel/base/json'
import { mapSubschemas, REFERENCES, SUBSCHEMAS } from './keywords.ts'
import { withoutNeedlessEscapes } from './patterns.ts'

/**
 * Rewrites imported schemas to JSON Schema 2020-12, the one dialect that is enforced here: older drafts and OpenAPI write some
 * things differently. `imported.ts` and the MCP source use it.
 * The result accepts the values that the original dialect accepts.
 */

export const NEWEST = 'https://json-schema.org/draft/2020-12/schema'
/** Dialects that equal 2020-12 once the keywords below are rewritten. */
const OLDER = /^https?:\/\/json-schema\.org\/(?:draft-0[4-7]|draft\/2019-09)\/schema#?$/
const UP_TO_7 = /\/draft-0[4-7]\//
/** The keywords that count beside a reference in drafts up to 7. */
const BESIDE_REFERENCE = new Set(['$ref', 'definitions', '$defs', 'title', 'description'])
/** Keywords of older drafts that restrict no value. */
const WITHOUT_EFFECT: ReadonlySet<string> = new Set(['$recursiveAnchor', '$async'])

/** Whether a schema names the newest dialect; one that names none may have keywords of older ones. */
export function isNewest({ $schema: dialect }: JsonObject): boolean {
  return typeof dialect === 'string' && dialect.replace(/#$/, '') === NEWEST
}

/** The dialect that a schema names, unless it is a known one. */
export function unknownDialect(schema: JsonObject): string | undefined {
  const { $schema: dialect } = schema
  if (dialect === undefined || isNewest(schema)) return undefined
  const name = typeof dialect === 'string' ? dialect : ''
  return OLDER.test(name) ? undefined : name.replace(/#$/, '')
}

export function upgradeSchema(schema: JsonObject): JsonObject {
  const { $schema: dialect, $id: id, ...rest } = schema
  const upgraded = rewrite(rest, {
    root: rest,
    id: typeof id === 'string' ? id.replace(/#$/, '') : '',
    ignoresSiblings: typeof dialect === 'string' && UP_TO_7.test(dialect),
  })
  const root = isJsonObject(upgraded) ? upgraded : {}
  return typeof dialect === 'string' && !OLDER.test(dialect) ? { $schema: dialect, ...root } : root
}

interface Origin {
  readonly root: JsonObject
  /** The `$id` of the document. */
  readonly id: string
  /** Whether keywords beside a reference are ignored. */
  readonly ignoresSiblings: boolean
}

function rewrite(schema: JsonValue, origin: Origin): JsonValue {
  if (!isJsonObject(schema)) return schema
  const isReference = origin.ignoresSiblings && typeof schema.$ref === 'string'
  const made: Record<string, JsonValue> = {}
  for (const [keyword, value] of Object.entries(schema)) {
    if (WITHOUT_EFFECT.has(keyword) || (isReference && !BESIDE_REFERENCE.has(keyword))) continue
    if (keyword === '$recursiveRef') made.$ref = ownReference(value, origin)
    else if (REFERENCES.has(keyword)) setMember(made, keyword, ownReference(value, origin))
    else if (keyword === 'pattern' && typeof value === 'string') made.pattern = withoutNeedlessEscapes(value)
    else if (keyword === 'dependencies' && isJsonObject(value)) splitDependencies(made, value, origin)
    else setMember(made, keyword, rewriteKeyword(keyword, value, origin))
  }
  rewriteTuple(made)
  rewriteNullable(made)
  rewriteBound(made, 'exclusiveMinimum', 'minimum')
  rewriteBound(made, 'exclusiveMaximum', 'maximum')
  rewriteEmptyChoice(made)
  if (typeof made.id === 'string') delete made.id
  return made
}

function rewriteKeyword(keyword: string, value: JsonValue, origin: Origin): JsonValue {
  const map = (inner: JsonValue): JsonValue => rewrite(inner, origin)
  if (keyword === 'additionalItems') return map(value)
  if (keyword !== 'patternProperties' || !isJsonObject(value)) return mapSubschemas(keyword, value, map)
  const members: Record<string, JsonValue> = {}
  for (const [name, member] of Object.entries(value))
    setMember(members, withoutNeedlessEscapes(name), map(member))
  return members
}

/** Shortens a reference that names its own document, and rewrites one that leads through a renamed keyword. */
function ownReference(value: JsonValue, { id, root }: Origin): JsonValue {
  if (typeof value !== 'string') return value
  const isNamed = id !== '' && (value === id || value.startsWith(`${id}#`))
  const reference = isNamed ? `#${value.slice(id.length + 1)}` : value
  return MOVED.test(reference) ? movedReference(reference, root) : reference
}

const MOVED = /^#\/(?:.*\/)?(?:items|additionalItems|dependencies)(?:\/|$)/

/** Rewrites the keywords in the path of a reference. A step is a keyword only inside a schema, and elsewhere a name. */
function movedReference(reference: string, root: JsonObject): string {
  let place: JsonValue = root
  let kind: StepKind = 'keywords'
  const made: string[] = []
  for (const step of reference.slice(2).split('/')) {
    const [name = ''] = pointerSteps(`/${step}`)
    if (typeof place !== 'object' || place === null || !Object.hasOwn(place, name)) return reference
    made.push(kind === 'keywords' && isJsonObject(place) ? movedKeyword(step, place) : step)
    place = Reflect.get(place, name)
    kind = kindBelow(kind, name, place)
  }
  return `#/${made.join('/')}`
}

/** What a step of a path leads to: the keywords of a schema, further schemas by name or index, or data. */
type StepKind = 'keywords' | 'schemas' | 'data'

function kindBelow(kind: StepKind, step: string, value: JsonValue): StepKind {
  if (kind !== 'keywords') return kind === 'schemas' ? 'keywords' : 'data'
  const below = step === 'additionalItems' ? 'one' : SUBSCHEMAS.get(step)
  if (below === undefined) return 'data'
  return below === 'one' && !Array.isArray(value) ? 'keywords' : 'schemas'
}

function movedKeyword(keyword: string, schema: JsonObject): string {
  if (keyword === 'dependencies') return 'dependentSchemas'
  if (!Array.isArray(schema.items)) return keyword
  if (keyword === 'items') return 'prefixItems'
  return keyword === 'additionalItems' ? 'items' : keyword
}

/** Until 2019-09 `items` was also a list. */
function rewriteTuple(made: Record<string, JsonValue>): void {
  const { items, additionalItems } = made
  if (!Array.isArray(items)) return
  delete made.items
  delete made.additionalItems
  if (items.length > 0) made.prefixItems = items
  if (additionalItems !== undefined) made.items = additionalItems
}

/** Rewrites `nullable` of OpenAPI 3.0. */
function rewriteNullable(made: Record<string, JsonValue>): void {
  if (typeof made.nullable !== 'boolean') return
  const { nullable, type, enum: values } = made
  delete made.nullable
  if (!nullable) return
  if (typeof type === 'string' && type !== 'null') made.type = [type, 'null']
  if (Array.isArray(values) && !values.includes(null)) made.enum = [...values, null]
}

/** An empty list of choices accepts no value; some upstreams fill it when they are configured. */
function rewriteEmptyChoice(made: Record<string, JsonValue>): void {
  if (!Array.isArray(made.enum) || made.enum.length > 0) return
  delete made.enum
  made.not = {}
}

/** In draft 4 an exclusive bound was a switch beside the bound. */
function rewriteBound(
  made: Record<string, JsonValue>,
  exclusive: 'exclusiveMinimum' | 'exclusiveMaximum',
  bound: 'minimum' | 'maximum',
): void {
  const isExclusive = made[exclusive]
  if (typeof isExclusive !== 'boolean') return
  const value = made[bound]
  delete made[exclusive]
  if (isExclusive && value !== undefined) made[exclusive] = value
}

/** Until 2019-09 one keyword contained both required names and schemas. */
function splitDependencies(made: Record<string, JsonValue>, dependencies: JsonObject, origin: Origin): void {
  const entries = Object.entries(dependencies)
  const required = entries.filter(([, value]) => Array.isArray(value))
  const schemas = entries.filter(([, value]) => !Array.isArray(value))
  if (required.length > 0) made.dependentRequired = Object.fromEntries(required)
  if (schemas.length > 0)
    made.dependentSchemas = Object.fromEntries(schemas.map(([name, value]) => [name, rewrite(value, origin)]))
}
