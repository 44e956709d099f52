import type { ErrorObject } from 'ajv/dist/2020.js'
import type { InputIssue } from '#kernel/base/errors'
import { childPointer, isJsonObject, type JsonObject, type JsonValue, pointerSteps } from '#kernel/base/json'
import { nearestName } from '#kernel/base/nearest-name'

/** Enough to repair a call; a list of thousands helps nobody. */
const MAX_ISSUES = 50

/** A validator's error on its way to an issue; kept together with where in the schema it arose. */
interface Problem {
  readonly schemaPath: string
  readonly instancePath: string
  readonly pointer: string
  readonly message: string
  /** Set when the problem is only that the value is none of these. */
  readonly accepted?: readonly Accepted[]
}

/**
 * A validator's errors as issues an agent can act on: each names its parameter, branches are reported once.
 * `schema` is what the value was checked against, for suggestions when a member is unknown.
 */
export function schemaIssues(errors: readonly ErrorObject[], schema: JsonObject): readonly InputIssue[] {
  const problems: Problem[] = []
  for (const error of errors) {
    // What `then` or `else` found is listed on its own.
    if (error.keyword === 'if') continue
    if (COMPOSED.has(error.keyword)) {
      for (const problem of summarize(error, takeInner(problems, error))) problems.push(problem)
    } else problems.push(toProblem(error, schema))
  }
  const issues = new Map<string, InputIssue>()
  for (const problem of problems) {
    if (issues.size >= MAX_ISSUES) break
    const [parameter] = pointerSteps(problem.pointer)
    const { pointer, message } = problem
    issues.set(
      `${pointer} ${message}`,
      parameter === undefined ? { pointer, message } : { parameter, pointer, message },
    )
  }
  return [...issues.values()]
}

/** Keywords whose own error follows those of the schemas inside them. */
const COMPOSED: ReadonlySet<string> = new Set(['anyOf', 'oneOf', 'contains', 'propertyNames'])

function takeInner(problems: Problem[], { schemaPath, instancePath }: ErrorObject): readonly Problem[] {
  const before = problems.findLastIndex((problem) => !isInside(problem, schemaPath, instancePath))
  return problems.splice(before + 1)
}

function isInside(problem: Problem, schemaPath: string, instancePath: string): boolean {
  return (
    problem.schemaPath.startsWith(`${schemaPath}/`) &&
    (problem.instancePath === instancePath || problem.instancePath.startsWith(`${instancePath}/`))
  )
}

function toProblem(error: ErrorObject, schema: JsonObject): Problem {
  const { keyword, params, schemaPath, instancePath } = error
  const accepted = acceptedValues(keyword, params)
  return {
    schemaPath,
    instancePath,
    pointer: pointerOf(error),
    message:
      unknownMember(error, schema) ??
      keywordMessage(keyword, { ...params, ...formatBeside(error, schema) }) ??
      `Does not satisfy "${keyword}"`,
    ...(accepted === undefined ? {} : { accepted }),
  }
}

/** A missing or surplus member is named itself, not the object around it. */
function pointerOf({ keyword, params, instancePath }: ErrorObject): string {
  const member: unknown = params[MEMBER_PARAM[keyword] ?? '']
  return typeof member === 'string' ? childPointer(instancePath, member) : instancePath
}

const MEMBER_PARAM: Readonly<Record<string, string>> = {
  required: 'missingProperty',
  dependentRequired: 'missingProperty',
  dependencies: 'missingProperty',
  additionalProperties: 'additionalProperty',
  unevaluatedProperties: 'unevaluatedProperty',
  propertyNames: 'propertyName',
}

function unknownMember(error: ErrorObject, { properties }: JsonObject): string | undefined {
  if (error.keyword !== 'additionalProperties' && error.keyword !== 'unevaluatedProperties') return undefined
  if (error.instancePath !== '' || !isJsonObject(properties)) return undefined
  const [name = ''] = pointerSteps(pointerOf(error))
  const near = nearestName(name, Object.keys(properties))
  return near === undefined ? 'Is not known here' : `Is not known here (did you mean "${near}"?)`
}

/** The `format` next to a failed `pattern`, which says the same in a word. */
function formatBeside({ keyword, schemaPath }: ErrorObject, schema: JsonObject): KeywordParams {
  if (keyword !== 'pattern' || !schemaPath.startsWith('#/')) return {}
  let here: JsonValue | undefined = schema
  for (const step of pointerSteps(schemaPath.slice(1)).slice(0, -1)) {
    here = stepInto(here, decodeURIComponent(step))
  }
  return isJsonObject(here) && here.format !== undefined ? { format: here.format } : {}
}

function stepInto(value: JsonValue | undefined, step: string): JsonValue | undefined {
  if (Array.isArray(value)) return value[Number(step)]
  return isJsonObject(value) && Object.hasOwn(value, step) ? value[step] : undefined
}

/** Tells a failed choice once: what it accepts, or what is wrong with the branch that was meant. */
function summarize(error: ErrorObject, inner: readonly Problem[]): readonly Problem[] {
  const { keyword, params, schemaPath, instancePath } = error
  const whole = (message: string): Problem => ({
    schemaPath,
    instancePath,
    pointer: pointerOf(error),
    message,
  })
  if (keyword === 'contains' || keyword === 'propertyNames') {
    return [whole(keywordMessage(keyword, params) ?? 'Is not allowed')]
  }
  if (Array.isArray(params.passingSchemas)) {
    return [whole('Must fit exactly one of the allowed forms, and fits several')]
  }
  const branches = [...Map.groupBy(inner, (problem) => branchOf(problem, schemaPath)).values()]
  const only = branches.flatMap((branch) => acceptedHere(branch, instancePath) ?? [])
  if (branches.length > 0 && branches.every((branch) => acceptedHere(branch, instancePath) !== undefined)) {
    return [{ ...whole(mustBe(only)), accepted: only }]
  }
  return closestBranch(branches, instancePath) ?? [whole('Must fit one of the allowed forms')]
}

function branchOf({ schemaPath: path }: Problem, schemaPath: string): string {
  return path.slice(schemaPath.length + 1).split('/', 1)[0] ?? ''
}

function acceptedHere(branch: readonly Problem[], instancePath: string): readonly Accepted[] | undefined {
  const [first, ...more] = branch
  return more.length === 0 && first?.instancePath === instancePath ? first.accepted : undefined
}

const WRONG_KIND = 1_000_000
const WRONG_MEMBER_VALUE = 1_000

/** The branch that was clearly meant: right kind of value, right discriminator, fewest problems. Else what all share. */
function closestBranch(
  branches: readonly (readonly Problem[])[],
  instancePath: string,
): readonly Problem[] | undefined {
  const depth = pointerSteps(instancePath).length
  const ranked = branches
    .map((branch) => ({ branch, penalty: penaltyOf(branch, depth) }))
    .sort((left, right) => left.penalty - right.penalty)
  const [first, second] = ranked
  if (first === undefined) return undefined
  const clear = second === undefined || first.penalty < second.penalty
  if (clear && first.penalty < WRONG_MEMBER_VALUE) return first.branch
  const shared = first.branch.flatMap((problem) => inEveryBranch(problem, branches))
  if (shared.length > 0) return shared
  return clear ? first.branch : undefined
}

function penaltyOf(branch: readonly Problem[], depth: number): number {
  return branch.reduce((sum, { accepted, instancePath }) => {
    const distance = pointerSteps(instancePath).length - depth
    if (accepted === undefined || distance > 1) return sum + 1
    if (distance === 0) return sum + WRONG_KIND
    return sum + (accepted.every((one) => one.kind === 'value') ? WRONG_MEMBER_VALUE : 1)
  }, 0)
}

/** A discriminator that no branch accepts, or a member that every branch asks for. */
function inEveryBranch(problem: Problem, branches: readonly (readonly Problem[])[]): readonly Problem[] {
  const here = branches.map((branch) => branch.find(({ pointer }) => pointer === problem.pointer))
  if (here.every((other) => other?.message === problem.message)) return [problem]
  const accepted = here.flatMap((other) => other?.accepted ?? [])
  if (here.some((other) => other?.accepted === undefined)) return []
  return [{ ...problem, message: mustBe(accepted), accepted }]
}

const MAX_CHOICES = 20
const MAX_VALUE_LENGTH = 80

/** What a failed keyword says about itself; never more than the schema's own values. */
type KeywordParams = Readonly<Record<string, unknown>>

/** `a number`, `an array`, `null`: one kind of value a place accepts. */
const KINDS: Readonly<Record<string, string>> = {
  array: 'an array',
  boolean: 'a boolean',
  integer: 'a whole number',
  null: 'null',
  number: 'a number',
  object: 'an object',
  string: 'a string',
}

const COMPARISONS: Readonly<Record<string, string>> = {
  minimum: 'at least',
  maximum: 'at most',
  exclusiveMinimum: 'more than',
  exclusiveMaximum: 'less than',
}

/** One sentence for one failed keyword, without the name of the parameter and without a full stop. */
function keywordMessage(keyword: string, params: KeywordParams): string | undefined {
  const accepted = acceptedValues(keyword, params)
  if (accepted !== undefined) return mustBe(accepted)
  const comparison = COMPARISONS[keyword]
  if (comparison !== undefined) return `Must be ${comparison} ${params.limit}`
  return MESSAGES[keyword]?.(params)
}

const MESSAGES: Readonly<Record<string, (params: KeywordParams) => string>> = {
  required: () => 'Is required',
  dependentRequired: whenGiven,
  dependencies: whenGiven,
  multipleOf: ({ multipleOf }) => `Must be a multiple of ${multipleOf}`,
  pattern: patternMessage,
  minLength: ({ limit }) => `Must have at least ${count(limit, 'character')}`,
  maxLength: ({ limit }) => `Must have at most ${count(limit, 'character')}`,
  minItems: ({ limit }) => `Must have at least ${count(limit, 'item')}`,
  maxItems: ({ limit }) => `Must have at most ${count(limit, 'item')}`,
  items: ({ limit }) => `Must have at most ${count(limit, 'item')}`,
  unevaluatedItems: ({ limit }) => `Must have at most ${count(limit, 'item')}`,
  minProperties: ({ limit }) => `Must have at least ${count(limit, 'member')}`,
  maxProperties: ({ limit }) => `Must have at most ${count(limit, 'member')}`,
  uniqueItems: () => 'Must not hold an item twice',
  contains: ({ minContains, maxContains }) => {
    const most = maxContains === undefined ? '' : ` and at most ${maxContains}`
    return `Must hold at least ${minContains}${most} of the items it asks for`
  },
  propertyNames: () => 'Has a name that is not allowed',
  additionalProperties: () => 'Is not allowed',
  unevaluatedProperties: () => 'Is not allowed',
  'false schema': () => 'Is not allowed',
  not: () => 'Has a value that is not allowed',
}

/** Formats in words; libraries write most of them as a pattern that nobody can read. */
const FORMATS: Readonly<Record<string, string>> = {
  date: 'a date such as 2026-01-31',
  'date-time': 'a date and time such as 2026-01-31T12:30:00Z',
  time: 'a time such as 12:30:00',
  duration: 'a duration such as P1DT12H',
  email: 'an email address',
  hostname: 'a host name',
  ipv4: 'an IPv4 address',
  ipv6: 'an IPv6 address',
  uri: 'a URI such as https://example.com/a',
  uuid: 'a UUID',
}

/** `format` is what stands beside the pattern in the schema. A pattern short enough to show may say more than it. */
function patternMessage({ pattern, format }: KeywordParams): string {
  const written = String(pattern)
  if (typeof format !== 'string') return `Must match the pattern ${shorten(written)}`
  const kind = Object.hasOwn(FORMATS, format) ? FORMATS[format] : `of the format ${inJson(format)}`
  return written.length > MAX_VALUE_LENGTH
    ? `Must be ${kind}`
    : `Must be ${kind}, and match the pattern ${written}`
}

/** What a place accepts when the keyword names it outright: types and listed values. */
function acceptedValues(keyword: string, params: KeywordParams): readonly Accepted[] | undefined {
  if (keyword === 'type') {
    const types: unknown[] = Array.isArray(params.type) ? params.type : [params.type]
    return types.map((type) => ({ kind: 'type', text: KINDS[String(type)] ?? String(type) }))
  }
  if (keyword === 'const') return [{ kind: 'value', text: inJson(params.allowedValue) }]
  if (keyword === 'enum' && Array.isArray(params.allowedValues)) {
    return params.allowedValues.map((value) => ({ kind: 'value', text: inJson(value) }))
  }
  return undefined
}

interface Accepted {
  readonly kind: 'type' | 'value'
  readonly text: string
}

function mustBe(accepted: readonly Accepted[]): string {
  const types = textsOf(accepted, 'type')
  const values = textsOf(accepted, 'value')
  const [only] = values
  if (values.length === 0) return `Must be ${joinOr(types)}`
  if (values.length === 1 && types.length === 0) return `Must be ${only}`
  const shown = values.slice(0, MAX_CHOICES).join(', ')
  const more = values.length > MAX_CHOICES ? ` and ${values.length - MAX_CHOICES} more` : ''
  const list = `one of: ${shown}${more}`
  return types.length === 0 ? `Must be ${list}` : `Must be ${joinOr(types)}, or ${list}`
}

function textsOf(accepted: readonly Accepted[], kind: Accepted['kind']): string[] {
  return [...new Set(accepted.filter((one) => one.kind === kind).map((one) => one.text))]
}

function joinOr(texts: readonly string[]): string {
  return texts.length < 2 ? texts.join() : `${texts.slice(0, -1).join(', ')} or ${texts.at(-1)}`
}

function whenGiven({ property }: KeywordParams): string {
  return `Is required when ${inJson(property)} is given`
}

function count(limit: unknown, noun: string): string {
  return limit === 1 ? `1 ${noun}` : `${limit} ${noun}s`
}

function inJson(value: unknown): string {
  return shorten(JSON.stringify(value) ?? 'nothing')
}

function shorten(text: string): string {
  return text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH)}…` : text
}
