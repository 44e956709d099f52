import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonValue } from '#kernel/base/json'
import { beginningOf, byteLength, shapeValue } from './shape.ts'

const MIN = 200

describe('shapeValue', () => {
  it('returns a value that fits unchanged', () => {
    const value = { a: [1, 2, { b: 'x' }] }
    const shaped = shapeValue(value, 1_000)
    expect(shaped.value).toBe(value)
    expect(shaped.leftOut).toEqual([])
  })

  it('keeps first items, the beginning of texts and small members, and lists the rest as left out', () => {
    const value = {
      total: 5_000,
      items: Array.from({ length: 5_000 }, (_, id) => ({ id, name: `item ${id}` })),
      body: 'word '.repeat(10_000),
    }
    const { value: shaped, json, leftOut } = shapeValue(value, 2_000)
    expect(byteLength(json)).toBeLessThanOrEqual(2_000)
    expect(byteLength(json)).toBeGreaterThan(1_500)
    expect(shaped).toMatchObject({ total: 5_000, items: expect.arrayContaining([value.items[0]]) })
    expect(json).toMatch(/word word .*… \[\d+ of 50000 characters\]/)
    expect(leftOut).toEqual([
      { path: '/items', unit: 'items', kept: expect.any(Number), of: 5_000 },
      { path: '/body', unit: 'characters', kept: expect.any(Number), of: 50_000 },
    ])
  })

  it('names some of the members that were left out of a large object', () => {
    const value = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`m${index}`, index]))
    const { leftOut } = shapeValue(value, MIN)
    const [{ unit, kept, of, names } = { unit: '', kept: 0, of: 0 }] = leftOut
    expect([unit, of]).toEqual(['members', 1_000])
    expect(names?.[0]).toBe(`m${kept}`)
  })

  it('shows only the beginning of base64', () => {
    const { json } = shapeValue({ data: Buffer.alloc(30_000, 7).toString('base64') }, 10_000)
    expect(json.length).toBeLessThan(100)
  })

  it('fits, keeps types and lists every shortened part, for every value', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 6, noUnicodeString: false }),
        fc.integer({ min: MIN, max: 3_000 }),
        (given, maxBytes) => {
          const value: JsonValue = JSON.parse(
            JSON.stringify({ given, list: [given, given], text: 'é😀"\n'.repeat(300) }),
          )
          const { json, value: shaped, leftOut } = shapeValue(value, maxBytes)
          expect(byteLength(json)).toBeLessThanOrEqual(maxBytes)
          expect(kindsAgree(value, shaped)).toBe(true)
          expect(leftOut.length > 0).toBe(JSON.stringify(value) !== json)
          for (const { kept, of } of leftOut) expect(kept).toBeLessThan(of)
        },
      ),
      { numRuns: 300 },
    )
  })

  it('never splits a character', () => {
    for (let bytes = 0; bytes < 40; bytes += 1)
      expect(beginningOf('a😀é€'.repeat(5), bytes).isWellFormed()).toBe(true)
  })

  it('shows a value that is nested thousands of levels deep as empty from some level on', () => {
    const deep: JsonValue = JSON.parse(`${'['.repeat(3_000)}1${']'.repeat(3_000)}`)
    expect(shapeValue(deep, 500).leftOut.length).toBeGreaterThan(0)
  })
})

function kindsAgree(whole: JsonValue | undefined, part: JsonValue): boolean {
  if (Array.isArray(part))
    return Array.isArray(whole) && part.every((item, index) => kindsAgree(whole[index], item))
  if (typeof part === 'object' && part !== null) {
    if (typeof whole !== 'object' || whole === null || Array.isArray(whole)) return false
    return Object.entries(part).every(([name, member]) =>
      kindsAgree(new Map(Object.entries(whole)).get(name), member),
    )
  }
  return typeof whole === typeof part
}
