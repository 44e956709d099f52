import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { createSchemaValidator } from './validator.ts'

const NAMES = ['a', 'b', 'ab', 'toString', 'constructor', 'x/y']

const values = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    fc.constantFrom<JsonValue>(null, true, false, 0, 1, 2, 1.5, -3, '', 'a', 'ab', 'aab', '😀', 'x/y'),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.constantFrom(...NAMES), tie('value'), { maxKeys: 4, noNullPrototype: true }),
  ),
})).value

const schemas = fc.letrec<{ schema: JsonValue }>((tie) => {
  const schema = tie('schema')
  const map = fc.dictionary(fc.constantFrom(...NAMES), schema, { maxKeys: 3, noNullPrototype: true })
  const list = fc.array(schema, { minLength: 1, maxLength: 3 })
  const small = fc.nat(3)
  const keywords: fc.Arbitrary<JsonObject>[] = [
    fc
      .constantFrom('array', 'boolean', 'integer', 'null', 'number', 'object', 'string')
      .map((type) => ({ type })),
    fc.constantFrom(['string', 'null'], ['number', 'object']).map((type) => ({ type })),
    fc.array(values, { minLength: 1, maxLength: 3 }).map((each) => ({ enum: each })),
    values.map((each) => ({ const: each })),
    small.map((limit) => ({ minimum: limit })),
    small.map((limit) => ({ maximum: limit })),
    small.map((limit) => ({ exclusiveMinimum: limit })),
    small.map((limit) => ({ exclusiveMaximum: limit })),
    fc.constantFrom(1, 2, 0.5).map((unit) => ({ multipleOf: unit })),
    small.map((limit) => ({ minLength: limit })),
    small.map((limit) => ({ maxLength: limit })),
    fc.constantFrom('^a', 'b$', '^[a-z]+$', '/').map((pattern) => ({ pattern })),
    small.map((limit) => ({ minItems: limit })),
    small.map((limit) => ({ maxItems: limit })),
    fc.boolean().map((unique) => ({ uniqueItems: unique })),
    list.map((each) => ({ prefixItems: each })),
    schema.map((each) => ({ items: each })),
    fc.tuple(list, schema).map(([prefixItems, items]) => ({ prefixItems, items })),
    fc.record({ contains: schema, minContains: small, maxContains: small }),
    schema.map((each) => ({ contains: each })),
    fc.subarray(NAMES).map((required) => ({ required })),
    small.map((limit) => ({ minProperties: limit })),
    small.map((limit) => ({ maxProperties: limit })),
    map.map((properties) => ({ properties })),
    fc.record({ properties: map, additionalProperties: schema }),
    fc.tuple(map, schema, schema).map(([properties, each, additionalProperties]) => ({
      ...{ properties, additionalProperties },
      patternProperties: { '^a': each },
    })),
    schema.map((each) => ({ propertyNames: each })),
    fc
      .tuple(fc.constantFrom(...NAMES), fc.subarray(NAMES))
      .map(([name, names]) => ({ dependentRequired: { [name]: names } })),
    map.map((dependentSchemas) => ({ dependentSchemas })),
    list.map((allOf) => ({ allOf })),
    list.map((anyOf) => ({ anyOf })),
    list.map((oneOf) => ({ oneOf })),
    schema.map((not) => ({ not })),
    fc
      .tuple(schema, schema, schema)
      .map((parts) =>
        Object.fromEntries(['if', 'then', 'else'].map((keyword, index) => [keyword, parts[index] ?? true])),
      ),
    fc.constantFrom('#/$defs/one', '#/$defs/two').map(($ref) => ({ $ref })),
  ]
  return {
    schema: fc.oneof(
      { maxDepth: 3, depthSize: 'small', withCrossShrink: true },
      fc.boolean(),
      fc
        .array(fc.oneof(...keywords), { minLength: 1, maxLength: 3 })
        .map((parts) => Object.assign({}, ...parts)),
    ),
  }
}).schema

/** `one` may refer to `two`, but not the reverse, so that every check ends. */
const roots: fc.Arbitrary<JsonObject> = fc.tuple(schemas, schemas, schemas).map(([root, one, two]) => ({
  allOf: [root],
  $defs: { one: withoutReferences(one, '#/$defs/one'), two: withoutReferences(two, '#/$defs/') },
}))

function withoutReferences(schema: JsonValue, prefix: string): JsonValue {
  const text = JSON.stringify(schema, (name, value: unknown) =>
    name === '$ref' && typeof value === 'string' && value.startsWith(prefix) ? undefined : value,
  )
  return JSON.parse(text)
}

/**
 * The verdict of Ajv; `undefined` if its generated code throws, or calls `toString` of a value to compare it.
 * All errors are collected, because Ajv 8 otherwise skips keywords beside `prefixItems`.
 */
function createJudge(schema: JsonObject): (value: JsonValue) => boolean | undefined {
  const ajv = new Ajv2020({
    allErrors: true,
    strict: false,
    ownProperties: true,
    validateFormats: false,
    validateSchema: false,
    meta: false,
    logger: false,
  })
  // Ajv 8 generates failing code for tracking evaluated members, which no schema here needs.
  ajv.opts.unevaluated = false
  const validate = ajv.compile(schema)
  return (value) => {
    try {
      return validate(value)
    } catch (error) {
      if (error instanceof ReferenceError || error instanceof TypeError) return undefined
      throw error
    }
  }
}

describe.each([
  ['an authored schema', false],
  ['an imported schema', true],
])('%s', (_origin, untrusted) => {
  it('accepts and refuses the values that Ajv accepts and refuses', () => {
    let refused = 0
    let accepted = 0
    fc.assert(
      fc.property(roots, fc.array(values, { minLength: 1, maxLength: 5 }), (schema, tried) => {
        const judge = createJudge(schema)
        const validate = createSchemaValidator(schema, { untrusted })
        for (const value of tried) {
          const expected = judge(value)
          if (expected === undefined) continue
          if (expected) accepted += 1
          else refused += 1
          const issues = validate(value)
          expect([value, issues.length === 0, issues]).toEqual([value, expected, issues])
        }
      }),
      { numRuns: 1_000 },
    )
    expect(Math.min(refused, accepted)).toBeGreaterThan(200)
  })
})
