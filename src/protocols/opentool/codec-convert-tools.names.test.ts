import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { assignNames, legalName } from './codec-convert-tools.ts'
import { isFunctionName } from './codec-document.ts'

function namesOf(...originals: string[]) {
  return assignNames(originals.map((name) => ({ key: name, name })))
}

describe('names of functions', () => {
  it('OTS-84: a long name is shortened and made unique with a hash of the original', () => {
    const [left, right] = ['a'.repeat(65), 'a'.repeat(66)]
    expect(legalName(left)).toMatch(/^a{55}_[0-9a-f]{8}$/)
    expect(legalName(right)).not.toBe(legalName(left))
    expect(legalName('a'.repeat(64))).toBe('a'.repeat(64))
    expect(legalName('😀.é')).toBe('___')
  })

  it('OTS-84: in a collision the name that was already legal is kept, in any order', () => {
    const { nameOf, keyByName } = namesOf('a.b', 'a/b', 'a_b')
    expect(nameOf.get('a_b')).toBe('a_b')
    expect(nameOf.get('a.b')).toMatch(/^a_b_[0-9a-f]{8}$/)
    expect(nameOf.get('a/b')).toMatch(/^a_b_[0-9a-f]{8}$/)
    expect([...nameOf.keys()]).toEqual(['a.b', 'a/b', 'a_b'])
    expect(keyByName.get(nameOf.get('a/b') ?? '')).toBe('a/b')
  })

  it('OTS-84: equal names of different tools are made unique with their keys', () => {
    const { nameOf } = assignNames(['X.Add', 'Y.Add'].map((key) => ({ key, name: 'add' })))
    expect(nameOf.get('X.Add')).toBe('add')
    expect(nameOf.get('Y.Add')).toMatch(/^add_[0-9a-f]{8}$/)
  })

  it('OTS-84: every name is legal, unique and reversible', () => {
    const original = fc.oneof(fc.string(), fc.constantFrom('a.b', 'a_b', 'a b', '', '_', 'x'.repeat(70)))
    fc.assert(
      fc.property(fc.uniqueArray(original, { maxLength: 20 }), (originals) => {
        const { nameOf, keyByName } = namesOf(...originals)
        for (const each of originals) {
          const name = nameOf.get(each) ?? ''
          expect(isFunctionName(name)).toBe(true)
          expect(keyByName.get(name)).toBe(each)
          if (isFunctionName(each)) expect(name).toBe(each)
        }
        expect(keyByName.size).toBe(originals.length)
      }),
    )
  })
})
