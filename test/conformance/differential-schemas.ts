import fc from 'fast-check'
import type { JsonObject, JsonValue } from '#kernel/base/json'

/** A generated schema, whether it accepts null, and valid values. */
export interface SchemaPart {
  readonly schema: JsonObject
  readonly takesNull: boolean
  readonly fitting: fc.Arbitrary<JsonValue>
}

/** An input schema: its parameters are known by name, so that nulls can be judged without reading schemas. */
export interface ParametersPart extends SchemaPart {
  readonly parameters: ReadonlyMap<string, Parameter>
}

interface Parameter {
  readonly part: SchemaPart
  readonly required: boolean
}

/** Names that objects inherit, and names that pointers and shells escape. */
const NAMES = ['a', 'b', 'count', 'constructor', 'größe', 'a/b', '~x', 'with space', 'toString']
const name = fc.constantFrom(...NAMES)
/** No schema may declare this member, but any caller may send it. */
const sentName = fc.constantFrom(...NAMES, '__proto__')

const BIG = [Number.MAX_SAFE_INTEGER + 1, 1e21, -1e300, 5e-324, 0.1 + 0.2, 2 ** 53 - 1]
const text = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 8 }),
  fc.constantFrom('', '\u2028', '"\\', '😀', 'null', '{"a":1}', '\u0000', 'e\u0301'),
)
const number = fc.oneof(
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom(...BIG),
)

/** Small arbitrary JSON values. */
export const anyJson: fc.Arbitrary<JsonValue> = fc
  .letrec<{ value: JsonValue }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.oneof(fc.constant(null), fc.boolean(), number, text),
      fc.array(tie('value'), { maxLength: 3 }),
      objectOf(fc.array(fc.tuple(sentName, tie('value')), { maxLength: 3 })),
    ),
  }))
  .value.map(plain)

const DATES = ['2026-01-31T12:00:00Z', '1999-12-31T23:59:59+01:00']

const leaf: fc.Arbitrary<SchemaPart> = fc.constantFrom<SchemaPart>(
  { schema: { type: 'string' }, takesNull: false, fitting: text },
  {
    schema: { type: 'string', minLength: 2 },
    takesNull: false,
    fitting: fc.string({ minLength: 2, maxLength: 9 }),
  },
  { schema: { type: 'string', format: 'date-time' }, takesNull: false, fitting: fc.constantFrom(...DATES) },
  { schema: { type: 'string', format: 'uuid' }, takesNull: false, fitting: fc.uuid() },
  { schema: { type: 'integer' }, takesNull: false, fitting: fc.integer() },
  { schema: { type: 'integer', minimum: 0, maximum: 9 }, takesNull: false, fitting: fc.nat(9) },
  { schema: { type: 'number' }, takesNull: false, fitting: number.map(plain) },
  { schema: { type: 'boolean' }, takesNull: false, fitting: fc.boolean() },
  { schema: { type: 'null' }, takesNull: true, fitting: fc.constant(null) },
  { schema: { enum: ['on', 'off', null] }, takesNull: true, fitting: fc.constantFrom('on', 'off', null) },
  {
    schema: { enum: [1, 'two', false] },
    takesNull: false,
    fitting: fc.constantFrom<JsonValue>(1, 'two', false),
  },
  { schema: { const: 'only' }, takesNull: false, fitting: fc.constant('only') },
  { schema: { type: ['integer', 'null'] }, takesNull: true, fitting: fc.option(fc.integer()) },
  { schema: {}, takesNull: true, fitting: anyJson },
)

export const schemaPart: fc.Arbitrary<SchemaPart> = fc.letrec<{ part: SchemaPart }>((tie) => ({
  part: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    leaf,
    fc.tuple(tie('part'), fc.boolean()).map(arrayPart),
    fc.tuple(tie('part'), tie('part')).map(eitherPart),
    parametersOf(tie('part')),
  ),
})).part

/** Input schemas with described parameters. */
export const parametersPart: fc.Arbitrary<ParametersPart> = parametersOf(schemaPart)

function arrayPart([item, isShort]: [SchemaPart, boolean]): SchemaPart {
  return {
    schema: { type: 'array', items: item.schema, ...(isShort ? { maxItems: 2 } : {}) },
    takesNull: false,
    fitting: fc.array(item.fitting, { maxLength: 2 }),
  }
}

function eitherPart([left, right]: [SchemaPart, SchemaPart]): SchemaPart {
  return {
    schema: { anyOf: [left.schema, right.schema] },
    takesNull: left.takesNull || right.takesNull,
    fitting: fc.oneof(left.fitting, right.fitting),
  }
}

function parametersOf(part: fc.Arbitrary<SchemaPart>): fc.Arbitrary<ParametersPart> {
  const entries = fc.uniqueArray(fc.tuple(name, part, fc.boolean()), {
    maxLength: 4,
    selector: ([key]) => key,
  })
  return fc.tuple(entries, fc.boolean()).map(([members, isClosed]): ParametersPart => {
    const properties = members.map(
      ([key, { schema }]) => [key, { ...schema, description: `The ${key}.` }] as const,
    )
    const required = members.filter(([, , isRequired]) => isRequired).map(([key]) => key)
    return {
      schema: {
        type: 'object',
        properties: Object.fromEntries(properties),
        ...(required.length === 0 ? {} : { required }),
        ...(isClosed ? { additionalProperties: false } : {}),
      },
      takesNull: false,
      fitting: objectOf(fc.tuple(...members.map(fittingMember)).map((all) => all.filter(isGiven))),
      parameters: new Map(
        members.map(([key, own, isRequired]) => [key, { part: own, required: isRequired }]),
      ),
    }
  })
}

type Member = readonly [string, JsonValue]

function fittingMember([key, { fitting }, isRequired]: [string, SchemaPart, boolean]) {
  const value = isRequired ? fitting : fc.option(fitting, { nil: undefined })
  return value.map((given): Member | undefined => (given === undefined ? undefined : [key, given]))
}

function isGiven(member: Member | undefined): member is Member {
  return member !== undefined
}

/** `fromEntries` makes `__proto__` a member like any other. */
function objectOf(members: fc.Arbitrary<readonly Member[]>): fc.Arbitrary<JsonObject> {
  return members.map((all) => Object.fromEntries(all))
}

/** As it arrives from a wire: -0 is 0 there. */
export function plain<Value extends JsonValue>(value: Value): Value {
  return JSON.parse(JSON.stringify(value))
}
