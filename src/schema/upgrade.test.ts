import { describe, expect, it } from 'vitest'
import type { Finding } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import { checkSchema } from './check.ts'
import { isNewest, unknownDialect, upgradeSchema } from './upgrade.ts'

const DRAFT_7 = 'http://json-schema.org/draft-07/schema#'

function upgraded(schema: JsonObject): JsonObject {
  expect(unknownDialect(schema)).toBeUndefined()
  const result = upgradeSchema(schema)
  const findings: Omit<Finding, 'toolId'>[] = []
  checkSchema(result, '', (where, problem, fix) => void findings.push({ where, problem, fix }), {
    references: 'allowed',
  })
  expect(findings).toEqual([])
  return result
}

describe('MCP-54: schemas of older dialects', () => {
  it.each<[string, JsonObject, JsonObject]>([
    ['lose `$schema`', { $schema: DRAFT_7, type: 'object' }, { type: 'object' }],
    [
      'have tuples',
      { $schema: DRAFT_7, items: [{ type: 'string' }], additionalItems: false },
      { prefixItems: [{ type: 'string' }], items: false },
    ],
    [
      'have references into tuples and additional items',
      {
        $schema: DRAFT_7,
        items: [{ type: 'string' }, { $ref: '#/items/0' }],
        additionalItems: { type: 'null' },
        properties: { items: { type: 'array' }, a: { $ref: '#/properties/items' } },
        dependencies: { a: { properties: { b: { $ref: '#/additionalItems' } } } },
        contains: { $ref: '#/dependencies/a' },
      },
      {
        prefixItems: [{ type: 'string' }, { $ref: '#/prefixItems/0' }],
        items: { type: 'null' },
        properties: { items: { type: 'array' }, a: { $ref: '#/properties/items' } },
        dependentSchemas: { a: { properties: { b: { $ref: '#/items' } } } },
        contains: { $ref: '#/dependentSchemas/a' },
      },
    ],
    [
      'have references to properties that are named like keywords',
      {
        $schema: DRAFT_7,
        properties: {
          dependencies: { items: [{ type: 'string' }] },
          a: { $ref: '#/properties/dependencies' },
          b: { $ref: '#/properties/dependencies/items/0' },
          c: { $ref: '#/definitions/dependencies/dependencies/dependencies' },
          d: { $ref: '#/dependencies/additionalItems' },
        },
        definitions: { dependencies: { dependencies: { dependencies: { type: 'object' } } } },
        dependencies: { items: ['a'], additionalItems: { required: ['b'] } },
      },
      {
        properties: {
          dependencies: { prefixItems: [{ type: 'string' }] },
          a: { $ref: '#/properties/dependencies' },
          b: { $ref: '#/properties/dependencies/prefixItems/0' },
          c: { $ref: '#/definitions/dependencies/dependentSchemas/dependencies' },
          d: { $ref: '#/dependentSchemas/additionalItems' },
        },
        definitions: { dependencies: { dependentSchemas: { dependencies: { type: 'object' } } } },
        dependentRequired: { items: ['a'] },
        dependentSchemas: { additionalItems: { required: ['b'] } },
      },
    ],
    [
      'have dependencies',
      { $schema: DRAFT_7, dependencies: { a: ['b'], c: { required: ['d'] } } },
      { dependentRequired: { a: ['b'] }, dependentSchemas: { c: { required: ['d'] } } },
    ],
    [
      'have boolean exclusive limits (draft 4)',
      { $schema: 'http://json-schema.org/draft-04/schema#', minimum: 1, exclusiveMinimum: true },
      { minimum: 1, exclusiveMinimum: 1 },
    ],
    [
      'ignore keywords beside a reference',
      {
        $schema: DRAFT_7,
        definitions: { a: {} },
        properties: { x: { $ref: '#/definitions/a', type: 'string' } },
      },
      { definitions: { a: {} }, properties: { x: { $ref: '#/definitions/a' } } },
    ],
    [
      'are upgraded in nested schemas, but not in property names',
      { type: 'object', properties: { id: { type: 'string', nullable: true }, items: { id: 'x' } } },
      { type: 'object', properties: { id: { type: ['string', 'null'] }, items: {} } },
    ],
  ])('%s', (_name, schema, expected) => {
    expect(upgraded(schema)).toEqual(expected)
  })

  it('2020-12 is unchanged; unknown dialects are refused', () => {
    const newest = { $schema: 'https://json-schema.org/draft/2020-12/schema', $defs: { a: { $anchor: 'a' } } }
    expect([isNewest(newest), upgradeSchema(newest)]).toEqual([true, newest])
    expect(unknownDialect({ $schema: 'https://example.com/own' })).toBe('https://example.com/own')
  })
})
