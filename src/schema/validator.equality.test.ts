import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonValue } from '#kernel/base/json'
import { createSchemaValidator } from './validator.ts'

const json: fc.Arbitrary<JsonValue> = fc
  .jsonValue({ maxDepth: 2 })
  .map((value) => JSON.parse(JSON.stringify(value)))
const name = fc.constantFrom('toString', 'valueOf', 'constructor', '__proto__', 'a')
const odd: fc.Arbitrary<JsonValue> = fc
  .array(fc.tuple(name, fc.constantFrom<JsonValue>(null, 1, {}, 'x')), { maxLength: 3 })
  .map((members) => Object.fromEntries(members))
const value = fc.oneof(json, odd)

describe('const, enum and uniqueItems', () => {
  it('OTC/T-18: compare by value, whatever the names of members', () => {
    fc.assert(
      fc.property(value, value, (left, right) => {
        const equal = isDeepStrictEqual(left, right)
        expect(createSchemaValidator({ const: left })(right).length === 0).toBe(equal)
        expect(createSchemaValidator({ enum: ['other', left] })(right).length === 0).toBe(
          equal || right === 'other',
        )
        expect(createSchemaValidator({ uniqueItems: true })([left, right]).length === 0).toBe(!equal)
        expect(createSchemaValidator({ uniqueItems: false })([left, left])).toEqual([])
      }),
      { numRuns: 200 },
    )
  })

  it('check a list of a hundred thousand items without quadratic work', () => {
    const items = Array.from({ length: 100_000 }, (_, index) => ({ index }))
    const started = performance.now()
    expect(createSchemaValidator({ uniqueItems: true })(items)).toEqual([])
    expect(performance.now() - started).toBeLessThan(5_000)
  })
})
