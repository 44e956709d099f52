import type { Report } from '#kernel/base/errors'
import { childPointer, isJsonObject, type JsonObject, type JsonValue, setMember } from '#kernel/base/json'
import {
  ANCHORS,
  createSchemaResolver,
  DEFINITIONS,
  REFERENCES,
  type SchemaResolver,
  SUBSCHEMAS,
} from './keywords.ts'
import { loosenAround } from './loosen.ts'

/** Compiling takes about 0.2 ms a subschema at the first call, and no model reads more than this either. */
const MAX_SUBSCHEMAS = 2_000
/** A small document can name a long text or list many times over. */
const MAX_CHARACTERS = 1_000_000

/** Keywords that check nothing: beside a `$ref` they may overwrite those of its target. */
const ANNOTATIONS: ReadonlySet<string> = new Set([
  'title',
  'description',
  'default',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
  '$comment',
])

interface InlineOptions {
  /**
   * Tools of others are published as far as they can be: what contains itself or has no end is cut to `{}`, any value,
   * because the original is what is enforced. Reported for each cut.
   */
  readonly onCut?: (why: 'endless' | 'size') => void
  /** Levels of schemas inside schemas that are kept. */
  readonly deepest?: number
  /** Less than the usual. */
  readonly maxCharacters?: number
}

const ANY: JsonObject = Object.freeze({})

interface Inlining {
  readonly resolve: SchemaResolver
  readonly onCut: InlineOptions['onCut']
  readonly deepest: number
  readonly where: string
  readonly report: Report
  /** Schemas being unfolded right now: meeting one again is recursion. */
  readonly open: Set<JsonObject>
  readonly recursive: Set<JsonObject>
  schemasLeft: number
  charactersLeft: number
  tooLarge: boolean
  cuts: number
}

/**
 * The same schema without `$ref` and definitions (OTC-34, OTC-36), frozen. `schema` has passed
 * `checkSchema`. Reports recursion, references that lead nowhere and schemas that unfold without end.
 */
export function inlineSchema(
  schema: JsonObject,
  where: string,
  report: Report,
  { onCut, deepest = Number.POSITIVE_INFINITY, maxCharacters = MAX_CHARACTERS }: InlineOptions = {},
): JsonObject {
  const inlining: Inlining = {
    resolve: createSchemaResolver(schema),
    onCut,
    deepest,
    where,
    report,
    open: new Set(),
    recursive: new Set(),
    schemasLeft: MAX_SUBSCHEMAS,
    charactersLeft: maxCharacters,
    tooLarge: false,
    cuts: 0,
  }
  const { $schema, $id, ...rest } = asObject(inline(schema, '', inlining))
  return Object.freeze(rest)
}

function inline(schema: JsonValue, pointer: string, inlining: Inlining): JsonValue {
  if (!isJsonObject(schema)) return schema
  if (inlining.open.has(schema) || inlining.open.size >= inlining.deepest) {
    return cutOr(inlining, 'endless', () => reportRecursion(schema, pointer, inlining))
  }
  inlining.schemasLeft -= 1
  if (inlining.schemasLeft < 0 || inlining.charactersLeft < 0) {
    return cutOr(inlining, 'size', () => reportSize(inlining))
  }
  inlining.open.add(schema)
  const targets: JsonValue[] = []
  const kept: Record<string, JsonValue> = {}
  const touched = new Set<string>()
  for (const [keyword, value] of Object.entries(schema)) {
    if (DEFINITIONS.has(keyword) || ANCHORS.has(keyword)) continue
    const { cuts } = inlining
    inlining.charactersLeft -= keyword.length
    if (REFERENCES.has(keyword)) targets.push(follow(value, childPointer(pointer, keyword), inlining))
    else setMember(kept, keyword, inlineKeyword(keyword, value, pointer, inlining))
    if (inlining.cuts > cuts) touched.add(keyword)
  }
  inlining.open.delete(schema)
  const whole = combine(kept, targets)
  return Object.freeze(touched.size === 0 ? whole : loosenAround(whole, touched))
}

/** Any value: as `{}` where cutting is fine, because models read that better; a finding otherwise. */
function cutOr(inlining: Inlining, why: 'endless' | 'size', tell: () => void): JsonValue {
  const { onCut } = inlining
  inlining.cuts += 1
  if (onCut === undefined) tell()
  else onCut(why)
  return onCut === undefined ? true : ANY
}

function inlineKeyword(keyword: string, value: JsonValue, pointer: string, inlining: Inlining): JsonValue {
  const holds = SUBSCHEMAS.get(keyword)
  if (holds === undefined) {
    inlining.charactersLeft -= freezeData(value)
    return value
  }
  const place = childPointer(pointer, keyword)
  if (holds === 'one') return inline(value, place, inlining)
  if (Array.isArray(value)) {
    return Object.freeze(value.map((member, index) => inline(member, childPointer(place, index), inlining)))
  }
  if (!isJsonObject(value)) return value
  const members: Record<string, JsonValue> = {}
  for (const [name, member] of Object.entries(value)) {
    inlining.charactersLeft -= name.length
    setMember(members, name, inline(member, childPointer(place, name), inlining))
  }
  return Object.freeze(members)
}

function follow(reference: JsonValue, pointer: string, inlining: Inlining): JsonValue {
  const target = typeof reference === 'string' ? inlining.resolve(reference) : undefined
  if (typeof target === 'boolean' || isJsonObject(target)) return inline(target, pointer, inlining)
  inlining.report(
    `${inlining.where}${pointer}`,
    `The reference ${JSON.stringify(reference)} leads to no schema of this document.`,
    'Point to a schema of the same document, such as "#/$defs/name"; other documents are not fetched.',
  )
  return true
}

/** `$ref` applies beside its siblings, so whatever they check must hold as well as the target. */
function combine(siblings: JsonObject, targets: readonly JsonValue[]): JsonObject {
  const [target, ...more] = targets
  if (target === undefined) return siblings
  const onlyAnnotations = Object.keys(siblings).every((keyword) => ANNOTATIONS.has(keyword))
  if (more.length === 0 && onlyAnnotations) return { ...asObject(target), ...siblings }
  const { allOf, ...others } = siblings
  return { ...others, allOf: Object.freeze([...targets, ...(Array.isArray(allOf) ? allOf : [])]) }
}

function asObject(schema: JsonValue): JsonObject {
  if (isJsonObject(schema)) return schema
  return schema === false ? { not: {} } : {}
}

function reportRecursion(schema: JsonObject, pointer: string, inlining: Inlining): void {
  if (inlining.recursive.has(schema)) return
  inlining.recursive.add(schema)
  inlining.report(
    `${inlining.where}${pointer}`,
    'The schema contains itself: published definitions carry no references, so it would never end.',
    'Write out as many levels as callers need and end with any value: `{}`, in zod `z.unknown()` and not `z.json()`.',
  )
}

function reportSize(inlining: Inlining): void {
  if (inlining.tooLarge) return
  inlining.tooLarge = true
  inlining.report(
    inlining.where,
    `With its references written out it has more than ${MAX_SUBSCHEMAS} schemas or ${MAX_CHARACTERS} characters.`,
    'Describe less: use `{}` for parts that need no check, or split the tool.',
  )
}

/** Freezes what is not a schema, and gives about the number of characters it takes to write. */
function freezeData(value: JsonValue): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 1
  let size = 1
  for (const [name, member] of Object.entries(value)) size += name.length + freezeData(member)
  Object.freeze(value)
  return size
}
