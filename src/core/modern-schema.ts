import { isJsonObject, type JsonObject, type JsonValue } from './json.ts'
import { withoutIdleEscapes } from './linear-pattern.ts'
import { mapSubschemas, REFERENCES } from './schema-keywords.ts'
import { setMember } from './set-member.ts'

/** Dialects that 2020-12 reads alike once the words below are rewritten. */
const OLDER = /^https?:\/\/json-schema\.org\/(?:draft-0[467]|draft\/2019-09)\/schema#?$/

/**
 * A schema of another house in the words of 2020-12: older drafts and OpenAPI say some things differently, and
 * what everybody writes must not cost a tool. Only for definitions that are imported.
 */
export function modernSchema(schema: JsonObject): JsonObject {
  const { $schema: dialect, $id: id, ...rest } = schema
  const itself = typeof id === 'string' ? id.replace(/#$/, '') : undefined
  const modern = rewrite(rest, itself)
  const root = isJsonObject(modern) ? modern : {}
  return typeof dialect === 'string' && !OLDER.test(dialect) ? { $schema: dialect, ...root } : root
}

function rewrite(schema: JsonValue, itself: string | undefined): JsonValue {
  if (!isJsonObject(schema)) return schema
  const made: Record<string, JsonValue> = {}
  for (const [keyword, value] of Object.entries(schema)) {
    if (REFERENCES.has(keyword)) setMember(made, keyword, ownReference(value, itself))
    else if (keyword === 'pattern' && typeof value === 'string') made.pattern = withoutIdleEscapes(value)
    else setMember(made, keyword, rewriteKeyword(keyword, value, itself))
  }
  rewriteTuple(made)
  rewriteNullable(made)
  rewriteBound(made, 'exclusiveMinimum', 'minimum')
  rewriteBound(made, 'exclusiveMaximum', 'maximum')
  rewriteEmptyChoice(made)
  if (typeof made.id === 'string') delete made.id
  return made
}

function rewriteKeyword(keyword: string, value: JsonValue, itself: string | undefined): JsonValue {
  const map = (inner: JsonValue): JsonValue => rewrite(inner, itself)
  if (keyword === 'additionalItems') return map(value)
  if (keyword !== 'patternProperties' || !isJsonObject(value)) return mapSubschemas(keyword, value, map)
  const members: Record<string, JsonValue> = {}
  for (const [name, member] of Object.entries(value))
    setMember(members, withoutIdleEscapes(name), map(member))
  return members
}

/** A reference that names the document itself. */
function ownReference(value: JsonValue, itself: string | undefined): JsonValue {
  if (itself === undefined || itself === '' || typeof value !== 'string') return value
  return value === itself || value.startsWith(`${itself}#`) ? `#${value.slice(itself.length + 1)}` : value
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

/** OpenAPI 3.0. */
function rewriteNullable(made: Record<string, JsonValue>): void {
  if (typeof made.nullable !== 'boolean') return
  const { nullable, type, enum: values } = made
  delete made.nullable
  if (!nullable) return
  if (typeof type === 'string' && type !== 'null') made.type = [type, 'null']
  if (Array.isArray(values) && !values.includes(null)) made.enum = [...values, null]
}

/** A list of choices that is filled when the upstream is configured; until then no value is one of them. */
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
  if (!isExclusive || value === undefined) return
  delete made[bound]
  made[exclusive] = value
}
