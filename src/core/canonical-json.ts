import { isJsonObject, type JsonValue } from './json.ts'

/**
 * One text per value: members sorted by UTF-16 code unit, no spaces, numbers and strings as ECMAScript
 * writes them (RFC 8785). Two requests are the same request when these texts are equal (rule 5).
 */
export function canonicalJson(value: JsonValue): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  let text = ''
  if (!isJsonObject(value)) {
    for (const member of value) text += `${text === '' ? '' : ','}${canonicalJson(member)}`
    return `[${text}]`
  }
  for (const name of Object.keys(value).sort()) {
    const member = value[name]
    if (member === undefined) continue
    text += `${text === '' ? '' : ','}${JSON.stringify(name)}:${canonicalJson(member)}`
  }
  return `{${text}}`
}
