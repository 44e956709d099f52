import type { InputIssue } from '#kernel/base/errors'
import { childPointer, pointerSteps } from '#kernel/base/json'
import { nearestName } from '#kernel/base/nearest-name'

/**
 * Turns the problems that a check found into issues that an agent can act on: each names its parameter, and a failed choice
 * is one issue, about the branch that the caller most likely meant. `validator.ts` calls it when a value does not fit.
 * A message quotes only values of the schema, never of the input.
 */

/** A failed keyword. */
export interface SchemaProblem {
  readonly keyword: string
  /** Values of the schema, for the message. */
  readonly params: Params
  /** JSON Pointer of the value that failed. */
  readonly at: string
  /** The problems of each branch of `anyOf` or `oneOf` that did not fit. */
  readonly branches?: readonly (readonly SchemaProblem[])[] | undefined
}

type Params = Readonly<Record<string, unknown>>

/** Enough to repair a call; a longer list would not help. */
const MAX_ISSUES = 50

export function schemaIssues(problems: readonly SchemaProblem[]): readonly InputIssue[] {
  const issues = new Map<string, InputIssue>()
  for (const { pointer, message } of problems.flatMap(explain)) {
    if (issues.size >= MAX_ISSUES) break
    const [parameter] = pointerSteps(pointer)
    issues.set(
      `${pointer} ${message}`,
      parameter === undefined ? { pointer, message } : { parameter, pointer, message },
    )
  }
  return [...issues.values()]
}

interface Explained {
  readonly at: string
  /** Names a missing or surplus member itself, not the object around it. */
  readonly pointer: string
  readonly message: string
  /** Set if the only problem is that the value is none of these. */
  readonly accepted?: readonly Accepted[] | undefined
}

/** A failed choice is explained once: by what it accepts, or by the problems of the branch that was intended. */
function explain({ keyword, params, at, branches }: SchemaProblem): readonly Explained[] {
  const member = params[MEMBER_PARAM[keyword] ?? '']
  const pointer = typeof member === 'string' ? childPointer(at, member) : at
  if (branches === undefined) {
    const accepted = acceptedValues(keyword, params)
    const message = accepted === undefined ? keywordMessage(keyword, params) : mustBe(accepted)
    return [{ at, pointer, message, accepted }]
  }
  if (params.fitting !== 0) {
    return [{ at, pointer, message: 'Must fit exactly one of the allowed forms, and fits several' }]
  }
  const explained = branches.map((branch) => branch.flatMap(explain))
  const accepted = explained.map((branch) => acceptedAt(branch, at))
  if (accepted.every((each) => each !== undefined)) {
    return [{ at, pointer, message: mustBe(accepted.flat()), accepted: accepted.flat() }]
  }
  return closestBranch(explained, at) ?? [{ at, pointer, message: 'Must fit one of the allowed forms' }]
}

const MEMBER_PARAM: Readonly<Record<string, string>> = {
  required: 'missingProperty',
  dependentRequired: 'missingProperty',
  dependencies: 'missingProperty',
  additionalProperties: 'unknownProperty',
  unevaluatedProperties: 'unknownProperty',
  propertyNames: 'propertyName',
}

function acceptedAt(branch: readonly Explained[], at: string): readonly Accepted[] | undefined {
  const [first, ...more] = branch
  return more.length === 0 && first?.at === at ? first.accepted : undefined
}

const WRONG_KIND = 1_000_000
const WRONG_MEMBER_VALUE = 1_000

/**
 * The branch that was clearly intended: right kind of value, right discriminator, fewest problems. Otherwise the problems that
 * all branches share.
 */
function closestBranch(
  branches: readonly (readonly Explained[])[],
  at: string,
): readonly Explained[] | undefined {
  const depth = pointerSteps(at).length
  const ranked = branches
    .map((branch) => ({ branch, penalty: penaltyOf(branch, depth) }))
    .sort((left, right) => left.penalty - right.penalty)
  const [first, second] = ranked
  if (first === undefined) return undefined
  const isClear = second === undefined || first.penalty < second.penalty
  if (isClear && first.penalty < WRONG_MEMBER_VALUE) return first.branch
  const byPointer = branches.map((branch) => Map.groupBy(branch, ({ pointer }) => pointer))
  const shared = first.branch.flatMap((problem) =>
    sharedProblem(
      problem,
      byPointer.map((found) => found.get(problem.pointer)?.[0]),
    ),
  )
  if (shared.length > 0) return shared
  return isClear ? first.branch : undefined
}

function penaltyOf(branch: readonly Explained[], depth: number): number {
  return branch.reduce((sum, { accepted, at }) => {
    const distance = pointerSteps(at).length - depth
    if (accepted === undefined || distance > 1) return sum + 1
    if (distance === 0) return sum + WRONG_KIND
    return sum + (accepted.every((one) => one.kind === 'value') ? WRONG_MEMBER_VALUE : 1)
  }, 0)
}

/** A discriminator that no branch accepts, or a member that every branch requires. */
function sharedProblem(problem: Explained, here: readonly (Explained | undefined)[]): readonly Explained[] {
  if (here.every((other) => other?.message === problem.message)) return [problem]
  if (here.some((other) => other?.accepted === undefined)) return []
  const accepted = here.flatMap((other) => other?.accepted ?? [])
  return [{ ...problem, message: mustBe(accepted), accepted }]
}

const MAX_CHOICES = 20
const MAX_VALUE_LENGTH = 80

/** The kinds of values in words: `a number`, `an array`, `null`. */
const KINDS: Readonly<Record<string, string>> = {
  array: 'an array',
  boolean: 'a boolean',
  integer: 'a whole number',
  null: 'null',
  number: 'a number',
  object: 'an object',
  string: 'a string',
}

/** One sentence, without the name of the parameter and without a full stop. */
function keywordMessage(keyword: string, params: Params): string {
  return MESSAGES[keyword]?.(params) ?? `Does not satisfy "${keyword}"`
}

const MESSAGES: Readonly<Record<string, (params: Params) => string>> = {
  required: () => 'Is required',
  dependentRequired: whenGiven,
  dependencies: whenGiven,
  minimum: ({ limit }) => `Must be at least ${limit}`,
  maximum: ({ limit }) => `Must be at most ${limit}`,
  exclusiveMinimum: ({ limit }) => `Must be more than ${limit}`,
  exclusiveMaximum: ({ limit }) => `Must be less than ${limit}`,
  multipleOf: ({ limit }) => `Must be a multiple of ${limit}`,
  pattern: patternMessage,
  minLength: ({ limit }) => `Must have at least ${count(limit, 'character')}`,
  maxLength: ({ limit }) => `Must have at most ${count(limit, 'character')}`,
  minItems: ({ limit }) => `Must have at least ${count(limit, 'item')}`,
  maxItems: ({ limit }) => `Must have at most ${count(limit, 'item')}`,
  items: ({ limit }) => `Must have at most ${count(limit, 'item')}`,
  unevaluatedItems: ({ limit }) => `Must have at most ${count(limit, 'item')}`,
  minProperties: ({ limit }) => `Must have at least ${count(limit, 'member')}`,
  maxProperties: ({ limit }) => `Must have at most ${count(limit, 'member')}`,
  uniqueItems: () => 'Must not contain an item twice',
  contains: ({ minContains, maxContains }) => {
    const max = maxContains === undefined ? '' : ` and at most ${maxContains}`
    return `Must contain at least ${minContains}${max} of the required items`
  },
  propertyNames: () => 'Has a name that is not allowed',
  additionalProperties: unknownMessage,
  unevaluatedProperties: unknownMessage,
  'false schema': () => 'Is not allowed',
  not: () => 'Has a value that is not allowed',
}

/** Formats in words; libraries write most of them as an unreadable pattern. */
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

/** `format` is the keyword beside the pattern in the schema. A pattern short enough to show may be more precise. */
function patternMessage({ pattern, format }: Params): string {
  const written = String(pattern)
  if (typeof format !== 'string') return `Must match the pattern ${shorten(written)}`
  const kind = Object.hasOwn(FORMATS, format) ? FORMATS[format] : `of the format ${inJson(format)}`
  return written.length > MAX_VALUE_LENGTH
    ? `Must be ${kind}`
    : `Must be ${kind}, and match the pattern ${written}`
}

/** What a value may be if the keyword lists it: types or values. */
function acceptedValues(keyword: string, params: Params): readonly Accepted[] | undefined {
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

function unknownMessage({ unknownProperty, known }: Params): string {
  if (!Array.isArray(known)) return 'Is not allowed'
  const near = nearestName(String(unknownProperty), known)
  return near === undefined ? 'Is not known here' : `Is not known here (did you mean "${near}"?)`
}

function whenGiven({ property }: Params): string {
  return `Is required if ${inJson(property)} is given`
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
