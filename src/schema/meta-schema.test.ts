import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonValue } from '#kernel/base/json'
import { metaSchemaProblems } from './meta-schema.ts'

const DIALECT = 'https://json-schema.org/draft/2020-12/schema'
/** The parts of the published meta-schema. */
const PARTS = [
  DIALECT,
  ...['core', 'applicator', 'unevaluated', 'validation', 'meta-data', 'format-annotation', 'content'].map(
    (part) => `https://json-schema.org/draft/2020-12/meta/${part}`,
  ),
]

const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false })
const published = ajv.getSchema(DIALECT)

function isValid(schema: JsonValue): boolean {
  return published?.(schema) === true
}

/** The keywords of the published meta-schema. */
const KEYWORDS = PARTS.flatMap((part) => {
  const schema = ajv.getSchema(part)?.schema
  if (typeof schema !== 'object' || !('properties' in schema)) throw new Error(`no ${part}`)
  return Object.keys(schema.properties)
})

describe('the meta-schema as a table', () => {
  const sample = fc.constantFrom<JsonValue>(
    ...[true, false, null, 0, -1, 1, 0.5, 2, '', 'string', 'objekt', '#', 'a#', 'a#b', '1a', '_a'],
    ...[[], {}, ['string'], ['a', 'a'], ['string', 'string'], ['string', 'null'], [1], [{}], [true, {}]],
    ...[{ a: true }, { a: {} }, { a: [] }, { a: ['b'] }, { a: ['b', 'b'] }, { a: 1 }],
  )
  const { schema } = fc.letrec<{ schema: JsonValue; value: JsonValue }>((tie) => ({
    schema: fc.dictionary(fc.constantFrom(...KEYWORDS), tie('value'), { maxKeys: 4, noNullPrototype: true }),
    value: fc.oneof(
      { maxDepth: 4, depthIdentifier: 'schema' },
      sample,
      tie('schema'),
      fc.array(tie('schema'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('a', 'b/c', '~'), tie('schema'), { maxKeys: 3, noNullPrototype: true }),
    ),
  }))

  it('agrees with the published meta-schema on nested schemas', () => {
    let refused = 0
    fc.assert(
      fc.property(schema, (generated) => {
        const problems = metaSchemaProblems(generated)
        expect(problems.length === 0).toBe(isValid(generated))
        if (problems.length > 0) refused += 1
      }),
      { numRuns: 1_000 },
    )
    expect(refused).toBeGreaterThan(200)
  })

  it('agrees with the published meta-schema on each keyword with each sample value', () => {
    const values = fc.sample(sample, { numRuns: 1_000, seed: 1 })
    const distinct = new Map(values.map((value) => [JSON.stringify(value), value]))
    for (const keyword of KEYWORDS)
      for (const value of distinct.values())
        expect({ keyword, value, isValid: metaSchemaProblems({ [keyword]: value }).length === 0 }).toEqual({
          keyword,
          value,
          isValid: isValid({ [keyword]: value }),
        })
  })

  it('reports the path and the expected value, and stops after 50 problems', () => {
    expect(
      metaSchemaProblems({ properties: { 'a/b': { minLength: 0.5, type: ['string', 'text'] } }, not: 1 }),
    ).toEqual([
      { pointer: '/properties/a~1b/minLength', message: 'Must be a whole number' },
      {
        pointer: '/properties/a~1b/type/1',
        message: expect.stringMatching(/^Must be one of: "array", "boolean"/),
      },
      { pointer: '/not', message: 'Must be an object or a boolean' },
    ])
    expect(metaSchemaProblems({ required: Array.from({ length: 1_000 }, (_, index) => index) })).toHaveLength(
      50,
    )
  })
})
