import type { Report } from '#kernel/base/errors'
import { describeValue, isJsonObject, type JsonObject, type JsonValue, setMember } from '#kernel/base/json'
import { checkSchema } from './check.ts'
import { inlineSchema } from './inline.ts'
import { DEFINITIONS, mapSubschemas, REFERENCES } from './keywords.ts'
import { findHardPatterns, withoutPatterns } from './patterns.ts'
import { upgradeSchema } from './upgrade.ts'

/** What is published of a schema that another party wrote, and what values are held against. */
export interface ImportedSchema {
  readonly schema: JsonObject
  /** Made when it is first needed: few of many imported tools are ever called. */
  readonly enforced: () => JsonObject
}

/** Larger than any schema that was met in thousands of public definitions, and read in less than a tenth of a second. */
const MAX_VALUES = 50_000
const MAX_CHARACTERS = 4_000_000
const MAX_LEVELS = 200

/** Tried in turn when a schema is too large to be written out whole: a shallow one still tells the parameters. */
const DEPTHS = [Number.POSITIVE_INFINITY, 12, 8, 6, 5, 4, 3, 2] as const

/**
 * How much of it callers are shown: a list is read by models, tool by tool. An answer explains itself when it comes;
 * what to send has to be known before.
 */
const MAX_SHOWN = { input: 65_536, output: 8_192 } as const

/**
 * Reads a schema that another party wrote. What nobody can check is a finding; what is only odd, such as a pattern
 * that no linear-time engine runs, is reported and the tool stays.
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
  const read = where === 'input' ? upgradeInput : upgradeSchema
  const upgraded = read(written)
  const relaxed = findHardPatterns(upgraded)
  for (const { pointer, pattern, problem } of relaxed) {
    tell(
      `${where}${pointer}`,
      `The pattern ${JSON.stringify(pattern)} cannot run in linear time: ${problem}.`,
      'It is shown to callers and left to the upstream to enforce.',
    )
  }
  if (!checkSchema(withoutPatterns(upgraded, relaxed), where, report, { references: 'allowed' }))
    return undefined
  let isSound = true
  const say: Report = (...finding) => {
    isSound = false
    report(...finding)
  }
  const schema = publish(upgraded, where, say, tell)
  if (!isSound) return undefined
  return { schema, enforced: () => withoutPatterns(read(written), relaxed) }
}

/** What a schema has too much of, if anything. Counted without recursion, because it may be nested beyond the stack. */
function excessOf(written: JsonObject): string | undefined {
  let level: JsonValue[] = [written]
  let values = 0
  let characters = 0
  for (let levels = 0; level.length > 0; levels += 1) {
    if (levels > MAX_LEVELS) return `${MAX_LEVELS} levels`
    const next: JsonValue[] = []
    for (const value of level) {
      values += 1
      if (typeof value === 'string') characters += value.length
      if (typeof value !== 'object' || value === null) continue
      for (const [name, member] of Object.entries(value)) {
        characters += name.length
        next.push(member)
      }
      if (values + next.length > MAX_VALUES) return `${MAX_VALUES} values`
    }
    if (characters > MAX_CHARACTERS) return `${MAX_CHARACTERS} characters`
    level = next
  }
  return undefined
}

/** An input schema of another party, as it is enforced. */
export function upgradeInput(written: JsonObject): JsonObject {
  return optionalDefaults(upgradeSchema(written))
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
      maxCharacters: MAX_SHOWN[where],
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
