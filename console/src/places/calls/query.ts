import { quoted } from '../../app/commands.ts'
import type { TimeRange } from '../../parts/charts/time-range.ts'

/*
 * Reads the query bar: its words become filters of the admin API and options of the command line. Used by several pages. Invalid
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

/** Compared call by call on the server, in any time range for an id, and not followed live. */
const SEARCH_NAMES = ['id', 'run', 'session', 'user', 'trace', 'protocol', 'parent', 'code', 'error'] as const
const FILTER_NAMES = [
  ...(['state', 'tool', 'principal', 'tenant', 'slow', 'quick', 'since', 'until'] as const),
  ...SEARCH_NAMES,
] as const

const STATES = ['running', 'parked', 'succeeded', 'failed', 'released', 'ambiguous'] as const
export type CallStateName = (typeof STATES)[number]

/** Rejected requests are counted and sampled, not recorded as calls, so they have a separate list. */
export const REJECTED = 'rejected'

const STATE_WORDS: readonly string[] = ['error', ...STATES, REJECTED]

/** Reads a query. Invalid words are kept and shown with their error. */
export function readQuery(text: string): CallQuery {
  const filters: Partial<Record<FilterName, string>> = {}
  const tokens = splitWords(text).map((word) => readToken(finished(word), filters))
  return { tokens, filters }
}

/** Words are separated by spaces, unless they are in quotes: `error:"no such label"`. */
export function splitWords(text: string): readonly string[] {
  return text.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? []
}

/** Whether the quotes of a word that is being typed are not closed yet. */
export function isQuoteOpen(word: string): boolean {
  return (word.split('"').length - 1) % 2 === 1
}

/** A word of the query bar for a filter, in quotes if the value needs them. */
export function tokenText(key: string, value: string): string {
  return /[\s"]/.test(value) ? `${key}:"${value.replaceAll('"', '')}"` : `${key}:${value}`
}

/** Completes a word: without a key, an id finds the calls that it belongs to, and other text matches part of a tool's name. */
export function finished(word: string): string {
  const bare = word.trim()
  if (bare === '' || /^[a-z]+:/.test(bare)) return bare
  if (looksLikeId(bare)) return `id:${bare}`
  return `tool:${bare.includes('*') ? bare : `*${bare}*`}`
}

/** Ids have digits and dashes, or are long; names of tools have dots and are not. */
function looksLikeId(word: string): boolean {
  if (/[.*]/.test(word)) return false
  return /^run_/.test(word) || word.length >= 20 || (/\d/.test(word) && word.includes('-'))
}

/** Whether the server compares calls one by one, which it does not do for a stream. */
export function isSearch(filters: Filters): boolean {
  return SEARCH_NAMES.some((name) => filters[name] !== undefined)
}

/** The filters of a page: the range counts unless the query names times, or an id, which is found at any time. */
export function withRange(filters: Filters, range: TimeRange): Filters {
  if (filters.since !== undefined || filters.until !== undefined || filters.id !== undefined) return filters
  if ('last' in range) return { ...filters, since: range.last }
  const { sinceMs, untilMs } = range
  return { ...filters, since: new Date(sinceMs).toISOString(), until: new Date(untilMs).toISOString() }
}

function readToken(text: string, filters: Partial<Record<FilterName, string>>): Token {
  const colon = text.indexOf(':')
  const [key, value] = [text.slice(0, colon), text.slice(colon + 1).replaceAll('"', '')]
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
  [
    'id',
    {
      example: 'refund-1042',
      about: 'Any id: call, run, session, trace, user, approval',
      read: anyText('id'),
    },
  ],
  ['error', { example: '"not found"', about: 'Error message', read: anyText('error') }],
  ['code', { example: 'tool_failed', about: 'Error code', read: anyText('code') }],
  ['user', { example: 'ann', about: 'User', read: anyText('user') }],
  ['run', { example: 'order-1042', about: 'Run', read: anyText('run') }],
  ['session', { example: 'ses_4f1c', about: 'Session', read: anyText('session') }],
  ['trace', { example: '4bf92f…', about: 'Trace', read: anyText('trace') }],
  ['protocol', { example: 'mcp', about: 'Protocol', read: anyText('protocol') }],
  ['parent', { example: 'RECORD', about: 'Steps of a workflow', read: anyText('parent') }],
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
export function commandOf(filters: Filters, isLive: boolean, command = 'collet calls'): string {
  const options = FILTER_NAMES.flatMap((name) => {
    const value = filters[name]
    return value === undefined ? [] : [`--${name} ${quoted(value)}`]
  })
  // A past range has no new calls to follow, and rejected requests are only listed.
  const follows = isLive && filters.until === undefined && filters.state !== REJECTED && !isSearch(filters)
  return [command, ...options, ...(follows ? ['--follow'] : [])].join(' ')
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
    return [
      ...anywhere(word),
      ...[...KEYS]
        .filter(([key]) => key.startsWith(word.toLowerCase()))
        .map(([key, { example, about }]) => ({ text: `${key}:`, about: `${about}, like ${key}:${example}` })),
    ]
  const [key, value] = [word.slice(0, colon), word.slice(colon + 1).toLowerCase()]
  const values = valuesOf(key, known.tools)
  return values
    .filter(({ text }) => text.toLowerCase().includes(value))
    .slice(0, MAX_SUGGESTIONS)
    .map(({ text, about }) => ({ text: `${key}:${text}`, about }))
}

const MIN_ANYWHERE = 3

/** What a text without a key may be. */
function anywhere(word: string): readonly Suggestion[] {
  if (word.length < MIN_ANYWHERE || [...KEYS.keys()].some((key) => key.startsWith(word.toLowerCase())))
    return []
  return [
    { text: finished(`tool:*${word}*`), about: 'In the name of the tool' },
    { text: tokenText('id', word), about: 'Id of a call, run, session, trace, user …' },
    { text: tokenText('error', word), about: 'In the error message' },
  ]
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

const PROTOCOLS = ['mcp', 'otc', 'openwop', 'opentool', 'embedded'] as const
const CODES = [
  'tool_failed',
  'tool_timeout',
  'cancelled',
  'output_invalid',
  'result_too_large',
  'session_lost',
] as const

function valuesOf(key: string, tools: readonly string[]): readonly Suggestion[] {
  if (key === 'status') return STATE_WORDS.map((text) => ({ text, about: STATE_ABOUT[text] ?? '' }))
  if (key === 'since' || key === 'until')
    return ['5m', '30m', '1h', '12h', '7d'].map((text) => ({ text, about: `${spanOf({ since: text })} ago` }))
  if (key === 'protocol') return PROTOCOLS.map((text) => ({ text, about: '' }))
  if (key === 'code') return CODES.map((text) => ({ text, about: '' }))
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
