import { describe, expect, it } from 'vitest'
import { summaryOf } from './call-rows.ts'

const of = (input: unknown) => summaryOf(JSON.stringify(input))

describe('the summary of an input', () => {
  it('names the members and their values on one line', () => {
    expect(
      of({ to: 'ann@example.com', amount: 500, lines: [1, 2, 3], tags: ['a'], from: { iban: 'DE1' } }),
    ).toBe('to: "ann@example.com", amount: 500, lines: [3 items], tags: ["a"], from: {iban}')
    expect(of('two\nlines')).toBe('"two lines"')
    expect(of({})).toBe('')
    expect(summaryOf(undefined)).toBe(null)
  })
  it('hides values whose names suggest credentials', () => {
    expect(of({ user: 'ann', password: 'hunter2', api_key: 'k', nested: { token: 't' } })).toBe(
      'user: "ann", password: [hidden], api_key: [hidden], nested: {token}',
    )
  })
  it('is short for any input', () => {
    const long = of(
      Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`member${n}`, 'x'.repeat(900)])),
    )
    expect(long?.length).toBeLessThanOrEqual(200)
  })
})
