import { shortHash } from '#kernel/base/hash'
import { isJsonObject, type JsonObject, type JsonValue, setMember } from '#kernel/base/json'
import { SUBSCHEMAS } from '#schema/keywords'
import { loosenSchema } from '#schema/loosen'
import { TYPES } from '#sources/kit/schema-meaning'
import {
  type DocumentNode,
  type Documents,
  entriesIn,
  entriesOf,
  isLocatedObject,
  itemsOf,
  type LocatedObject,
  type Target,
  textsOf,
} from './documents.ts'
import type { Dialect } from './operation.ts'

/**
 * Lowers (converts) schemas of all versions of OpenAPI to JSON Schema 2020-12 with definitions, for the inputs and outputs of
 * tools. Invariant: a lowered schema accepts every value that the document's schema allows in its direction.
 */

interface DefinitionsOptions {
  readonly documents: Documents
  readonly dialect: Dialect
  readonly direction: 'input' | 'output'
  warn(text: string): void
}

interface Lowering extends DefinitionsOptions {
  /** The name under `$defs` of a reference's target; `undefined` if there is none. */
  refer(reference: string, document: string): string | undefined
}

interface Definition {
  readonly uses: Set<string>
  schema: JsonValue
  /** Length of the schema in characters, counted on demand. */
  size?: number
  /** The schema for tools that do not get all definitions. */
  loosened?: JsonValue
}

/**
 * Maximum characters of the definitions that a schema refers to. The objects of some large services refer to each other so much
 * that each schema would contain all of them (Stripe: 690 000 characters for each of 452 tools), too many to read and to check.
 */
const MAX_REFERRED = 32_768
/** Maximum characters of the definitions that a schema refers to directly. */
const MAX_REFERRED_FIRST = 262_144

/** The schemas of a document in one direction, input or output. Each is lowered only once. */
export class SchemaDefinitions {
  readonly #options: DefinitionsOptions
  readonly #definitions = new Map<string, Definition>()
  readonly #names = new Map<string, string>()
  readonly #waiting: { readonly definition: Definition; readonly target: Target }[] = []

  constructor(options: DefinitionsOptions) {
    this.#options = options
  }

  /** Lowers a schema, and adds the names of the definitions that it uses to `uses`. */
  lower(located: DocumentNode | undefined, uses: Set<string>): JsonObject {
    if (located === undefined) return {}
    const lowered = toJsonSchema(located, this.#loweringFor(uses))
    // Iterative, so that a long chain of references does not overflow the stack.
    for (let next = this.#waiting.pop(); next !== undefined; next = this.#waiting.pop()) {
      next.definition.schema = toJsonSchema(next.target, this.#loweringFor(next.definition.uses))
    }
    if (isJsonObject(lowered)) return lowered
    return lowered === false ? { not: {} } : {}
  }

  /** The lowered schema itself, or its target if it is a reference. */
  followed(schema: JsonObject): JsonObject {
    const name = typeof schema.$ref === 'string' ? schema.$ref.slice('#/$defs/'.length) : undefined
    const target = name === undefined ? schema : this.#definitions.get(name)?.schema
    return isJsonObject(target) ? target : {}
  }

  /**
   * A lowered schema with its definitions: those that it refers to directly, and indirectly through as many steps as fit.
   * Definitions that do not fit accept any value, so no valid value is refused.
   */
  complete(schema: JsonObject, uses: ReadonlySet<string>): JsonObject {
    if (uses.size === 0) return schema
    const { kept, omitted } = this.#reachable(uses)
    const definitions: Record<string, JsonValue> = {}
    // The names are sorted, so that the result does not depend on the order of lowering.
    for (const name of [...kept, ...omitted].sort())
      setMember(definitions, name, omitted.has(name) ? {} : this.#shown(name, omitted.size > 0))
    const root = omitted.size === 0 ? schema : loosenSchema(schema)
    return { ...(isJsonObject(root) ? root : {}), $defs: definitions }
  }

  /** Finds the definitions that fit, breadth first, because near definitions matter more. */
  #reachable(uses: ReadonlySet<string>): { kept: ReadonlySet<string>; omitted: ReadonlySet<string> } {
    const kept = new Set<string>()
    let next: ReadonlySet<string> = uses
    let size = 0
    while (next.size > 0) {
      for (const name of next) size += this.#sizeOf(name)
      if (size > (kept.size === 0 ? MAX_REFERRED_FIRST : MAX_REFERRED)) return { kept, omitted: next }
      for (const name of next) kept.add(name)
      const used = [...next].flatMap((name) => [...(this.#definitions.get(name)?.uses ?? [])])
      next = new Set(used.filter((name) => !kept.has(name)))
    }
    return { kept, omitted: next }
  }

  #sizeOf(name: string): number {
    const definition = this.#definitions.get(name)
    if (definition === undefined) return 0
    definition.size ??= JSON.stringify(definition.schema).length
    return definition.size
  }

  #shown(name: string, loosened: boolean): JsonValue {
    const definition = this.#definitions.get(name)
    if (definition === undefined) return {}
    if (!loosened) return definition.schema
    definition.loosened ??= loosenSchema(definition.schema)
    return definition.loosened
  }

  #loweringFor(uses: Set<string>): Lowering {
    return {
      ...this.#options,
      refer: (reference, document) => this.#refer(reference, document, uses),
    }
  }

  #refer(reference: string, document: string, uses: Set<string>): string | undefined {
    const target = this.#options.documents.find(reference, document)
    if (target === undefined) {
      this.#options.warn(
        `The reference ${JSON.stringify(reference)} has no target; any value is accepted there.`,
      )
      return undefined
    }
    const name = this.#nameOf(target)
    uses.add(name)
    if (!this.#definitions.has(name)) {
      const definition: Definition = { uses: new Set(), schema: {} }
      // Registered before it is lowered, so that recursion ends.
      this.#definitions.set(name, definition)
      this.#waiting.push({ definition, target })
    }
    return name
  }

  /** The name of a definition. It depends only on the schema's position in its document, so that names are stable (rule 32). */
  #nameOf({ id }: Target): string {
    const known = this.#names.get(id)
    if (known !== undefined) return known
    const { documents, dialect } = this.#options
    const componentPrefix = `${documents.root.document}#${dialect === '2.0' ? '/definitions/' : '/components/schemas/'}`
    const own = id.startsWith(componentPrefix) ? id.slice(componentPrefix.length) : ''
    const last = (id.split('/').at(-1) ?? '').replaceAll(/[^A-Za-z0-9._-]/g, '_').slice(-40)
    const name = /^[A-Za-z0-9._-]+$/.test(own)
      ? own
      : `${last}_${shortHash(localPart(id, documents.root.document))}`
    this.#names.set(id, name)
    return name
  }
}

/** The id without the document's folder, so that the same files elsewhere get the same names. */
function localPart(id: string, root: string): string {
  const folder = root.slice(0, root.lastIndexOf('/') + 1)
  return id.startsWith(folder) ? id.slice(folder.length) : id
}

const MAX_DEPTH = 100
const ANNOTATIONS: ReadonlySet<string> = new Set(['title', 'description', 'default', 'deprecated'])
/** Keywords whose schemas only references use, or that validators ignore. */
const LEFT_OUT: ReadonlySet<string> = new Set(['$defs', 'definitions', 'contentSchema'])

/** Lowers a schema of any version of OpenAPI to JSON Schema 2020-12; references become `#/$defs/…`. */
function toJsonSchema(located: DocumentNode, lowering: Lowering, depth = 0): JsonValue {
  const { value, document } = located
  if (typeof value === 'boolean') return value
  if (!isJsonObject(value)) return {}
  if (depth > MAX_DEPTH) {
    lowering.warn(`A schema is nested more than ${MAX_DEPTH} levels deep; any value is accepted below.`)
    return {}
  }
  const { $ref: reference, ...siblings } = value
  if (typeof reference === 'string')
    return lowerReference({ value: siblings, document }, reference, lowering, depth)
  return lowerMembers(value, document, lowering, depth)
}

function lowerReference(
  { value: siblings, document }: LocatedObject,
  reference: string,
  lowering: Lowering,
  depth: number,
): JsonValue {
  const name = lowering.refer(reference, document)
  // Before 3.1, siblings of a reference have no meaning, but authors write descriptions there.
  const kept =
    lowering.dialect === '3.1'
      ? siblings
      : Object.fromEntries(Object.entries(siblings).filter(([keyword]) => ANNOTATIONS.has(keyword)))
  const around = lowerMembers(kept, document, lowering, depth)
  if (name === undefined) return around
  const target: JsonObject = { $ref: `#/$defs/${name}` }
  if (siblings.nullable !== true) return { ...around, ...target }
  const { anyOf, ...rest } = around
  const nullable = { anyOf: [target, { type: 'null' }] }
  return anyOf === undefined ? { ...rest, ...nullable } : { ...rest, allOf: [{ anyOf }, nullable] }
}

function lowerMembers(schema: JsonObject, document: string, lowering: Lowering, depth: number): JsonObject {
  const lowered: Record<string, JsonValue> = {}
  for (const [keyword, value] of Object.entries(schema)) {
    if (LEFT_OUT.has(keyword)) continue
    if (SUBSCHEMAS.has(keyword)) lowerSubschemas(keyword, { value, document }, lowered, lowering, depth)
    else if (PLAIN_KEYWORDS.get(keyword)?.(value) === true)
      lowered[keyword] = typeof value === 'string' ? value.toWellFormed() : value
  }
  lowerBounds(schema, lowered)
  lowerPattern(schema, lowered, lowering)
  const required = requiredNames({ value: schema, document }, lowering)
  if (required.length > 0) lowered.required = required
  // Examples help to write an input; in outputs they would only take space.
  const { example } = schema
  const isShown = lowering.direction === 'input' && example !== undefined
  if (isShown && JSON.stringify(example).length <= MAX_EXAMPLE_LENGTH) lowered.examples = [example]
  splitDiscriminator({ value: schema, document }, lowered, lowering)
  // Types come last, because a schema without a type is wrapped as a whole.
  lowerTypes(schema, lowered)
  return lowered
}

function lowerSubschemas(
  keyword: string,
  { value, document }: DocumentNode,
  lowered: Record<string, JsonValue>,
  lowering: Lowering,
  depth: number,
): void {
  const lower = (member: JsonValue): JsonValue =>
    toJsonSchema({ value: member, document }, lowering, depth + 1)
  const kind = SUBSCHEMAS.get(keyword)
  if (keyword === 'items' && Array.isArray(value)) {
    if (value.length > 0) lowered.prefixItems = value.map(lower)
  } else if (kind === 'one') {
    if (typeof value === 'boolean' || isJsonObject(value)) lowered[keyword] = lower(value)
  } else if (kind === 'list') {
    if (Array.isArray(value) && value.length > 0) lowered[keyword] = value.map(lower)
  } else if (isJsonObject(value)) {
    const members: Record<string, JsonValue> = {}
    for (const [name, member] of Object.entries(value)) {
      const isDropped =
        keyword === 'properties' &&
        lowering.direction === 'input' &&
        isHidden({ value: member, document }, lowering)
      if (name === '__proto__' || (keyword === 'patternProperties' && !isPattern(name)))
        lowering.warn(
          `The member ${JSON.stringify(name)} of \`${keyword}\` cannot be checked and is left out.`,
        )
      else if (!isDropped) setMember(members, name, lower(member))
    }
    lowered[keyword] = members
  }
}

/** Converts `nullable` of 3.0 and `x-nullable` of 2.0 to a type. */
function lowerTypes(schema: JsonObject, lowered: Record<string, JsonValue>): void {
  const types = typesOf(schema.type)
  const nullable = schema.nullable === true || schema['x-nullable'] === true
  if (schema.format === 'byte') lowered.contentEncoding = 'base64'
  if (types !== undefined) {
    const all = nullable && !types.includes('null') ? [...types, 'null'] : types
    lowered.type = all.length === 1 && all[0] !== undefined ? all[0] : all
  }
  if (!nullable) return
  if (Array.isArray(lowered.enum) && !lowered.enum.includes(null)) lowered.enum = [...lowered.enum, null]
  if (types !== undefined) return
  // A schema without a type becomes "the schema or null".
  const { title, description, default: _default, deprecated, ...checks } = lowered
  if (Object.keys(checks).length === 0) return
  for (const keyword of Object.keys(checks)) delete lowered[keyword]
  lowered.anyOf = [checks, { type: 'null' }]
}

/** Converts exclusive bounds, which are flags next to the bound in versions up to 3.0. */
function lowerBounds(schema: JsonObject, lowered: Record<string, JsonValue>): void {
  for (const [flag, bound] of [
    ['exclusiveMinimum', 'minimum'],
    ['exclusiveMaximum', 'maximum'],
  ] as const) {
    const value = lowered[bound]
    if (schema[flag] !== true || typeof value !== 'number') continue
    lowered[flag] = value
    delete lowered[bound]
  }
}

function lowerPattern({ pattern }: JsonObject, lowered: Record<string, JsonValue>, lowering: Lowering): void {
  if (pattern === undefined) return
  if (isPattern(pattern)) lowered.pattern = pattern
  else
    lowering.warn(`The pattern ${JSON.stringify(pattern)} is not an ECMA-262 expression and is not checked.`)
}

/** The required members, without those that are hidden in this direction, possibly by a schema in `allOf`. */
function requiredNames(schema: LocatedObject, lowering: Lowering): readonly string[] {
  const names = new Set(textsOf(schema.value.required))
  if (names.size === 0) return []
  const members = lowering.documents.allParts(schema).flatMap((part) => entriesIn(part, 'properties'))
  for (const [name, member] of members) if (isHidden(member, lowering)) names.delete(name)
  names.delete('__proto__')
  return [...names]
}

const MAX_EXAMPLE_LENGTH = 200

type ValueCheck = (value: JsonValue) => boolean

const isText: ValueCheck = (value) => typeof value === 'string'
const isFlag: ValueCheck = (value) => typeof value === 'boolean'
const isNumber: ValueCheck = (value) => typeof value === 'number' && Number.isFinite(value)
const isCount: ValueCheck = (value) => Number.isInteger(value) && Number(value) >= 0
const isTextList: ValueCheck = (value) =>
  Array.isArray(value) && value.every(isText) && new Set(value).size === value.length

/** Keywords of 2020-12 whose value is not a schema, with a check of the value; all other keywords are dropped. */
const PLAIN_KEYWORDS: ReadonlyMap<string, ValueCheck> = new Map([
  ...rows(isText, 'title', 'description', 'format', 'contentEncoding', 'contentMediaType'),
  ...rows(isFlag, 'deprecated', 'uniqueItems'),
  ...rows(isNumber, 'maximum', 'minimum', 'exclusiveMaximum', 'exclusiveMinimum'),
  ...rows(isCount, 'maxLength', 'minLength', 'maxItems', 'minItems', 'maxContains', 'minContains'),
  ...rows(isCount, 'maxProperties', 'minProperties'),
  ...rows(() => true, 'default', 'const'),
  ['enum', (value) => Array.isArray(value) && value.length > 0],
  ['multipleOf', (value) => isNumber(value) && Number(value) > 0],
  ['dependentRequired', (value) => isJsonObject(value) && Object.values(value).every(isTextList)],
])

/** The entries of several keywords with the same check. */
function rows(fits: ValueCheck, ...keywords: string[]): readonly (readonly [string, ValueCheck])[] {
  return keywords.map((keyword) => [keyword, fits])
}

/** The types of a schema that 2020-12 knows; `undefined` if there are none. */
function typesOf(type: JsonValue | undefined): readonly string[] | undefined {
  const written = (Array.isArray(type) ? type : [type]).map((name) => (name === 'file' ? 'string' : name))
  const names = [...new Set(written)]
    .filter((name) => typeof name === 'string')
    .filter((name) => TYPES.includes(name))
  return names.length === 0 ? undefined : names
}

function isPattern(pattern: JsonValue): pattern is string {
  if (typeof pattern !== 'string') return false
  try {
    new RegExp(pattern, 'u')
    return true
  } catch {
    return false
  }
}

/** True if a member does not belong to this direction: a request has no read-only and a response no write-only members. */
function isHidden(member: DocumentNode, { direction, documents }: Lowering): boolean {
  const keyword = direction === 'input' ? 'readOnly' : 'writeOnly'
  return [member, documents.resolve(member)].some(
    (node) => isLocatedObject(node) && node.value[keyword] === true,
  )
}

/**
 * Replaces `discriminator`, which is not a JSON Schema keyword. If it maps values to all branches, each branch accepts only its
 * own values. Otherwise branches may overlap, so `oneOf` becomes `anyOf`.
 */
function splitDiscriminator(
  { value, document }: LocatedObject,
  lowered: Record<string, JsonValue>,
  lowering: Lowering,
): void {
  const { discriminator } = value
  if (!isJsonObject(discriminator) || typeof discriminator.propertyName !== 'string') return
  const { propertyName } = discriminator
  const keyword = Array.isArray(lowered.oneOf) ? 'oneOf' : 'anyOf'
  const branches = lowered[keyword]
  if (!Array.isArray(branches)) return
  const values = valuesByTarget(discriminator, document, lowering)
  const written = itemsOf(value[keyword])
  const split = branches.map((branch, index) => {
    const target = targetOf(written[index], document, lowering)
    const names = target === undefined ? undefined : values.get(target)
    if (names === undefined || !isJsonObject(branch)) return branch
    return { ...branch, properties: { [propertyName]: { enum: names } }, required: [propertyName] }
  })
  const isExclusive = split.every((branch, index) => branch !== branches[index])
  const keepsKeyword = isExclusive || lowered.anyOf !== undefined
  if (!keepsKeyword) delete lowered[keyword]
  lowered[keepsKeyword ? keyword : 'anyOf'] = split
}

function valuesByTarget(
  { mapping }: JsonObject,
  document: string,
  lowering: Lowering,
): ReadonlyMap<string, readonly string[]> {
  const values = new Map<string, string[]>()
  for (const [name, reference] of entriesOf(mapping)) {
    if (typeof reference !== 'string') continue
    // A mapping may use the name of a component instead of a reference.
    const target =
      lowering.documents.find(reference, document) ??
      lowering.documents.find(`#/components/schemas/${reference}`, document)
    if (target !== undefined) values.set(target.id, [...(values.get(target.id) ?? []), name])
  }
  return values
}

function targetOf(branch: JsonValue | undefined, document: string, lowering: Lowering): string | undefined {
  const reference = isJsonObject(branch) ? branch.$ref : undefined
  return typeof reference === 'string' ? lowering.documents.find(reference, document)?.id : undefined
}
