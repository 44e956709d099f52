import { isJsonObject, type JsonValue } from '#core/json'

type Fits = (value: JsonValue) => boolean

const isText: Fits = (value) => typeof value === 'string'
const isFlag: Fits = (value) => typeof value === 'boolean'
const isNumber: Fits = (value) => typeof value === 'number' && Number.isFinite(value)
const isCount: Fits = (value) => Number.isInteger(value) && Number(value) >= 0
const isTextList: Fits = (value) =>
  Array.isArray(value) && value.every(isText) && new Set(value).size === value.length
const anything: Fits = () => true

/** Keywords of 2020-12 that hold no schema, and what they must hold; all others are annotations of OpenAPI and go. */
export const PLAIN_KEYWORDS: ReadonlyMap<string, Fits> = new Map([
  ['title', isText],
  ['description', isText],
  ['default', anything],
  ['deprecated', isFlag],
  ['format', isText],
  ['const', anything],
  ['enum', (value) => Array.isArray(value) && value.length > 0],
  ['multipleOf', (value) => isNumber(value) && Number(value) > 0],
  ['maximum', isNumber],
  ['minimum', isNumber],
  ['exclusiveMaximum', isNumber],
  ['exclusiveMinimum', isNumber],
  ['maxLength', isCount],
  ['minLength', isCount],
  ['maxItems', isCount],
  ['minItems', isCount],
  ['maxContains', isCount],
  ['minContains', isCount],
  ['maxProperties', isCount],
  ['minProperties', isCount],
  ['uniqueItems', isFlag],
  ['contentEncoding', isText],
  ['contentMediaType', isText],
  ['dependentRequired', (value) => isJsonObject(value) && Object.values(value).every(isTextList)],
])

const TYPES: ReadonlySet<string> = new Set([
  'null',
  'boolean',
  'object',
  'array',
  'number',
  'string',
  'integer',
])

/** The types of a schema; `undefined` when it says nothing that 2020-12 knows. */
export function typesOf(type: JsonValue | undefined): readonly string[] | undefined {
  const written = (Array.isArray(type) ? type : [type]).map((name) => (name === 'file' ? 'string' : name))
  const known = [...new Set(written.filter((name) => typeof name === 'string' && TYPES.has(name)))]
  const names = known.filter((name) => typeof name === 'string')
  return names.length === 0 ? undefined : names
}

export function isPattern(pattern: JsonValue): pattern is string {
  if (typeof pattern !== 'string') return false
  try {
    new RegExp(pattern, 'u')
    return true
  } catch {
    return false
  }
}
