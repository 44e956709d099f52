import { isRecord, type Schema } from './tool-data.ts'

/*
 * Describes a schema as a list of values. Used by `schemas.tsx` and `try-panel.tsx`. What the list leaves out is in the schema
 * itself.
 */

/** One value of an input or output, described for people. */
interface SchemaRow {
  /** `emails[].subject` */
  readonly path: string
  readonly type: string
  readonly isRequired: boolean
  readonly description: string | undefined
  /** The default value: `20`. */
  readonly defaultValue: string | undefined
  readonly choices: readonly string[]
}

interface SchemaWords {
  readonly rows: readonly SchemaRow[]
  /** Whether values were left out, because they are nested too deeply or there are too many. */
  readonly isCut: boolean
}

const MAX_ROWS = 400
const MAX_LEVELS = 5
const MAX_CHOICES = 12

export function describeSchema(schema: Schema): SchemaWords {
  const rows: SchemaRow[] = []
  let isCut = false
  const walk = (part: Schema, path: string, level: number): void => {
    const { properties, items, required } = part
    if (level > MAX_LEVELS) {
      isCut = true
      return
    }
    for (const [name, found] of Object.entries(isRecord(properties) ? properties : {})) {
      const below = isRecord(found) ? resolve(found, schema) : {}
      const isList = isRecord(below.items)
      const at = `${path}${path === '' ? '' : '.'}${name}${isList ? '[]' : ''}`
      if (rows.length >= MAX_ROWS) {
        isCut = true
        return
      }
      rows.push(rowOf(below, at, Array.isArray(required) && required.includes(name)))
      const inner = isRecord(below.items) ? resolve(below.items, schema) : below
      for (const branch of [inner, ...branchesOf(inner, schema)]) walk(branch, at, level + 1)
    }
    if (path === '' && isRecord(items)) walk(resolve(items, schema), '[]', level + 1)
  }
  const whole = resolve(schema, schema)
  walk(whole, '', 0)
  for (const branch of branchesOf(whole, schema)) walk(branch, '', 0)
  return { rows, isCut }
}

function rowOf(schema: Schema, path: string, isRequired: boolean): SchemaRow {
  const { description, default: defaultValue } = schema
  const listed = isRecord(schema.items) && Array.isArray(schema.items.enum) ? schema.items.enum : schema.enum
  const choices = Array.isArray(listed)
    ? listed.slice(0, MAX_CHOICES).map((choice) => JSON.stringify(choice))
    : []
  return {
    path,
    type: typeWords(schema),
    isRequired,
    description: typeof description === 'string' ? description : undefined,
    defaultValue: defaultValue === undefined ? undefined : JSON.stringify(defaultValue),
    choices,
  }
}

/** `integer, 1 to 100` */
export function typeWords(schema: Schema): string {
  const { type, items, format, anyOf, oneOf, enum: choices, const: fixed } = schema
  if (fixed !== undefined) return JSON.stringify(fixed)
  const branches = Array.isArray(anyOf) ? anyOf : Array.isArray(oneOf) ? oneOf : []
  const kinds = branches.filter(isRecord).map((branch) => typeWords(branch))
  const plain = Array.isArray(type) ? type.join(' or ') : typeof type === 'string' ? type : ''
  const base = kinds.length > 0 ? [...new Set(kinds)].join(' or ') : plain
  if (type === 'array') return isRecord(items) ? `list of ${typeWords(items)}` : 'list'
  const name = base !== '' ? base : Array.isArray(choices) ? typeof choices[0] : refName(schema)
  return [name, ...(typeof format === 'string' ? [format] : []), ...rangeWords(schema)].join(', ')
}

function refName({ $ref }: Schema): string {
  return typeof $ref === 'string' ? ($ref.split('/').at(-1) ?? 'any') : 'any'
}

const RANGES = [
  ['minimum', 'maximum', ''],
  ['minLength', 'maxLength', ' characters'],
  ['minItems', 'maxItems', ' items'],
] as const

/** Schema libraries write JavaScript's integer limits if the author set none. */
function isArtefact(limit: unknown): boolean {
  return typeof limit === 'number' && Math.abs(limit) === Number.MAX_SAFE_INTEGER
}

function rangeWords(schema: Schema): readonly string[] {
  return RANGES.flatMap(([least, most, unit]) => {
    const [low, high] = [least, most].map((name) => (isArtefact(schema[name]) ? undefined : schema[name]))
    if (low === undefined && high === undefined) return []
    if (low === undefined) return [`at most ${String(high)}${unit}`]
    return [
      high === undefined ? `at least ${String(low)}${unit}` : `${String(low)} to ${String(high)}${unit}`,
    ]
  })
}

function branchesOf(schema: Schema, root: Schema): readonly Schema[] {
  return ['anyOf', 'oneOf', 'allOf'].flatMap((name) => {
    const listed = schema[name]
    return Array.isArray(listed) ? listed.filter(isRecord).map((branch) => resolve(branch, root)) : []
  })
}

/** The target of a reference within the schema, merged with the keywords beside it. */
function resolve(schema: Schema, root: Schema): Schema {
  const { $ref, ...beside } = schema
  if (typeof $ref !== 'string' || !$ref.startsWith('#')) return schema
  let found: unknown = root
  for (const part of $ref.slice(1).split('/').slice(1)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    found = isRecord(found) ? found[name] : undefined
  }
  return isRecord(found) ? { ...found, ...beside } : schema
}

/** Whether the form has fields for the input. A schema that names no members takes no input only if it forbids additional ones. */
export function kindOfInput(schema: Readonly<Record<string, unknown>>): 'fields' | 'anything' | 'nothing' {
  const { properties, additionalProperties } = schema
  if (isRecord(properties) && Object.keys(properties).length > 0) return 'fields'
  if (isRecord(additionalProperties) && Object.keys(additionalProperties).length > 0) return 'fields'
  if (['$ref', 'oneOf', 'anyOf', 'allOf', 'patternProperties'].some((name) => name in schema)) return 'fields'
  return additionalProperties === false ? 'nothing' : 'anything'
}
