import type { JsonValue } from './json.ts'

/**
 * One text per value: members sorted by UTF-16 code unit, no spaces, numbers and strings as ECMAScript
 * writes them (RFC 8785). Two requests are the same request when these texts are equal (rule 5).
 */
export function canonicalJson(value: JsonValue): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  const members = Object.entries(value)
  if (members.length > 1) members.sort(byName)
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`).join(',')}}`
}

function byName([left]: readonly [string, JsonValue], [right]: readonly [string, JsonValue]): number {
  return left < right ? -1 : 1
}
