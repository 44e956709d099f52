import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { toInputSchema, toOutputSchema } from './codec-tool.ts'
import { LEGACY_REVISIONS, NEW_REVISION } from './wire.ts'

/** Not strict, because draft 2020-12 allows unknown keywords. */
function accepts(schema: JsonObject, value: JsonValue): boolean {
  return new Ajv2020({ strict: false }).validate(schema, value)
}

describe('schemas per revision', () => {
  it('MCP-51: a tool without parameters takes an empty object, and a root without a type becomes an object', () => {
    for (const revision of [...LEGACY_REVISIONS, NEW_REVISION] as const) {
      expect(toInputSchema({}, revision)).toEqual({
        type: 'object',
        properties: {},
        additionalProperties: false,
      })
      expect(toInputSchema({ type: 'object' }, revision)).toEqual({ type: 'object', properties: {} })
      expect(toInputSchema({ anyOf: [{ required: ['a'] }] }, revision)).toMatchObject({ type: 'object' })
    }
  })

  it('MCP-52: members of properties that are true or false become objects in older revisions', () => {
    const schema = { type: 'object', properties: { any: true, none: false, text: { type: 'string' } } }
    for (const revision of LEGACY_REVISIONS) {
      const properties = { any: {}, none: { not: {} }, text: { type: 'string' } }
      expect(toInputSchema(schema, revision)).toEqual({ type: 'object', properties })
      expect(toOutputSchema(schema, revision)).toEqual({ type: 'object', properties })
    }
    expect(toInputSchema(schema, NEW_REVISION)).toBe(schema)
  })

  it('MCP-53, MCP-54: a schema of a type other than object is wrapped with its references, and its dialect stays at the root', () => {
    const tree: JsonObject = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'array',
      items: { anyOf: [{ $ref: '#/$defs/leaf' }, { $ref: '#' }] },
      $defs: { leaf: { type: 'string', const: 'leaf', default: { $ref: '#/data' } } },
    }
    const wrapped = toOutputSchema(tree, '2025-11-25')
    expect(Object.keys(wrapped)).toEqual(['$schema', 'type', 'properties', 'required'])
    expect(accepts(wrapped, { result: ['leaf', ['leaf', []]] })).toBe(true)
    expect(accepts(wrapped, { result: ['twig'] })).toBe(false)
    expect(JSON.stringify(wrapped)).toContain('"default":{"$ref":"#/data"}')
    expect(toOutputSchema(tree, NEW_REVISION)).toBe(tree)
  })

  it('MCP-53, MCP-67: a wrapped schema accepts exactly the wrapped values', () => {
    const schema = fc.constantFrom<JsonObject>(
      { type: 'number', minimum: 0 },
      { type: ['string', 'null'] },
      { anyOf: [{ type: 'object', required: ['a'] }, { type: 'boolean' }] },
      { $ref: '#/$defs/x', $defs: { x: { type: 'array', items: { type: 'integer' } } } },
    )
    fc.assert(
      fc.property(schema, fc.jsonValue(), (given, json) => {
        const value: JsonValue = JSON.parse(JSON.stringify(json))
        expect(accepts(toOutputSchema(given, '2025-06-18'), { result: value })).toBe(accepts(given, value))
      }),
    )
  })
})
