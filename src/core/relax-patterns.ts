import { isJsonObject, type JsonObject, type JsonValue } from './json.ts'
import { childPointer } from './json-pointer.ts'
import { compileLinear, type LinearPattern } from './linear-pattern.ts'
import { mapSubschemas, REFERENCES, visitSchemas } from './schema-keywords.ts'
import { setMember } from './set-member.ts'

/** A pattern that is not enforced here, and why. */
export interface RelaxedPattern {
  readonly pointer: string
  readonly pattern: string
  readonly problem: string
}

/** Making one ready takes a while: instructions of all patterns of a schema that do, at most. */
const MOST_INSTRUCTIONS = 10_000

/** Where accepting more inside accepts less outside; the members that go with a keyword go with it. */
const TURNING: ReadonlyMap<string, readonly string[]> = new Map([
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
  for (const [keyword, together] of TURNING) {
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
