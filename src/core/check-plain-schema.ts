import type { Report } from './finding.ts'
import { isJsonObject, type JsonObject, type JsonValue } from './json.ts'
import { childPointer } from './json-pointer.ts'
import { didYouMean, misspelledName } from './nearest-name.ts'
import { REFERENCES, SUBSCHEMAS, visitSchemas } from './schema-keywords.ts'

/**
 * Slips in JSON Schema written by hand, which the standard reads as annotations and so as "anything goes".
 * Schemas of libraries are not asked: they spell well, and their users may add annotations of their own.
 */
export function checkPlainSchema(schema: JsonObject, where: string, report: Report): void {
  visitSchemas(schema, '', (inner, pointer) => {
    for (const keyword of Object.keys(inner)) {
      const meant = misspelledKeyword(keyword)
      if (meant === undefined) continue
      report(
        `${where}${childPointer(pointer, keyword)}`,
        `Is not a keyword of JSON Schema 2020-12. Did you mean "${meant}"?`,
        `Write \`${meant}\`, or \`x-${keyword}\` for an annotation of your own.`,
      )
    }
  })
  checkRequired(schema, where, report)
}

/** Every keyword of 2020-12, and its two old names that validators still obey. */
const KEYWORDS: ReadonlySet<string> = new Set([
  ...SUBSCHEMAS.keys(),
  ...REFERENCES,
  ...['$schema', '$id', '$anchor', '$dynamicAnchor', '$vocabulary', '$comment'],
  ...['type', 'enum', 'const', 'multipleOf', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
  ...[
    'minLength',
    'maxLength',
    'pattern',
    'minItems',
    'maxItems',
    'uniqueItems',
    'minContains',
    'maxContains',
  ],
  ...['minProperties', 'maxProperties', 'required', 'dependentRequired'],
  ...['format', 'contentEncoding', 'contentMediaType'],
  ...['title', 'description', 'default', 'deprecated', 'readOnly', 'writeOnly', 'examples'],
])

/** Words of OpenAPI and of older drafts that only look like slips. */
const OTHER_WORDS: ReadonlySet<string> = new Set(['example', 'id', 'formatMinimum', 'formatMaximum'])

/** How many letters may be wrong. Short keywords have neighbours that mean something else: `note` is not `not`. */
const SLIPS: readonly { readonly letters: number; readonly keywords: readonly string[] }[] = [
  { letters: 1, keywords: keywordsOf(4, 7) },
  { letters: 2, keywords: keywordsOf(8, 15) },
  { letters: 3, keywords: keywordsOf(16, Number.POSITIVE_INFINITY) },
]

function keywordsOf(shortest: number, longest: number): readonly string[] {
  return [...KEYWORDS].filter(({ length }) => length >= shortest && length <= longest)
}

function misspelledKeyword(keyword: string): string | undefined {
  if (KEYWORDS.has(keyword) || OTHER_WORDS.has(keyword) || keyword.startsWith('x-')) return undefined
  for (const { letters, keywords } of SLIPS) {
    const meant = misspelledName(keyword, keywords, letters)
    if (meant !== undefined) return meant
  }
  return undefined
}

/** Where a schema stands on its own; inside `anyOf` and its like, the properties may be declared around it. */
const STANDALONE = [
  'properties',
  'patternProperties',
  'additionalProperties',
  'items',
  'prefixItems',
] as const
const COMPOSERS = ['allOf', 'anyOf', 'oneOf', 'not', 'if', 'dependentSchemas', ...REFERENCES] as const

/** A required name that nothing declares is a slip on one of the two sides: no caller could know what to send. */
function checkRequired(schema: JsonValue | undefined, where: string, report: Report): void {
  if (!isJsonObject(schema)) return
  const { required } = schema
  if (Array.isArray(required) && !COMPOSERS.some((keyword) => keyword in schema)) {
    for (const [index, name] of required.entries()) {
      if (typeof name !== 'string' || mayHold(schema, name)) continue
      const meant = didYouMean(name, Object.keys(propertiesOf(schema)))
      report(
        `${where}/required/${index}`,
        `"${name}" is not among the properties.${meant}`,
        'Declare it under `properties`, or take it off this list.',
      )
    }
  }
  for (const keyword of STANDALONE) {
    const place = `${where}/${keyword}`
    const value = schema[keyword]
    if (keyword === 'items' || keyword === 'additionalProperties') checkRequired(value, place, report)
    else if (typeof value === 'object' && value !== null) {
      for (const [name, member] of Object.entries(value)) {
        checkRequired(member, childPointer(place, name), report)
      }
    }
  }
}

function mayHold(schema: JsonObject, name: string): boolean {
  if (Object.hasOwn(propertiesOf(schema), name)) return true
  const { additionalProperties, unevaluatedProperties, patternProperties } = schema
  const others = additionalProperties ?? unevaluatedProperties
  if (others !== undefined && others !== false) return true
  if (!isJsonObject(patternProperties)) return false
  return Object.keys(patternProperties).some((pattern) => matches(pattern, name))
}

function propertiesOf({ properties }: JsonObject): JsonObject {
  return isJsonObject(properties) ? properties : {}
}

/** A pattern that does not compile has a finding of its own. */
function matches(pattern: string, name: string): boolean {
  try {
    return new RegExp(pattern, 'u').test(name)
  } catch {
    return true
  }
}
