import { canonicalJson, type JsonArray, type JsonValue, setMember } from '#kernel/base/json'
import { listProblems, OPENTOOL_TYPES, type OpenToolType } from './codec-document.ts'
import { hasType } from './codec-document-schema.ts'

/*
 * `Shape`, the intermediate form of a JSON Schema for the conversion to OpenTool, with the union and intersection of
 * shapes, and the losses of a conversion. Used by the reader and the converter beside it.
 * Invariant: a shape is read for one location and never shared, so `intersect` may change it.
 */

/** Narrows `base` to the union of the branches, as far as OpenTool can express it (anyOf, oneOf). */
export function applyUnion(base: Shape, branches: readonly Shape[], from: Origin): void {
  const possible = branches.filter((branch) => !branch.never && inheritTypes(branch, base))
  const constants = possible.every(isListOfScalars)
  if (constants && from.keyword === 'oneOf') keepUniqueValues(possible)
  const values = possible.filter((branch) => !isNull(branch) && branch.enum?.length !== 0)
  if (values.length === 0 && !possible.some(acceptsNull)) {
    base.lose(from, 'unrepresentable')
    return
  }
  const joined = joinShapes(values, base.pointer)
  const narrowed = joined ?? firstOf(values, from)
  if (joined !== undefined && values.length > 1 && !constants && losesSomething(values, joined, from)) {
    joined.lose(from, 'dropped')
  }
  if (possible.some(acceptsNull)) acceptNull(narrowed, from)
  intersect(base, narrowed, from)
}

function isListOfScalars({ enum: values, notes, losses }: Shape): boolean {
  if (values === undefined || notes.size > 0 || losses.length > 0) return false
  return values.every((value) => typeof value !== 'object' || value === null)
}

/** A value that matches two branches is invalid for `oneOf`. */
function keepUniqueValues(branches: readonly Shape[]): void {
  const times = new Map<JsonValue, number>()
  const accepted = branches.map((branch) => (branch.enum ?? []).filter((value) => acceptsType(branch, value)))
  for (const value of accepted.flat()) times.set(value, (times.get(value) ?? 0) + 1)
  for (const [index, branch] of branches.entries()) {
    branch.enum = accepted[index]?.filter((value) => times.get(value) === 1)
  }
}

function acceptNull(shape: Shape, from: Origin): void {
  // A shape without types already accepts null.
  if (shape.types === undefined) return
  if (!shape.types.includes('null')) shape.types = [...shape.types, 'null']
  if (shape.enum !== undefined && !shape.enum.includes(null)) shape.enum = [...shape.enum, null]
  shape.typesFrom = from
}

/** True if the branch is compatible with its siblings; a branch without a type inherits theirs. */
function inheritTypes(branch: Shape, base: Shape): boolean {
  if (base.types !== undefined) {
    branch.types = branch.types === undefined ? base.types : commonTypes(branch.types, base.types)
    return branch.types.length > 0
  }
  inferType(branch)
  return true
}

/** Order of preference when keywords hint at several types. */
const INFERRED_TYPES: readonly OpenToolType[] = ['object', 'array', 'string', 'number']

/** Infers the type from other keywords if none is declared. The result is narrower than the source. */
export function inferType(shape: Shape): void {
  const hint = INFERRED_TYPES.find((type) => shape.hints.has(type))
  if (shape.types !== undefined || hint === undefined) return
  shape.types = [hint]
  shape.lose({ pointer: shape.pointer, keyword: 'type' }, 'approximated')
}

function isNull({ types }: Shape): boolean {
  return types?.length === 1 && types[0] === 'null'
}

/** For incompatible branches: the first branch is used, and its description names the others. */
function firstOf(values: readonly Shape[], from: Origin): Shape {
  const [first = new Shape(from.pointer)] = values
  const labels = new Set(values.map((value) => labelOf(value, withoutNull(value))))
  if (labels.size > 1) first.alternatives = [...labels]
  first.lose(from, 'approximated')
  return first
}

/** A union does not keep which object members belong together, the constraints of one branch, and the exclusivity of `oneOf`. */
function losesSomething(values: readonly Shape[], joined: Shape, { keyword }: Origin): boolean {
  if (joined.types === undefined) return false
  if (keyword === 'oneOf' || joined.types.includes('object')) return true
  return values.some(({ notes }) => notes.size > 0)
}

/** One shape that accepts every value that any of the shapes accepts; `undefined` if they are incompatible. */
export function joinShapes(shapes: readonly Shape[], pointer: string): Shape | undefined {
  // A branch that forbids the value adds nothing.
  const possible = shapes.filter(({ never }) => !never)
  const [first, ...others] = possible
  if (first !== undefined && others.length === 0) return first
  const joined = new Shape(pointer)
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
  if (possible.every((shape) => shape.enum !== undefined)) {
    joined.enum = distinctValues(possible.flatMap((shape) => shape.enum ?? []))
    joined.enumFrom = first?.enumFrom ?? joined.enumFrom
  }
  return joined
}

function withoutNull({ types }: Shape): readonly JsonType[] | undefined {
  return types?.filter((type) => type !== 'null')
}

function joinArrays(joined: Shape, shapes: readonly Shape[]): Shape | undefined {
  const items = shapes.flatMap((shape) => (shape.items === undefined ? [] : [shape.items]))
  if (items.length < shapes.length) return joined
  joined.items = joinShapes(items, joined.pointer)
  return joined.items === undefined ? undefined : joined
}

/** An object with the members of all branches that requires the names that all branches require; `undefined` if a member has incompatible types. */
function joinObjects(joined: Shape, shapes: readonly Shape[]): Shape | undefined {
  const members = shapes.flatMap(({ properties }) => [...properties])
  for (const [name, sameName] of Map.groupBy(members, ([name]) => name)) {
    const member = joinShapes(
      sameName.map(([, property]) => property),
      joined.pointer,
    )
    if (member === undefined) return undefined
    joined.properties.set(name, member)
  }
  for (const name of shapes[0]?.required ?? []) {
    if (shapes.every(({ required }) => required.has(name))) joined.required.add(name)
  }
  return joined
}

export type JsonType = OpenToolType | 'null'

/** One JSON Schema, separated into the parts that OpenTool can express and notes about the rest. */
export class Shape {
  /** JSON Pointer of the schema; for a bare reference, of its target. */
  pointer: string
  /** True for the schema `false`, which accepts no value. */
  never = false
  /** Types in the order written; `undefined` until a keyword declares types. */
  types: readonly JsonType[] | undefined
  typesFrom: Origin
  /** Types that other keywords imply. */
  readonly hints = new Set<OpenToolType>()
  enum: JsonArray | undefined
  enumFrom: Origin
  /** OpenAPI's `nullable: true`. */
  nullable: Origin | undefined
  readonly properties = new Map<string, Shape>()
  readonly required = new Set<string>()
  items: Shape | undefined
  description: string | undefined
  title: { readonly text: string; readonly from: Origin } | undefined
  readonly extensions: Record<string, JsonValue> = {}
  readonly notes = new Set<string>()
  alternatives: readonly string[] = []
  readonly losses: SchemaLoss[] = []
  /** True if the losses already report that any value is accepted. */
  reported = false

  constructor(pointer: string) {
    this.pointer = pointer
    this.typesFrom = { pointer, keyword: 'type' }
    this.enumFrom = this.typesFrom
  }

  lose(from: Origin, severity: LossSeverity): void {
    this.losses.push({ ...from, severity })
  }
}

/** A shape of any value, whose loss is already reported. */
export function createAnything(pointer: string): Shape {
  const shape = new Shape(pointer)
  shape.reported = true
  return shape
}

/** Narrows `target` to the values that both accept (allOf, `$ref` beside siblings); contradictions are reported at `from`. */
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
  // `push(...losses)` would overflow the stack for a long list.
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
  if (types.length === 0) target.lose(from, 'unrepresentable')
  else target.types = types
}

/** The types in both lists, in the order of `left`; an integer is also a number. */
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
  const values = commonValues(target.enum, source.enum)
  if (values.length === 0) target.lose(from, 'unrepresentable')
  else target.enum = values
}

/** The values in both lists, in the order of `left`. */
export function commonValues(left: JsonArray, right: JsonArray): JsonArray {
  const kept = new Set(right.map(canonicalJson))
  return left.filter((value) => kept.has(canonicalJson(value)))
}

export function distinctValues(values: JsonArray): JsonArray {
  return [...Map.groupBy(values, canonicalJson).values()].map(([first = null]) => first)
}

export function typeOfValue(value: JsonValue): JsonType {
  if (value === null) return 'null'
  return OPENTOOL_TYPES.find((type) => hasType(value, type)) ?? 'object'
}

/** Removes `integer` beside `number`. */
export function widestTypes(types: readonly JsonType[]): readonly JsonType[] {
  const wide = types.includes('number') ? types.filter((type) => type !== 'integer') : types
  return [...new Set(wide)]
}

/** True if a value of an `enum` has one of the types. */
export function acceptsType({ types }: Shape, value: JsonValue): boolean {
  return types?.some((type) => (type === 'null' ? value === null : hasType(value, type))) ?? true
}

/** True if null is declared. A shape without types accepts null but does not declare it. */
export function acceptsNull({ types, enum: values }: Shape): boolean {
  return types?.includes('null') === true && values?.includes(null) !== false
}

/** A short label, for example `string`, `string|integer` or `any`. */
export function labelOf({ hints, never, types: declared }: Shape, types = declared): string {
  if (never) return 'nothing'
  return (types ?? [...hints].slice(0, 1)).join('|') || 'any'
}

/**
 * How much of a JSON Schema keyword survives. `annotated`: it moved into the description. `dropped`: it cannot
 * be expressed, so the result accepts more. `approximated`: the result accepts different values.
 * `unrepresentable`: there is no result.
 */
export type LossSeverity = 'annotated' | 'dropped' | 'approximated' | 'unrepresentable'

export interface SchemaLoss {
  /** JSON Pointer into the JSON Schema, through `$ref` into its definitions. */
  readonly pointer: string
  readonly keyword: string
  readonly severity: LossSeverity
}

/** The keyword from which a fact was read. */
export type Origin = Omit<SchemaLoss, 'severity'>

/** `strict` refuses a conversion that changes the meaning, `lossy` converts as far as possible. */
export type ConversionMode = 'strict' | 'lossy'

/** The schema cannot be converted in this mode. `losses` has every loss, including minor ones. */
export class SchemaConversionError extends Error {
  override readonly name = 'SchemaConversionError'
  readonly rule = 'OTS-83'
  readonly losses: readonly SchemaLoss[]

  constructor(losses: readonly SchemaLoss[], mode: ConversionMode) {
    const fatal = losses.filter(({ severity }) => isFatal(severity, mode))
    super(
      listProblems(
        'The JSON Schema cannot be expressed in OpenTool:',
        fatal.map(
          ({ pointer, keyword, severity }) => `${pointer || '(schema)'}: \`${keyword}\` is ${severity}`,
        ),
      ),
    )
    this.losses = losses
  }
}

export function isFatal(severity: LossSeverity, mode: ConversionMode): boolean {
  return severity === 'unrepresentable' || (severity === 'approximated' && mode === 'strict')
}

/** Removes duplicates: a definition that is used twice reports its losses twice. */
export function distinctLosses(losses: readonly SchemaLoss[]): readonly SchemaLoss[] {
  const keyOf = ({ severity, keyword, pointer }: SchemaLoss) => `${severity} ${keyword} ${pointer}`
  return [...new Map(losses.map((loss) => [keyOf(loss), loss])).values()]
}
