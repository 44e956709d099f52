import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { fromJsonSchema, returnFromJsonSchema } from './codec-convert-from-json.ts'
import { SchemaConversionError } from './codec-convert-shape.ts'

/** A schema of one required parameter `p`. */
function input(schema: JsonValue, root: JsonObject = {}): JsonObject {
  return { type: 'object', properties: { p: schema }, required: ['p'], ...root }
}

/** The parameter `p` and the losses, as `severity pointer`, of a lossy conversion. */
function convert(schema: JsonValue, root: JsonObject = {}) {
  const { parameters, losses } = fromJsonSchema(input(schema, root), { mode: 'lossy' })
  return { p: parameters[0], losses: losses.map(({ severity, pointer }) => `${severity} ${pointer}`) }
}

const FREE = { type: 'object', properties: {} }
const P = '/properties/p'

describe('fromJsonSchema', () => {
  it.each<[string, JsonValue, JsonObject]>([
    ['const', { const: 'a' }, { type: 'string', enum: ['a'] }],
    ['const beside enum', { enum: ['b', 'a'], const: 'a' }, { type: 'string', enum: ['a'] }],
    ['integers and numbers', { type: ['integer', 'number'] }, { type: 'number' }],
    ['anyOf of the two', { anyOf: [{ type: 'integer' }, { type: 'number' }] }, { type: 'number' }],
    ['whole numbers in an enum', { type: 'number', enum: [1, 2] }, { type: 'integer', enum: [1, 2] }],
    [
      'values of other types in an enum',
      { type: 'string', enum: ['a', null, 1] },
      { type: 'string', enum: ['a'] },
    ],
    [
      'enums in a union',
      { anyOf: [{ enum: ['a', 'b'] }, { const: 'c' }] },
      { type: 'string', enum: ['a', 'b', 'c'] },
    ],
    [
      'a value twice in oneOf',
      { oneOf: [{ enum: ['a', 'b'] }, { enum: ['b', 'c'] }] },
      { type: 'string', enum: ['a', 'c'] },
    ],
    [
      'enums in allOf',
      { allOf: [{ enum: ['a', 'b'] }, { enum: ['b', 'c'] }] },
      { type: 'string', enum: ['b'] },
    ],
    ['a number and an integer', { allOf: [{ type: 'number' }, { type: 'integer' }] }, { type: 'integer' }],
    [
      'an impossible branch',
      { type: 'string', anyOf: [{ type: 'integer' }, { enum: ['a'] }, false] },
      { type: 'string', enum: ['a'] },
    ],
    ['an open object', { type: 'object', additionalProperties: true }, FREE],
    ['an undeclared required name', { type: 'object', required: ['a'] }, { ...FREE, required: ['a'] }],
    ['extensions', { type: 'string', 'x-a': 1 }, { type: 'string', 'x-a': 1 }],
    [
      'the same property twice',
      {
        allOf: [
          { type: 'object', properties: { a: { type: 'number' } } },
          { properties: { a: { enum: [1, 'x'] } } },
        ],
      },
      { type: 'object', properties: { a: { type: 'integer', enum: [1] } } },
    ],
  ])('OTS-81: %s is exact', (_what, schema, expected) => {
    expect(convert(schema)).toEqual({ p: { name: 'p', schema: expected, required: true }, losses: [] })
  })

  it('OTS-81: follows local references and applies their sibling keywords', () => {
    const root = {
      $defs: {
        N: { type: 'string', description: 'orig', maxLength: 3 },
        M: { $anchor: 'm', type: 'integer' },
      },
      definitions: { 'a/b': { const: true } },
    }
    const { p, losses } = convert({ $ref: '#/$defs/N', description: 'mine' }, root)
    expect(p).toEqual({
      name: 'p',
      description: 'mine. Constraints: maxLength 3',
      schema: { type: 'string' },
      required: true,
    })
    expect(losses).toEqual(['annotated /$defs/N/maxLength'])
    expect(convert({ $ref: '#m', enum: [1] }, root).p?.schema).toEqual({ type: 'integer', enum: [1] })
    expect(convert({ $ref: '#/definitions/a~1b' }, root).p?.schema).toEqual({ type: 'boolean', enum: [true] })
    const anything = { $defs: { N: { title: 'T' } } }
    expect(convert({ $ref: '#/$defs/N' }, anything).losses).toEqual([
      'approximated /$defs/N',
      'annotated /$defs/N/title',
    ])
    const twice = { type: 'array', items: { $ref: '#/$defs/N' }, minItems: 1 }
    expect(convert(twice, root).losses).toEqual([`annotated ${P}/minItems`, 'annotated /$defs/N/maxLength'])
  })

  it.each<[string, JsonValue, JsonObject, string[]]>([
    ['anything', {}, FREE, [`approximated ${P}`]],
    ['true', true, FREE, [`approximated ${P}`]],
    ['properties without a type', { properties: {} }, FREE, [`approximated ${P}`]],
    [
      'a list without a type',
      { items: { type: 'string' } },
      { type: 'array', items: { type: 'string' } },
      [`approximated ${P}`],
    ],
    ['an array of anything', { type: 'array' }, { type: 'array', items: FREE }, [`approximated ${P}/items`]],
    [
      'items: true',
      { type: 'array', items: true },
      { type: 'array', items: FREE },
      [`approximated ${P}/items`],
    ],
    [
      'a closed object',
      { type: 'object', additionalProperties: false },
      FREE,
      [`dropped ${P}/additionalProperties`],
    ],
    ['an enum of objects', { enum: [{ a: 1 }, { a: 2 }] }, FREE, [`dropped ${P}/enum`]],
    [
      'an enum of lists',
      { enum: [['a']] },
      { type: 'array', items: FREE },
      [`dropped ${P}/enum`, `approximated ${P}/items`],
    ],
    [
      'contains, not, if',
      { type: 'integer', not: { const: 1 }, if: true, else: false },
      { type: 'integer' },
      [`dropped ${P}/not`, `dropped ${P}/if`, `dropped ${P}/else`],
    ],
    ['a false property', { type: 'object', properties: { a: false } }, FREE, [`dropped ${P}/properties/a`]],
    [
      'objects that differ',
      {
        anyOf: [
          { type: 'object', properties: { a: { type: 'string' } } },
          { type: 'object', properties: { a: { type: 'integer' } } },
        ],
      },
      { type: 'object', properties: { a: { type: 'string' } } },
      [`approximated ${P}/anyOf`],
    ],
    [
      'either an integer or a number',
      { oneOf: [{ type: 'integer' }, { type: 'number' }] },
      { type: 'number' },
      [`dropped ${P}/oneOf`],
    ],
    [
      'objects in a union',
      {
        anyOf: [
          {
            type: 'object',
            properties: { kind: { const: 'a' }, n: { type: 'integer' } },
            required: ['kind', 'n'],
          },
          {
            type: 'object',
            properties: { kind: { const: 'b' }, t: { type: 'string' } },
            required: ['kind', 't'],
          },
        ],
      },
      {
        type: 'object',
        properties: {
          kind: { type: 'string', enum: ['a', 'b'] },
          n: { type: 'integer' },
          t: { type: 'string' },
        },
        required: ['kind'],
      },
      [`dropped ${P}/anyOf`],
    ],
    [
      'one of two members required',
      {
        type: 'object',
        properties: { a: { type: 'string' } },
        anyOf: [{ required: ['a'] }, { required: ['b'] }],
      },
      { type: 'object', properties: { a: { type: 'string' } } },
      [`dropped ${P}/anyOf`],
    ],
    [
      'a type that is only in allOf',
      { anyOf: [{ required: ['a'] }, {}], allOf: [{ type: 'object' }] },
      FREE,
      [`dropped ${P}/anyOf`],
    ],
    [
      'constraints of one branch',
      { anyOf: [{ type: 'string', minLength: 1 }, { type: 'string' }] },
      { type: 'string' },
      [`dropped ${P}/anyOf/0/minLength`, `dropped ${P}/anyOf`],
    ],
  ])('OTS-82: %s', (_what, schema, expected, losses) => {
    expect(convert(schema)).toEqual({ p: { name: 'p', schema: expected, required: true }, losses })
  })

  it.each<[JsonValue, string, string[]]>([
    [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, 'May be null', [`approximated ${P}/anyOf`]],
    [{ type: 'string', nullable: true, description: 'd' }, 'd. May be null', [`approximated ${P}/nullable`]],
    [{ enum: ['a', null] }, 'May be null', [`approximated ${P}/enum`]],
    [{ const: null }, 'May be null', [`approximated ${P}/const`]],
    [
      { anyOf: [{ type: 'null' }, { type: ['string', 'null'], enum: ['a'] }] },
      'May be null',
      [`approximated ${P}/anyOf`],
    ],
  ])('OTS-82: a parameter that may be null becomes optional: %j', (schema, description, losses) => {
    expect(convert(schema)).toMatchObject({ p: { description, required: false }, losses })
    const nested = convert({
      type: 'object',
      properties: { q: schema, r: { type: 'string' } },
      required: ['q', 'r'],
    })
    expect(nested.p?.schema).toMatchObject({ properties: { q: { description } }, required: ['r'] })
  })

  it.each<[JsonValue, string, string[]]>([
    [{ type: 'string', title: 'T' }, 'T', [`annotated ${P}/title`]],
    [{ type: 'string', title: 'T', description: 'D.' }, 'D.', []],
    [
      { type: 'string', description: 'D.', format: 'date' },
      'D. Constraints: format date',
      [`annotated ${P}/format`],
    ],
    [
      { type: 'array', items: { type: 'string' }, uniqueItems: true, maxItems: 2 },
      'Constraints: uniqueItems true; maxItems 2',
      [`annotated ${P}/uniqueItems`, `annotated ${P}/maxItems`],
    ],
    [
      { type: 'boolean', default: false, deprecated: false },
      'Constraints: default false',
      [`annotated ${P}/default`],
    ],
    [
      { type: 'object', additionalProperties: { type: 'integer' } },
      'Constraints: map of string to integer',
      [`annotated ${P}/additionalProperties`],
    ],
    [
      { type: 'object', patternProperties: { '^x': { type: ['string', 'null'] } } },
      'Constraints: map of string matching ^x to string|null',
      [`annotated ${P}/patternProperties`],
    ],
    [
      { type: 'object', propertyNames: { maxLength: 3 } },
      'Constraints: propertyNames {"maxLength":3}',
      [`annotated ${P}/propertyNames`],
    ],
    [{ enum: ['a', 1] }, 'One of: "a", 1', [`approximated ${P}/enum`]],
    [
      { type: ['string', 'integer', 'null'] },
      'One of: string, integer. May be null',
      [`approximated ${P}/type`],
    ],
    [
      { type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }], items: false },
      'Constraints: exactly 2 items',
      [`approximated ${P}/prefixItems`],
    ],
    [
      { type: 'array', items: [{ type: 'string' }], additionalItems: false },
      'Constraints: exactly 1 items',
      [`approximated ${P}/items`],
    ],
    [{ type: 'array', items: false }, 'Constraints: exactly 0 items', [`dropped ${P}/items`]],
  ])('OTS-82: describes constraints that types cannot express: %j', (schema, description, losses) => {
    const converted = convert(schema)
    expect(converted.p?.description).toBe(description)
    expect(converted.losses).toEqual(losses)
  })

  it('OTS-82: describes a required name that has no schema, and the input as a whole', () => {
    const schema = { type: 'object', description: 'All', minProperties: 1, required: ['q'], 'x-a': 1 }
    expect(fromJsonSchema(schema, { mode: 'lossy', anyFallback: 'string' })).toEqual({
      parameters: [{ name: 'q', schema: { type: 'string' }, required: true }],
      description: 'All. Constraints: minProperties 1',
      losses: [
        { pointer: '/minProperties', keyword: 'minProperties', severity: 'annotated' },
        { pointer: '/required', keyword: 'required', severity: 'approximated' },
      ],
    })
  })

  it('OTS-82: wraps a root that is not an object, if requested', () => {
    const schema = { type: 'array', items: { type: 'string' }, description: 'words' }
    expect(fromJsonSchema(schema, { wrap: true })).toEqual({
      parameters: [
        {
          name: 'input',
          description: 'words',
          schema: { type: 'array', items: { type: 'string' } },
          required: true,
        },
      ],
      losses: [],
    })
  })

  it('OTS-26: `__proto__` is a name like any other', () => {
    const schema: unknown = JSON.parse(
      '{"type":"object","properties":{"__proto__":{"type":"object","properties":{"__proto__":{"type":"string"}}}},"required":["__proto__"]}',
    )
    const { parameters } = fromJsonSchema(schema)
    expect(JSON.stringify(parameters)).toBe(
      '[{"name":"__proto__","schema":{"type":"object","properties":{"__proto__":{"type":"string"}}},"required":true}]',
    )
  })
})

describe('returnFromJsonSchema', () => {
  it('OTS-81: converts a return of any type, under its name', () => {
    const schema = { type: 'array', items: { type: 'number' }, description: 'all of them' }
    expect(returnFromJsonSchema(schema, { name: 'sums' })).toEqual({
      return: {
        name: 'sums',
        description: 'all of them',
        schema: { type: 'array', items: { type: 'number' } },
      },
      losses: [],
    })
    expect(() => returnFromJsonSchema({}, { name: 'r' })).toThrow(SchemaConversionError)
    expect(() => returnFromJsonSchema(false, { name: 'r', mode: 'lossy' })).toThrow(SchemaConversionError)
    expect(returnFromJsonSchema({}, { name: 'r', mode: 'lossy' }).return.schema).toEqual(FREE)
  })
})
