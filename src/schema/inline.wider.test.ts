import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { inlineSchema } from './inline.ts'
import { loosenSchema } from './loosen.ts'

const NAMES = ['a', 'b', 'c']

const { schema: schemas } = fc.letrec<{ schema: JsonObject }>((tie) => {
  const inner = tie('schema')
  const leaf = fc.constantFrom<JsonObject>(
    { type: 'string' },
    { type: 'integer' },
    { const: 1 },
    { minimum: 1 },
    { maxLength: 1 },
    { required: ['a'] },
    {},
  )
  const reference = fc.constantFrom(...NAMES).map((name): JsonObject => ({ $ref: `#/$defs/${name}` }))
  const list = fc.array(inner, { minLength: 1, maxLength: 3 })
  return {
    schema: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      leaf,
      reference,
      list.map((oneOf): JsonObject => ({ oneOf })),
      fc.tuple(list, list).map(([oneOf, anyOf]): JsonObject => ({ oneOf, anyOf })),
      list.map((allOf): JsonObject => ({ allOf, unevaluatedProperties: false })),
      inner.map((not): JsonObject => ({ not })),
      fc
        .tuple(inner, inner, inner)
        .map(
          ([test, yes, no]): JsonObject =>
            JSON.parse(
              `{"if":${JSON.stringify(test)},"then":${JSON.stringify(yes)},"else":${JSON.stringify(no)}}`,
            ),
        ),
      inner.map((contains): JsonObject => ({ contains, maxContains: 1 })),
      inner.map((items): JsonObject => ({ items })),
      fc
        .tuple(inner, inner)
        .map(([a, b]): JsonObject => ({ properties: { a, b }, additionalProperties: false })),
    ),
  }
})

const values = fc
  .json({ maxDepth: 2, noUnicodeString: true })
  .map((text): JsonValue => JSON.parse(text))
  .chain((value) =>
    fc.constantFrom<JsonValue>(value, 'x', 'xy', 0, 1, [1], [1, 1], ['x', 1], {}, { a: 1 }, { a: 'x', b: 1 }),
  )

function accepts(schema: JsonObject): (value: JsonValue) => boolean {
  return new Ajv2020({ strict: false, logger: false, meta: false, validateSchema: false }).compile(schema)
}

/** Definitions that refer only to later ones, so that none is recursive. */
const documents = fc
  .record({ root: schemas, a: schemas, b: schemas, c: schemas })
  .map(({ root, a, b, c }) => ({
    root,
    definitions: { a: onlyTo(a, ['b', 'c']), b: onlyTo(b, ['c']), c: onlyTo(c, []) },
  }))

function onlyTo(schema: JsonObject, names: readonly string[]): JsonObject {
  const text = JSON.stringify(schema, (key, value: unknown) =>
    key === '$ref' && !names.some((name) => value === `#/$defs/${name}`) ? undefined : value,
  )
  return JSON.parse(text)
}

describe('a schema with omitted parts', () => {
  it('accepts every value of the full schema, whichever definitions are omitted', () => {
    fc.assert(
      fc.property(
        documents,
        fc.subarray(NAMES),
        fc.array(values, { minLength: 1, maxLength: 12 }),
        (document, cut, tried) => {
          const { root, definitions } = document
          const whole = accepts({ ...root, $defs: definitions })
          const kept = Object.entries(definitions).map(([name, definition]) => [
            name,
            cut.includes(name) ? {} : loosenSchema(definition),
          ])
          const rest = loosenSchema(root)
          if (!isJsonObject(rest)) throw new Error('a schema stays an object')
          const less = accepts({ ...rest, $defs: Object.fromEntries(kept) })
          for (const value of tried) if (whole(value)) expect(less(value), JSON.stringify(value)).toBe(true)
        },
      ),
      { numRuns: 200 },
    )
  })

  it('accepts every value of the full schema if it is inlined only to a depth or length', () => {
    fc.assert(
      fc.property(
        documents,
        fc.record({
          maxDepth: fc.integer({ min: 1, max: 4 }),
          maxCharacters: fc.integer({ min: 1, max: 60 }),
        }),
        fc.array(values, { minLength: 1, maxLength: 12 }),
        ({ root, definitions }, bounds, tried) => {
          const schema = { ...root, $defs: definitions }
          const report = (): never => expect.fail('no finding is expected')
          const shown = inlineSchema(schema, 'output', report, { ...bounds, onCut: () => undefined })
          const [whole, less] = [accepts(schema), accepts(shown)]
          for (const value of tried) if (whole(value)) expect(less(value), JSON.stringify(value)).toBe(true)
        },
      ),
      { numRuns: 200 },
    )
  })
})
