import type { Report } from '#kernel/base/errors'
import { childPointer, describeValue, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { DEFINITIONS, REFERENCES, visitSchemas } from './keywords.ts'
import { metaSchemaProblems } from './meta-schema.ts'
import { isNewest, NEWEST } from './upgrade.ts'

/**
 * Decides whether a schema is valid JSON Schema 2020-12 that the validator can enforce, for authored and imported tools.
 * A schema that passes compiles, and every keyword in it means what the author wrote.
 */

interface SchemaCheckOptions {
  /** Whether references are allowed: published definitions have none (OTC-34, OTC-36), and authored ones are inlined. */
  readonly references: 'allowed' | 'forbidden'
}

/** Keywords from other dialects, and how to write them in 2020-12. */
const FOREIGN: ReadonlyMap<string, string> = new Map([
  ['nullable', 'Add "null" to `type`: `"type": ["string", "null"]`.'],
  ['id', 'Remove it; 2020-12 calls it `$id`.'],
  ['$async', 'Remove it.'],
  ['$recursiveRef', 'Write `$ref`.'],
  ['$recursiveAnchor', 'Write `$anchor`.'],
])

/** Reports every problem; `true` if there is none (OTC-32, OTC/T-18). */
export function checkSchema(
  schema: JsonObject,
  where: string,
  report: Report,
  options: SchemaCheckOptions,
): boolean {
  let sound = true
  const add: Report = (place, problem, fix) => {
    sound = false
    report(`${where}${place}`, problem, fix)
  }
  const { $schema: dialect } = schema
  if (dialect !== undefined && !isNewest(schema)) {
    const fix = `Write the schema in "${NEWEST}", or leave \`$schema\` out.`
    add('/$schema', `Is ${describeValue(dialect)}.`, fix)
  }
  for (const { pointer, message } of metaSchemaProblems(schema))
    add(pointer, `${message}.`, 'Write valid JSON Schema 2020-12.')
  if (sound) visitSchemas(schema, '', (inner, pointer) => checkKeywords(inner, pointer, add, options))
  return sound
}

function checkKeywords(schema: JsonObject, pointer: string, add: Report, options: SchemaCheckOptions): void {
  for (const [keyword, value] of Object.entries(schema)) {
    const place = childPointer(pointer, keyword)
    const instead = FOREIGN.get(keyword)
    if (instead !== undefined) add(place, `\`${keyword}\` is not a keyword of JSON Schema 2020-12.`, instead)
    if (keyword === '$id' && pointer !== '') {
      add(place, 'A schema inside another one has its own `$id`.', 'Remove it and refer by `#/…`.')
    }
    if (options.references === 'forbidden' && (REFERENCES.has(keyword) || DEFINITIONS.has(keyword))) {
      add(place, `\`${keyword}\` is not allowed in a published definition.`, 'Write the schema out in place.')
    }
    checkValue(keyword, value, place, add)
  }
}

/** Reports values that the meta-schema allows, but that are always wrong or cannot be checked. */
function checkValue(keyword: string, value: JsonValue, place: string, add: Report): void {
  if (keyword === 'enum' && Array.isArray(value) && value.length === 0) {
    add(place, 'An empty `enum` allows no value at all.', 'List at least one value.')
  }
  if (keyword === 'pattern' && typeof value === 'string') checkPattern(value, place, add)
  if (!isJsonObject(value)) return
  if (keyword === 'patternProperties') {
    for (const pattern of Object.keys(value)) checkPattern(pattern, childPointer(place, pattern), add)
  }
  if (NAME_KEYED.has(keyword) && Object.hasOwn(value, '__proto__')) {
    add(place, 'A property named `__proto__` cannot be checked.', 'Give it another name.')
  }
}

const NAME_KEYED: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  'dependentSchemas',
  'dependentRequired',
  'dependencies',
])

function checkPattern(pattern: string, place: string, add: Report): void {
  try {
    new RegExp(pattern, 'u')
  } catch (error) {
    const detail = error instanceof Error ? error.message : 'it does not compile'
    const fix = 'Write an ECMA-262 pattern that is valid with the `u` flag.'
    add(place, `Not a regular expression: ${detail}.`, fix)
  }
}
