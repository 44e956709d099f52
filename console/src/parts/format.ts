import { createStore } from '../store.ts'

/**
 * Formats counts, times, durations, hashes, sizes and causes for people. Used by several pages. Dates and numbers follow the language of the
 * browser; times are in the reader's time zone, or in UTC if that was chosen in Settings (`timeZone`).
 */

const ZONE_KEY = 'collet-time-zone'
const DAY_MS = 86_400_000

/** `local` is the time zone of the reader's computer. */
export type TimeZone = 'local' | 'utc'

export const timeZone = createStore<TimeZone>(readZone())

export function setTimeZone(zone: TimeZone): void {
  try {
    localStorage.setItem(ZONE_KEY, zone)
  } catch {
    // Without storage, the choice lasts until the page is left.
  }
  timeZone.set(zone)
}

function readZone(): TimeZone {
  try {
    return localStorage.getItem(ZONE_KEY) === 'utc' ? 'utc' : 'local'
  } catch {
    return 'local'
  }
}

const formatters = new Map<string, Intl.DateTimeFormat>()

/** A formatter in the language of the browser and the chosen time zone. Tests pass a language. */
export function dateFormat(options: Intl.DateTimeFormatOptions, language?: string): Intl.DateTimeFormat {
  const zone = timeZone.get() === 'utc' ? { timeZone: 'UTC' } : {}
  const key = JSON.stringify([language, zone, options])
  const known = formatters.get(key)
  if (known !== undefined) return known
  const made = new Intl.DateTimeFormat(language, { ...options, ...zone })
  formatters.set(key, made)
  return made
}

const COUNT = new Intl.NumberFormat()
/** One digit after the separator, also for a whole number. */
const TENTHS = new Intl.NumberFormat(undefined, { minimumFractionDigits: 1, maximumFractionDigits: 1 })
const DATE: Intl.DateTimeFormatOptions = { day: 'numeric', month: 'short', year: 'numeric' }
const CLOCK: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit' }

/** `1,284` */
export function formatCount(count: number): string {
  return COUNT.format(count)
}

/** `3 tools`, `1 tool` */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`
}

/** `0.4 ms`, `340 ms`, `1.4 s`, `4 m 16 s`, `3 h 5 m`, `2 d 4 h` */
export function formatDuration(ms: number): string {
  // With these limits, rounding never writes 10.0 ms, 1000 ms, 10.0 s or 60 s.
  if (ms < 0.05) return `<${TENTHS.format(0.1)} ms`
  if (ms < 9.95) return `${TENTHS.format(ms)} ms`
  if (ms < 999.5) return `${Math.round(ms)} ms`
  const seconds = ms / 1000
  if (seconds < 59.5) return `${seconds < 9.95 ? TENTHS.format(seconds) : Math.round(seconds)} s`
  return formatLong(Math.round(seconds))
}

function formatLong(seconds: number): string {
  const units = [
    ['d', 86_400],
    ['h', 3600],
    ['m', 60],
    ['s', 1],
  ] as const
  const first = units.findIndex(([, size]) => seconds >= size)
  let rest = seconds
  const parts = units.slice(first, first + 2).map(([name, size]) => {
    const count = Math.floor(rest / size)
    rest -= count * size
    return count === 0 ? '' : `${count} ${name}`
  })
  return parts.filter((part) => part !== '').join(' ')
}

/** `12:04:31`, `12:04` without seconds, `12:04:31.208` with `withMs`. A time more than a day away gets its date. */
export function formatClock(
  time: Date | string | number,
  { withSeconds = true, withMs = false, now = Date.now(), language }: ClockOptions = {},
): string {
  const date = new Date(time)
  const options: Intl.DateTimeFormatOptions = {
    ...(Math.abs(now - date.getTime()) < DAY_MS ? {} : DATE),
    ...CLOCK,
    ...(withSeconds ? { second: '2-digit' } : {}),
    ...(withMs ? { fractionalSecondDigits: 3 } : {}),
  }
  return dateFormat(options, language).format(date)
}

interface ClockOptions {
  readonly withSeconds?: boolean
  readonly withMs?: boolean
  readonly now?: number
  readonly language?: string
}

/** `12 Feb 2027, 12:04:31 CET`: a time that stands alone. */
export function formatExact(time: Date | string | number): string {
  return dateFormat({ ...DATE, ...CLOCK, second: '2-digit', timeZoneName: 'short' }).format(new Date(time))
}

/** `4 s ago`, `3 h ago`, `94 d ago`, in the largest unit. */
export function formatAgo(time: Date | string | number, now = Date.now()): string {
  const seconds = Math.max(0, Math.round((now - new Date(time).getTime()) / 1000))
  const [largest = 'now'] = seconds === 0 ? [] : (/^\d+ [dhms]/.exec(formatLong(seconds)) ?? [])
  return largest === 'now' ? 'now' : `${largest} ago`
}

/** `12 Feb 2027` */
export function formatDate(time: Date | string | number): string {
  return dateFormat(DATE).format(new Date(time))
}

/** `e41b…07c9`; shorter hashes are returned whole. */
export function shortHash(hash: string): string {
  const bare = hash.replace(/^sha256[:-]/, '')
  return bare.length <= 12 ? bare : `${bare.slice(0, 4)}…${bare.slice(-4)}`
}

/** `4.2 kB` */
export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`
  const [size, unit] = bytes < 1_000_000 ? [bytes / 1000, 'kB'] : [bytes / 1_000_000, 'MB']
  return `${size < 10 ? TENTHS.format(size) : Math.round(size)} ${unit}`
}

/** Labels of error codes; other codes are shown unchanged. */
const CAUSES: Readonly<Record<string, string>> = {
  tool_not_found: 'unknown tool',
  input_invalid: 'invalid input',
  requirement_missing: 'missing credential',
  not_authorized: 'not allowed',
  budget_exceeded: 'budget used up',
  rate_limited: 'rate limit',
  overloaded: 'overloaded',
  not_ready: 'not ready',
  key_conflict: 'call ID already used',
  approval_rejected: 'approval rejected',
}

/** The cause that an error code stands for. */
export function causeOf(code: string): string {
  return CAUSES[code] ?? code
}
