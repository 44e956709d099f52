import { quoted } from '../../app/commands.ts'

/*
 * Reads the query bar: words become filters of the admin API and options of the command line. Several pages use it. Invalid
 * words are kept with their error.
 */

/** A word of the query bar: `status:error`, `tool:Gmail.*`, `duration:>500ms`, `since:30m`. */
export interface Token {
  readonly text: string
  readonly key: string
  readonly value: string
  /** What is wrong with the token, and what would be valid. An invalid token is ignored. */
  readonly problem?: string
}

/** The meaning of a query: filters of the admin API, and options of the command line. */
export interface CallQuery {
  readonly tokens: readonly Token[]
  /** `since` and `until` may be relative; `paramsOf` makes them absolute. */
  readonly filters: Filters
}

export type Filters = Readonly<Partial<Record<FilterName, string>>>
type FilterName = (typeof FILTER_NAMES)[number]

const FILTER_NAMES = ['state', 'tool', 'principal', 'tenant', 'slow', 'quick', 'since', 'until'] as const

const STATES = ['running', 'parked', 'succeeded', 'failed', 'released', 'ambiguous'] as const
export type CallStateName = (typeof STATES)[number]

/** Rejected requests are counted and sampled, not recorded as calls, so they have a separate list. */
export const REJECTED = 'rejected'

const STATE_WORDS: readonly string[] = ['error', ...STATES, REJECTED]

/** Reads a query. Invalid words are kept and shown with their error. */
export function readQuery(text: string): CallQuery {
  const filters: Partial<Record<FilterName, string>> = {}
  const tokens = text
    .split(/\s+/)
    .filter((word) => word !== '')
    .map((word) => readToken(finished(word), filters))
  return { tokens, filters }
}

/** Completes a word: without a key, it matches part of a tool's name. */
export function finished(word: string): string {
  const bare = word.trim()
  return bare === '' || bare.includes(':') ? bare : `tool:${bare.includes('*') ? bare : `*${bare}*`}`
}

function readToken(text: string, filters: Partial<Record<FilterName, string>>): Token {
  const colon = text.indexOf(':')
  const [key, value] = [text.slice(0, colon), text.slice(colon + 1)]
  const reader = KEYS.get(key)
  if (reader === undefined) return { text, key, value, problem: unknownKey(key) }
  if (value === '') return { text, key, value, problem: `Write ${reader.example} after ${key}.` }
  const read = reader.read(value)
  if (typeof read === 'string') return { text, key, value, problem: read }
  const [[name, filter]] = read
  if (filters[name] !== undefined) return { text, key, value, problem: `${key} is set twice. Remove one.` }
  filters[name] = filter
  return { text, key, value }
}

function unknownKey(key: string): string {
  const near = [...KEYS.keys()].find((known) => known.startsWith(key.slice(0, 2)))
  const hint = near === undefined ? `Use ${[...KEYS.keys()].join(', ')}.` : `Did you mean ${near}?`
  return `Unknown filter "${key}". ${hint}`
}

interface KeyReader {
  readonly example: string
  readonly about: string
  /** Returns the filter for a value, or an error message. */
  read(value: string): readonly [readonly [FilterName, string]] | string
}

const anyText = (name: FilterName) => (value: string) => [[name, value]] as const

const KEYS: ReadonlyMap<string, KeyReader> = new Map<string, KeyReader>([
  ['status', { example: 'error', about: 'State', read: readStates }],
  ['tool', { example: 'Gmail.*', about: 'Name or pattern', read: anyText('tool') }],
  ['principal', { example: 'key:alice', about: 'Caller', read: anyText('principal') }],
  ['duration', { example: '>500ms', about: 'Run time', read: readDuration }],
  ['since', { example: '30m', about: 'From', read: (value) => readTime('since', value) }],
  ['until', { example: '5m', about: 'Until', read: (value) => readTime('until', value) }],
  ['tenant', { example: 'acme', about: 'Tenant', read: anyText('tenant') }],
])

function readStates(value: string): readonly [readonly ['state', string]] | string {
  const unknown = value.split(',').find((word) => !STATE_WORDS.includes(word))
  return unknown === undefined
    ? [['state', value]]
    : `Unknown status "${unknown}". Use ${STATE_WORDS.join(', ')}, or several with commas.`
}

const DURATION_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000 }

/** Milliseconds are integers, so "more than" is "at least one more". */
function readDuration(value: string): readonly [readonly [FilterName, string]] | string {
  const [, sign = '>', number = '', unit = 'ms'] =
    /^(>=|<=|>|<)?(\d{1,9}(?:\.\d{1,3})?)(ms|s|m)?$/.exec(value) ?? []
  if (number === '') return 'Expected a duration: >500ms, <2s or >=1m.'
  const ms = Number(number) * (DURATION_MS[unit] ?? 1)
  if (sign === '>=') return [['slow', String(Math.ceil(ms))]]
  if (sign === '>') return [['slow', String(Math.floor(ms) + 1)]]
  return [['quick', String(sign === '<' ? Math.ceil(ms) : Math.floor(ms) + 1)]]
}

const AGO = /^(\d{1,6})([smhd])$/
const AGO_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

function readTime(name: 'since' | 'until', value: string): readonly [readonly [FilterName, string]] | string {
  const isTime = AGO.test(value) || (/^\d{4}-\d{2}-\d{2}/.test(value) && Number.isFinite(Date.parse(value)))
  return isTime ? [[name, value]] : 'Expected an age (30m, 12h, 7d) or a time (2026-01-31T10:00Z).'
}

/** The query parameters of a request to the admin API, at this moment. */
export function paramsOf(filters: Filters, more: Readonly<Record<string, string>> = {}): URLSearchParams {
  const params = new URLSearchParams(more)
  for (const name of FILTER_NAMES) {
    const value = filters[name]
    if (value === undefined) continue
    params.set(name, name === 'since' || name === 'until' ? new Date(timeOf(value)).toISOString() : value)
  }
  return params
}

function timeOf(value: string): number {
  const [, amount, unit = ''] = AGO.exec(value) ?? []
  return amount === undefined ? Date.parse(value) : Date.now() - Number(amount) * (AGO_MS[unit] ?? 0)
}

/** `30 minutes`, for a relative time. */
export function spanOf({ since = '30m', until }: Filters): string {
  const [, amount = '', unit = ''] = AGO.exec(since) ?? []
  const word = { s: 'second', m: 'minute', h: 'hour', d: 'day' }[unit]
  if (word === undefined || until !== undefined) return 'this period'
  return amount === '1' ? `1 ${word}` : `${amount} ${word}s`
}

/** The query as a command. */
export function commandOf(filters: Filters, isLive: boolean): string {
  const options = FILTER_NAMES.flatMap((name) => {
    const value = filters[name]
    return value === undefined ? [] : [`--${name} ${quoted(value)}`]
  })
  // A past range has no new calls to follow, and rejected requests are only listed.
  const follows = isLive && filters.until === undefined && filters.state !== REJECTED
  return ['collet calls', ...options, ...(follows ? ['--follow'] : [])].join(' ')
}

/** The command that shows one call. */
export function showCommand(record: string): string {
  return `collet calls show ${quoted(record)}`
}

interface Suggestion {
  readonly text: string
  readonly about: string
}

/** Suggestions: keys, or values of the key that is being typed. */
export function suggestionsFor(
  word: string,
  known: { readonly tools: readonly string[] },
): readonly Suggestion[] {
  const colon = word.indexOf(':')
  if (colon === -1)
    return [...KEYS]
      .filter(([key]) => key.startsWith(word.toLowerCase()))
      .map(([key, { example, about }]) => ({ text: `${key}:`, about: `${about}, like ${key}:${example}` }))
  const [key, value] = [word.slice(0, colon), word.slice(colon + 1).toLowerCase()]
  const values = valuesOf(key, known.tools)
  return values
    .filter(({ text }) => text.toLowerCase().includes(value))
    .slice(0, MAX_SUGGESTIONS)
    .map(({ text, about }) => ({ text: `${key}:${text}`, about }))
}

const MAX_SUGGESTIONS = 8

const STATE_ABOUT: Readonly<Record<string, string>> = {
  error: 'Failed, released or ambiguous',
  running: 'Still running',
  parked: 'Waiting for a person',
  succeeded: 'Returned a value',
  failed: 'Returned an error',
  released: 'No effect; can be retried',
  ambiguous: 'Outcome unknown',
  rejected: 'Rejected before it became a call',
}

function valuesOf(key: string, tools: readonly string[]): readonly Suggestion[] {
  if (key === 'status') return STATE_WORDS.map((text) => ({ text, about: STATE_ABOUT[text] ?? '' }))
  if (key === 'since' || key === 'until')
    return ['5m', '30m', '1h', '12h', '7d'].map((text) => ({ text, about: `${spanOf({ since: text })} ago` }))
  if (key === 'duration')
    return ['>500ms', '>2s', '>1m', '<10ms'].map((text) => ({
      text,
      about: text.startsWith('>') ? 'Slower' : 'Faster',
    }))
  if (key !== 'tool') return []
  const kits = new Set(tools.map((tool) => tool.replace(/[^.]*$/, '')).filter((kit) => kit !== ''))
  return [
    ...[...kits].map((kit) => ({ text: `${kit}*`, about: 'All its tools' })),
    ...tools.map((tool) => ({ text: tool, about: '' })),
  ]
}
