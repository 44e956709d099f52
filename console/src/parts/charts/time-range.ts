import { dateFormat } from '../format.ts'

/*
 * Time ranges: how they are written in the address, and which moments they cover. The range picker and every page with a range
 * use it. A range either ends now (`24h`) or is fixed (`2026-01-31T10:00:00.000Z..2026-01-31T11:00:00.000Z`).
 */

export type TimeRange = RecentRange | FixedRange

/** A range that ends now. */
interface RecentRange {
  readonly last: string
  readonly lengthMs: number
}

interface FixedRange {
  readonly sinceMs: number
  readonly untilMs: number
}

const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 }
const RECENT = /^([1-9]\d{0,4})([mhd])$/

/** Ranges that the picker offers. */
export const PRESETS = ['1h', '24h', '7d', '30d'] as const

/** Reads a range; `undefined` if the text is not a range. */
export function readRange(text: string): TimeRange | undefined {
  const [, amount, unit = ''] = RECENT.exec(text) ?? []
  if (amount !== undefined) return { last: text, lengthMs: Number(amount) * (UNIT_MS[unit] ?? 0) }
  const [since = '', until = ''] = text.split('..')
  return fixedRange(Date.parse(since), Date.parse(until))
}

/** `undefined` if the end is not after the start. */
export function fixedRange(sinceMs: number, untilMs: number): TimeRange | undefined {
  return sinceMs < untilMs ? { sinceMs, untilMs } : undefined
}

export function writeRange(range: TimeRange): string {
  if ('last' in range) return range.last
  return `${new Date(range.sinceMs).toISOString()}..${new Date(range.untilMs).toISOString()}`
}

/** The moments that a range covers at this time. */
export function boundsOf(range: TimeRange, nowMs = Date.now()): FixedRange {
  return 'last' in range ? { sinceMs: nowMs - range.lengthMs, untilMs: nowMs } : range
}

const MINUTE_MS = 60_000

/** The value of an `<input type="datetime-local">`, in the reader's time zone. */
export function toLocalInput(ms: number): string {
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * MINUTE_MS)
  return local.toISOString().slice(0, 16)
}

const CLOCK: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit' }
const SHORT_DAY: Intl.DateTimeFormatOptions = { day: 'numeric', month: 'short' }

/** `19 Nov, 12:00 – 13:00`, in the reader's language and time zone. */
export function formatRange({ sinceMs, untilMs }: FixedRange): string {
  return dateFormat({ ...SHORT_DAY, ...CLOCK }).formatRange(sinceMs, untilMs)
}

const DAY_MS = 86_400_000

/** The label of a tick on a time axis whose ticks are `stepMs` apart. */
export function formatTick(ms: number, stepMs: number): string {
  if (stepMs >= DAY_MS) return dateFormat(SHORT_DAY).format(ms)
  const isMidnight =
    dateFormat({ hour: 'numeric', minute: 'numeric', hourCycle: 'h23' }, 'en').format(ms) === '00:00'
  return dateFormat(isMidnight ? SHORT_DAY : CLOCK).format(ms)
}
