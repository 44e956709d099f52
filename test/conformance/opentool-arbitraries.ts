import fc from 'fast-check'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { OpenToolParameter, OpenToolValueSchema } from '#protocols/opentool/codec-document'

/** Few names, so that schemas and instances share some. */
const name = fc.constantFrom('a', 'b', 'c', 'a b', 'é/~')
const word = fc.constantFrom('a', 'b', 'ab', '', 'é')
const text = fc.oneof(fc.constantFrom('Text', 'Text.', '', 'One of: x'), fc.string({ maxLength: 8 }))
const scalar: fc.Arbitrary<JsonValue> = fc.oneof(
  word,
  fc.integer({ min: -2, max: 3 }),
  fc.constantFrom(0.5, 1.5),
  fc.boolean(),
  fc.constant(null),
)

/** Small values, which often match the schemas below. */
export const instance: fc.Arbitrary<JsonValue> = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(name, tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value

/** OpenTool schemas that pass strict validation, in the form that conversion gives back. */
const schema: fc.Arbitrary<OpenToolValueSchema> = fc.letrec<{ schema: OpenToolValueSchema }>((tie) => ({
  schema: fc
    .tuple(
      fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        fc.constantFrom<OpenToolValueSchema>(
          { type: 'boolean' },
          { type: 'number' },
          { type: 'object', properties: {} },
        ),
        enumerated('string', word),
        enumerated('integer', fc.integer({ min: -2, max: 3 })),
        enumerated('number', fc.constantFrom(0.5, 1.5)),
        fc.record({ type: fc.constant('array' as const), items: tie('schema') }),
        objectOf(tie('schema')),
      ),
      fc.option(text, { nil: undefined }),
      fc.option(fc.constant({ 'x-note': 1 }), { nil: undefined }),
    )
    .map(([made, description, extension]) => ({
      ...made,
      ...(description === undefined ? {} : { description }),
      ...extension,
    })),
})).schema

function enumerated(type: 'string' | 'integer' | 'number', value: fc.Arbitrary<JsonValue>) {
  return fc
    .option(fc.uniqueArray(value, { minLength: 1, maxLength: 3 }), { nil: undefined })
    .map((values): OpenToolValueSchema => ({ type, ...(values === undefined ? {} : { enum: values }) }))
}

function objectOf(member: fc.Arbitrary<OpenToolValueSchema>): fc.Arbitrary<OpenToolValueSchema> {
  return fc
    .tuple(fc.dictionary(name, member, { maxKeys: 3, noNullPrototype: true }), fc.subarray(['a', 'b', 'c']))
    .map(([properties, required]) => ({
      type: 'object',
      properties,
      ...(required.length === 0 ? {} : { required }),
    }))
}

export const parameters: fc.Arbitrary<readonly OpenToolParameter[]> = fc.uniqueArray(
  fc
    .tuple(
      fc.oneof(name, fc.constant('__proto__')),
      schema,
      fc.boolean(),
      fc.option(text, { nil: undefined }),
    )
    .map(([called, made, required, description]) => ({
      name: called,
      schema: made,
      required,
      ...(description === undefined ? {} : { description }),
    })),
  { maxLength: 4, selector: (parameter) => parameter.name },
)

const typed: fc.Arbitrary<JsonObject> = fc.constantFrom<JsonObject>(
  { type: 'string' },
  { type: 'string', minLength: 1, title: 'T' },
  { type: 'integer', minimum: 0 },
  { type: 'number', multipleOf: 0.5, description: 'N' },
  { type: 'boolean' },
  { type: 'null' },
  { type: ['string', 'null'] },
  { type: ['integer', 'number'] },
  { type: ['string', 'integer'], enum: ['a', 1] },
  { type: 'string', enum: ['a', null, 1] },
  { minLength: 1 },
)

/** JSON Schemas with most keywords of 2020-12; they may be contradictory. */
export const anySchema: fc.Arbitrary<JsonObject> = fc
  .letrec<{ schema: JsonValue; object: JsonObject }>((tie) => ({
    schema: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      { arbitrary: typed, weight: 5 },
      { arbitrary: fc.record({ enum: fc.uniqueArray(scalar, { minLength: 1, maxLength: 3 }) }), weight: 2 },
      { arbitrary: fc.record({ const: instance }), weight: 1 },
      { arbitrary: fc.constantFrom<JsonValue>(true, {}, false), weight: 1 },
      { arbitrary: tie('object'), weight: 3 },
      { arbitrary: arrayOf(tie('schema')), weight: 2 },
      { arbitrary: combined(tie('schema'), tie('object')), weight: 4 },
      {
        arbitrary: fc.constantFrom({ $ref: '#/$defs/word' }, { $ref: '#/$defs/list', maxItems: 2 }),
        weight: 1,
      },
    ),
    object: fc
      .tuple(
        fc.dictionary(name, tie('schema'), { maxKeys: 3, noNullPrototype: true }),
        fc.subarray(['a', 'b', 'c']),
        fc.constantFrom<JsonObject>(
          {},
          { additionalProperties: false },
          { minProperties: 1 },
          { patternProperties: {} },
        ),
      )
      .map(([properties, required, more]) => ({ type: 'object', properties, required, ...more })),
  }))
  .object.map((made) => ({
    ...made,
    $defs: {
      word: { type: 'string', maxLength: 1 },
      list: { type: 'array', items: { $ref: '#/$defs/word' } },
    },
  }))

function arrayOf(item: fc.Arbitrary<JsonValue>): fc.Arbitrary<JsonObject> {
  return fc.oneof(
    fc.record({ type: fc.constant('array'), items: item }),
    fc.record({ type: fc.constant('array'), items: item, uniqueItems: fc.boolean(), contains: item }),
    fc.record({ type: fc.constant('array'), prefixItems: fc.array(item, { minLength: 1, maxLength: 2 }) }),
  )
}

function combined(any: fc.Arbitrary<JsonValue>, object: fc.Arbitrary<JsonObject>): fc.Arbitrary<JsonObject> {
  const closed = object.map((made) => ({ ...made, additionalProperties: false }))
  const branches = (branch: fc.Arbitrary<JsonValue>) => fc.array(branch, { minLength: 1, maxLength: 3 })
  const scalars = fc.oneof(
    typed,
    fc.record({ const: scalar }),
    fc.record({ enum: fc.array(scalar, { minLength: 1, maxLength: 2 }) }),
  )
  return fc.oneof(
    fc.record({ anyOf: branches(fc.oneof(scalars, closed)) }),
    fc.record({ oneOf: branches(scalars) }),
    fc.record({ anyOf: branches(closed) }),
    fc.record({
      type: fc.constantFrom('string', 'integer', 'object'),
      anyOf: branches(fc.oneof(scalars, closed)),
    }),
    fc.record({ allOf: branches(fc.oneof(scalars, object)) }),
    fc.record({ allOf: fc.array(object, { minLength: 2, maxLength: 3 }) }),
    fc.record({ not: any, type: fc.constantFrom('string', 'integer') }),
    fc.tuple(any, any).map(([condition, both]) => ({ if: condition, else: both, type: 'object' })),
  )
}

/** Scalars of one type, in one of the equivalent forms of JSON Schema. */
const likeScalars: fc.Arbitrary<JsonObject> = fc
  .constantFrom<{ readonly value: fc.Arbitrary<JsonValue>; readonly ways: readonly JsonObject[] }>(
    { value: word, ways: [{ type: 'string' }, { type: 'string', minLength: 1 }] },
    {
      value: fc.integer({ min: -2, max: 3 }),
      ways: [{ type: 'integer' }, { type: 'number' }, { type: ['integer', 'number'] }],
    },
  )
  .chain(({ value, ways }) => {
    const way: fc.Arbitrary<JsonObject> = fc.oneof(
      fc.constantFrom<JsonObject>(...ways),
      fc.record({ const: value }),
      fc.record({ enum: fc.uniqueArray(value, { minLength: 1, maxLength: 3 }) }),
    )
    const several = fc.array(way, { minLength: 1, maxLength: 3 })
    return fc.oneof(
      { weight: 3, arbitrary: way },
      { weight: 1, arbitrary: fc.record({ anyOf: several }) },
      { weight: 1, arbitrary: fc.record({ oneOf: several }) },
      { weight: 1, arbitrary: fc.record({ allOf: several }) },
      { weight: 1, arbitrary: fc.tuple(way, several).map(([left, anyOf]) => ({ ...left, anyOf })) },
    )
  })

/**
 * JSON Schemas that OpenTool can express, except for single constraints. Branches that are objects are closed: with
 * open ones OpenTool cannot express that a member of one branch has any value in the other.
 */
export const plainSchema: fc.Arbitrary<JsonObject> = fc
  .letrec<{ schema: JsonObject; object: JsonObject }>((tie) => ({
    schema: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      likeScalars,
      fc.constantFrom<JsonObject>(
        { type: 'boolean' },
        { $ref: '#/$defs/word' },
        { $ref: '#/$defs/list', maxItems: 1 },
      ),
      tie('object'),
      fc.record({ type: fc.constant('array'), items: tie('schema') }),
      fc.record({ anyOf: fc.array(closedOf(tie('object')), { minLength: 1, maxLength: 3 }) }),
      fc.record({ allOf: fc.array(tie('object'), { minLength: 1, maxLength: 3 }) }),
      fc.record({ not: tie('schema'), type: fc.constantFrom('string', 'integer') }),
      fc
        .tuple(tie('object'), closedOf(tie('object')), closedOf(tie('object')))
        .map(([base, left, right]) => ({ ...base, oneOf: [left, right] })),
    ),
    object: objectSchemaOf(tie('schema')),
  }))
  .object.map((made) => ({
    ...made,
    $defs: {
      word: { type: 'string', maxLength: 1 },
      list: { type: 'array', items: { $ref: '#/$defs/word' } },
    },
  }))

function objectSchemaOf(member: fc.Arbitrary<JsonObject>): fc.Arbitrary<JsonObject> {
  return fc
    .tuple(
      fc.dictionary(name, member, { maxKeys: 3, noNullPrototype: true }),
      fc.subarray(['a', 'b', 'c']),
      fc.constantFrom<JsonObject>({}, {}, { additionalProperties: false }, { minProperties: 1 }),
    )
    .map(([properties, wanted, more]) => {
      const required = wanted.filter((each) => Object.hasOwn(properties, each))
      return { type: 'object', properties, ...(required.length === 0 ? {} : { required }), ...more }
    })
}

function closedOf(object: fc.Arbitrary<JsonObject>): fc.Arbitrary<JsonObject> {
  return object.map((made) => ({ ...made, additionalProperties: false }))
}
