import { describe, expect, it } from 'vitest'
import {
  countOf,
  formatBytes,
  formatClock,
  formatCount,
  formatDuration,
  formatExact,
  setTimeZone,
  shortHash,
} from './format.ts'

describe('formatting', () => {
  it.each([
    [0, '<0.1 ms'],
    [0.04, '<0.1 ms'],
    [0.41, '0.4 ms'],
    [340.4, '340 ms'],
    [1400, '1.4 s'],
    [999.7, '1.0 s'],
    [9960, '10 s'],
    [59_400, '59 s'],
    [59_900, '1 m'],
    [256_000, '4 m 16 s'],
    [11_100_000, '3 h 5 m'],
    [187_200_000, '2 d 4 h'],
  ])('writes %d ms as %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text)
  })

  it('writes a time within a day as a clock, and any other with its date', () => {
    const at = new Date(2026, 10, 16, 12, 4, 31, 208)
    expect(formatClock(at, { now: at.getTime() + 1000, language: 'en-GB' })).toBe('12:04:31')
    expect(formatClock(at, { now: at.getTime() + 1000, withMs: true, language: 'en-GB' })).toBe(
      '12:04:31.208',
    )
    expect(formatClock(at, { now: at.getTime() + 90_000_000, language: 'en-GB' })).toBe(
      '16 Nov 2026, 12:04:31',
    )
    expect(formatClock(at, { now: at.getTime() + 90_000_000, language: 'de' })).toBe(
      '16. Nov. 2026, 12:04:31',
    )
    expect(formatClock(at, { now: at.getTime(), language: 'en-US' })).toMatch(/^12:04:31\sPM$/)
  })

  it('writes times in UTC if that was chosen', () => {
    const at = new Date('2026-11-16T23:59:00Z')
    setTimeZone('utc')
    try {
      expect(formatClock(at, { now: 0, language: 'en-GB' })).toBe('16 Nov 2026, 23:59:00')
      expect(formatExact(at)).toContain('UTC')
    } finally {
      setTimeZone('local')
    }
  })

  it('writes counts with commas, and one item in the singular', () => {
    expect(formatCount(1284)).toBe('1,284')
    expect([countOf(1, 'tool'), countOf(2, 'tool'), countOf(0, 'reply', 'replies')]).toEqual([
      '1 tool',
      '2 tools',
      '0 replies',
    ])
  })

  it('shortens long hashes in the middle', () => {
    expect(shortHash('sha256:e41b5a0cfe2a9907c907c9')).toBe('e41b…07c9')
    expect(shortHash('e41b5a0c')).toBe('e41b5a0c')
  })

  it.each([
    [999, '999 B'],
    [4210, '4.2 kB'],
    [64_000, '64 kB'],
    [1_500_000, '1.5 MB'],
  ])('writes %d bytes as %s', (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text)
  })
})
