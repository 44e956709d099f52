import { isJsonObject, type JsonObject, type JsonValue } from './json.ts'
import { childPointer } from './json-pointer.ts'
import { compileLinear } from './linear-pattern.ts'
import { REFERENCES, SUBSCHEMAS } from './schema-keywords.ts'
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
  const relaxed: RelaxedPattern[] = []
  findHard(schema, '', relaxed)
  if (relaxed.length === 0) return { schema, relaxed }
  const hard = new Set(relaxed.map(({ pattern }) => pattern))
  const softened = soften(schema, hard)
  return { schema: isJsonObject(softened) ? softened : {}, relaxed }
}

function findHard(schema: JsonValue, pointer: string, found: RelaxedPattern[]): void {
  visitParts(schema, pointer, findHard, found)
  if (!isJsonObject(schema)) return
  const { pattern, patternProperties } = schema
  const written = [
    ...(typeof pattern === 'string' ? [{ pattern, place: `${pointer}/pattern` }] : []),
    ...(isJsonObject(patternProperties) ? Object.keys(patternProperties) : []).map((name) => ({
      pattern: name,
      place: childPointer(`${pointer}/patternProperties`, name),
    })),
  ]
  for (const { pattern: text, place } of written) {
    const compiled = compileLinear(text)
    if (!compiled.ok) found.push({ pointer: place, pattern: text, problem: compiled.problem })
  }
}

function visitParts<Found>(
  schema: JsonValue,
  pointer: string,
  visit: (inner: JsonValue, place: string, found: Found) => void,
  found: Found,
): void {
  if (!isJsonObject(schema)) return
  for (const [keyword, value] of Object.entries(schema)) {
    const holds = SUBSCHEMAS.get(keyword)
    if (holds === undefined) continue
    const place = childPointer(pointer, keyword)
    if (holds === 'one') visit(value, place, found)
    else if (Array.isArray(value)) {
      for (const [index, member] of value.entries()) visit(member, childPointer(place, index), found)
    } else if (isJsonObject(value)) {
      for (const [name, member] of Object.entries(value)) visit(member, childPointer(place, name), found)
    }
  }
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
  const holds = SUBSCHEMAS.get(keyword)
  if (holds === undefined) return value
  if (holds === 'one') return soften(value, hard)
  if (Array.isArray(value)) return value.map((member) => soften(member, hard))
  if (!isJsonObject(value)) return value
  const members: Record<string, JsonValue> = {}
  for (const [name, member] of Object.entries(value)) {
    // The empty pattern matches every name, so that `additionalProperties` refuses none that the lost one let in.
    if (keyword === 'patternProperties' && hard.has(name)) members[''] = true
    else setMember(members, name, soften(member, hard))
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
