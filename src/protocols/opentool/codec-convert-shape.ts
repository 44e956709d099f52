import { canonicalJson, type JsonArray, type JsonValue, setMember } from '#kernel/base/json'
import type { OpenToolType } from './codec-document.ts'
import { hasType } from './codec-document-schema.ts'

/** Narrows `base` to what fits one of the branches, as far as OpenTool can say it (anyOf, oneOf). */
export function applyUnion(base: Shape, branches: readonly Shape[], from: Origin): void {
  const possible = branches.filter((branch) => !branch.never && inheritTypes(branch, base))
  const constants = possible.every(isListOfScalars)
  if (constants && from.keyword === 'oneOf') keepUniqueValues(possible)
  const values = possible.filter((branch) => !isNull(branch) && branch.enum?.length !== 0)
  if (values.length === 0 && !possible.some(acceptsNull)) {
    base.losses.push({ ...from, severity: 'unrepresentable' })
    return
  }
  const joined = joinShapes(values, base.pointer)
  const narrowed = joined ?? firstOf(values, from)
  if (joined !== undefined && values.length > 1 && !constants && losesSomething(values, joined, from)) {
    joined.losses.push({ ...from, severity: 'dropped' })
  }
  if (possible.some(acceptsNull)) acceptNull(narrowed, from)
  intersect(base, narrowed, from)
}

function isListOfScalars({ enum: values, notes, losses }: Shape): boolean {
  if (values === undefined || notes.size > 0 || losses.length > 0) return false
  return values.every((value) => typeof value !== 'object' || value === null)
}

/** A value that fits two branches does not fit `oneOf`. */
function keepUniqueValues(branches: readonly Shape[]): void {
  const times = new Map<JsonValue, number>()
  const accepted = branches.map((branch) => (branch.enum ?? []).filter((value) => acceptsType(branch, value)))
  for (const value of accepted.flat()) times.set(value, (times.get(value) ?? 0) + 1)
  for (const [index, branch] of branches.entries()) {
    branch.enum = accepted[index]?.filter((value) => times.get(value) === 1)
  }
}

function acceptNull(shape: Shape, from: Origin): void {
  // Anything accepts null already.
  if (shape.types === undefined) return
  if (!shape.types.includes('null')) shape.types = [...shape.types, 'null']
  if (shape.enum !== undefined && !shape.enum.includes(null)) shape.enum = [...shape.enum, null]
  shape.typesFrom = from
}

/** Whether the branch can be true beside its siblings; a branch without a type takes theirs. */
function inheritTypes(branch: Shape, base: Shape): boolean {
  if (base.types !== undefined) {
    branch.types = branch.types === undefined ? base.types : commonTypes(branch.types, base.types)
    return branch.types.length > 0
  }
  inferType(branch)
  return true
}

/** In this order, when keywords speak of several. */
const INFERRED: readonly OpenToolType[] = ['object', 'array', 'string', 'number']

/** Says the type that the other keywords speak of, if none is said: narrower than the source. */
export function inferType(shape: Shape): void {
  const hint = INFERRED.find((type) => shape.hints.has(type))
  if (shape.types !== undefined || hint === undefined) return
  shape.types = [hint]
  shape.losses.push({ pointer: shape.pointer, keyword: 'type', severity: 'approximated' })
}

function isNull({ types }: Shape): boolean {
  return types?.length === 1 && types[0] === 'null'
}

/** Unlike branches: the first one stands for all, and the text names the others. */
function firstOf(values: readonly Shape[], from: Origin): Shape {
  const [first = createShape(from.pointer)] = values
  const labels = new Set(values.map((value) => labelOf({ ...value, types: withoutNull(value) })))
  if (labels.size > 1) first.alternatives = [...labels]
  first.losses.push({ ...from, severity: 'approximated' })
  return first
}

/**
 * Objects lose which members belong together; constraints of one branch cannot be said of all; what fits
 * several branches does not fit `oneOf`.
 */
function losesSomething(values: readonly Shape[], joined: Shape, { keyword }: Origin): boolean {
  if (joined.types === undefined) return false
  if (keyword === 'oneOf' || joined.types.includes('object')) return true
  return values.some(({ notes }) => notes.size > 0)
}

/** One shape that accepts what each of them accepts; `undefined` if they are unlike. */
export function joinShapes(shapes: readonly Shape[], pointer: string): Shape | undefined {
  // What one branch forbids is as the others say.
  const possible = shapes.filter(({ never }) => !never)
  const [first, ...others] = possible
  if (first !== undefined && others.length === 0) return first
  const joined = createShape(pointer)
  joined.never = first === undefined && shapes.length > 0
  for (const { losses } of possible) {
    for (const loss of losses) {
      joined.losses.push(loss.severity === 'annotated' ? { ...loss, severity: 'dropped' } : loss)
    }
  }
  if (joined.never || possible.some(({ types }) => types === undefined)) return joined
  const [kind, ...more] = widestTypes(possible.flatMap((shape) => withoutNull(shape) ?? []))
  if (more.length > 0) return undefined
  const canBeNull = kind === undefined || possible.some(acceptsNull)
  joined.types = [...(kind === undefined ? [] : [kind]), ...(canBeNull ? (['null'] as const) : [])]
  joined.typesFrom = first?.typesFrom ?? joined.typesFrom
  joined.nullable = possible.find(({ nullable }) => nullable !== undefined)?.nullable
  if (others.every(({ description }) => description === first?.description)) {
    joined.description = first?.description
  }
  if (kind === 'object') return joinObjects(joined, possible)
  if (kind === 'array') return joinArrays(joined, possible)
  return joinScalars(joined, possible)
}

function withoutNull({ types }: Shape): readonly JsonType[] | undefined {
  return types?.filter((type) => type !== 'null')
}

function joinScalars(joined: Shape, shapes: readonly Shape[]): Shape {
  if (shapes.every((shape) => shape.enum !== undefined)) {
    joined.enum = distinctValues(shapes.flatMap((shape) => shape.enum ?? []))
    joined.enumFrom = shapes[0]?.enumFrom ?? joined.enumFrom
  }
  return joined
}

function joinArrays(joined: Shape, shapes: readonly Shape[]): Shape | undefined {
  const items = shapes.flatMap((shape) => (shape.items === undefined ? [] : [shape.items]))
  if (items.length < shapes.length) return joined
  joined.items = joinShapes(items, joined.pointer)
  return joined.items === undefined ? undefined : joined
}

/** Union of the members, intersection of the required ones; one name with unlike types makes unlike branches. */
function joinObjects(joined: Shape, shapes: readonly Shape[]): Shape | undefined {
  const members = new Map<string, Shape[]>()
  const asked = new Map<string, number>()
  for (const { properties, required } of shapes) {
    for (const [name, property] of properties) {
      const known = members.get(name)
      if (known === undefined) members.set(name, [property])
      else known.push(property)
    }
    for (const name of required) asked.set(name, (asked.get(name) ?? 0) + 1)
  }
  for (const [name, properties] of members) {
    const member = joinShapes(properties, joined.pointer)
    if (member === undefined) return undefined
    joined.properties.set(name, member)
  }
  for (const [name, times] of asked) if (times === shapes.length) joined.required.add(name)
  return joined
}

export type JsonType = OpenToolType | 'null'

/**
 * What one JSON Schema says, sorted by what OpenTool can say. A shape is read for one place and never
 * shared, so that `intersect` may change it.
 */
export interface Shape {
  /** Where the schema stands; behind a bare reference, where that leads. */
  pointer: string
  /** `false`: nothing fits. */
  never: boolean
  /** In the order written; `undefined` as long as no keyword says any. */
  types: readonly JsonType[] | undefined
  /** The keyword that says them. */
  typesFrom: Origin
  /** The types that other keywords speak of. */
  readonly hints: Set<OpenToolType>
  enum: JsonArray | undefined
  enumFrom: Origin
  /** OpenAPI's `nullable: true`. */
  nullable: Origin | undefined
  readonly properties: Map<string, Shape>
  readonly required: Set<string>
  items: Shape | undefined
  description: string | undefined
  title: { readonly text: string; readonly from: Origin } | undefined
  /** `x-*` members. */
  readonly extensions: Record<string, JsonValue>
  /** Constraints in words. */
  readonly notes: Set<string>
  /** What the value could be instead, in words. */
  alternatives: readonly string[]
  readonly losses: SchemaLoss[]
  /** That anything fits here is already among the losses. */
  reported: boolean
}

/** A keyword in its place. */
export interface Origin {
  readonly pointer: string
  readonly keyword: string
}

export function createShape(pointer: string): Shape {
  const itself = { pointer, keyword: 'type' }
  return {
    pointer,
    never: false,
    types: undefined,
    typesFrom: itself,
    hints: new Set(),
    enum: undefined,
    enumFrom: itself,
    nullable: undefined,
    properties: new Map(),
    required: new Set(),
    items: undefined,
    description: undefined,
    title: undefined,
    extensions: {},
    notes: new Set(),
    alternatives: [],
    losses: [],
    reported: false,
  }
}

/** Anything fits, and the keyword that made it so has reported it. */
export function createAnything(pointer: string): Shape {
  return { ...createShape(pointer), reported: true }
}

/** Narrows `target` to what fits both (allOf, `$ref` beside siblings); `from` is blamed for contradictions. */
export function intersect(target: Shape, source: Shape, from: Origin): void {
  target.never ||= source.never
  target.reported ||= source.reported
  intersectTypes(target, source, from)
  intersectEnum(target, source, from)
  target.nullable ??= source.nullable
  for (const hint of source.hints) target.hints.add(hint)
  for (const [name, property] of source.properties) {
    const known = target.properties.get(name)
    if (known === undefined) target.properties.set(name, property)
    else intersect(known, property, from)
  }
  for (const name of source.required) target.required.add(name)
  if (target.items === undefined) target.items = source.items
  else if (source.items !== undefined) intersect(target.items, source.items, from)
  target.description ??= source.description
  target.title ??= source.title
  for (const [name, value] of Object.entries(source.extensions)) {
    if (!Object.hasOwn(target.extensions, name)) setMember(target.extensions, name, value)
  }
  for (const note of source.notes) target.notes.add(note)
  if (target.alternatives.length === 0) target.alternatives = source.alternatives
  // Not `push(...losses)`: a long list would not fit on the stack.
  for (const loss of source.losses) target.losses.push(loss)
}

function intersectTypes(target: Shape, source: Shape, from: Origin): void {
  if (source.types === undefined) return
  if (target.types === undefined) {
    target.types = source.types
    target.typesFrom = source.typesFrom
    return
  }
  const types = commonTypes(target.types, source.types)
  if (types.length === 0) target.losses.push({ ...from, severity: 'unrepresentable' })
  else target.types = types
}

/** In the order of the first; an integer is a number. */
function commonTypes(left: readonly JsonType[], right: readonly JsonType[]): readonly JsonType[] {
  const found = left.flatMap((type): readonly JsonType[] => {
    if (right.includes(type)) return [type]
    if (type === 'integer' && right.includes('number')) return [type]
    return type === 'number' && right.includes('integer') ? ['integer'] : []
  })
  return [...new Set(found)]
}

function intersectEnum(target: Shape, source: Shape, from: Origin): void {
  if (source.enum === undefined) return
  if (target.enum === undefined) {
    target.enum = source.enum
    target.enumFrom = source.enumFrom
    return
  }
  const kept = new Set(source.enum.map(canonicalJson))
  const values = target.enum.filter((value) => kept.has(canonicalJson(value)))
  if (values.length === 0) target.losses.push({ ...from, severity: 'unrepresentable' })
  else target.enum = values
}

/** Distinct values, in order. */
export function distinctValues(values: Iterable<JsonValue>): JsonArray {
  const seen = new Map<string, JsonValue>()
  for (const value of values) {
    const text = canonicalJson(value)
    if (!seen.has(text)) seen.set(text, value)
  }
  return [...seen.values()]
}

export function typeOfValue(value: JsonValue): JsonType {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  switch (typeof value) {
    case 'boolean':
      return 'boolean'
    case 'string':
      return 'string'
    case 'number':
      return Number.isInteger(value) ? 'integer' : 'number'
    default:
      return 'object'
  }
}

/** A number as well as an integer is a number. */
export function widestTypes(types: readonly JsonType[]): readonly JsonType[] {
  const wide = types.includes('number') ? types.filter((type) => type !== 'integer') : types
  return [...new Set(wide)]
}

/** Whether a value of an `enum` has one of the types. */
export function acceptsType({ types }: Shape, value: JsonValue): boolean {
  return (
    types === undefined || types.some((type) => (type === 'null' ? value === null : hasType(value, type)))
  )
}

/** Whether null is said to fit; of anything it is not said. */
export function acceptsNull(shape: Shape): boolean {
  if (shape.types === undefined || !shape.types.includes('null')) return false
  return shape.enum === undefined || shape.enum.includes(null)
}

/** A shape in a word or two: `string`, `string|integer`, `any`. */
export function labelOf({ types, hints, never }: Shape): string {
  if (never) return 'nothing'
  return (types ?? [...hints].slice(0, 1)).join('|') || 'any'
}

/**
 * How much of a JSON Schema keyword is left in OpenTool: `annotated` moved into the description,
 * `dropped` not expressible, so the result accepts more; `approximated` the result accepts different values;
 * `unrepresentable` there is no result.
 */
export type LossSeverity = 'annotated' | 'dropped' | 'approximated' | 'unrepresentable'

export interface SchemaLoss {
  /** JSON Pointer into the JSON Schema, through `$ref` into its definitions. */
  readonly pointer: string
  readonly keyword: string
  readonly severity: LossSeverity
}

/** `strict` refuses what would not mean the same, `lossy` makes the best of it. */
export type ConversionMode = 'strict' | 'lossy'

const MAX_SHOWN = 20

/** The schema cannot be converted in this mode; carries every loss, the small ones too. */
export class SchemaConversionError extends Error {
  override readonly name = 'SchemaConversionError'
  readonly rule = 'OTS-83'
  readonly losses: readonly SchemaLoss[]

  constructor(losses: readonly SchemaLoss[], mode: ConversionMode) {
    const fatal = losses.filter(({ severity }) => isFatal(severity, mode))
    const lines = fatal
      .slice(0, MAX_SHOWN)
      .map(({ pointer, keyword, severity }) => `  ${pointer || '(schema)'}: \`${keyword}\` is ${severity}`)
    const more = fatal.length > MAX_SHOWN ? [`  and ${fatal.length - MAX_SHOWN} more`] : []
    super(['The JSON Schema cannot be said in OpenTool:', ...lines, ...more].join('\n'))
    this.losses = losses
  }
}

export function isFatal(severity: LossSeverity, mode: ConversionMode): boolean {
  return severity === 'unrepresentable' || (severity === 'approximated' && mode === 'strict')
}

/** Each loss once: a definition that is used twice is lost in one place. */
export function distinctLosses(losses: readonly SchemaLoss[]): readonly SchemaLoss[] {
  const seen = new Map<string, SchemaLoss>()
  for (const loss of losses) seen.set(`${loss.severity} ${loss.keyword} ${loss.pointer}`, loss)
  return [...seen.values()]
}
