import type { InputIssue } from '#kernel/base/errors'
import { isJsonObject, type JsonArray, type JsonObject, type JsonValue } from '#kernel/base/json'
import { VALUE_READERS } from './bounded-values.ts'
import {
  BEGINNING,
  BoundedPattern,
  BoundedWork,
  deeper,
  every,
  inside,
  isLarge,
  isTooMuchWork,
  NOWHERE,
  needsDeadline,
  type Position,
  Seen,
  withinDeadline,
} from './bounded-work.ts'
import { schemaIssues } from './issues.ts'
import { createSchemaResolver, REFERENCES, type SchemaResolver } from './keywords.ts'

/** Shared by every successful check. */
export const NO_ISSUES: readonly InputIssue[] = Object.freeze([])

/** Refused, because what nobody could check must not run. */
const UNCHECKED: readonly InputIssue[] = Object.freeze([
  {
    pointer: '',
    message: 'Cannot be checked: the schema of this tool asks for too much work for this value',
  },
])

const UNEXPLAINED: readonly InputIssue[] = Object.freeze([
  { pointer: '', message: 'Does not fit the schema of this tool, in more ways than can be listed' },
])

/**
 * Holds values against a schema that another party wrote, by reading it: no code is made of a stranger's text, a part is
 * read when a value first reaches it, and every look is counted, so that a check ends whatever the schema says. The
 * schema has passed `checkSchema`; it means the same as in `createSchemaValidator`.
 */
export function createBoundedCheck(schema: JsonObject): (value: JsonValue) => readonly InputIssue[] {
  let reader = new SchemaReader(schema)
  const checkWithin = (value: JsonValue) =>
    withinDeadline(() => {
      // What was being made when a time was over is not finished.
      reader = new SchemaReader(schema)
      return reader.check(value, new BoundedWork('native'))
    })
  return (value) => {
    try {
      return reader.check(value, new BoundedWork('linear'))
    } catch (error) {
      if (!needsDeadline(error)) return uncheckedOr(error)
    }
    try {
      return checkWithin(value)
    } catch (error) {
      reader = new SchemaReader(schema)
      return uncheckedOr(error)
    }
  }
}

function uncheckedOr(error: unknown): readonly InputIssue[] {
  if (isTooMuchWork(error)) return UNCHECKED
  throw error
}

/** One look of a schema at a value. */
interface Look {
  readonly work: BoundedWork
  readonly position: Position
  readonly seen: Seen | undefined
}

type Check = (value: JsonValue, look: Look) => boolean

interface Reading {
  readonly checks: readonly Check[]
  /** Whether the schema asks what its other keywords have looked at. */
  readonly asksSeen: boolean
}

class SchemaReader {
  readonly #root: JsonObject
  readonly #resolve: SchemaResolver
  readonly #readings = new Map<JsonObject, Reading>()
  readonly #patterns = new Map<string, BoundedPattern>()

  constructor(root: JsonObject) {
    this.#root = root
    this.#resolve = createSchemaResolver(root)
  }

  check(value: JsonValue, work: BoundedWork): readonly InputIssue[] {
    if (this.#fits(this.#root, value, work, NOWHERE)) return NO_ISSUES
    try {
      const problems = work.list(isLarge(value) ? 'first' : 'all')
      this.#fits(this.#root, value, work, BEGINNING)
      return schemaIssues(problems, this.#root)
    } catch (error) {
      if (isTooMuchWork(error)) return UNEXPLAINED
      throw error
    }
  }

  #fits(
    schema: JsonValue | undefined,
    value: JsonValue,
    work: BoundedWork,
    position: Position,
    seen?: Seen,
  ): boolean {
    if (!isJsonObject(schema)) {
      work.spend(1)
      return schema !== false || work.fail('false schema', {}, position)
    }
    const { checks, asksSeen } = this.#readings.get(schema) ?? this.#read(schema)
    work.enter(checks.length)
    const own = asksSeen ? new Seen() : seen
    const look = { work, position, seen: own }
    let fits = true
    for (const check of checks) {
      if (check(value, look)) continue
      fits = false
      if (work.endsAtFirst) break
    }
    work.leave()
    if (fits && seen !== undefined && own !== undefined && own !== seen) seen.add(own, work)
    return fits
  }

  /** An alternative: what it looked at counts only where it fits. */
  #branchFits(schema: JsonValue | undefined, value: JsonValue, { work, position, seen }: Look): boolean {
    if (seen === undefined) return this.#fits(schema, value, work, position)
    const looked = new Seen()
    const fits = this.#fits(schema, value, work, position, looked)
    if (fits) seen.add(looked, work)
    return fits
  }

  #fitsQuietly(schema: JsonValue, value: JsonValue, { work }: Look, seen?: Seen): boolean {
    return work.quietly(() => this.#branchFits(schema, value, { work, position: NOWHERE, seen }))
  }

  #read(schema: JsonObject): Reading {
    const { unevaluatedItems, unevaluatedProperties } = schema
    const checks: Check[] = []
    for (const [keywords, read] of this.#readers) {
      if (keywords.some((keyword) => Object.hasOwn(schema, keyword))) checks.push(...read(schema))
    }
    const asksSeen = unevaluatedItems !== undefined || unevaluatedProperties !== undefined
    const reading = { checks, asksSeen }
    this.#readings.set(schema, reading)
    return reading
  }

  /** In the order of the checks: cheap ones first, and last what asks what the others have looked at. */
  readonly #readers: readonly (readonly [readonly string[], (schema: JsonObject) => Iterable<Check>])[] = [
    [[...REFERENCES], (schema) => this.#references(schema)],
    ...VALUE_READERS.map(
      ([keywords, read]) =>
        [keywords, (schema: JsonObject) => read(schema, (source) => this.#pattern(source))] as const,
    ),
    [['not', 'anyOf', 'oneOf', 'allOf'], (schema) => this.#choices(schema)],
    [['if'], (schema) => this.#conditions(schema)],
    [['prefixItems', 'items'], (schema) => this.#items(schema)],
    [['contains'], (schema) => this.#contained(schema)],
    [
      ['properties', 'patternProperties', 'additionalProperties', 'propertyNames'],
      (schema) => this.#members(schema),
    ],
    [['dependentSchemas', 'dependencies'], (schema) => this.#dependents(schema)],
    [['unevaluatedItems', 'unevaluatedProperties'], (schema) => this.#unseen(schema)],
  ]

  #pattern(source: string): BoundedPattern {
    const known = this.#patterns.get(source) ?? new BoundedPattern(source)
    this.#patterns.set(source, known)
    return known
  }

  *#references(schema: JsonObject): Iterable<Check> {
    for (const keyword of REFERENCES) {
      const reference = schema[keyword]
      if (typeof reference !== 'string') continue
      // One that leads nowhere pointed into a keyword that nobody here can enforce.
      const target = this.#resolve(reference) ?? true
      yield (value, { work, position, seen }) =>
        this.#fits(target, value, work, deeper(work, position, keyword), seen)
    }
  }

  *#choices({ not, anyOf, oneOf, allOf }: JsonObject): Iterable<Check> {
    if (not !== undefined) {
      yield (value, look) => !this.#fitsQuietly(not, value, look) || look.work.fail('not', {}, look.position)
    }
    if (Array.isArray(anyOf)) {
      yield (value, look) => {
        const { work, position, seen } = look
        const before = work.problemCount
        const fitting = this.#fitting('anyOf', anyOf, value, look, seen === undefined ? 1 : anyOf.length)
        if (fitting.length === 0) return work.fail('anyOf', {}, position)
        work.forgetAfter(before)
        return true
      }
    }
    if (Array.isArray(oneOf)) {
      yield (value, look) => {
        const { work, position } = look
        const before = work.problemCount
        const fitting = this.#fitting('oneOf', oneOf, value, look, 2)
        if (fitting.length !== 1) {
          return work.fail('oneOf', { passingSchemas: fitting.length === 0 ? null : fitting }, position)
        }
        work.forgetAfter(before)
        return true
      }
    }
    if (Array.isArray(allOf)) {
      yield (value, { work, position, seen }) =>
        every(allOf, work, (each, index) =>
          this.#fits(each, value, work, deeper(work, position, 'allOf', index), seen),
        )
    }
  }

  /** Which alternatives fit, until there are enough. */
  #fitting(keyword: string, choices: JsonArray, value: JsonValue, look: Look, enough: number): number[] {
    const { work, position, seen } = look
    const fitting: number[] = []
    for (let index = 0; index < choices.length && fitting.length < enough; index += 1) {
      const there = { work, position: deeper(work, position, keyword, index), seen }
      if (this.#branchFits(choices[index], value, there)) fitting.push(index)
    }
    return fitting
  }

  *#conditions({ if: condition, then: whenTrue, else: whenFalse }: JsonObject): Iterable<Check> {
    if (condition === undefined) return
    yield (value, look) => {
      const { work, position, seen } = look
      const holds = this.#fitsQuietly(condition, value, look, seen)
      const next = holds ? whenTrue : whenFalse
      const there = { work, position: deeper(work, position, holds ? 'then' : 'else'), seen }
      return next === undefined || this.#branchFits(next, value, there)
    }
  }

  *#items({ prefixItems, items }: JsonObject): Iterable<Check> {
    const prefix: JsonArray = Array.isArray(prefixItems) ? prefixItems : []
    if (prefix.length === 0 && items === undefined) return
    yield (value, { work, position, seen }) => {
      if (!Array.isArray(value)) return true
      const list: JsonArray = value
      if (items === false && list.length > prefix.length) {
        return work.fail('items', { limit: prefix.length }, position)
      }
      const looked = items === undefined ? list.slice(0, prefix.length) : list
      return every(looked, work, (item, index) => {
        seen?.addItem(index, work)
        const isPrefix = index < prefix.length
        const there = isPrefix
          ? inside(work, position, index, 'prefixItems', index)
          : inside(work, position, index, 'items')
        return this.#fits(isPrefix ? prefix[index] : items, item, work, there)
      })
    }
  }

  *#contained({ contains, minContains, maxContains }: JsonObject): Iterable<Check> {
    if (contains === undefined) return
    const least = typeof minContains === 'number' ? minContains : 1
    const most = typeof maxContains === 'number' ? maxContains : undefined
    yield (value, look) => {
      if (!Array.isArray(value)) return true
      const list: JsonArray = value
      const { work, position, seen } = look
      let found = 0
      for (const [index, item] of list.entries()) {
        if (!this.#fitsQuietly(contains, item, look)) continue
        found += 1
        seen?.addItem(index, work)
        if (seen === undefined && most === undefined && found >= least) break
      }
      if (found >= least && (most === undefined || found <= most)) return true
      return work.fail('contains', { minContains: least, maxContains: most }, position)
    }
  }

  *#members({
    properties,
    patternProperties,
    additionalProperties,
    propertyNames,
  }: JsonObject): Iterable<Check> {
    if (propertyNames !== undefined) {
      yield (value, look) =>
        !isJsonObject(value) ||
        every(
          Object.keys(value),
          look.work,
          (name) =>
            this.#fitsQuietly(propertyNames, name, look) ||
            look.work.fail('propertyNames', { propertyName: name }, look.position),
        )
    }
    const declared = new Map(isJsonObject(properties) ? Object.entries(properties) : [])
    const patterned = Object.entries(isJsonObject(patternProperties) ? patternProperties : {}).map(
      ([source, schema]) => ({ source, schema, pattern: this.#pattern(source) }),
    )
    if (declared.size + patterned.length === 0 && additionalProperties === undefined) return
    const memberFits = (name: string, member: JsonValue, { work, position, seen }: Look): boolean => {
      const own = declared.get(name)
      let isKnown = own !== undefined
      let fits =
        own === undefined || this.#fits(own, member, work, inside(work, position, name, 'properties', name))
      for (const { source, schema, pattern } of patterned) {
        if (!work.matches(pattern, name)) continue
        isKnown = true
        const there = inside(work, position, name, 'patternProperties', source)
        fits = this.#fits(schema, member, work, there) && fits
      }
      if (!isKnown && additionalProperties === undefined) return true
      seen?.addName(name, work)
      if (isKnown) return fits
      if (additionalProperties === false) {
        return work.fail('additionalProperties', { additionalProperty: name }, position)
      }
      return this.#fits(
        additionalProperties,
        member,
        work,
        inside(work, position, name, 'additionalProperties'),
      )
    }
    yield (value, look) => {
      if (!isJsonObject(value)) return true
      return every(look.work.namesOf(value), look.work, (name) => memberFits(name, value[name] ?? null, look))
    }
  }

  *#dependents(schema: JsonObject): Iterable<Check> {
    for (const keyword of ['dependentSchemas', 'dependencies']) {
      const written = schema[keyword]
      const wanted = Object.entries(isJsonObject(written) ? written : {}).filter(
        ([, each]) => !Array.isArray(each),
      )
      if (wanted.length === 0) continue
      yield (value, { work, position, seen }) =>
        !isJsonObject(value) ||
        every(wanted, work, ([name, each]) => {
          const there = { work, position: deeper(work, position, keyword, name), seen }
          return !Object.hasOwn(value, name) || this.#branchFits(each, value, there)
        })
    }
  }

  /** Comes last: what nobody else has looked at. */
  *#unseen({ unevaluatedItems, unevaluatedProperties }: JsonObject): Iterable<Check> {
    if (unevaluatedItems !== undefined) {
      yield (value, { work, position, seen }) =>
        !Array.isArray(value) ||
        every(value, work, (item: JsonValue, index) => {
          if (seen === undefined || seen.items.has(index)) return true
          seen.addItem(index, work)
          if (unevaluatedItems === false) return work.fail('unevaluatedItems', { limit: index }, position)
          return this.#fits(unevaluatedItems, item, work, inside(work, position, index, 'unevaluatedItems'))
        })
    }
    if (unevaluatedProperties !== undefined) {
      yield (value, { work, position, seen }) =>
        !isJsonObject(value) ||
        every(work.namesOf(value), work, (name) => {
          if (seen === undefined || seen.names.has(name)) return true
          seen.addName(name, work)
          if (unevaluatedProperties === false) {
            return work.fail('unevaluatedProperties', { unevaluatedProperty: name }, position)
          }
          return this.#fits(
            unevaluatedProperties,
            value[name] ?? null,
            work,
            inside(work, position, name, 'unevaluatedProperties'),
          )
        })
    }
  }
}
