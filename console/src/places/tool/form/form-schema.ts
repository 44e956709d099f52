import type { RJSFSchema } from '@rjsf/utils'
import { isRecord, type Schema } from '../tool-data.ts'

/**
 * A tool's schema in a form that the form library handles well: lists of types, nullable types and unnamed alternatives are
 * rewritten; tuples are left to JSON. Defaults are removed, because the server fills them in and the input should contain only
 * typed values. Fields show the defaults in grey.
 */
export function toFormSchema(schema: Schema): RJSFSchema {
  return rewrite(schema, schema, 0)
}

/** Marks a schema as one alternative of a choice, which shows its label. */
export const BRANCH = 'x-branch'
/** The default that the server uses for an empty field. */
export const DEFAULT = 'x-default'

const MAX_LEVELS = 40

/** Keywords that contain schemas by name, one schema, or a list of schemas. */
const NAMED = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']
const SINGLE = ['items', 'additionalProperties', 'additionalItems', 'not', 'if', 'then', 'else', 'contains']
const LISTED = ['allOf', 'anyOf', 'oneOf', 'prefixItems']

function rewrite(schema: unknown, root: Schema, level: number): RJSFSchema {
  // Any value is valid, so it gets a field for JSON.
  if (!isRecord(schema) || Object.keys(schema).length === 0) return { description: 'Any JSON.' }
  if (level > MAX_LEVELS) return { description: 'Any JSON.' }
  const next: Record<string, unknown> = { ...schema }
  const within = (part: unknown): unknown =>
    typeof part === 'boolean' ? part : rewrite(part, root, level + 1)
  for (const name of NAMED) {
    const named = schema[name]
    if (isRecord(named))
      next[name] = Object.fromEntries(
        Object.entries(named).map(([key, part]) => [
          key,
          part === true ? rewrite({}, root, 0) : within(part),
        ]),
      )
  }
  for (const name of SINGLE) if (isRecord(schema[name])) next[name] = within(schema[name])
  for (const name of LISTED) {
    const listed = schema[name]
    if (Array.isArray(listed)) next[name] = listed.map(within)
  }
  return withoutDefault(withoutTuple(withBranches(withOneType(next), root)))
}

/** `type: ['string', 'number']` is a choice; one type with `null` is that type, which may be left empty. */
function withOneType(schema: Record<string, unknown>): Record<string, unknown> {
  const { type, ...rest } = schema
  if (!Array.isArray(type)) return schema
  const types = type.filter((name) => name !== 'null')
  if (types.length <= 1) return schema
  const { description, title, default: defaultValue, ...shared } = rest
  return {
    ...(description === undefined ? {} : { description }),
    ...(title === undefined ? {} : { title }),
    ...(defaultValue === undefined ? {} : { default: defaultValue }),
    anyOf: type.map((name) => ({ ...shared, type: name })),
  }
}

function withBranches(schema: Record<string, unknown>, root: Schema): Record<string, unknown> {
  const member = ['anyOf', 'oneOf'].find((name) => Array.isArray(schema[name]))
  if (member === undefined) return schema
  const listed = schema[member]
  const branches = Array.isArray(listed) ? listed.filter(isRecord) : []
  const [only, ...others] = branches.filter(({ type }) => type !== 'null')
  const { [member]: _, ...rest } = schema
  const isOrNull = others.length === 0 && branches.length === 2
  if (isOrNull && only !== undefined && typeof only.type === 'string' && only.type !== 'object')
    return { ...only, ...rest, type: [only.type, 'null'] }
  // Constants are the options of one select.
  if (branches.every((branch) => 'const' in branch)) return { type: 'string', ...schema }
  return {
    ...schema,
    [member]: branches.map((branch) => ({ ...branch, title: titleOf(branch, root), [BRANCH]: true })),
  }
}

/** The label of an alternative: its title, its reference, its distinguishing constant, or its type. */
function titleOf(branch: Readonly<Record<string, unknown>>, root: Schema): string {
  if (typeof branch.title === 'string') return branch.title
  const { $ref } = branch
  if (typeof $ref === 'string') {
    const target = resolvePointer($ref, root)
    return typeof target?.title === 'string' ? target.title : ($ref.split('/').at(-1) ?? $ref)
  }
  const { type, properties, const: fixed } = branch
  if (fixed !== undefined) return JSON.stringify(fixed)
  if (isRecord(properties)) {
    const constant = Object.values(properties).find((part) => isRecord(part) && part.const !== undefined)
    if (isRecord(constant)) return String(constant.const)
    return `object with ${Object.keys(properties).slice(0, 3).join(', ')}`
  }
  return typeof type === 'string' ? type : 'any'
}

function resolvePointer(ref: string, root: Schema): Schema | undefined {
  let found: unknown = root
  for (const part of ref.replace(/^#\/?/, '').split('/')) {
    if (!isRecord(found)) return undefined
    found = found[decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')]
  }
  return isRecord(found) ? found : undefined
}

/** A tuple has no fields and is written as JSON. */
function withoutTuple(schema: Record<string, unknown>): Record<string, unknown> {
  if (!Array.isArray(schema.prefixItems) && !Array.isArray(schema.items)) return schema
  const { description } = schema
  return { description: typeof description === 'string' ? description : 'A list, as JSON.' }
}

function withoutDefault(schema: Record<string, unknown>): RJSFSchema {
  const { default: defaultValue, ...rest } = schema
  return defaultValue === undefined ? rest : { ...rest, [DEFAULT]: defaultValue }
}
