import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { withoutPatterns } from './loosen.ts'
import { compileLinear, findHardPatterns } from './patterns.ts'
import { createSchemaValidator } from './validator.ts'

describe('patterns of imported schemas', () => {
  it.each([
    ['^\\s+$', ' \u00a0\ufeff'],
    ['^\\S+$', 'a\u200b'],
    ['^[^\\s]$', 'a'],
    ['^[\\w-]+$', 'a-b'],
    ['^\\u{1F600}$', '\u{1F600}'],
    ['^\\p{L}+$', 'äöü'],
    ['^(?<y>\\d{4})$', '2026'],
    ['^\\/a$', '/a'],
    ['^.$', '\u{1F600}'],
  ])('%s matches as in ECMA-262', (pattern, text) => {
    const compiled = compileLinear(pattern)
    const native = new RegExp(pattern, 'u')
    for (const tried of [text, `${text}\n`, `x${text}`, '', ' ', '\u00a0', 'a']) {
      expect([pattern, tried, compiled.ok && compiled.test(tried)]).toEqual([
        pattern,
        tried,
        native.test(tried),
      ])
    }
  })

  it.each(['(?=a)b', '(a)\\1', '(?<!a)b', '^.{1,4000}$', '[', 'a'.repeat(5_000)])(
    '%s is not run, and has a reason',
    (pattern) => {
      expect(compileLinear(pattern)).toMatchObject({ ok: false, problem: expect.stringMatching(/.+/) })
    },
  )

  it('accepts every value that the schema with its patterns accepts', () => {
    const hard = '^(?=x)x'
    const { schema } = fc.letrec<{ schema: JsonObject }>((tie) => ({
      schema: fc.oneof(
        { maxDepth: 3 },
        fc.constantFrom<JsonObject>(
          { pattern: hard },
          { type: 'string' },
          { pattern: '^x' },
          { const: 'xy' },
        ),
        fc.record({ not: tie('schema') }),
        fc.record({ anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }) }),
        fc.record({ oneOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }) }),
        fc.record({ allOf: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }) }),
        fc.tuple(tie('schema'), tie('schema'), tie('schema')).map(ifThenElse),
        tie('schema').map((inner): JsonObject => ({ ...inner, unevaluatedProperties: false })),
        fc.record({ contains: tie('schema'), maxContains: fc.nat(1) }),
        tie('schema').map((inner): JsonObject => ({ properties: { x: inner }, additionalProperties: false })),
        tie('schema').map(
          (inner): JsonObject => ({
            patternProperties: { [hard]: inner },
            additionalProperties: false,
          }),
        ),
      ),
    }))
    const value: fc.Arbitrary<JsonValue> = fc.oneof(
      fc.constantFrom('x', 'xy', 'y', 1, null),
      fc.array(fc.constantFrom('x', 'y'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('x', 'xz', 'y'), fc.constantFrom('x', 'y')),
    )
    fc.assert(
      fc.property(schema, value, (written, tried) => {
        const original = createSchemaValidator(written)
        const found = new Set(findHardPatterns(written).map(({ pattern }) => pattern))
        const relaxed = createSchemaValidator(withoutPatterns(written, found), { untrusted: true })
        if (original(tried).length === 0) expect(relaxed(tried)).toEqual([])
      }),
      { numRuns: 300 },
    )
  })
})

function ifThenElse([condition, whenTrue, whenFalse]: readonly [
  JsonObject,
  JsonObject,
  JsonObject,
]): JsonObject {
  return Object.fromEntries([
    ['if', condition],
    ['then', whenTrue],
    ['else', whenFalse],
  ])
}
