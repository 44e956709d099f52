import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { InputIssue } from '#kernel/base/errors'
import { isJsonObject, type JsonArray, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { ParsedInput, Tool } from '#kernel/tool/tool'
import { type SchemaProblem, schemaIssues } from './issues.ts'
import { createSchemaResolver, type SchemaResolver } from './keywords.ts'
import { Pattern, runWithinDeadline } from './patterns.ts'
import { standardIssues } from './read.ts'
import {
  type Check,
  CheckRun,
  Evaluated,
  IMPORTED,
  IMPORTED_WITHIN_DEADLINE,
  joinChecks,
  NEEDS_DEADLINE,
  TOO_MUCH_WORK,
  TRUSTED,
  VALUE_CHECKS,
  whenGiven,
} from './value-checks.ts'

/**
 * Checks values against JSON Schema 2020-12: the inputs and outputs of tools, and answers to MCP questions. A schema becomes
 * closures, each when a value first reaches it; no code is generated from its text.
 * The schema has passed `checkSchema`. A check converts nothing, fills in no defaults, takes `format` as an annotation
 * (OTC/T-18) and reads nothing from a prototype. What cannot be checked is refused.
 */

/** The schema that values are checked against: authored, or an imported one, which is made at the first call. */
export type EnforcedSchema = JsonObject | (() => JsonObject)

type SchemaValidator = (value: JsonValue) => readonly InputIssue[]

/** Shared by every successful check. */
export const NO_ISSUES: readonly InputIssue[] = Object.freeze([])
const NO_PROBLEMS: readonly string[] = Object.freeze([])

const NOT_AN_OBJECT = wholeIssue('Must be an object')
const UNCHECKED = wholeIssue(
  'Cannot be checked: checking this value against the schema of this tool takes too much work',
)
const UNEXPLAINED = wholeIssue('Does not fit the schema of this tool, in more ways than can be listed')

function wholeIssue(message: string): readonly InputIssue[] {
  return Object.freeze([{ pointer: '', message }])
}

export function createInputCheck(schema: EnforcedSchema): Tool['checkInput'] {
  const validate = createEnforcedValidator(schema)
  // The input must be an object even for the schema `{}`, because parameters have names (OTC/T-13).
  return (input) => (isJsonObject(input) ? validate(input) : NOT_AN_OBJECT)
}

/** Without a schema library `run` gets the input unchanged. */
export function createInputParse(
  validate: StandardSchemaV1.Props['validate'] | undefined,
): Tool['parseInput'] {
  if (validate === undefined) return (input) => ({ ok: true, input })
  return (input) => {
    const result = validate(input)
    return result instanceof Promise ? result.then(toParsed) : toParsed(result)
  }
}

/** A tool without an output schema promises nothing, so nothing is checked (OTC/T-14). */
export function createOutputCheck(schema: EnforcedSchema | null): Tool['checkOutput'] {
  if (schema === null) return () => NO_PROBLEMS
  const validate = createEnforcedValidator(schema)
  return (value) => {
    const issues = validate(value)
    if (issues === NO_ISSUES) return NO_PROBLEMS
    return issues.map(({ pointer, message }) => `${pointer === '' ? 'value' : pointer}: ${message}`)
  }
}

function toParsed(result: StandardSchemaV1.Result<unknown>): ParsedInput {
  return result.issues === undefined
    ? { ok: true, input: result.value }
    : { ok: false, issues: standardIssues(result.issues) }
}

function createEnforcedValidator(schema: EnforcedSchema): SchemaValidator {
  if (typeof schema !== 'function') return createSchemaValidator(schema)
  let validate: SchemaValidator | undefined
  return (value) => {
    validate ??= createSchemaValidator(schema(), { untrusted: true })
    return validate(value)
  }
}

/** `untrusted`: another party wrote the schema, so work is limited, and patterns cannot hang. */
export function createSchemaValidator(
  schema: JsonObject,
  { untrusted = false }: { readonly untrusted?: boolean } = {},
): SchemaValidator {
  if (Object.keys(schema).length === 0) return () => NO_ISSUES
  const check = new SchemaDocument(schema).checkOf(schema)
  return (value) => {
    try {
      return findIssues(check, value, new CheckRun(untrusted ? IMPORTED : TRUSTED))
    } catch (error) {
      if (error !== NEEDS_DEADLINE) return uncheckedOr(error)
    }
    try {
      const find = () => findIssues(check, value, new CheckRun(IMPORTED_WITHIN_DEADLINE))
      return runWithinDeadline(find) ?? UNCHECKED
    } catch (error) {
      return uncheckedOr(error)
    }
  }
}

function uncheckedOr(error: unknown): readonly InputIssue[] {
  if (error === TOO_MUCH_WORK) return UNCHECKED
  throw error
}

function findIssues(check: Check, value: JsonValue, run: CheckRun): readonly InputIssue[] {
  if (check(value, run, '', undefined)) return NO_ISSUES
  const problems = run.collect(isLarge(value) ? 'first' : 'all')
  try {
    check(value, run, '', undefined)
    return schemaIssues(problems)
  } catch (error) {
    if (error === TOO_MUCH_WORK) return UNEXPLAINED
    throw error
  }
}

/** Collecting every problem of a larger value would cost more memory than the value itself. */
const MAX_VALUES_EXPLAINED = 2_000

function isLarge(value: JsonValue): boolean {
  const waiting = [value]
  for (let seen = 0; seen < waiting.length; seen += 1) {
    const next = waiting[seen]
    if (typeof next !== 'object' || next === null) continue
    const members = Object.values(next)
    if (waiting.length + members.length > MAX_VALUES_EXPLAINED) return true
    waiting.push(...members)
  }
  return false
}

const ACCEPT: Check = (_value, run) => {
  run.spend(1)
  return true
}
const REFUSE: Check = (_value, run, at) => {
  run.spend(1)
  return run.fail('false schema', {}, at)
}

/** The checks and patterns of one schema document; a check reads its keywords when the first value reaches it. */
class SchemaDocument {
  readonly #resolve: SchemaResolver
  readonly #checks = new Map<JsonObject, Check>()
  readonly #patterns = new Map<string, Pattern>()

  constructor(root: JsonObject) {
    this.#resolve = createSchemaResolver(root)
  }

  checkOf(schema: JsonValue | undefined): Check {
    if (!isJsonObject(schema)) return schema === false ? REFUSE : ACCEPT
    const known = this.#checks.get(schema)
    if (known !== undefined) return known
    const needsEvaluated = schema.unevaluatedItems !== undefined || schema.unevaluatedProperties !== undefined
    let checks: readonly Check[] | undefined
    const check: Check = (value, run, at, evaluated) => {
      checks ??= this.#readKeywords(schema)
      run.enter(checks.length)
      const own = needsEvaluated ? new Evaluated() : evaluated
      let fits = true
      for (const each of checks) {
        if (each(value, run, at, own)) continue
        fits = false
        if (run.endsAtFirst) break
      }
      run.leave()
      if (fits && needsEvaluated && own !== undefined) evaluated?.add(own, run)
      return fits
    }
    this.#checks.set(schema, check)
    return check
  }

  checksOf(schemas: JsonValue | undefined): readonly Check[] {
    return Array.isArray(schemas) ? schemas.map((schema) => this.checkOf(schema)) : []
  }

  /** A reference that leads nowhere pointed into a keyword that is not enforced here. */
  checkAt(reference: JsonValue | undefined): Check {
    return this.checkOf(typeof reference === 'string' ? this.#resolve(reference) : undefined)
  }

  patternOf(source: string): Pattern {
    const pattern = this.#patterns.get(source) ?? new Pattern(source)
    this.#patterns.set(source, pattern)
    return pattern
  }

  #readKeywords(schema: JsonObject): readonly Check[] {
    return KEYWORDS.flatMap(([keywords, make]) =>
      keywords.some((keyword) => Object.hasOwn(schema, keyword)) ? (make(schema, this) ?? []) : [],
    )
  }
}

type MakeCheck = (schema: JsonObject, document: SchemaDocument) => Check | undefined

/** In the order of the checks: cheap ones first, and last those that need to know what the others have evaluated. */
const KEYWORDS: readonly (readonly [keywords: readonly string[], make: MakeCheck])[] = [
  [['$ref'], ({ $ref }, document) => document.checkAt($ref)],
  [['$dynamicRef'], ({ $dynamicRef }, document) => document.checkAt($dynamicRef)],
  ...VALUE_CHECKS.map(([keyword, make]) => [[keyword], make] as const),
  [['not'], checkNot],
  [['anyOf'], ({ anyOf }, document) => checkChoice('anyOf', document.checksOf(anyOf))],
  [['oneOf'], ({ oneOf }, document) => checkChoice('oneOf', document.checksOf(oneOf))],
  [['allOf'], ({ allOf }, document) => joinChecks(document.checksOf(allOf))],
  [['if'], checkCondition],
  [['prefixItems', 'items'], checkItems],
  [['contains'], checkContains],
  [['propertyNames'], checkPropertyNames],
  [['properties', 'patternProperties', 'additionalProperties'], checkMembers],
  [['dependentSchemas'], ({ dependentSchemas }, document) => checkDependents(dependentSchemas, document)],
  [['dependencies'], ({ dependencies }, document) => checkDependents(dependencies, document)],
  [['unevaluatedItems'], checkUnevaluatedItems],
  [['unevaluatedProperties'], checkUnevaluatedProperties],
]

/** Checks one alternative; what it evaluated counts only if it fits. */
function fitsBranch(
  check: Check,
  value: JsonValue,
  run: CheckRun,
  at: string,
  evaluated?: Evaluated,
): boolean {
  if (evaluated === undefined) return check(value, run, at, undefined)
  const own = new Evaluated()
  const fits = check(value, run, at, own)
  if (fits) evaluated.add(own, run)
  return fits
}

/** Checks without collecting problems. */
function fitsQuietly(check: Check, value: JsonValue, run: CheckRun, evaluated?: Evaluated): boolean {
  const { problems } = run
  run.problems = undefined
  const fits = fitsBranch(check, value, run, '', evaluated)
  run.problems = problems
  return fits
}

function checkNot({ not }: JsonObject, document: SchemaDocument): Check {
  const check = document.checkOf(not)
  return (value, run, at) => !fitsQuietly(check, value, run) || run.fail('not', {}, at)
}

function checkChoice(keyword: 'anyOf' | 'oneOf', choices: readonly Check[]): Check {
  return (value, run, at, evaluated) => {
    const { problems } = run
    const branches: SchemaProblem[][] = []
    // Every branch of `anyOf` is tried where a later keyword needs to know what all of them evaluate.
    const enough = keyword === 'oneOf' ? 2 : evaluated === undefined ? 1 : choices.length
    let fitting = 0
    for (const choice of choices) {
      if (problems !== undefined) run.problems = []
      if (fitsBranch(choice, value, run, at, evaluated)) fitting += 1
      else if (run.problems !== undefined) branches.push(run.problems)
      if (fitting === enough) break
    }
    run.problems = problems
    const fits = keyword === 'oneOf' ? fitting === 1 : fitting > 0
    return fits || run.fail(keyword, { fitting }, at, branches)
  }
}

function checkCondition(schema: JsonObject, document: SchemaDocument): Check {
  const condition = document.checkOf(schema.if)
  const whenTrue = document.checkOf(schema.then)
  const whenFalse = document.checkOf(schema.else)
  return (value, run, at, evaluated) => {
    const next = fitsQuietly(condition, value, run, evaluated) ? whenTrue : whenFalse
    return fitsBranch(next, value, run, at, evaluated)
  }
}

function checkItems({ prefixItems, items }: JsonObject, document: SchemaDocument): Check {
  const prefix = document.checksOf(prefixItems)
  const rest = items === undefined ? undefined : document.checkOf(items)
  const check = eachItem((item, index, run, at, evaluated) => {
    const each = prefix[index] ?? rest
    if (each === undefined) return true
    evaluated?.addItem(index, run)
    return each(item, run, run.pointerTo(at, index), undefined)
  })
  if (rest !== REFUSE) return check
  const limit = prefix.length
  return (value, run, at, evaluated) =>
    Array.isArray(value) && value.length > limit
      ? run.fail('items', { limit }, at)
      : check(value, run, at, evaluated)
}

type PartCheck<Step> = (
  part: JsonValue,
  step: Step,
  run: CheckRun,
  at: string,
  evaluated: Evaluated | undefined,
) => boolean

function eachItem(check: PartCheck<number>): Check {
  return (value, run, at, evaluated) => {
    if (!Array.isArray(value)) return true
    const items: JsonArray = value
    run.spend(items.length)
    let fits = true
    for (let index = 0; index < items.length; index += 1) {
      if (check(items[index] ?? null, index, run, at, evaluated)) continue
      fits = false
      if (run.endsAtFirst) break
    }
    return fits
  }
}

function eachMember(check: PartCheck<string>): Check {
  return (value, run, at, evaluated) => {
    if (!isJsonObject(value)) return true
    let fits = true
    for (const name of run.namesOf(value)) {
      if (check(value[name] ?? null, name, run, at, evaluated)) continue
      fits = false
      if (run.endsAtFirst) break
    }
    return fits
  }
}

function checkContains({ contains, minContains, maxContains }: JsonObject, document: SchemaDocument): Check {
  const check = document.checkOf(contains)
  const min = typeof minContains === 'number' ? minContains : 1
  const max = typeof maxContains === 'number' ? maxContains : undefined
  return (value, run, at, evaluated) => {
    if (!Array.isArray(value)) return true
    const list: JsonArray = value
    let found = 0
    for (const [index, item] of list.entries()) {
      if (!fitsQuietly(check, item, run)) continue
      found += 1
      evaluated?.addItem(index, run)
      if (evaluated === undefined && max === undefined && found >= min) break
    }
    if (found >= min && (max === undefined || found <= max)) return true
    return run.fail('contains', { minContains: min, maxContains: max }, at)
  }
}

function checkPropertyNames({ propertyNames }: JsonObject, document: SchemaDocument): Check {
  const check = document.checkOf(propertyNames)
  return eachMember(
    (_member, name, run, at) =>
      fitsQuietly(check, name, run) || run.fail('propertyNames', { propertyName: name }, at),
  )
}

function checkMembers(
  { properties, patternProperties, additionalProperties }: JsonObject,
  document: SchemaDocument,
): Check {
  const known = isJsonObject(properties) ? Object.keys(properties) : undefined
  const declared = new Map(membersOf(properties).map(([name, each]) => [name, document.checkOf(each)]))
  const patterned = membersOf(patternProperties).map(([source, each]) => ({
    pattern: document.patternOf(source),
    check: document.checkOf(each),
  }))
  const others = additionalProperties === undefined ? undefined : document.checkOf(additionalProperties)
  return eachMember((member, name, run, at, evaluated) => {
    const own = declared.get(name)
    let isKnown = own !== undefined
    let fits = own === undefined || own(member, run, run.pointerTo(at, name), undefined)
    for (const { pattern, check } of patterned) {
      if (!run.matches(pattern, name)) continue
      isKnown = true
      fits = check(member, run, run.pointerTo(at, name), undefined) && fits
    }
    if (!isKnown && others === undefined) return true
    evaluated?.addName(name, run)
    if (isKnown || others === undefined) return fits
    if (others === REFUSE) return run.failUnknown('additionalProperties', name, known, at)
    return others(member, run, run.pointerTo(at, name), undefined)
  })
}

function checkDependents(written: JsonValue | undefined, document: SchemaDocument): Check {
  const schemas = membersOf(written).filter(([, each]) => !Array.isArray(each))
  return joinChecks(
    schemas.map(([name, each]) => {
      const check = document.checkOf(each)
      return whenGiven(name, (...args) => fitsBranch(check, ...args))
    }),
  )
}

function checkUnevaluatedItems({ unevaluatedItems }: JsonObject, document: SchemaDocument): Check {
  const check = document.checkOf(unevaluatedItems)
  return eachItem((item, index, run, at, evaluated) => {
    if (evaluated?.items.has(index)) return true
    evaluated?.addItem(index, run)
    if (check === REFUSE) return run.fail('unevaluatedItems', { limit: index }, at)
    return check(item, run, run.pointerTo(at, index), undefined)
  })
}

function checkUnevaluatedProperties(
  { unevaluatedProperties, properties }: JsonObject,
  document: SchemaDocument,
): Check {
  const check = document.checkOf(unevaluatedProperties)
  const known = isJsonObject(properties) ? Object.keys(properties) : undefined
  return eachMember((member, name, run, at, evaluated) => {
    if (evaluated?.names.has(name)) return true
    evaluated?.addName(name, run)
    if (check === REFUSE) return run.failUnknown('unevaluatedProperties', name, known, at)
    return check(member, run, run.pointerTo(at, name), undefined)
  })
}

function membersOf(value: JsonValue | undefined): [string, JsonValue][] {
  return Object.entries(isJsonObject(value) ? value : {})
}
