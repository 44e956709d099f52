import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { standardIssues } from './read.ts'
import { createSchemaValidator } from './validator.ts'

function issuesOf(properties: JsonObject, value: JsonValue) {
  const schema = { type: 'object', properties }
  return createSchemaValidator(schema)(value).map(({ pointer, message }) => `${pointer}: ${message}`)
}

const LONG = `^${'a?'.repeat(60)}$`

describe('schemaIssues', () => {
  it('OTC-82: names the top-level parameter of a missing, unknown or nested value', () => {
    const validate = createSchemaValidator({
      type: 'object',
      properties: {
        a: { type: 'object', properties: { 'b/c': { type: 'number' } }, required: ['d'] },
        'x~y': { type: 'null' },
      },
      required: ['e'],
      additionalProperties: false,
    })
    expect(validate({ a: { 'b/c': '' }, z: 1, 'x~y': 1 })).toEqual(
      expect.arrayContaining([
        { parameter: 'e', pointer: '/e', message: 'Is required' },
        { parameter: 'z', pointer: '/z', message: 'Is not known here' },
        { parameter: 'a', pointer: '/a/d', message: 'Is required' },
        { parameter: 'a', pointer: '/a/b~1c', message: 'Must be a number' },
        { parameter: 'x~y', pointer: '/x~0y', message: 'Must be null' },
      ]),
    )
  })

  it.each<[JsonObject, JsonValue, string]>([
    [{ type: 'number' }, 'x', 'Must be a number'],
    [{ type: 'integer' }, 1.5, 'Must be a whole number'],
    [{ type: ['string', 'null'] }, 1, 'Must be a string or null'],
    [{ type: ['array', 'boolean', 'object'] }, 1, 'Must be an array, a boolean or an object'],
    [{ enum: ['a', 'b', 3] }, 'c', 'Must be one of: "a", "b", 3'],
    [{ const: { k: 1 } }, 'c', 'Must be {"k":1}'],
    [{ minimum: 2 }, 1, 'Must be at least 2'],
    [{ maximum: 2 }, 3, 'Must be at most 2'],
    [{ exclusiveMinimum: 2 }, 2, 'Must be more than 2'],
    [{ exclusiveMaximum: 2 }, 2, 'Must be less than 2'],
    [{ multipleOf: 5 }, 3, 'Must be a multiple of 5'],
    [{ minLength: 1 }, '', 'Must have at least 1 character'],
    [{ maxLength: 2 }, 'abc', 'Must have at most 2 characters'],
    [{ pattern: '^a' }, 'b', 'Must match the pattern ^a'],
    [{ pattern: LONG, format: 'date' }, 'b', 'Must be a date such as 2026-01-31'],
    [{ pattern: LONG, format: 'cuid' }, 'b', 'Must be of the format "cuid"'],
    [{ pattern: LONG, format: 'constructor' }, 'b', 'Must be of the format "constructor"'],
    [
      { pattern: '@example', format: 'email' },
      'b',
      'Must be an email address, and match the pattern @example',
    ],
    [{ minItems: 2 }, [], 'Must have at least 2 items'],
    [{ maxItems: 5 }, [1, 2, 3, 4, 5, 6], 'Must have at most 5 items'],
    [{ prefixItems: [true], items: false }, [1, 2], 'Must have at most 1 item'],
    [{ prefixItems: [true], unevaluatedItems: false }, [1, 2], 'Must have at most 1 item'],
    [{ uniqueItems: true }, [1, 2, 1], 'Must not contain an item twice'],
    [{ contains: { type: 'number' } }, ['x'], 'Must contain at least 1 of the required items'],
    [{ minProperties: 1 }, {}, 'Must have at least 1 member'],
    [{ maxProperties: 0 }, { a: 1 }, 'Must have at most 0 members'],
    [{ not: { type: 'number' } }, 1, 'Has a value that is not allowed'],
    [
      { oneOf: [{ type: 'number' }, { minimum: 0 }] },
      1,
      'Must fit exactly one of the allowed forms, and fits several',
    ],
  ])('describes the requirement of %j', (schema, value, message) => {
    expect(issuesOf({ p: schema }, { p: value })).toEqual([`/p: ${message}`])
  })

  it('reports the format at any place of the pattern', () => {
    const text = { pattern: LONG, format: 'uuid' }
    const inside = {
      'a/b %~ü': { items: { anyOf: [text, { type: 'null' }] } },
      list: { prefixItems: [text] },
    }
    expect(issuesOf(inside, { 'a/b %~ü': ['b'], list: ['b'] })).toEqual([
      '/a~1b %~0ü/0: Must be a UUID',
      '/list/0: Must be a UUID',
    ])
  })

  it('describes the requirements of dependencies and conditions', () => {
    const validate = createSchemaValidator({
      dependentRequired: { a: ['b'] },
      if: { required: ['a'] },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { required: ['c'] },
    })
    const issues = validate({ a: 1 }).map(({ pointer, message }) => `${pointer}: ${message}`)
    expect(issues.sort()).toEqual(['/b: Is required if "a" is given', '/c: Is required'])
  })

  it('reports a choice of types and values once', () => {
    expect(issuesOf({ p: { anyOf: [{ type: 'string' }, { type: 'null' }] } }, { p: 5 })).toEqual([
      '/p: Must be a string or null',
    ])
    expect(issuesOf({ p: { anyOf: [{ enum: ['x'] }, { const: 'y' }, { type: 'null' }] } }, { p: 5 })).toEqual(
      ['/p: Must be null, or one of: "x", "y"'],
    )
    expect(
      issuesOf(
        {
          p: {
            items: {
              anyOf: [
                { type: 'string' },
                { items: { anyOf: [{ type: 'number' }, { type: 'null' }] }, type: 'array' },
              ],
            },
          },
        },
        {
          p: [1, 'x', [1, 'q']],
        },
      ),
    ).toEqual(['/p/0: Must be a string or an array', '/p/2/1: Must be a number or null'])
  })

  it('reports the problems of the branch that fits best', () => {
    const circle = {
      type: 'object',
      properties: { kind: { const: 'circle' }, r: { type: 'number' } },
      required: ['kind', 'r'],
    }
    const box = {
      type: 'object',
      properties: { kind: { const: 'box' }, w: {}, h: {} },
      required: ['kind', 'w', 'h'],
    }
    const shape = { p: { oneOf: [circle, box, { type: 'string' }] } }
    expect(issuesOf(shape, { p: { kind: 'circle', r: 'x' } })).toEqual(['/p/r: Must be a number'])
    expect(issuesOf(shape, { p: { kind: 'box', w: 1 } })).toEqual(['/p/h: Is required'])
    expect(issuesOf({ p: { oneOf: [circle, box] } }, { p: { kind: 'star', w: 1 } })).toEqual([
      '/p/kind: Must be one of: "circle", "box"',
    ])
    expect(issuesOf({ p: { oneOf: [box, { ...box, required: ['kind', 'x', 'y'] }] } }, { p: {} })).toEqual([
      '/p/kind: Is required',
    ])
    expect(issuesOf({ p: { oneOf: [circle, { type: 'string' }] } }, { p: { kind: 'star', r: 1 } })).toEqual([
      '/p/kind: Must be "circle"',
    ])
    expect(issuesOf(shape, { p: 1 })).toEqual(['/p: Must be an object or a string'])
    expect(issuesOf({ p: { anyOf: [{ required: ['a'] }, { required: ['b'] }] } }, { p: {} })).toEqual([
      '/p: Must fit one of the allowed forms',
    ])
  })

  it('shortens long lists and long values', () => {
    const many = Array.from({ length: 30 }, (_, index) => index)
    expect(issuesOf({ p: { enum: many } }, { p: 'x' })[0]).toMatch(/18, 19 and 10 more$/)
    expect(issuesOf({ p: { const: 'y'.repeat(5_000) } }, { p: 'x' })[0]?.length).toBeLessThan(120)
  })
})

describe('standardIssues', () => {
  it('OTC-82: keeps the message of the library and names the parameter', () => {
    expect(
      standardIssues([
        { message: 'Bad', path: ['a', { key: 'b/c' }, 0] },
        { message: 'Whole' },
        { message: 'Empty', path: [] },
      ]),
    ).toEqual([
      { parameter: 'a', pointer: '/a/b~1c/0', message: 'Bad' },
      { pointer: '', message: 'Whole' },
      { pointer: '', message: 'Empty' },
    ])
  })
})
