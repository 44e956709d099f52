import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { checkSchema } from './check.ts'
import { inlineSchema } from './inline.ts'
import { createSchemaValidator } from './validator.ts'

function inlined(schema: JsonObject): JsonObject {
  return inlineSchema(schema, 'input', (where, problem) => expect.fail(`${where}: ${problem}`))
}

function problemsOf(schema: JsonObject): string[] {
  const problems: string[] = []
  inlineSchema(schema, 'input', (where, problem) => void problems.push(`${where}: ${problem}`))
  return problems
}

/** Ajv tracks evaluated members wrongly for some nested schemas, so its verdict on them is not used. */
function withoutUnevaluated(schema: JsonObject): JsonObject {
  return JSON.parse(
    JSON.stringify(schema, (name, value) => (name.startsWith('unevaluated') ? undefined : value)),
  )
}

/** Ajv calls `toString` of a value to compare it, which throws if the value has a member of that name; then there is no verdict. */
function verdictOf(validate: (value: unknown) => boolean, value: unknown): boolean | undefined {
  try {
    return validate(value)
  } catch (error) {
    if (error instanceof ReferenceError || error instanceof TypeError) return undefined
    throw error
  }
}

describe('inlineSchema', () => {
  it('OTC-34: inlines `$ref` and removes definitions', () => {
    const schema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: {
        from: { $ref: '#/$defs/place' },
        to: { $ref: '#/definitions/town', description: 'There.' },
      },
      $defs: { place: { $ref: '#/definitions/town' } },
      definitions: { town: { type: 'string', description: 'A town.' } },
    }
    expect(inlined(schema)).toEqual({
      type: 'object',
      properties: {
        from: { type: 'string', description: 'A town.' },
        to: { type: 'string', description: 'There.' },
      },
    })
  })

  it('OTC-34: keeps properties and data named `$ref` or `$defs`', () => {
    const schema = {
      type: 'object',
      properties: {
        $defs: { type: 'string' },
        $ref: { type: 'string' },
        definitions: { const: { $ref: '#/nowhere' } },
      },
      default: { $ref: '#', $defs: {} },
    }
    expect(inlined(schema)).toEqual(schema)
  })

  it('keeps the keywords beside `$ref`', () => {
    const schema = {
      properties: { a: { $ref: '#/$defs/n', maximum: 5, allOf: [{ multipleOf: 2 }], title: 'A' } },
      $defs: { n: { minimum: 1 } },
    }
    expect(inlined(schema)).toEqual({
      properties: { a: { maximum: 5, title: 'A', allOf: [{ minimum: 1 }, { multipleOf: 2 }] } },
    })
  })

  it('resolves pointers to any place, escapes, anchors and its own id', () => {
    const schema = {
      $id: 'https://example.com/schema',
      properties: {
        a: { type: 'number' },
        b: { $ref: '#/properties/a' },
        c: { $ref: '#/$defs/x~1y~0z%20w' },
        d: { $ref: '#named' },
        e: { $ref: 'https://example.com/schema#/allOf/1' },
        f: { $dynamicRef: '#moving' },
      },
      allOf: [true, { minProperties: 0 }],
      $defs: {
        'x/y~z w': { type: 'null' },
        n: { $anchor: 'named', type: 'boolean' },
        m: { $dynamicAnchor: 'moving', const: 1 },
      },
    }
    expect(inlined(schema)).toEqual({
      properties: {
        a: { type: 'number' },
        b: { type: 'number' },
        c: { type: 'null' },
        d: { type: 'boolean' },
        e: { minProperties: 0 },
        f: { const: 1 },
      },
      allOf: [true, { minProperties: 0 }],
    })
  })

  it('turns a reference to `false` into a schema that accepts nothing', () => {
    const schema = { properties: { a: { $ref: '#/$defs/no', description: 'x' } }, $defs: { no: false } }
    expect(inlined(schema)).toEqual({ properties: { a: { not: {}, description: 'x' } } })
  })

  it('freezes the result deeply', () => {
    const schema = inlined({ properties: { a: { enum: [{ b: [1] }] } }, required: ['a'] })
    const frozen = (value: JsonValue): boolean =>
      typeof value !== 'object' ||
      value === null ||
      (Object.isFrozen(value) && Object.values(value).every(frozen))
    expect(frozen(schema)).toBe(true)
  })

  it('reports recursion: direct, mutual, through the root and through a pointer', () => {
    const node = { type: 'object', properties: { next: { $ref: '#/$defs/node' } } }
    expect(problemsOf({ properties: { n: { $ref: '#/$defs/node' } }, $defs: { node } })).toEqual([
      expect.stringMatching(
        /^input\/properties\/n\/\$ref\/properties\/next\/\$ref: The schema contains itself/,
      ),
    ])
    expect(problemsOf({ properties: { self: { $ref: '#' } } })).toHaveLength(1)
    expect(problemsOf({ properties: { a: { items: { $ref: '#/properties/a' } } } })).toHaveLength(1)
    expect(
      problemsOf({
        $ref: '#/$defs/a',
        $defs: { a: { not: { $ref: '#/$defs/b' } }, b: { not: { $ref: '#/$defs/a' } } },
      }),
    ).toHaveLength(1)
  })

  it('ignores recursion that nothing refers to', () => {
    expect(problemsOf({ type: 'object', $defs: { a: { $ref: '#/$defs/a' } } })).toEqual([])
  })

  it('reports references to a missing place, to another document or to a value that is not a schema', () => {
    const refs = [
      '#/$defs/none',
      '#none',
      'other.json',
      'https://example.com/x',
      '#/type',
      '#/%',
      '#/properties/toString',
      '#/x-other/schema',
      '#/default',
      '#a#b',
    ]
    for (const $ref of refs) {
      expect(
        problemsOf({
          type: 'object',
          properties: { a: { $ref } },
          default: {},
          'x-other': { schema: { $async: true } },
        }),
        $ref,
      ).toEqual([
        expect.stringContaining(
          `input/properties/a/$ref: The reference ${JSON.stringify($ref)} does not lead to a schema`,
        ),
      ])
    }
  })

  it('stops schemas that grow without bound, in number of nodes and in length', () => {
    const laughs: Record<string, JsonObject> = { l0: { type: 'string' } }
    for (let level = 1; level < 30; level += 1) {
      const $ref = `#/$defs/l${level - 1}`
      laughs[`l${level}`] = { allOf: Array.from({ length: 10 }, () => ({ $ref })) }
    }
    expect(problemsOf({ $ref: '#/$defs/l29', $defs: laughs })).toEqual([
      expect.stringContaining('2000 schemas'),
    ])
    const long = { $defs: { t: { title: 'x'.repeat(100_000) } } }
    expect(
      problemsOf({ ...long, allOf: Array.from({ length: 50 }, () => ({ $ref: '#/$defs/t' })) }),
    ).toHaveLength(1)
  })

  it('OTC-34: accepts exactly the values that the schema with references accepts', () => {
    let compared = 0
    fc.assert(
      fc.property(
        schemaWithReferences,
        fc.array(smallValue, { minLength: 1, maxLength: 12 }),
        (made, values) => {
          const schema = withoutUnevaluated(made)
          const reported: string[] = []
          const sound = checkSchema(schema, '', (_, problem) => void reported.push(problem), {
            references: 'allowed',
          })
          expect(sound, reported.join()).toBe(true)
          const plain = inlineSchema(schema, '', (_, problem) => void reported.push(problem))
          fc.pre(reported.length === 0)
          expect(
            checkSchema(plain, '', (_, problem) => expect.fail(problem), { references: 'forbidden' }),
          ).toBe(true)
          const original = new Ajv2020(ORACLE).compile(schema)
          const validate = createSchemaValidator(plain)
          for (const value of values) {
            const accepted = verdictOf(original, value)
            fc.pre(accepted !== undefined)
            compared += 1
            expect(validate(value).length === 0, JSON.stringify({ schema, plain, value })).toBe(accepted)
          }
        },
      ),
      { numRuns: 300 },
    )
    expect(compared).toBeGreaterThan(500)
  })
})

/** Collects all errors, because Ajv otherwise skips keywords beside `prefixItems`. */
const ORACLE = {
  strict: false,
  allErrors: true,
  ownProperties: true,
  meta: false,
  validateSchema: false,
  logger: false,
} as const

const NAMES = ['a', 'b', '$ref', 'toString']
const name = fc.constantFrom(...NAMES)

const smallValue: fc.Arbitrary<JsonValue> = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<JsonValue>(null, true, 0, 1, 7, 'a', 'abc'),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(name, tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value

const leaf: fc.Arbitrary<JsonValue> = fc.oneof(
  fc.boolean(),
  fc.constantFrom<JsonValue>(
    { type: 'string' },
    { type: ['number', 'null'] },
    { type: 'object' },
    { type: 'array' },
    { enum: ['a', 1, null] },
    { const: { a: 1 } },
    { minimum: 1, maximum: 5 },
    { maxLength: 2 },
    { pattern: '^a' },
    { required: ['a'] },
    { maxProperties: 1 },
  ),
)

const schemaNode: fc.Arbitrary<JsonValue> = fc.letrec<{ schema: JsonValue }>((tie) => {
  const inner = tie('schema')
  const members = fc.dictionary(name, inner, { maxKeys: 3, noNullPrototype: true })
  const list = fc.array(inner, { minLength: 1, maxLength: 3 })
  const optional = { requiredKeys: [] }
  const $ref = fc.constantFrom(
    '#/$defs/d0',
    '#/$defs/d1',
    '#/$defs/d2',
    '#/$defs/d3',
    '#d1',
    '#/properties/a',
  )
  return {
    schema: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      leaf,
      fc.record(
        {
          properties: members,
          required: fc.uniqueArray(name, { maxLength: 2 }),
          additionalProperties: inner,
          unevaluatedProperties: fc.boolean(),
          patternProperties: fc.dictionary(fc.constantFrom('^a', '^t'), inner, { noNullPrototype: true }),
          dependentSchemas: members,
        },
        optional,
      ),
      fc.record(
        { items: inner, prefixItems: list, contains: inner, unevaluatedItems: fc.boolean() },
        optional,
      ),
      fc.record({ allOf: list, anyOf: list, not: inner, description: fc.constant('d') }, optional),
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      fc.record({ if: inner, then: inner, else: inner, oneOf: list }, optional),
      fc.record(
        { $ref, minimum: fc.constant(1), properties: members, unevaluatedProperties: fc.boolean() },
        { requiredKeys: ['$ref'] },
      ),
      fc.record({ $ref, description: fc.constant('described here') }),
    ),
  }
}).schema

const schemaWithReferences: fc.Arbitrary<JsonObject> = fc
  .tuple(
    fc.dictionary(name, schemaNode, { maxKeys: 3, noNullPrototype: true }),
    fc.array(schemaNode, { minLength: 4, maxLength: 4 }),
  )
  .map(([properties, definitions]) => ({
    properties: { a: true, ...properties },
    $defs: Object.fromEntries(
      definitions.map((schema, index) => {
        const anchored = index === 1 && typeof schema === 'object' ? { $anchor: 'd1', ...schema } : schema
        return [`d${index}`, index === 1 && typeof schema !== 'object' ? { $anchor: 'd1' } : anchored]
      }),
    ),
  }))
