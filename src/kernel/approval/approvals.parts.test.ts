import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { mintLink, readLink } from './decisions.ts'
import { canonicalValue } from './question.ts'

describe('canonicalValue', () => {
  it('rule 21: is equal for equal values, whatever the order of members', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const turned = (found: unknown): unknown =>
          typeof found !== 'object' || found === null
            ? found
            : Array.isArray(found)
              ? found.map(turned)
              : Object.fromEntries(
                  Object.entries(found)
                    .map(([name, member]) => [name, turned(member)])
                    .reverse(),
                )
        expect(canonicalValue(turned(value))).toBe(canonicalValue(value))
      }),
    )
  })

  it('distinguishes values that JSON does not', () => {
    class Money {
      readonly amount = 1
    }
    const different = [
      ...[1, '1', 1n, -0, 0, null, undefined, true, [], {}, [undefined], [null], { a: undefined }],
      ...[new Date(1), new Date(2), new Map([[1, 2]]), new Set([1]), new Money(), { amount: 1 }],
      ...[new Uint8Array([1]), new URL('http://a.b'), Number.NaN, '[1]', [1], { 1: 1 }],
    ]
    expect(new Set(different.map((value) => canonicalValue(value))).size).toBe(different.length)
  })

  it('refuses values that cannot be written as text', () => {
    expect(() => canonicalValue(() => 1)).toThrow()
    const loop: { self?: unknown } = {}
    loop.self = loop
    expect(() => canonicalValue(loop)).toThrow()
  })
})

describe('links', () => {
  const store = openMemoryStore()
  const approval = { tenant: 'acme', id: 'a', expiresAtMs: 5 }

  it('OWP-67: a link is read back as it was made, and a truncated link is refused', () => {
    fc.assert(
      fc.property(fc.string(), fc.constantFrom('decide' as const, 'inspect' as const), (approver, power) => {
        const token = mintLink(store, approval, { approver: approver.toWellFormed(), power })
        expect(readLink(store, token)).toEqual({ ...approval, approver: approver.toWellFormed(), power })
      }),
    )
  })

  it('a link with one changed character, or from another store, is refused', () => {
    const token = mintLink(store, approval, { approver: 'bob', power: 'decide' })
    for (let index = 0; index < token.length; index += 1) {
      const other = token[index] === 'A' ? 'B' : 'A'
      const changed = token.slice(0, index) + other + token.slice(index + 1)
      expect(readLink(store, changed)).toBeUndefined()
    }
    expect(readLink(openMemoryStore(), token)).toBeUndefined()
    for (const odd of ['', '.', 'a.b.c', `${token}=`, `${token} `])
      expect(readLink(store, odd)).toBeUndefined()
  })
})
