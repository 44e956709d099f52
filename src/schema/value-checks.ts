import {
  canonicalJson,
  childPointer,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
} from '#kernel/base/json'
import type { SchemaProblem } from './issues.ts'
import type { Pattern } from './patterns.ts'

/**
 * The run of a check, which counts work and collects problems, and the checks of keywords that contain no schemas.
 * `validator.ts` adds the keywords that contain schemas and joins both.
 * A check counts its work before doing it, so that a check against an imported schema ends whatever the schema contains.
 */

/** Whether `value` fits one keyword or one schema. `at` is its JSON Pointer, and empty while no problems are collected. */
export type Check = (value: JsonValue, run: CheckRun, at: string, evaluated: Evaluated | undefined) => boolean

interface RunLimits {
  readonly steps: number
  readonly engine: 'linear' | 'native'
}

/**
 * Steps of one check, each of them about ten nanoseconds. A result of a megabyte with ten thousand members takes about fifty
 * thousand.
 */
const MAX_STEPS = 700_000

export const TRUSTED: RunLimits = { steps: Number.POSITIVE_INFINITY, engine: 'native' }
export const IMPORTED: RunLimits = { steps: MAX_STEPS, engine: 'linear' }
/** For texts that are too long for the linear-time engine; the caller sets a deadline. */
export const IMPORTED_WITHIN_DEADLINE: RunLimits = { steps: MAX_STEPS, engine: 'native' }

/** The linear-time engine at its slowest: characters, times instructions of the pattern, that take about 20 ms. */
const MAX_LINEAR_WORK = 80_000
/** Compiling one instruction costs as much as running it on this many characters. */
const COMPILED_AS_CHARACTERS = 10
/** Maximum nesting of the schemas that one value is checked against. */
const MAX_DEPTH = 800
const STEPS_PER_PROBLEM = 10
/** Texts are compared and hashed many characters at a time. */
const CHARACTERS_PER_STEP = 64
/** Comparing a misspelled name with a known one takes up to 20 µs. */
const MAX_COMPARED_NAMES = 1_000
/** Cost of writing a value as canonical text. */
const STEPS_PER_KEY = 12
/** Cost of keeping a value in a set. */
const STEPS_PER_KEPT = 4

export const TOO_MUCH_WORK = new Error('The schema asks for too much work for this value.')
export const NEEDS_DEADLINE = new Error('The linear-time engine would take too long for these texts.')

/** The check of one value: the work it may still do, and the problems it has found. */
export class CheckRun {
  /** Problems are collected in a second pass, when the verdict is known. */
  problems: SchemaProblem[] | undefined
  #collectsAll = false
  #steps = 0
  #linearWork = 0
  #comparedNames = 0
  #depth = 0
  readonly #limits: RunLimits

  constructor(limits: RunLimits) {
    this.#limits = limits
  }

  /** Whether the first problem decides, so that a check can stop there. */
  get endsAtFirst(): boolean {
    return !this.#collectsAll || this.problems === undefined
  }

  spend(steps: number): void {
    this.#steps += steps
    if (this.#steps > this.#limits.steps) throw TOO_MUCH_WORK
  }

  spendText({ length }: string): void {
    this.spend(1 + Math.floor(length / CHARACTERS_PER_STEP))
  }

  /** Called before a value is kept in a set. */
  spendKept(value: JsonValue): void {
    this.spend(STEPS_PER_KEPT)
    if (typeof value === 'string') this.spendText(value)
  }

  /** Called before a value is written as canonical text. */
  spendWhole(value: JsonValue): void {
    this.spend(STEPS_PER_KEY)
    if (typeof value === 'string') this.spendText(value)
    if (typeof value !== 'object' || value === null) return
    this.enter(0)
    for (const [name, member] of Object.entries(value)) {
      this.spendText(name)
      this.spendWhole(member)
    }
    this.leave()
  }

  enter(checks: number): void {
    this.#depth += 1
    if (this.#depth > MAX_DEPTH) throw TOO_MUCH_WORK
    this.spend(checks + 1)
  }

  leave(): void {
    this.#depth -= 1
  }

  /** Starts to collect problems: only the first one at which a check stops, or all. */
  collect(which: 'first' | 'all'): SchemaProblem[] {
    this.#collectsAll = which === 'all'
    this.problems = []
    return this.problems
  }

  /** Adds a problem if problems are collected. Always returns `false`, the verdict. */
  fail(
    keyword: string,
    params: SchemaProblem['params'],
    at: string,
    branches?: SchemaProblem['branches'],
  ): false {
    if (this.problems === undefined) return false
    this.spend(STEPS_PER_PROBLEM)
    this.problems.push({ keyword, params, at, branches })
    return false
  }

  /** Fails for a member that is not in `known`. The message suggests a known name, unless too many names were compared already. */
  failUnknown(
    keyword: string,
    unknownProperty: string,
    known: readonly string[] | undefined,
    at: string,
  ): false {
    if (this.problems === undefined || known === undefined) return this.fail(keyword, { unknownProperty }, at)
    this.#comparedNames += known.length
    const compared = this.#comparedNames > MAX_COMPARED_NAMES ? [] : known
    return this.fail(keyword, { unknownProperty, known: compared }, at)
  }

  /** The pointer to a member or item; empty while no problems are collected. */
  pointerTo(at: string, step: string | number): string {
    return this.problems === undefined ? '' : childPointer(at, step)
  }

  namesOf(value: JsonObject): readonly string[] {
    const names = Object.keys(value)
    this.spend(3 * names.length)
    return names
  }

  matches(pattern: Pattern, text: string): boolean {
    this.spendText(text)
    if (this.#limits.engine === 'native') return pattern.native.test(text)
    const isNew = !pattern.isCompiled
    const linear = pattern.linear
    if (!linear.ok) throw TOO_MUCH_WORK
    const characters = text.length + 1 + (isNew ? COMPILED_AS_CHARACTERS : 0)
    this.#linearWork += characters * linear.size
    if (this.#linearWork > MAX_LINEAR_WORK) throw NEEDS_DEADLINE
    return linear.test(text)
  }
}

/** The members and items that some keyword has checked; kept only where `unevaluated…` needs them. */
export class Evaluated {
  readonly names = new Set<string>()
  readonly items = new Set<number>()

  addName(name: string, run: CheckRun): void {
    run.spendKept(name)
    this.names.add(name)
  }

  addItem(index: number, run: CheckRun): void {
    run.spendKept(index)
    this.items.add(index)
  }

  add({ names, items }: Evaluated, run: CheckRun): void {
    for (const name of names) this.addName(name, run)
    for (const item of items) this.addItem(item, run)
  }
}

/** Makes the check of a keyword from the schema that has it; `undefined` if the keyword restricts nothing. */
type MakeValueCheck = (schema: JsonObject, document: Patterns) => Check | undefined
interface Patterns {
  patternOf(source: string): Pattern
}

/** Keywords that contain no schemas, in the order of their checks: cheap ones first. */
export const VALUE_CHECKS: readonly (readonly [keyword: string, make: MakeValueCheck])[] = [
  ['type', checkType],
  ['const', ({ const: value = null }) => checkEquality('const', [value], { allowedValue: value })],
  ['enum', ({ enum: values }) => checkEquality('enum', listOf(values), { allowedValues: values })],
  ['uniqueItems', checkUniqueItems],
  checkLimit('minimum', (value, limit) => typeof value !== 'number' || value >= limit),
  checkLimit('maximum', (value, limit) => typeof value !== 'number' || value <= limit),
  checkLimit('exclusiveMinimum', (value, limit) => typeof value !== 'number' || value > limit),
  checkLimit('exclusiveMaximum', (value, limit) => typeof value !== 'number' || value < limit),
  checkLimit('multipleOf', (value, unit) => typeof value !== 'number' || isMultiple(value, unit)),
  checkLimit('minLength', (value, limit, run) => typeof value !== 'string' || hasLength(value, limit, run)),
  checkLimit(
    'maxLength',
    (value, limit, run) => typeof value !== 'string' || !hasLength(value, limit + 1, run),
  ),
  ['pattern', checkPattern],
  checkLimit('minItems', (value, limit) => !Array.isArray(value) || value.length >= limit),
  checkLimit('maxItems', (value, limit) => !Array.isArray(value) || value.length <= limit),
  checkLimit(
    'minProperties',
    (value, limit, run) => !isJsonObject(value) || run.namesOf(value).length >= limit,
  ),
  checkLimit(
    'maxProperties',
    (value, limit, run) => !isJsonObject(value) || run.namesOf(value).length <= limit,
  ),
  ['required', ({ required }) => checkNames('required', required, {})],
  ['dependentRequired', ({ dependentRequired }) => checkDependents('dependentRequired', dependentRequired)],
  ['dependencies', ({ dependencies }) => checkDependents('dependencies', dependencies)],
]

const KINDS: Readonly<Record<string, (value: JsonValue) => boolean>> = {
  array: (value) => Array.isArray(value),
  boolean: (value) => typeof value === 'boolean',
  integer: (value) => Number.isInteger(value),
  null: (value) => value === null,
  // NaN and Infinity are not JSON numbers.
  number: (value) => Number.isFinite(value),
  object: isJsonObject,
  string: (value) => typeof value === 'string',
}

function checkType({ type = null }: JsonObject): Check {
  const kinds = (Array.isArray(type) ? type : [type]).flatMap((name) => KINDS[String(name)] ?? [])
  const [only] = kinds
  if (kinds.length === 1 && only !== undefined) {
    return (value, run, at) => only(value) || run.fail('type', { type }, at)
  }
  return (value, run, at) => kinds.some((isKind) => isKind(value)) || run.fail('type', { type }, at)
}

function checkEquality(keyword: string, values: JsonArray, params: SchemaProblem['params']): Check {
  const scalars = new Set(values.filter((value) => !isStructured(value)))
  const structured = new Set(values.filter(isStructured).map(canonicalJson))
  return (value, run, at) => {
    if (typeof value === 'string') run.spendText(value)
    const isEqual = isStructured(value)
      ? structured.size > 0 && structured.has(equalityKey(value, run))
      : scalars.has(value)
    return isEqual || run.fail(keyword, params, at)
  }
}

function checkUniqueItems({ uniqueItems }: JsonObject): Check | undefined {
  if (uniqueItems !== true) return undefined
  return (value, run, at) =>
    !Array.isArray(value) || hasNoDuplicates(value, run) || run.fail('uniqueItems', {}, at)
}

/** Compares canonical texts instead of each item with each other, which would take quadratic time. */
function hasNoDuplicates(items: JsonArray, run: CheckRun): boolean {
  const scalars = new Set<JsonValue>()
  const structured = new Set<string>()
  for (const item of items) {
    run.spendKept(item)
    if (isStructured(item)) structured.add(equalityKey(item, run))
    else scalars.add(item)
  }
  return scalars.size + structured.size === items.length
}

function isStructured(value: JsonValue): boolean {
  return typeof value === 'object' && value !== null
}

function equalityKey(value: JsonValue, run: CheckRun): string {
  run.spendWhole(value)
  return canonicalJson(value)
}

/** A keyword whose operand is a number. */
function checkLimit(
  keyword: string,
  fits: (value: JsonValue, limit: number, run: CheckRun) => boolean,
): [string, MakeValueCheck] {
  const make: MakeValueCheck = ({ [keyword]: limit }) =>
    typeof limit !== 'number'
      ? undefined
      : (value, run, at) => fits(value, limit, run) || run.fail(keyword, { limit }, at)
  return [keyword, make]
}

/** 19.99 is a multiple of 0.01, although their binary fractions are not. */
function isMultiple(value: number, unit: number): boolean {
  const times = value / unit
  return Math.abs(times - Math.round(times)) <= Math.abs(times) * Number.EPSILON
}

/** Whether a text has at least this many characters. A character of Unicode has one or two units, so most texts need no count. */
function hasLength(text: string, min: number, run: CheckRun): boolean {
  if (text.length < min || text.length >= 2 * min) return text.length >= min
  run.spend(1 + Math.floor(text.length / 4))
  let count = 0
  for (const _character of text) count += 1
  return count >= min
}

function checkPattern({ pattern, format }: JsonObject, document: Patterns): Check | undefined {
  if (typeof pattern !== 'string') return undefined
  const compiled = document.patternOf(pattern)
  return (value, run, at) =>
    typeof value !== 'string' || run.matches(compiled, value) || run.fail('pattern', { pattern, format }, at)
}

function checkNames(keyword: string, written: JsonValue | undefined, params: SchemaProblem['params']): Check {
  const names = listOf(written).filter((name) => typeof name === 'string')
  return (value, run, at) => {
    if (!isJsonObject(value)) return true
    run.spend(names.length)
    let hasAll = true
    for (const name of names) {
      if (Object.hasOwn(value, name)) continue
      hasAll = run.fail(keyword, { ...params, missingProperty: name }, at)
      if (run.endsAtFirst) break
    }
    return hasAll
  }
}

function checkDependents(keyword: string, written: JsonValue | undefined): Check {
  const dependents = Object.entries(isJsonObject(written) ? written : {})
  return joinChecks(
    dependents
      .filter(([, names]) => Array.isArray(names))
      .map(([property, names]) => whenGiven(property, checkNames(keyword, names, { property }))),
  )
}

export function whenGiven(property: string, check: Check): Check {
  return (value, run, at, evaluated) =>
    !isJsonObject(value) || !Object.hasOwn(value, property) || check(value, run, at, evaluated)
}

/** All checks; stops at the first problem unless all are collected. */
export function joinChecks(checks: readonly Check[]): Check {
  return (value, run, at, evaluated) => {
    run.spend(checks.length)
    let fits = true
    for (const check of checks) {
      if (check(value, run, at, evaluated)) continue
      fits = false
      if (run.endsAtFirst) break
    }
    return fits
  }
}

function listOf(value: JsonValue | undefined): JsonArray {
  return Array.isArray(value) ? value : []
}
