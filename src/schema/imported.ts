import type { Report } from '#kernel/base/errors'
import { describeValue, isJsonObject, type JsonObject, type JsonValue, setMember } from '#kernel/base/json'
import { checkSchema } from './check.ts'
import { inlineSchema } from './inline.ts'
import { DEFINITIONS, mapSubschemas, REFERENCES } from './keywords.ts'
import { withoutPatterns } from './loosen.ts'
import { findHardPatterns } from './patterns.ts'
import { upgradeSchema } from './upgrade.ts'

/**
 * Reads schemas that another party wrote: the tools of sources. They are rewritten to 2020-12, limited in size, published
 * without references, and enforced as a whole.
 * A schema that cannot be checked is a finding, and its tool is left out; a schema that is only unusual is a warning. The enforced schema
 * accepts whatever the original accepts.
 */

/** The schema that callers see, and the one that values are checked against. */
export interface ImportedSchema {
  readonly schema: JsonObject
  /** Made at the first call, because few of many imported tools are ever called. */
  readonly enforced: () => JsonObject
}

/** Limits above every schema in thousands of public definitions; a schema at them is read in less than 0.1 s. */
const MAX_VALUES = 50_000
const MAX_CHARACTERS = 4_000_000
const MAX_LEVELS = 200

/** Depths that are tried in turn if a schema is too large to be written out whole: a shallow one still names the parameters. */
const DEPTHS = [Number.POSITIVE_INFINITY, 12, 8, 6, 5, 4, 3, 2] as const

/** Maximum number of published characters: models read lists tool by tool, and need inputs before the call but not outputs. */
const MAX_SHOWN = { input: 65_536, output: 8_192 } as const

export function readImportedSchema(
  written: unknown,
  where: 'input' | 'output',
  report: Report,
  warn: Report,
): ImportedSchema | undefined {
  if (!isSchema(written)) {
    return report(
      where,
      `Is ${describeValue(written)}.`,
      'The upstream has to send JSON Schema as an object.',
    )
  }
  const excess = excessOf(written)
  if (excess !== undefined) {
    return report(where, `The schema has more than ${excess}.`, 'Describe less, or exclude the tool.')
  }
  const read = where === 'input' ? upgradeInput : upgradeSchema
  const upgraded = read(written)
  const hardPatterns = findHardPatterns(upgraded)
  for (const { pointer, pattern, problem } of hardPatterns) {
    const hard = `The pattern ${JSON.stringify(pattern)} cannot run in linear time: ${problem}.`
    warn(`${where}${pointer}`, hard, 'It is shown to callers and left to the upstream to enforce.')
  }
  const patterns = new Set(hardPatterns.map(({ pattern }) => pattern))
  if (!checkSchema(withoutPatterns(upgraded, patterns), where, report, { references: 'allowed' }))
    return undefined
  let isSound = true
  const schema = publish(upgraded, where, warn, (...finding) => {
    isSound = false
    report(...finding)
  })
  return isSound ? { schema, enforced: () => withoutPatterns(read(written), patterns) } : undefined
}

/** Counted without recursion, because the schema may be nested deeper than the stack. */
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

/**
 * Upgrades a schema and makes members with a `default` optional: libraries write the schema of a value after defaults are
 * filled in, and the upstream fills them in.
 */
export function upgradeInput(written: JsonObject): JsonObject {
  const schema = upgradeSchema(written)
  // A definition that a negation refers to stays unchanged.
  const kept = hasNegatedReference(schema) ? DEFINITIONS : new Set<string>()
  const relaxed = relaxRequired(schema, kept)
  return isJsonObject(relaxed) ? relaxed : schema
}

/** Keywords whose subschema, if it accepts more, makes the whole schema accept less. */
const NEGATING: ReadonlySet<string> = new Set(['not', 'if', 'contains'])

function relaxRequired(schema: JsonValue, kept: ReadonlySet<string>): JsonValue {
  if (!isJsonObject(schema)) return schema
  const made: Record<string, JsonValue> = {}
  let isSame = true
  for (const [keyword, value] of Object.entries(schema)) {
    const next =
      NEGATING.has(keyword) || kept.has(keyword) ? value : relaxKeyword(schema, keyword, value, kept)
    isSame &&= next === value
    setMember(made, keyword, next)
  }
  if (isSame) return schema
  // A value that matched one branch may now match several.
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

function hasNegatedReference(schema: JsonValue, isNegated = false): boolean {
  if (Array.isArray(schema)) return schema.some((each: JsonValue) => hasNegatedReference(each, isNegated))
  if (!isJsonObject(schema)) return false
  return Object.entries(schema).some(
    ([keyword, value]) =>
      (isNegated && REFERENCES.has(keyword)) ||
      hasNegatedReference(value, isNegated || NEGATING.has(keyword)),
  )
}

/** Values from upstreams are parsed JSON, so an object is enough to be a schema. */
function isSchema(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function publish(schema: JsonObject, where: 'input' | 'output', warn: Report, report: Report): JsonObject {
  let published: JsonObject = {}
  let isCut = false
  for (const maxDepth of DEPTHS) {
    let isTooLarge = false
    isCut ||= maxDepth !== Number.POSITIVE_INFINITY
    published = inlineSchema(schema, where, report, {
      maxDepth,
      maxCharacters: MAX_SHOWN[where],
      onCut: (why) => {
        isCut = true
        isTooLarge ||= why === 'size'
      },
    })
    if (!isTooLarge) break
  }
  if (isCut) {
    const problem =
      'The schema contains itself or is too large to write out: parts of what callers see are cut to `{}`.'
    warn(where, problem, 'Values are still checked against the whole schema.')
  }
  return published
}
