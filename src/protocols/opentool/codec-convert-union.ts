import type { JsonValue } from '#core/json'
import {
  acceptsNull,
  acceptsType,
  commonTypes,
  createShape,
  distinctValues,
  intersect,
  type JsonType,
  labelOf,
  type Origin,
  type Shape,
  widestTypes,
} from './codec-convert-shape.ts'
import type { OpenToolType } from './codec-document.ts'

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
