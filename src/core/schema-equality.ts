import { _, type Ajv2020, type FuncKeywordDefinition } from 'ajv/dist/2020.js'
import { canonicalJson } from './canonical-json.ts'
import type { JsonArray, JsonValue } from './json.ts'

/**
 * Replaces the keywords that compare values. Ajv's own call `toString` and `valueOf` of what a caller sent,
 * and take quadratic time for `uniqueItems`; canonical JSON does neither.
 */
export function addEqualityKeywords(ajv: Ajv2020): void {
  for (const keyword of EQUALITY) {
    ajv.removeKeyword(keyword.keyword)
    ajv.addKeyword(keyword)
  }
}

const EQUALITY: readonly (FuncKeywordDefinition & { readonly keyword: string })[] = [
  {
    keyword: 'const',
    errors: false,
    error: { message: 'differs', params: ({ schemaCode }) => _`{allowedValue: ${schemaCode}}` },
    compile: (value: JsonValue) => isOneOf([value]),
  },
  {
    keyword: 'enum',
    schemaType: 'array',
    errors: false,
    error: { message: 'differs', params: ({ schemaCode }) => _`{allowedValues: ${schemaCode}}` },
    compile: isOneOf,
  },
  {
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    errors: false,
    compile: (wanted: boolean) => (items: JsonArray) => !wanted || hasNoTwins(items),
  },
]

function isOneOf(values: JsonArray): (value: JsonValue) => boolean {
  const scalars = new Set(values.filter((value) => !isStructured(value)))
  const structured = new Set(values.filter(isStructured).map(canonicalJson))
  return (value) =>
    isStructured(value) ? structured.size > 0 && structured.has(canonicalJson(value)) : scalars.has(value)
}

function hasNoTwins(items: JsonArray): boolean {
  const seen = new Set<JsonValue>()
  const structured = new Set<string>()
  for (const item of items) {
    if (isStructured(item)) structured.add(canonicalJson(item))
    else seen.add(item)
  }
  return seen.size + structured.size === items.length
}

function isStructured(value: JsonValue): boolean {
  return typeof value === 'object' && value !== null
}
