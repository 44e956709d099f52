import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { createSchemaValidator } from '#schema/validator'
import { worstClass } from './pin-view.ts'
import { type Side, schemaDiff } from './schema-diff.ts'

const base: JsonObject = {
  type: 'object',
  properties: { a: { type: 'string' }, b: { type: 'number', minimum: 1, description: 'B.' } },
  required: ['a'],
}

function of(properties: JsonObject, other: JsonObject = {}): JsonObject {
  return { ...base, properties, ...other }
}

function classOf(before: JsonObject, after: JsonObject, side: Side): string {
  const found = schemaDiff(before, after, side)
  return found.length === 0 ? 'none' : worstClass(found.map((difference) => difference.class))
}

const a: JsonValue = { type: 'string' }
const b: JsonValue = { type: 'number', minimum: 1, description: 'B.' }

describe('the semantic diff of schemas', () => {
  it.each<[string, JsonObject, string, string]>([
    ['nothing', base, 'none', 'none'],
    ['a property is removed', of({ a }), 'breaking', 'breaking'],
    ['an optional property is added', of({ a, b, c: {} }), 'widening', 'widening'],
    ['a required property is added', of({ a, b, c: {} }, { required: ['a', 'c'] }), 'breaking', 'widening'],
    ['a property becomes required', of({ a, b }, { required: ['a', 'b'] }), 'breaking', 'widening'],
    ['a property becomes optional', of({ a, b }, { required: [] }), 'widening', 'breaking'],
    ['a type narrows', of({ a, b: { ...b, type: 'integer' } }), 'breaking', 'widening'],
    ['a type widens', of({ a: { type: ['string', 'null'] }, b }), 'widening', 'breaking'],
    ['a type changes', of({ a: { type: 'boolean' }, b }), 'breaking', 'breaking'],
    ['a bound tightens', of({ a, b: { ...b, minimum: 2 } }), 'breaking', 'widening'],
    ['a bound loosens', of({ a, b: { ...b, minimum: 0 } }), 'widening', 'breaking'],
    ['a bound is added', of({ a: { type: 'string', maxLength: 5 }, b }), 'breaking', 'widening'],
    ['values are listed', of({ a: { type: 'string', enum: ['x'] }, b }), 'breaking', 'widening'],
    ['a pattern is added', of({ a: { type: 'string', pattern: '^x' }, b }), 'breaking', 'widening'],
    ['other properties are refused', { ...base, additionalProperties: false }, 'breaking', 'widening'],
    ['a description changes', of({ a, b: { ...b, description: 'C.' } }), 'wording', 'wording'],
    ['a default is added', of({ a: { type: 'string', default: 'x' }, b }), 'widening', 'wording'],
    ['a `not` is added', of({ a: { type: 'string', not: { const: 'x' } }, b }), 'breaking', 'breaking'],
    ['alternatives are added', of({ a: { anyOf: [{ type: 'string' }] }, b }), 'breaking', 'breaking'],
    ['order of required', { ...base, required: ['a'] }, 'none', 'none'],
  ])('%s', (_what, after, input, output) => {
    expect([classOf(base, after, 'input'), classOf(base, after, 'output')]).toEqual([input, output])
  })

  it.each<[string, (now: string) => JsonObject]>([
    ['a default', (now) => of({ a, b: { ...b, default: now } })],
    ['a default of a required member', (now) => of({ a: { type: 'string', default: now }, b })],
    ['examples', (now) => of({ a: { type: 'string', examples: [now] }, b })],
    ['an unknown keyword', (now) => of({ a: { type: 'string', markdownDescription: now }, b })],
    [
      'alternatives',
      (now) =>
        of({
          a: {
            anyOf: [
              { type: 'string', default: now },
              { type: 'null', title: now },
            ],
          },
          b,
        }),
    ],
    [
      'forms',
      (now) =>
        of({
          a: {
            oneOf: [
              { const: 'x', title: now },
              { const: 'y', default: now },
            ],
          },
          b,
        }),
    ],
    [
      'a keyword that cannot be compared',
      (now) => of({ a, b: { prefixItems: [{ default: now }], not: { title: now } } }),
    ],
    [
      'definitions',
      (now) => ({
        ...of({ a: { not: { $ref: '#/$defs/d' } }, b }),
        $defs: { d: { const: 1, default: now } },
      }),
    ],
    [
      'beside a reference',
      (now) => ({ ...of({ a: { $ref: '#/$defs/d', default: now }, b }), $defs: { d: a } }),
    ],
  ])('treats a change of annotations only as wording: %s', (_where, at) => {
    const [before, after] = [at('2026-01-01T00:00:00Z'), at('2026-01-02T00:00:00Z')]
    expect([classOf(before, after, 'input'), classOf(before, after, 'output')]).not.toContain('breaking')
    expect([classOf(before, after, 'input'), classOf(before, after, 'output')]).not.toContain('widening')
  })

  it('a required member that loses its default is newly required, because the server no longer fills it in', () => {
    expect(classOf(of({ a: { type: 'string', default: 'x' }, b }), of({ a, b }), 'input')).toBe('breaking')
  })

  it('compares enums as sets, in any order', () => {
    const listed = (values: readonly string[]) => of({ a: { enum: values }, b })
    expect(classOf(listed(['x', 'y']), listed(['y', 'x']), 'input')).toBe('none')
    expect(classOf(listed(['x', 'y']), listed(['x']), 'input')).toBe('breaking')
    expect(classOf(listed(['x', 'y']), listed(['x', 'y', 'z']), 'input')).toBe('widening')
    expect(classOf(listed(['x', 'y']), listed(['x', 'y', 'z']), 'output')).toBe('breaking')
  })

  it('follows references, including recursive ones', () => {
    const tree = (value: JsonObject): JsonObject => ({
      type: 'object',
      properties: { root: { $ref: '#/$defs/node' } },
      $defs: {
        node: {
          type: 'object',
          properties: { value, children: { type: 'array', items: { $ref: '#/$defs/node' } } },
        },
      },
    })
    expect(classOf(tree({ type: 'string' }), tree({ type: 'string' }), 'input')).toBe('none')
    expect(classOf(tree({ type: 'string' }), tree({ type: 'string', maxLength: 3 }), 'input')).toBe(
      'breaking',
    )
    expect(
      schemaDiff(tree({ type: 'string' }), tree({ type: 'integer' }), 'input').map(({ where }) => where),
    ).toEqual(['input/properties/root/properties/value/type'])
  })

  it('treats an inline schema and a reference to it as equal', () => {
    const inPlace = of({ a: { type: 'string', description: 'A.' }, b })
    const byReference = {
      ...of({ a: { $ref: '#/$defs/a', description: 'A.' }, b }),
      $defs: { a: { type: 'string' } },
    }
    const found = schemaDiff(inPlace, byReference, 'input')
    expect(found.every(({ says }) => says === 'changes in a way that cannot be described in detail')).toBe(
      true,
    )
  })

  it('reports a change behind a reference inside a keyword that it cannot compare', () => {
    const guarded = (word: string): JsonObject => ({
      ...of({ a: { type: 'string', not: { $ref: '#/$defs/bad' } }, b, c: {} }),
      $defs: { bad: { const: word } },
    })
    expect(classOf(guarded('x'), guarded('y'), 'input')).toBe('breaking')
  })

  it('compares alternatives one by one', () => {
    const either = (...anyOf: readonly JsonObject[]) => of({ a: { anyOf }, b })
    const one = { type: 'string', maxLength: 3 }
    expect(classOf(either(one), either(one, { type: 'null' }), 'input')).toBe('widening')
    expect(classOf(either(one, { type: 'null' }), either(one), 'input')).toBe('breaking')
    expect(classOf(either(one), either({ type: 'string', maxLength: 4 }), 'input')).toBe('widening')
  })

  it('treats an added alternative of `oneOf` as harmless only if no value matches two', () => {
    const one = (...oneOf: readonly JsonObject[]) => of({ a: { oneOf }, b })
    const text = { type: 'string' }
    expect(classOf(one(text), one(text, { type: 'null' }), 'input')).toBe('widening')
    expect(classOf(one(text), one(text, { minLength: 3 }), 'input')).toBe('breaking')
  })
})

/** Schemas with two fixed properties, because an added property counts as widening whatever its schema is. */
const leaf: fc.Arbitrary<JsonObject> = fc.oneof(
  fc.constantFrom<JsonObject>(
    {},
    { type: 'string' },
    { type: ['string', 'null'] },
    { type: 'number' },
    { type: 'integer' },
    { const: 1 },
    { $ref: '#/$defs/word' },
    { not: { $ref: '#/$defs/word' } },
    { items: { type: 'number' } },
  ),
  fc.record({ minimum: fc.integer({ min: 0, max: 3 }) }),
  fc.record({ maximum: fc.integer({ min: 0, max: 3 }) }),
  fc.record({ minLength: fc.integer({ min: 0, max: 3 }), description: fc.constantFrom('a', 'b') }),
  fc.record({ enum: fc.uniqueArray(fc.constantFrom(1, 2, 'x', 'xy', null), { minLength: 1 }) }),
  fc.record({ uniqueItems: fc.boolean() }),
)
const node: fc.Arbitrary<JsonObject> = fc.oneof(
  leaf,
  fc.record({ anyOf: fc.array(leaf, { minLength: 1, maxLength: 3 }) }),
  fc.record({ oneOf: fc.array(leaf, { minLength: 1, maxLength: 3 }) }),
  fc.record({ allOf: fc.array(leaf, { minLength: 1, maxLength: 3 }) }),
  fc.record({ not: leaf }),
  fc.tuple(leaf, leaf).map(([one, two]) => ({ ...one, ...two })),
)
interface Parts {
  readonly a: JsonObject
  readonly b: JsonObject
  readonly word: JsonObject
  readonly isClosed: boolean
  readonly required: readonly string[]
}

const parts: fc.Arbitrary<Parts> = fc.record({
  a: node,
  b: node,
  word: leaf,
  isClosed: fc.boolean(),
  required: fc.subarray(['a', 'b']),
})

/** Two schemas that differ in one or two parts. */
const pair = fc
  .tuple(
    parts,
    parts,
    fc.subarray(['a', 'b', 'word', 'isClosed', 'required'] as const, { minLength: 1, maxLength: 2 }),
  )
  .map(([before, other, changed]): readonly [JsonObject, JsonObject] => {
    const after = { ...before, ...Object.fromEntries(changed.map((name) => [name, other[name]])) }
    return [whole(before), whole(after)]
  })

function whole({ a: one, b: two, word, isClosed, required }: Parts): JsonObject {
  return {
    type: 'object',
    properties: { a: one, b: two },
    required,
    ...(isClosed ? { additionalProperties: false } : {}),
    $defs: { word: '$ref' in word || 'not' in word ? {} : word },
  }
}

const scalar = fc.constantFrom<JsonValue[]>(1, 2, 0, 1.5, 'x', 'xy', '', null, [1, 1], ['x'], true)
const tried = fc.record({ a: scalar, b: scalar, c: scalar }, { requiredKeys: [] })

describe('a change that counts as harmless', () => {
  it('accepts every input that was accepted before, and allows no output that was not allowed before', () => {
    fc.assert(
      fc.property(pair, fc.array(tried, { minLength: 5, maxLength: 10 }), ([before, after], values) => {
        const [old, now] = [before, after].map((schema) => createSchemaValidator(schema))
        if (old === undefined || now === undefined) return
        const isHarmless = (side: Side) =>
          ['none', 'wording', 'widening'].includes(classOf(before, after, side))
        for (const value of values) {
          const [was, is] = [old(value).length === 0, now(value).length === 0]
          if (was && !is) expect(isHarmless('input')).toBe(false)
          if (is && !was) expect(isHarmless('output')).toBe(false)
        }
      }),
      { numRuns: 300 },
    )
  })
})
