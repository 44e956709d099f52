import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { closestName, didYouMean, editDistance } from './closest-name.ts'

describe('closestName', () => {
  it('finds swapped, missing, extra and wrong letters', () => {
    const known = ['host', 'port', 'publicUrl']
    expect(closestName('prot', known)).toBe('port')
    expect(closestName('pot', known)).toBe('port')
    expect(closestName('portt', known)).toBe('port')
    expect(closestName('publicURL', known)).toBe('publicUrl')
  })

  it('says nothing when no name is near', () => {
    expect(closestName('banana', ['host', 'port'])).toBeUndefined()
    expect(didYouMean('banana', ['host', 'port'])).toBe('')
  })

  it('finds any name after one slip', () => {
    const known = ['tools', 'toolkits', 'server', 'journal', 'telemetry']
    fc.assert(
      fc.property(fc.constantFrom(...known), fc.nat(), (name, seed) => {
        const place = seed % name.length
        expect(closestName(name.slice(0, place) + name.slice(place + 1), known)).toBe(name)
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
