import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { createSchemaResolver, propertiesOf, REFERENCES, type SchemaResolver } from '#schema/keywords'
import { type Definition, optionsOf, type TypeMember, type TypeNode, type TypeTable } from './type-table.ts'

/**
 * Reads JSON Schema 2020-12 as a type, with `nullable` of OpenAPI 3.0. `tool-types.ts` uses it.
 * Invariant: the type accepts every value that the schema accepts, and the work is bounded for every schema. A schema
 * without `type` that describes members or items is read as that of an object or a list, as its author intended.
 */

/** A part of a schema whose type accepts more than the schema. */
export interface Widening {
  /** `input.items[].price` */
  readonly path: string
  readonly why: string
}

export interface ReadType {
  readonly type: TypeNode
  /** The parts of the schema that contain themselves. */
  readonly definitions: readonly Definition[]
  readonly widened: readonly Widening[]
}

/** `path` begins the paths of `widened`; `docs` keeps descriptions. */
export function readType(
  schema: JsonValue,
  table: TypeTable,
  { path, docs }: { readonly path: string; readonly docs: boolean },
): ReadType {
  const reader = new SchemaReader(table, isJsonObject(schema) ? schema : {}, docs)
  const type = reader.read(schema, { path, depth: 0, title: path })
  reader.breakCircles()
  return { type, definitions: reader.definitions, widened: reader.widened }
}

const MAX_DEPTH = 40
const MAX_SCHEMAS = 10_000
const MAX_TUPLE = 50
const MAX_TEXT = 500
const MAX_DOC_LINES = 40
const MAX_DOC_LINE = 400
const MAX_DEFAULT = 80

interface Place {
  readonly path: string
  readonly depth: number
  /** For a schema in `allOf`, `anyOf` or `oneOf`: the types and members of the schema that contains it. */
  readonly around?: { readonly types: readonly string[]; readonly members: readonly TypeMember[] }
  /** Suggested name of the type: the name of the member that has it. */
  readonly title?: string
}

const OBJECT_KEYWORDS = ['properties', 'required', 'additionalProperties', 'patternProperties']
const LIST_KEYWORDS = ['items', 'prefixItems']
const COMPOSED = ['allOf', 'anyOf', 'oneOf'] as const

class SchemaReader {
  readonly widened: Widening[] = []
  readonly definitions: Definition[] = []
  readonly #table: TypeTable
  readonly #docs: boolean
  readonly #resolve: SchemaResolver
  /** Types of targets of references, by schema. */
  readonly #read = new Map<JsonObject, TypeNode>()
  /** Schemas that are being read, each with its definition if the schema refers to itself. */
  readonly #open = new Map<JsonObject, Definition | undefined>()
  readonly #root: JsonObject
  #left = MAX_SCHEMAS

  constructor(table: TypeTable, root: JsonObject, docs: boolean) {
    this.#table = table
    this.#docs = docs
    this.#resolve = createSchemaResolver(root)
    this.#root = root
  }

  read(schema: JsonValue | undefined, place: Place): TypeNode {
    if (schema === false) return this.#table.never
    if (!isJsonObject(schema)) return this.#table.any
    this.#left -= 1
    if (this.#left < 0) return this.#widen(place, `more than ${MAX_SCHEMAS} schemas`)
    if (place.depth > MAX_DEPTH) return this.#widen(place, `more than ${MAX_DEPTH} levels`)
    return schema === this.#root ? this.#target(schema, place) : this.#parts(schema, place)
  }

  /** Widens types that contain themselves directly in a union or an intersection, as in `{ anyOf: [{ $ref: '#' }] }`, because TypeScript does not allow them. */
  breakCircles(): void {
    for (const definition of this.definitions) {
      if (!reaches(definition.type, definition, new Set())) continue
      definition.type = this.#table.any
      this.widened.push({ path: definition.name, why: 'it refers to itself' })
    }
  }

  #widen({ path }: Place, why: string): TypeNode {
    this.widened.push({ path, why })
    return this.#table.any
  }

  /** The type of a schema that references point to. */
  #target(schema: JsonObject, place: Place, name = 'Root'): TypeNode {
    const known = this.#read.get(schema)
    if (known !== undefined) return known
    if (this.#open.has(schema)) {
      const definition = this.#open.get(schema) ?? { name, type: this.#table.any }
      this.#open.set(schema, definition)
      return this.#table.ref(definition)
    }
    this.#open.set(schema, undefined)
    const type = this.#parts(schema, place)
    const definition = this.#open.get(schema)
    this.#open.delete(schema)
    if (definition === undefined) {
      this.#read.set(schema, type)
      return type
    }
    definition.type = type
    this.definitions.push(definition)
    const ref = this.#table.ref(definition)
    this.#read.set(schema, ref)
    return ref
  }

  /** The types that keywords describe, to be intersected. */
  #parts(schema: JsonObject, place: Place): TypeNode {
    const onWiden = (why: string): void => {
      this.widened.push({ path: place.path, why })
    }
    const meet = (left: TypeNode, right: TypeNode): TypeNode => this.#table.intersect(left, right, onWiden)
    const own = this.#own(schema, place, onWiden)
    const around = {
      types: typesOf(schema, place),
      members: optionsOf(own).flatMap((option) => (option.kind === 'object' ? option.members : [])),
    }
    let composed = this.#references(schema, place).reduce(meet, this.#table.any)
    for (const keyword of COMPOSED) {
      const list = schema[keyword]
      if (!isList(list) || list.length === 0) continue
      const inner = { ...place, depth: place.depth + 1, around }
      const types = list.map((each) => this.read(each, inner))
      composed =
        keyword === 'allOf' ? types.reduce(meet, composed) : meet(composed, this.#table.union(types, onWiden))
    }
    const others = isTyped(schema, place) ? [] : optionsOf(composed).filter(isOutside(shapeOf(schema)))
    const type = this.#table.union([meet(own, composed), ...others], onWiden)
    return schema.nullable === true ? this.#table.union([type, this.#table.primitive('null')], onWiden) : type
  }

  #references(schema: JsonObject, place: Place): readonly TypeNode[] {
    return [...REFERENCES].flatMap((keyword) => {
      const reference = schema[keyword]
      if (typeof reference !== 'string') return []
      const target = this.#resolve(reference)
      const { around: _around, ...outside } = place
      if (target === undefined)
        return [this.#widen(place, 'it refers to a schema that is not in the document')]
      if (!isJsonObject(target)) return [this.read(target, outside)]
      const deeper = { ...outside, depth: place.depth + 1 }
      if (deeper.depth > MAX_DEPTH) return [this.#widen(place, `more than ${MAX_DEPTH} levels`)]
      return [this.#target(target, deeper, reference.split(/[#/]/).at(-1) || undefined)]
    })
  }

  /** The type of the schema's own keywords, without its references and compositions. */
  #own(schema: JsonObject, place: Place, onWiden: (why: string) => void): TypeNode {
    const types = typesOf(schema, place)
    const values = schema.const === undefined ? schema.enum : [schema.const]
    if (isList(values)) {
      const fitting = values.filter(
        (value) => types.length === 0 || types.some((type) => isOfType(value, type)),
      )
      return this.#table.union(
        fitting.map((value) => this.#value(value, place, 0)),
        onWiden,
      )
    }
    // A branch without keywords of its own adds nothing to the types of the schema that contains it.
    if (types.length === 0 || (schema.type === undefined && shapeOf(schema) === 'none'))
      return this.#table.any
    const named = types.map((type) => this.#named(type, schema, place, onWiden))
    return this.#table.union(named, onWiden)
  }

  #named(type: string, schema: JsonObject, place: Place, onWiden: (why: string) => void): TypeNode {
    switch (type) {
      case 'string':
      case 'number':
      case 'boolean':
      case 'null':
        return this.#table.primitive(type)
      case 'integer':
        return this.#table.primitive('number')
      case 'array':
        return this.#listType(schema, place, onWiden)
      case 'object':
        return this.#objectType(schema, place, onWiden)
      default:
        return this.#table.any
    }
  }

  #listType(schema: JsonObject, place: Place, onWiden: (why: string) => void): TypeNode {
    const { prefixItems, items: written, additionalItems, minItems, maxItems } = schema
    const first = isList(written) ? written : isList(prefixItems) ? prefixItems : []
    const rest = isList(written) ? additionalItems : written
    const item = this.read(rest, { ...place, path: `${place.path}[]`, depth: place.depth + 1 })
    if (first.length === 0) return this.#table.array(item)
    const items = first.slice(0, MAX_TUPLE).map((each, index) => {
      const { around: _around, ...outside } = place
      return this.read(each, { ...outside, path: `${place.path}[${index}]`, depth: place.depth + 1 })
    })
    if (first.length > MAX_TUPLE) {
      onWiden(`more than ${MAX_TUPLE} items`)
      return this.#table.array(this.#table.any)
    }
    const isFull = typeof maxItems === 'number' && maxItems <= items.length
    const required =
      typeof minItems === 'number' ? Math.min(Math.max(0, Math.ceil(minItems)), items.length) : 0
    return this.#table.tuple(items, required, isFull || item === this.#table.never ? undefined : item)
  }

  #objectType(schema: JsonObject, place: Place, onWiden: (why: string) => void): TypeNode {
    const { required: list, additionalProperties, patternProperties, title } = schema
    const required = new Set(isList(list) ? list.filter((name) => typeof name === 'string') : [])
    const inner = { depth: place.depth + 1 }
    const members = Object.entries(propertiesOf(schema)).map(([name, member]): TypeMember => {
      const type = this.read(member, { ...inner, path: `${place.path}.${name}`, title: name })
      return { name, type, isOptional: !required.delete(name), doc: this.#docOf(member) }
    })
    const patterns = isJsonObject(patternProperties) ? Object.values(patternProperties) : []
    const others = [
      ...patterns,
      ...(additionalProperties === undefined || additionalProperties === false ? [] : [additionalProperties]),
    ].map((each) => this.read(each, { ...inner, path: `${place.path}.*`, ...titled(place.title) }))
    const index = others.length === 0 ? undefined : this.#table.union(others, onWiden)
    const known = new Map(place.around?.members.map(({ name, type }) => [name, type]))
    const undeclared = additionalProperties === undefined ? this.#table.any : (index ?? this.#table.never)
    for (const name of required)
      members.push({ name, type: known.get(name) ?? undeclared, isOptional: false, doc: [] })
    return this.#table.object({
      members,
      index,
      isClosed: additionalProperties === false && index === undefined,
      title: typeof title === 'string' ? title : place.title,
    })
  }

  /** The type of one value of an `enum` or `const`. */
  #value(value: JsonValue, place: Place, depth: number): TypeNode {
    if (value === null) return this.#table.primitive('null')
    if (typeof value === 'string' && value.length > MAX_TEXT) {
      this.#widen(place, `a text of more than ${MAX_TEXT} characters`)
      return this.#table.primitive('string')
    }
    if (typeof value !== 'object') return this.#table.literal(value)
    this.#left -= 1
    if (depth > MAX_DEPTH || this.#left < 0) return this.#widen(place, 'a large value')
    if (isList(value)) {
      if (value.length > MAX_TUPLE) return this.#widen(place, 'a long list of values')
      const items = value.map((each) => this.#value(each, place, depth + 1))
      return this.#table.tuple(items, items.length, undefined)
    }
    const members = Object.entries(value).map(([name, each]) => ({
      ...{ name, type: this.#value(each, place, depth + 1), isOptional: false, doc: [] },
    }))
    return this.#table.object({ members, index: undefined, isClosed: true, title: undefined })
  }

  #docOf(schema: JsonValue): readonly string[] {
    if (!this.#docs || !isJsonObject(schema)) return []
    const { description, default: preset, deprecated } = schema
    const text = preset === undefined ? '' : JSON.stringify(preset)
    return [
      ...(typeof description === 'string' ? docLines(description) : []),
      ...(preset === undefined || text.length > MAX_DEFAULT ? [] : [`@default ${text}`]),
      ...(deprecated === true ? ['@deprecated'] : []),
    ]
  }
}

/** The lines of a description. An @ at the beginning of a line is escaped, so that a description cannot add tags. */
export function docLines(description: string): readonly string[] {
  const lines = description.slice(0, MAX_DOC_LINES * MAX_DOC_LINE).split(/\r\n?|\n/)
  const shown = lines.slice(0, MAX_DOC_LINES).map((line) => {
    const text = line.trim()
    return (text.length > MAX_DOC_LINE ? `${text.slice(0, MAX_DOC_LINE)}…` : text).replace(/^@/, '\\@')
  })
  while (shown.at(-1) === '') shown.pop()
  return lines.length > MAX_DOC_LINES ? [...shown, '…'] : shown
}

function titled(title: string | undefined): Pick<Place, 'title'> {
  return title === undefined ? {} : { title }
}

/** The types that values may have; none if the schema does not restrict them. */
function typesOf(schema: JsonObject, { around }: Place): readonly string[] {
  const { type } = schema
  if (typeof type === 'string') return [type]
  if (isList(type)) return type.filter((each) => typeof each === 'string')
  if (around !== undefined && around.types.length > 0) return around.types
  if ('const' in schema || 'enum' in schema) return []
  const shape = shapeOf(schema)
  return shape === 'object' || shape === 'array' ? [shape] : []
}

/** Whether the schema, or the one that contains it, restricts the types of its values. */
function isTyped(schema: JsonObject, { around }: Place): boolean {
  return ['type', 'const', 'enum'].some((keyword) => keyword in schema) || (around?.types.length ?? 0) > 0
}

/** Returns a test for types that the keywords about members or items do not restrict: the first apply to objects only, the second to lists only. */
function isOutside(shape: ReturnType<typeof shapeOf>): (type: TypeNode) => boolean {
  return ({ kind }) => {
    if (kind === 'object') return shape === 'array'
    if (kind === 'array' || kind === 'tuple') return shape === 'object'
    return kind === 'primitive' || kind === 'literal'
  }
}

/** Whether the keywords of a schema describe members, items, both or neither. */
function shapeOf(schema: JsonObject): 'object' | 'array' | 'both' | 'none' {
  const isObject = OBJECT_KEYWORDS.some((keyword) => keyword in schema)
  const isArray = LIST_KEYWORDS.some((keyword) => keyword in schema)
  if (isObject && isArray) return 'both'
  return isObject ? 'object' : isArray ? 'array' : 'none'
}

function isOfType(value: JsonValue, type: string): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return isList(value)
  if (type === 'object') return isJsonObject(value)
  return typeof value === (type === 'integer' ? 'number' : type)
}

function isList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value)
}

/** Whether a type refers to a definition at a place where the compiler has to resolve the whole type. */
function reaches(type: TypeNode, definition: Definition, seen: Set<Definition>): boolean {
  if (type.kind === 'union') return type.options.some((option) => reaches(option, definition, seen))
  if (type.kind === 'all') return type.parts.some((part) => reaches(part, definition, seen))
  if (type.kind !== 'ref' || seen.has(type.definition)) return false
  if (type.definition === definition) return true
  seen.add(type.definition)
  return reaches(type.definition.type, definition, seen)
}
