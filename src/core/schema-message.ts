const MOST_CHOICES = 20
const LONGEST_VALUE = 80

/** What a failed keyword says about itself; never more than the schema's own values. */
export type KeywordParams = Readonly<Record<string, unknown>>

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
export function keywordMessage(keyword: string, params: KeywordParams): string | undefined {
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
  return written.length > LONGEST_VALUE
    ? `Must be ${kind}`
    : `Must be ${kind}, and match the pattern ${written}`
}

/** What a place accepts when the keyword names it outright: types and listed values. */
export function acceptedValues(keyword: string, params: KeywordParams): readonly Accepted[] | undefined {
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

export interface Accepted {
  readonly kind: 'type' | 'value'
  readonly text: string
}

export function mustBe(accepted: readonly Accepted[]): string {
  const types = textsOf(accepted, 'type')
  const values = textsOf(accepted, 'value')
  const [only] = values
  if (values.length === 0) return `Must be ${joinOr(types)}`
  if (values.length === 1 && types.length === 0) return `Must be ${only}`
  const shown = values.slice(0, MOST_CHOICES).join(', ')
  const more = values.length > MOST_CHOICES ? ` and ${values.length - MOST_CHOICES} more` : ''
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
  return text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE)}…` : text
}
