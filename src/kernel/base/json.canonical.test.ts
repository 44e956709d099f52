import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonValue } from './json.ts'
import { canonicalJson } from './json.ts'

const json: fc.Arbitrary<JsonValue> = fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)))

function reversed(value: JsonValue): JsonValue {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(reversed)
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([name, member]) => [name, reversed(member)]),
  )
}

describe('canonicalJson', () => {
  it('returns one text for any order of members', () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(canonicalJson(reversed(value))).toBe(canonicalJson(value))
      }),
    )
  })

  it('returns equal texts exactly for equal values', () => {
    fc.assert(
      fc.property(json, json, (left, right) => {
        expect(canonicalJson(left) === canonicalJson(right)).toBe(isDeepStrictEqual(left, right))
        expect(JSON.parse(canonicalJson(left))).toEqual(left)
      }),
    )
  })

  it('sorts by UTF-16 code unit and writes numbers as ECMAScript does (RFC 8785)', () => {
    const value = JSON.parse(
      '{"\\u20ac":1,"\\r":2,"\\ufb33":3,"1":4,"\\ud83d\\ude00":5,"\\u0080":6,"\\u00f6":7}',
    )
    const text = canonicalJson(value)
    expect(Object.values(JSON.parse(text))).toHaveLength(7)
    expect([...text.matchAll(/:([0-9])/g)].map(([, digit]) => digit).join('')).toBe('2467153')
    expect(canonicalJson([1e21, 0.1, -0, 333333333.3333333])).toBe('[1e+21,0.1,0,333333333.3333333]')
  })

  it('treats `__proto__` and `constructor` as ordinary names', () => {
    expect(canonicalJson(JSON.parse('{"constructor":1,"__proto__":{"b":1,"a":2}}'))).toBe(
      '{"__proto__":{"a":2,"b":1},"constructor":1}',
    )
  })
})
