import { isJsonObject, type JsonObject, type JsonValue } from './json.ts'
import { childPointer } from './json-pointer.ts'
import { compileLinear } from './linear-pattern.ts'
import { mapSubschemas, REFERENCES, visitSchemas } from './schema-keywords.ts'
import { setMember } from './set-member.ts'

/** A pattern that is not enforced here, and why. */
export interface RelaxedPattern {
  readonly pointer: string
  readonly pattern: string
  readonly problem: string
}

export interface RelaxedSchema {
  readonly schema: JsonObject
  readonly relaxed: readonly RelaxedPattern[]
}

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
 * The same schema without the patterns that no linear-time engine can run. It accepts whatever the original
 * accepts: a pattern less, and where less would refuse more (`not`, `oneOf`, …), the whole keyword less.
 */
export function relaxPatterns(schema: JsonObject): RelaxedSchema {
  const relaxed = findHard(schema)
  if (relaxed.length === 0) return { schema, relaxed }
  const hard = new Set(relaxed.map(({ pattern }) => pattern))
  const softened = soften(schema, hard)
  return { schema: isJsonObject(softened) ? softened : {}, relaxed }
}

function findHard(schema: JsonObject): readonly RelaxedPattern[] {
  const found: RelaxedPattern[] = []
  visitSchemas(schema, '', ({ pattern, patternProperties }, pointer) => {
    const names = isJsonObject(patternProperties) ? Object.keys(patternProperties) : []
    const written = names.map((name) => ({ name, place: childPointer(`${pointer}/patternProperties`, name) }))
    if (typeof pattern === 'string') written.unshift({ name: pattern, place: `${pointer}/pattern` })
    for (const { name, place } of written) {
      const compiled = compileLinear(name)
      if (!compiled.ok) found.push({ pointer: place, pattern: name, problem: compiled.problem })
    }
  })
  return found
}

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
