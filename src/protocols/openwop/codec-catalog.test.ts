import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { visitSchemas } from '#schema/keywords'
import { createSchemaValidator } from '#schema/validator'
import { compactSchema, FORBIDDEN_KEYWORDS } from './codec-catalog.ts'

const text = { type: 'string' } as const
const number = { type: 'number' } as const

function object(properties: JsonObject, more: JsonObject = {}): JsonObject {
  return { type: 'object', properties, ...more }
}

describe('compactSchema', () => {
  it.each<[string, JsonObject, JsonObject | undefined]>([
    ['no parameters', {}, object({})],
    [
      'a plain schema stays',
      object({ a: text }, { required: ['a'] }),
      object({ a: text }, { required: ['a'] }),
    ],
    [
      'nullable',
      object({ a: { anyOf: [{ ...text, minLength: 1 }, { type: 'null' }], description: 'x' } }),
      object({ a: { description: 'x', type: ['string', 'null'], minLength: 1 } }),
    ],
    [
      'alternatives of several types keep the constraints of each type',
      object({
        a: {
          oneOf: [
            { ...text, maxLength: 3, minimum: 9 },
            { ...number, minimum: 1 },
          ],
        },
      }),
      object({ a: { type: ['string', 'number'], maxLength: 3, minimum: 1 } }),
    ],
    [
      'constants become a list',
      object({ a: { oneOf: [{ const: 'x' }, { enum: ['y', 'x'] }, { type: 'null' }] } }),
      object({ a: { enum: ['x', 'y', null] } }),
    ],
    [
      'a conjunction is merged',
      object({ a: text }, { allOf: [object({ b: number }, { required: ['b'] })], required: ['a'] }),
      object({ a: text, b: number }, { required: ['a', 'b'] }),
    ],
    [
      'closed alternatives unite their properties',
      object(
        {},
        {
          oneOf: [
            object(
              { kind: { const: 'a' }, x: number },
              { required: ['kind', 'x'], additionalProperties: false },
            ),
            object({ kind: { const: 'b' }, y: text }, { required: ['kind'], additionalProperties: false }),
          ],
        },
      ),
      object(
        { kind: { enum: ['a', 'b'] }, x: number, y: text },
        { required: ['kind'], additionalProperties: false },
      ),
    ],
    [
      'in open alternatives a property may have any value, and keeps its description',
      object({}, { anyOf: [object({ x: { ...number, description: 'An x.' } }), object({})] }),
      object({ x: { description: 'An x.' } }),
    ],
    [
      'patterns are dropped, with `additionalProperties` that depends on them',
      object({ a: text }, { patternProperties: { '^x-': text }, additionalProperties: false }),
      object({ a: text }),
    ],
    [
      'conditions and negations are dropped',
      object({ a: text }, { not: { required: ['b'] }, if: {}, else: false }),
      object({ a: text }),
    ],
    [
      '`unevaluatedProperties` is dropped, because its meaning depends on dropped keywords',
      object({ a: text }, { dependentSchemas: { a: object({ b: text }) }, unevaluatedProperties: false }),
      object({ a: text }),
    ],
    ['a schema with nothing left to describe', object({}, { patternProperties: { '^x-': text } }), undefined],
    ['a schema that accepts nothing', object({ a: text }, { allOf: [false] }), undefined],
    [
      '`items` of one branch is not combined with `prefixItems` of another',
      object({
        a: { type: 'array', prefixItems: [text], allOf: [{ prefixItems: [number, number], items: text }] },
      }),
      object({ a: { type: 'array', prefixItems: [text] } }),
    ],
    [
      'a looser `contains` has no maximum',
      object({ a: { type: 'array', contains: { not: text }, maxContains: 1 } }),
      object({ a: { type: 'array', contains: {} } }),
    ],
    [
      'properties may be named like keywords',
      object({ not: text, oneOf: number, $ref: text }),
      object({ not: text, oneOf: number, $ref: text }),
    ],
    [
      'values may look like schemas',
      object({ a: { const: { anyOf: [] } } }),
      object({ a: { const: { anyOf: [] } } }),
    ],
  ])('OWP-25: %s', (_title, schema, compact) => {
    expect(compactSchema(schema)).toEqual(compact)
  })

  it('OWP-25: leaves no forbidden keyword at any depth', () => {
    fc.assert(
      fc.property(schemas(), (schema) => {
        const found: string[] = []
        visitSchemas(compactOf(schema), '', (inner) => found.push(...Object.keys(inner)))
        expect(found.filter((keyword) => FORBIDDEN_KEYWORDS.some((name) => name === keyword))).toEqual([])
      }),
    )
  })

  it('OWP-25: every input that the tool accepts fits the compact schema', () => {
    let accepted = 0
    fc.assert(
      fc.property(schemas(), fc.array(inputs(), { minLength: 60, maxLength: 60 }), (schema, values) => {
        const [full, compact] = [createSchemaValidator(schema), createSchemaValidator(compactOf(schema))]
        const fitting = values.filter((value) => full(value).length === 0)
        accepted += fitting.length
        expect(fitting.filter((value) => compact(value).length > 0)).toEqual([])
      }),
      { numRuns: RUNS },
    )
    expect(accepted).toBeGreaterThan(RUNS)
  })
})

const RUNS = 300

function compactOf(schema: JsonObject): JsonObject {
  return compactSchema(schema) ?? {}
}

const name = fc.constantFrom('a', 'b', 'c')
const scalar = fc.constantFrom<JsonValue>(null, 1, 2.5, 'x', 'xyz')

/** Small values with few names, so that many inputs match the schemas. */
function inputs(): fc.Arbitrary<JsonObject> {
  const list = fc.array(scalar, { maxLength: 3 })
  const inner = fc.dictionary(name, scalar, { maxKeys: 2 })
  return fc.dictionary(name, fc.oneof({ arbitrary: scalar, weight: 3 }, list, inner), { maxKeys: 3 })
}

/** A subset of the members; each is present in one of three runs. */
function sparse(members: Record<string, fc.Arbitrary<JsonValue>>): fc.Arbitrary<JsonObject> {
  const entries = Object.entries(members).map(([keyword, value]) =>
    fc.oneof(
      { arbitrary: fc.constant<JsonObject>({}), weight: 2 },
      { arbitrary: value.map((chosen): JsonObject => ({ [keyword]: chosen })), weight: 1 },
    ),
  )
  return fc.tuple(...entries).map((chosen): JsonObject => Object.assign({}, ...chosen))
}

/** Input schemas with all keywords that the reduction handles. */
function schemas(): fc.Arbitrary<JsonObject> {
  const leaf = fc.constantFrom<JsonValue>(
    true,
    {},
    { type: 'string' },
    { type: 'string', maxLength: 1, maximum: 1 },
    { type: 'number', maximum: 1 },
    { type: ['integer', 'null'] },
    { type: 'null' },
    { const: 'x' },
    { enum: [1, 'xyz'], description: 'Some.' },
    { not: { type: 'null' } },
    false,
  )
  const array = sparse({
    items: leaf,
    prefixItems: fc.array(leaf, { minLength: 1, maxLength: 2 }),
    minItems: fc.nat(1),
    contains: leaf,
    minContains: fc.nat(1),
    // Never below `minContains`, because with `prefixItems` Ajv would then accept an empty list, although no value is valid.
    maxContains: fc.constant(1),
  }).map((members): JsonObject => ({ type: 'array', ...members }))
  const record = (value: fc.Arbitrary<JsonValue>) =>
    sparse({
      properties: fc.dictionary(name, value, { minKeys: 1, maxKeys: 3 }),
      required: fc.uniqueArray(name, { minLength: 1, maxLength: 2 }),
      additionalProperties: fc.oneof(fc.constant(false), leaf),
      patternProperties: fc.record({ '^[ab]$': leaf }),
      minProperties: fc.nat(2),
    }).chain((members) => fc.constantFrom<JsonObject>(members, { type: 'object', ...members }))
  const combined = (value: fc.Arbitrary<JsonValue>, base: fc.Arbitrary<JsonObject>) => {
    const list = fc.array(value, { minLength: 1, maxLength: 3 })
    const more = sparse({
      anyOf: list,
      oneOf: list,
      allOf: list,
      not: value,
      if: value,
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: value,
      dependentSchemas: fc.dictionary(name, value, { maxKeys: 1 }),
    })
    return fc.tuple(base, more).map(([left, right]): JsonObject => ({ ...left, ...right }))
  }
  const small = fc.oneof(leaf, array, record(leaf))
  const value = fc.oneof(
    { arbitrary: small, weight: 2 },
    combined(small, fc.constant({})),
    combined(array, array),
  )
  const branch = fc.oneof({ arbitrary: record(small), weight: 4 }, value)
  return combined(branch, record(value)).map((schema) => ({ ...schema, type: 'object' }))
}
