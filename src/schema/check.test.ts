import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { checkSchema } from './check.ts'
import { createSchemaValidator } from './validator.ts'

function wheresOf(schema: JsonObject, references: 'allowed' | 'forbidden' = 'allowed'): string[] {
  const wheres: string[] = []
  checkSchema(schema, 'input', (where) => wheres.push(where), { references })
  return wheres
}

describe('checkSchema', () => {
  it('OTC-32: accepts JSON Schema 2020-12 and reports every violation with its place', () => {
    expect(
      wheresOf({ type: 'object', properties: { a: { type: 'number', format: 'anything', 'x-note': 1 } } }),
    ).toEqual([])
    expect(
      wheresOf({
        type: 'objekt',
        properties: { a: { minimum: '1', maxLength: -1 }, 'b/c': { items: [] } },
      }).sort(),
    ).toEqual([
      'input/properties/a/maxLength',
      'input/properties/a/minimum',
      'input/properties/b~1c/items',
      'input/type',
    ])
  })

  it('T-18: refuses another dialect', () => {
    expect(wheresOf({ $schema: 'http://json-schema.org/draft-07/schema#' })).toEqual(['input/$schema'])
    expect(wheresOf({ $schema: 'https://json-schema.org/draft/2020-12/schema' })).toEqual([])
  })

  it('T-18: refuses keywords that our validator would read in another way than 2020-12', () => {
    for (const keyword of ['nullable', 'id', '$async', '$recursiveRef']) {
      expect(wheresOf({ properties: { a: { [keyword]: true } } })).toEqual([`input/properties/a/${keyword}`])
      expect(wheresOf({ properties: { [keyword]: { type: 'string' } } })).toEqual([])
    }
  })

  it('refuses what cannot be compiled: patterns, empty enums, properties named `__proto__`, inner ids', () => {
    expect(wheresOf({ pattern: '(' })).toEqual(['input/pattern'])
    expect(wheresOf({ patternProperties: { '[': true } })).toEqual(['input/patternProperties/['])
    expect(wheresOf({ enum: [] })).toEqual(['input/enum'])
    expect(wheresOf(JSON.parse('{"properties":{"__proto__":{"type":"string"}}}'))).toEqual([
      'input/properties',
    ])
    expect(wheresOf({ $id: 'urn:a', properties: { a: { $id: 'urn:b' } } })).toEqual([
      'input/properties/a/$id',
    ])
  })

  it('OTC-34, OTC-36: finds references and definitions anywhere when they are forbidden, but no property of that name', () => {
    const schema = {
      properties: {
        $ref: { type: 'string' },
        p: { anyOf: [{ $ref: '#/$defs/x' }] },
        q: { const: { $defs: 1 } },
      },
      $defs: { x: {} },
      if: { definitions: {} },
    }
    expect(wheresOf(schema, 'forbidden').sort()).toEqual([
      'input/$defs',
      'input/if/definitions',
      'input/properties/p/anyOf/0/$ref',
    ])
    expect(wheresOf(schema, 'allowed')).toEqual([])
  })

  it('lets nothing pass that would fail to compile at the first call', () => {
    const value = fc.oneof(
      fc.constantFrom<unknown>(
        true,
        null,
        'string',
        'object',
        -1,
        0,
        2,
        '^a$',
        '(',
        [],
        ['string'],
        {},
        { a: true },
      ),
      fc.jsonValue({ maxDepth: 2 }),
    )
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom(...KEYWORDS), value, { maxKeys: 6, noNullPrototype: true }),
        (made) => {
          const schema: JsonObject = JSON.parse(JSON.stringify(made))
          if (wheresOf(schema, 'forbidden').length > 0) return
          const validate = createSchemaValidator(schema)
          for (const sample of [null, 1, 'a', [], [1, 1], {}, { a: 1 }])
            expect(() => validate(sample)).not.toThrow()
        },
      ),
      { numRuns: 2_000 },
    )
  })
})

const KEYWORDS = [
  ...['type', 'enum', 'const', 'multipleOf', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
  ...[
    'minLength',
    'maxLength',
    'pattern',
    'format',
    'minItems',
    'maxItems',
    'uniqueItems',
    'minContains',
    'maxContains',
  ],
  ...[
    'items',
    'prefixItems',
    'contains',
    'additionalItems',
    'unevaluatedItems',
    'minProperties',
    'maxProperties',
  ],
  ...['required', 'dependentRequired', 'dependentSchemas', 'dependencies', 'properties', 'patternProperties'],
  ...[
    'additionalProperties',
    'unevaluatedProperties',
    'propertyNames',
    'allOf',
    'anyOf',
    'oneOf',
    'not',
    'if',
    'then',
  ],
  ...[
    'else',
    'nullable',
    'id',
    '$id',
    '$anchor',
    '$async',
    '$comment',
    'default',
    'discriminator',
    'contentSchema',
  ],
  ...[
    '$vocabulary',
    '$dynamicAnchor',
    '$recursiveAnchor',
    'readOnly',
    'examples',
    'formatMinimum',
    '$data',
    '$schema',
  ],
]
