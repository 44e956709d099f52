import { RE2JS } from 're2js'
import type { Report } from '#core/errors'
import {
  childPointer,
  describeValue,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  setMember,
} from '#core/json'
import { checkSchema } from './check.ts'
import { inlineSchema } from './inline.ts'
import { DEFINITIONS, mapSubschemas, REFERENCES, visitSchemas } from './keywords.ts'

/** What is published of a schema that somebody else wrote, and what values are held against. */
export interface ImportedSchema {
  readonly schema: JsonObject
  /** Made when it is first needed: few of many imported tools are ever called. */
  readonly enforced: () => JsonObject
}

/** Larger than any schema that was met in thousands of public definitions, and read in less than a tenth of a second. */
const MOST_VALUES = 50_000
const MOST_CHARACTERS = 4_000_000
const MOST_LEVELS = 200

/** Tried in turn when a schema is too large to be written out whole: a shallow one still tells the parameters. */
const DEPTHS = [Number.POSITIVE_INFINITY, 12, 8, 6, 5, 4, 3, 2] as const

/**
 * How much of it callers are shown: a list is read by models, tool by tool. An answer explains itself when it comes;
 * what to send has to be known before.
 */
const MOST_SHOWN = { input: 65_536, output: 8_192 } as const

/**
 * Reads a schema that somebody else wrote. What nobody can check is a finding; what is only odd, such as a pattern
 * that no linear-time engine runs, is told and the tool stays.
 */
export function readImportedSchema(
  written: unknown,
  where: 'input' | 'output',
  report: Report,
  tell: Report,
): ImportedSchema | undefined {
  if (!isSchema(written)) {
    report(where, `Is ${describeValue(written)}.`, 'The upstream has to send JSON Schema as an object.')
    return undefined
  }
  const excess = excessOf(written)
  if (excess !== undefined) {
    report(where, `The schema has more than ${excess}.`, 'Describe less, or exclude the tool.')
    return undefined
  }
  const read = where === 'input' ? modernInput : modernSchema
  const modern = read(written)
  const relaxed = findHardPatterns(modern)
  for (const { pointer, pattern, problem } of relaxed) {
    tell(
      `${where}${pointer}`,
      `The pattern ${JSON.stringify(pattern)} cannot run in linear time: ${problem}.`,
      'It is shown to callers and left to the upstream to enforce.',
    )
  }
  if (!checkSchema(withoutPatterns(modern, relaxed), where, report, { references: 'allowed' }))
    return undefined
  let isSound = true
  const say: Report = (...finding) => {
    isSound = false
    report(...finding)
  }
  const schema = publish(modern, where, say, tell)
  if (!isSound) return undefined
  return { schema, enforced: () => withoutPatterns(read(written), relaxed) }
}

/** What a schema has too much of, if anything. Counted without recursion, because it may be nested beyond the stack. */
function excessOf(written: JsonObject): string | undefined {
  let level: JsonValue[] = [written]
  let values = 0
  let characters = 0
  for (let levels = 0; level.length > 0; levels += 1) {
    if (levels > MOST_LEVELS) return `${MOST_LEVELS} levels`
    const next: JsonValue[] = []
    for (const value of level) {
      values += 1
      if (typeof value === 'string') characters += value.length
      if (typeof value !== 'object' || value === null) continue
      for (const [name, member] of Object.entries(value)) {
        characters += name.length
        next.push(member)
      }
      if (values + next.length > MOST_VALUES) return `${MOST_VALUES} values`
    }
    if (characters > MOST_CHARACTERS) return `${MOST_CHARACTERS} characters`
    level = next
  }
  return undefined
}

/** An input schema of somebody else, as it is enforced. */
export function modernInput(written: JsonObject): JsonObject {
  return optionalDefaults(modernSchema(written))
}

/** Where accepting more inside accepts less outside. */
const TURNING: ReadonlySet<string> = new Set(['not', 'if', 'contains'])

/**
 * The same schema, with members that have a `default` not required: libraries write a schema of what they hold after
 * filling in, and the upstream still fills in. It accepts whatever the original accepts.
 */
function optionalDefaults(schema: JsonObject): JsonObject {
  // A definition that a negation refers to stays as it is.
  const kept = hasTurnedReference(schema) ? DEFINITIONS : NONE
  const relaxed = relaxRequired(schema, kept)
  return isJsonObject(relaxed) ? relaxed : schema
}

const NONE: ReadonlySet<string> = new Set()

function relaxRequired(schema: JsonValue, kept: ReadonlySet<string>): JsonValue {
  if (!isJsonObject(schema)) return schema
  const made: Record<string, JsonValue> = {}
  let isSame = true
  for (const [keyword, value] of Object.entries(schema)) {
    const next =
      TURNING.has(keyword) || kept.has(keyword) ? value : relaxKeyword(schema, keyword, value, kept)
    isSame &&= next === value
    setMember(made, keyword, next)
  }
  if (isSame) return schema
  // A value may fit several branches now that fitted one.
  if (made.oneOf !== schema.oneOf && made.oneOf !== undefined) {
    const { oneOf, anyOf, ...rest } = made
    return anyOf === undefined ? { ...rest, anyOf: oneOf } : { ...made, oneOf: schema.oneOf ?? oneOf }
  }
  return made
}

function relaxKeyword(
  { properties }: JsonObject,
  keyword: string,
  value: JsonValue,
  kept: ReadonlySet<string>,
): JsonValue {
  if (keyword === 'required' && Array.isArray(value)) {
    const needed = value.filter((name) => !hasDefault(properties, name))
    return needed.length === value.length ? value : needed
  }
  let isSame = true
  const mapped = mapSubschemas(keyword, value, (inner) => {
    const next = relaxRequired(inner, kept)
    isSame &&= next === inner
    return next
  })
  return isSame ? value : mapped
}

function hasDefault(properties: JsonValue | undefined, name: JsonValue): boolean {
  if (!isJsonObject(properties) || typeof name !== 'string' || !Object.hasOwn(properties, name)) return false
  const member = properties[name]
  return isJsonObject(member) && Object.hasOwn(member, 'default')
}

function hasTurnedReference(schema: JsonValue, isTurned = false): boolean {
  if (Array.isArray(schema)) return schema.some((each: JsonValue) => hasTurnedReference(each, isTurned))
  if (!isJsonObject(schema)) return false
  return Object.entries(schema).some(
    ([keyword, value]) =>
      (isTurned && REFERENCES.has(keyword)) || hasTurnedReference(value, isTurned || TURNING.has(keyword)),
  )
}

function isSchema(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function publish(schema: JsonObject, where: 'input' | 'output', report: Report, tell: Report): JsonObject {
  let published: JsonObject = {}
  let isCut = false
  for (const deepest of DEPTHS) {
    let isTooLarge = false
    isCut ||= deepest !== Number.POSITIVE_INFINITY
    published = inlineSchema(schema, where, report, {
      deepest,
      mostCharacters: MOST_SHOWN[where],
      onCut: (why) => {
        isCut = true
        isTooLarge ||= why === 'size'
      },
    })
    if (!isTooLarge) break
  }
  if (isCut) {
    tell(
      where,
      'The schema contains itself or is too large to write out: parts of what callers see are cut to `{}`.',
      'Values are still held against the whole schema.',
    )
  }
  return published
}

/** A pattern that is not enforced here, and why. */
interface RelaxedPattern {
  readonly pointer: string
  readonly pattern: string
  readonly problem: string
}

/** Making one ready takes a while: instructions of all patterns of a schema that do, at most. */
const MOST_INSTRUCTIONS = 10_000

/** Where accepting more inside accepts less outside; the members that go with a keyword go with it. */
const TURNING_IN_RELAX_PATTERNS: ReadonlyMap<string, readonly string[]> = new Map([
  ['not', ['not']],
  ['oneOf', ['oneOf']],
  ['if', ['if', 'then', 'else']],
  ['contains', ['contains', 'minContains', 'maxContains']],
])

/** What they refuse depends on what the others have looked at, also on those that are gone. */
const DEPENDENT = ['unevaluatedProperties', 'unevaluatedItems'] as const

/**
 * The same schema without some of its patterns. It accepts whatever the original accepts: a pattern less, and where
 * less would refuse more (`not`, `oneOf`, …), the whole keyword less.
 */
export function withoutPatterns(schema: JsonObject, relaxed: readonly RelaxedPattern[]): JsonObject {
  if (relaxed.length === 0) return schema
  const hard = new Set(relaxed.map(({ pattern }) => pattern))
  const softened = soften(schema, hard)
  return isJsonObject(softened) ? softened : {}
}

/** The patterns that no linear-time engine can run, and those that are too many. */
export function findHardPatterns(schema: JsonObject): readonly RelaxedPattern[] {
  const found: RelaxedPattern[] = []
  const problems = new Map<string, string | undefined>()
  let left = MOST_INSTRUCTIONS
  const problemOf = (pattern: string): string | undefined => {
    if (problems.has(pattern)) return problems.get(pattern)
    const compiled = left > 0 ? compileLinear(pattern) : TOO_MANY
    if (compiled.ok) left -= compiled.size
    const problem = compiled.ok ? undefined : compiled.problem
    problems.set(pattern, problem)
    return problem
  }
  visitSchemas(schema, '', ({ pattern, patternProperties }, pointer) => {
    const names = isJsonObject(patternProperties) ? Object.keys(patternProperties) : []
    const written = names.map((name) => ({ name, place: childPointer(`${pointer}/patternProperties`, name) }))
    if (typeof pattern === 'string') written.unshift({ name: pattern, place: `${pointer}/pattern` })
    for (const { name, place } of written) {
      const problem = problemOf(name)
      if (problem !== undefined) found.push({ pointer: place, pattern: name, problem })
    }
  })
  return found
}

const TOO_MANY: LinearPattern = { ok: false, problem: 'the schema has more patterns than are checked' }

function soften(schema: JsonValue, hard: ReadonlySet<string>): JsonValue {
  if (!isJsonObject(schema)) return schema
  const dropped = new Set<string>(DEPENDENT)
  for (const [keyword, together] of TURNING_IN_RELAX_PATTERNS) {
    const value = schema[keyword]
    if (value !== undefined && isTouched(value, hard)) for (const name of together) dropped.add(name)
  }
  const kept: Record<string, JsonValue> = {}
  for (const [keyword, value] of Object.entries(schema)) {
    if (dropped.has(keyword) || (keyword === 'pattern' && typeof value === 'string' && hard.has(value)))
      continue
    setMember(kept, keyword, softenKeyword(keyword, value, hard))
  }
  return kept
}

function softenKeyword(keyword: string, value: JsonValue, hard: ReadonlySet<string>): JsonValue {
  const softened = mapSubschemas(keyword, value, (inner) => soften(inner, hard))
  if (keyword !== 'patternProperties' || !isJsonObject(softened)) return softened
  const members: Record<string, JsonValue> = {}
  for (const [name, member] of Object.entries(softened)) {
    // The empty pattern matches every name, so that `additionalProperties` refuses none that the lost one let in.
    if (hard.has(name)) members[''] = true
    else setMember(members, name, member)
  }
  return members
}

/** Whether something inside is not enforced, or might not be, because a reference leads out. */
function isTouched(value: JsonValue, hard: ReadonlySet<string>): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (!isJsonObject(value)) return value.some((member) => isTouched(member, hard))
  return Object.entries(value).some(
    ([name, member]) =>
      REFERENCES.has(name) ||
      hard.has(name) ||
      (name === 'pattern' && typeof member === 'string' && hard.has(member)) ||
      isTouched(member, hard),
  )
}

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

/** A pattern made to match in linear time, or why it cannot be. */
export type LinearPattern =
  | {
      readonly ok: true
      readonly test: (text: string) => boolean
      /** Instructions: what one character of a text costs at most. */
      readonly size: number
    }
  | { readonly ok: false; readonly problem: string }

/** Longer ones take long to compile, and nobody wrote them by hand. */
const LONGEST_PATTERN = 4_096
/** Counted repetitions are written out: a short pattern can be a long program. */
const LARGEST_PROGRAM = 2_500

/**
 * A pattern that somebody else wrote, on an engine without backtracking, so that no text can hang us. It has to
 * compile as ECMA-262 too: what only the engine understands would mean something else upstream.
 */
export function compileLinear(pattern: string): LinearPattern {
  if (pattern.length > LONGEST_PATTERN) {
    return { ok: false, problem: `has more than ${LONGEST_PATTERN} characters` }
  }
  try {
    new RegExp(pattern, 'u')
    if (unfoldedSize(pattern) > LARGEST_PROGRAM) {
      return { ok: false, problem: `its repetitions unfold to more than ${LARGEST_PROGRAM} steps` }
    }
    const compiled = RE2JS.compile(RE2JS.translateRegExp(withSpaces(pattern)))
    return { ok: true, test: (text) => compiled.test(text), size: compiled.programSize() }
  } catch (error) {
    const detail = error instanceof Error ? error.message : 'it does not compile'
    return { ok: false, problem: detail }
  }
}

const IDLE = /[-_ @'":#,=<>~!%&`;]/

/** Without escapes that mean the character itself, as `\-` or `\@`: common, harmless, and refused by the `u` flag. */
function withoutIdleEscapes(pattern: string): string {
  return mapEscapes(pattern, (escaped, inClass) =>
    IDLE.test(escaped) && !(inClass && escaped === '-') ? escaped : undefined,
  )
}

const SPACES =
  '\\t\\n\\x0B\\f\\r \\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}\\x{FEFF}'

/** ECMA-262 counts more characters as white space than the engine does. */
function withSpaces(pattern: string): string {
  return mapEscapes(pattern, (escaped, inClass) => {
    if (escaped === 's') return inClass ? SPACES : `[${SPACES}]`
    return escaped === 'S' && !inClass ? `[^${SPACES}]` : undefined
  })
}

/** Replaces escape sequences; `undefined` leaves one as it is. */
function mapEscapes(pattern: string, map: (escaped: string, inClass: boolean) => string | undefined): string {
  let inClass = false
  return pattern.replaceAll(/\\([\s\S])|[[\]]/g, (found, escaped: string | undefined) => {
    if (escaped !== undefined) return map(escaped, inClass) ?? found
    inClass = found === '['
    return found
  })
}

/** An upper bound of the parts that a valid pattern has once its counted repetitions are written out. */
function unfoldedSize(pattern: string): number {
  // The size so far of each open group, and of the last part, which a repetition multiplies.
  const open = [{ size: 0, last: 0 }]
  let here = { size: 0, last: 0 }
  const take = (size: number): void => {
    here.size += size
    here.last = size
  }
  for (const [token, least, most] of pattern.matchAll(PARTS)) {
    if (token === '(') {
      open.push(here)
      here = { size: 0, last: 0 }
    } else if (token === ')') {
      const { size } = here
      here = open.pop() ?? here
      take(size + 2)
    } else if (least !== undefined) {
      const times = Math.max(Number(least), Number(most ?? '') || 1, 1)
      here.size += here.last * (times - 1)
      here.last *= times
    } else take(token.startsWith('\\p') || token.startsWith('\\P') ? CLASS_SIZE : 1 + token.length / 8)
  }
  return here.size
}

/** A class of Unicode has hundreds of ranges. */
const CLASS_SIZE = 20
const PARTS = /\\[pP]\{[^}]*\}|\\[\s\S]|\[(?:\\[\s\S]|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|[\s\S]/g
