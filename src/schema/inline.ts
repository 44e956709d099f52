import type { Report } from '#kernel/base/errors'
import { childPointer, isJsonObject, type JsonObject, type JsonValue, setMember } from '#kernel/base/json'
import {
  ANCHORS,
  createSchemaResolver,
  DEFINITIONS,
  mapSubschemas,
  REFERENCES,
  type SchemaResolver,
  SUBSCHEMAS,
} from './keywords.ts'
import { loosenAround } from './loosen.ts'

/**
 * Inlines the references of a schema, so that published definitions have none (OTC-34, OTC-36). `prepare-tool.ts` and
 * `imported.ts` use it on schemas that have passed `checkSchema`.
 * The result is frozen. It means the same as the original, or accepts more where `onCut` permits parts to be cut.
 */

/** No model reads more than this. */
const MAX_SUBSCHEMAS = 2_000
/** A small document can refer to a long text or list many times. */
const MAX_CHARACTERS = 1_000_000

/** Keywords that check nothing: beside a `$ref` they overwrite those of its target. */
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
   * For imported tools, whose whole schema is enforced: a part that contains itself or is too large is cut to `{}`. Called for
   * each cut. Without it, such a part is a finding.
   */
  readonly onCut?: (why: 'depth' | 'size') => void
  /** Maximum nesting depth of schemas; deeper ones are cut. Default: unlimited. */
  readonly maxDepth?: number
  readonly maxCharacters?: number
}

const ANY: JsonObject = Object.freeze({})

interface Inlining {
  readonly resolve: SchemaResolver
  readonly onCut: InlineOptions['onCut']
  readonly maxDepth: number
  readonly maxCharacters: number
  readonly where: string
  readonly report: Report
  /** Schemas that are being inlined: meeting one again is recursion. */
  readonly open: Set<JsonObject>
  /** What has been reported already, so that each recursive schema, and the size, is reported only once. */
  readonly reported: Set<JsonObject | 'size'>
  schemasLeft: number
  charactersLeft: number
  cuts: number
}

export function inlineSchema(
  schema: JsonObject,
  where: string,
  report: Report,
  { onCut, maxDepth = Number.POSITIVE_INFINITY, maxCharacters = MAX_CHARACTERS }: InlineOptions = {},
): JsonObject {
  const inlining: Inlining = {
    resolve: createSchemaResolver(schema),
    onCut,
    maxDepth,
    maxCharacters,
    where,
    report,
    open: new Set(),
    reported: new Set(),
    schemasLeft: MAX_SUBSCHEMAS,
    charactersLeft: maxCharacters,
    cuts: 0,
  }
  const { $schema, $id, ...rest } = asObject(inline(schema, '', inlining))
  return Object.freeze(rest)
}

function inline(schema: JsonValue, pointer: string, inlining: Inlining): JsonValue {
  if (!isJsonObject(schema)) return schema
  if (inlining.open.has(schema) || inlining.open.size >= inlining.maxDepth) {
    const problem =
      'The schema contains itself: published definitions contain no references, so writing the schema out would never end.'
    const fix =
      'Write out as many levels as callers need and end with a schema that accepts any value: `{}` (in zod `z.unknown()`, not `z.json()`).'
    return cut(inlining, schema, pointer, problem, fix)
  }
  inlining.schemasLeft -= 1
  if (inlining.schemasLeft < 0 || inlining.charactersLeft < 0) {
    const problem = `With its references written out, the schema has more than ${MAX_SUBSCHEMAS} schemas or ${inlining.maxCharacters} characters.`
    const fix = 'Describe less: use `{}` for parts that need no check, or split the tool.'
    return cut(inlining, 'size', '', problem, fix)
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

/** Returns `{}`, which accepts any value, if cutting is allowed; otherwise reports a finding, once for each `subject`. */
function cut(
  inlining: Inlining,
  subject: JsonObject | 'size',
  ...[pointer, problem, fix]: Parameters<Report>
): JsonValue {
  const { onCut, reported, report, where } = inlining
  inlining.cuts += 1
  if (onCut !== undefined) {
    onCut(subject === 'size' ? 'size' : 'depth')
    return ANY
  }
  if (!reported.has(subject)) report(`${where}${pointer}`, problem, fix)
  reported.add(subject)
  return true
}

function inlineKeyword(keyword: string, value: JsonValue, pointer: string, inlining: Inlining): JsonValue {
  if (!SUBSCHEMAS.has(keyword)) {
    inlining.charactersLeft -= freezeData(value)
    return value
  }
  const place = childPointer(pointer, keyword)
  const inlined = mapSubschemas(keyword, value, (inner, step) => {
    if (typeof step === 'string') inlining.charactersLeft -= step.length
    return inline(inner, step === undefined ? place : childPointer(place, step), inlining)
  })
  return Object.freeze(inlined)
}

function follow(reference: JsonValue, pointer: string, inlining: Inlining): JsonValue {
  const target = typeof reference === 'string' ? inlining.resolve(reference) : undefined
  if (typeof target === 'boolean' || isJsonObject(target)) return inline(target, pointer, inlining)
  inlining.report(
    `${inlining.where}${pointer}`,
    `The reference ${JSON.stringify(reference)} does not lead to a schema in this document.`,
    'Point to a schema in the same document, such as "#/$defs/name"; other documents are not fetched.',
  )
  return true
}

/** `$ref` applies beside its siblings: a value must fit both. */
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

/** Freezes a value that is not a schema; returns the approximate length of its JSON. */
function freezeData(value: JsonValue): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 1
  let size = 1
  for (const [name, member] of Object.entries(value)) size += name.length + freezeData(member)
  Object.freeze(value)
  return size
}
