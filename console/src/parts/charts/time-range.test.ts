import { describe, expect, it } from 'vitest'
import { boundsOf, fixedRange, readRange, writeRange } from './time-range.ts'

describe('a time range in the address', () => {
  it.each(['1h', '24h', '7d', '30d', '90m', '2026-01-31T10:00:00.000Z..2026-01-31T11:00:00.000Z'])(
    'is written as it was read: %s',
    (text) => {
      const range = readRange(text)
      expect(range && writeRange(range)).toBe(text)
    },
  )

  it.each(['', '0h', 'h', '24', '5y', '..', '2026-01-31T11:00:00Z..2026-01-31T10:00:00Z', 'x..y'])(
    'is not a range: "%s"',
    (text) => {
      expect(readRange(text)).toBeUndefined()
    },
  )

  it('ends now, or at a fixed time', () => {
    const nowMs = Date.parse('2026-02-01T00:00:00Z')
    const day = readRange('24h')
    expect(day && boundsOf(day, nowMs)).toEqual({ sinceMs: nowMs - 86_400_000, untilMs: nowMs })
    const fixed = fixedRange(1_000, 2_000)
    expect(fixed && boundsOf(fixed, nowMs)).toEqual({ sinceMs: 1_000, untilMs: 2_000 })
  })
})
