import { UsageError } from './usage-error.ts'

const UNITS_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const LONGEST_MS = 10 * 366 * UNITS_MS.d

/** A span of time: `30m`, `12h`, `90d`. */
export function readSpanMs(option: string, text: string): number {
  const [, digits = '', unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  const size = Object.entries(UNITS_MS).find(([name]) => name === unit)?.[1]
  const spanMs = Number(digits) * (size ?? Number.NaN)
  if (spanMs <= LONGEST_MS) return spanMs
  throw new UsageError(`--${option} expects a span of time such as 30m, 12h or 90d, got "${text}".`)
}

/** When something ends: a span from now, or a moment with its zone. */
export function readEnd(option: string, text: string, nowMs: number): string {
  const isMoment = /^\d{4}-\d{2}-\d{2}T[\d:.]+(Z|[+-]\d{2}:\d{2})$/.test(text)
  const atMs = isMoment ? Date.parse(text) : nowMs + readSpanMs(option, text)
  if (!Number.isNaN(atMs)) return new Date(atMs).toISOString()
  throw new UsageError(`--${option} expects 90d, or a moment such as 2027-01-31T00:00:00Z; got "${text}".`)
}
