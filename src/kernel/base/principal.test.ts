import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { coversScope } from './principal.ts'

const segment = fc.constantFrom('a', 'b', 'c')
const patternSegment = fc.constantFrom('a', 'b', '*')
const join = (segments: string[]) => segments.join(':')
const concrete = fc.array(segment, { minLength: 1, maxLength: 4 }).map(join)
const pattern = fc.array(patternSegment, { minLength: 1, maxLength: 4 }).map(join)

describe('coversScope', () => {
  it.each([
    ['mail:read', 'mail:read', true],
    ['mail:read', 'mail:write', false],
    ['mail:*', 'mail:read', true],
    ['mail:*', 'mail:read:all', true],
    ['mail:*', 'mail', false],
    ['mail:*', 'mailbox:read', false],
    ['*:read', 'mail:read', true],
    ['*:read', 'mail:box:read', false],
    ['fs:*:read', 'fs:home:read', true],
    ['fs:*:read', 'fs:home:write', false],
    ['*', 'anything:at:all', true],
    ['', 'a', false],
  ])('OWP-61: %s covers %s: %s', (granted, needed, expected) => {
    expect(coversScope([granted], needed)).toBe(expected)
  })

  it('OWP-61: any of several scopes is enough, and an empty list covers nothing', () => {
    expect(coversScope(['x:y', 'mail:*'], 'mail:read')).toBe(true)
    expect(coversScope([], 'mail:read')).toBe(false)
  })

  it('a scope that covers a pattern covers everything that the pattern covers, so a grant never exceeds its grantor', () => {
    fc.assert(
      fc.property(fc.array(pattern, { maxLength: 3 }), pattern, concrete, (held, given, scope) => {
        fc.pre(coversScope(held, given) && coversScope([given], scope))
        expect(coversScope(held, scope)).toBe(true)
      }),
      { numRuns: 2_000 },
    )
  })
})
