import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { didYouMean, editDistance, nearestName } from './nearest-name.ts'

const KNOWN = ['safetyTier', 'replay', 'timeoutMs', 'scopes']

describe('nearestName', () => {
  it('finds typing errors, wrong case and wrong word separators', () => {
    expect(nearestName('safteyTier', KNOWN)).toBe('safetyTier')
    expect(nearestName('timeout_ms', KNOWN)).toBe('timeoutMs')
    expect(nearestName('Scope', KNOWN)).toBe('scopes')
    expect(nearestName('nmae', ['id', 'name'])).toBe('name')
  })

  it('suggests nothing if no name is similar, or for a very long name', () => {
    expect(nearestName('colour', KNOWN)).toBeUndefined()
    expect(nearestName('z', ['a', 'b'])).toBeUndefined()
    expect(nearestName('', KNOWN)).toBeUndefined()
    expect(nearestName('x'.repeat(100_000), KNOWN)).toBeUndefined()
    expect(didYouMean('colour', KNOWN)).toBe('')
    expect(didYouMean('replya', KNOWN)).toBe(' Did you mean "replay"?')
  })
})

describe('nearestName after one typing error', () => {
  it('finds any name', () => {
    const known = ['tools', 'toolkits', 'server', 'journal', 'telemetry']
    fc.assert(
      fc.property(fc.constantFrom(...known), fc.nat(), (name, seed) => {
        const index = seed % name.length
        expect(nearestName(name.slice(0, index) + name.slice(index + 1), known)).toBe(name)
      }),
    )
  })
})

describe('editDistance', () => {
  it('is symmetric, and zero only for equal texts', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 8 }), fc.string({ maxLength: 8 }), (left, right) => {
        expect(editDistance(left, right)).toBe(editDistance(right, left))
        expect(editDistance(left, right) === 0).toBe(left === right)
      }),
    )
  })
})
