import { describe, expect, it } from 'vitest'
import { backoffMs, retryAdvice, withJitter } from './retries.ts'

const NOW = Date.parse('2025-03-17T12:00:00Z')

function advice(status: number, headers: Record<string, string> = {}, dedupes = true) {
  return retryAdvice({ status, headers: new Headers(headers), body: {} }, dedupes, NOW)
}

describe('retryAdvice', () => {
  it.each([
    [200, false],
    [400, false],
    [401, false],
    [404, false],
    [408, true],
    [409, false],
    [422, false],
    [429, true],
    [500, true],
    [503, true],
  ])('OTC/T-07: status %i is resent: %s', (status, resend) => {
    expect(advice(status).resend).toBe(resend)
  })

  it('C-24: x-should-retry overrides the status', () => {
    expect(advice(400, { 'x-should-retry': 'true' }).resend).toBe(true)
    expect(advice(503, { 'x-should-retry': 'false' }).resend).toBe(false)
    expect(advice(200, { 'x-should-retry': 'true' }).resend).toBe(false)
  })

  it.each([
    ['2', 2_000],
    ['0', 0],
    ['0.5', 500],
    ['-3', 0],
    ['Mon, 17 Mar 2025 12:00:30 GMT', 30_000],
    ['Mon, 17 Mar 2025 11:00:00 GMT', 0],
    ['soon', undefined],
    ['', undefined],
  ])('Retry-After %j asks for %s ms', (header, afterMs) => {
    expect(advice(503, { 'retry-after': header }).afterMs).toBe(afterMs)
  })

  it('returns a wait of over a minute to the caller', () => {
    expect(advice(429, { 'retry-after': '61' })).toEqual({ resend: false, refused: true, afterMs: 61_000 })
  })

  it('a server that ignores call ids gets a retry only after it refused', () => {
    expect(advice(503, {}, false).resend).toBe(false)
    expect(advice(408, {}, false).resend).toBe(false)
    expect(advice(429, {}, false).resend).toBe(true)
    expect(advice(400, { 'x-should-retry': 'true' }, false).resend).toBe(true)
  })

  it('C-27: a call that waits for a person is never resent', () => {
    const headers = new Headers({ 'x-should-retry': 'true' })
    const body = { missing_requirements: { user_id: true } }
    expect(retryAdvice({ status: 400, headers, body }, true, NOW).resend).toBe(false)
  })
})

describe('waits', () => {
  it('OTC/T-06: 500 ms, doubling, at most a minute', () => {
    expect([0, 1, 2, 20].map(backoffMs)).toEqual([500, 1_000, 2_000, 60_000])
  })

  it('OTC-95: jitter never shortens a wait', () => {
    expect(withJitter(500, () => 0)).toBe(500)
    expect(withJitter(500, () => 0.999)).toBeLessThanOrEqual(625)
  })
})
