import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { checkSchema } from './check.ts'
import { createSchemaValidator } from './validator.ts'

function reportedPaths(schema: JsonObject, references: 'allowed' | 'forbidden' = 'allowed'): string[] {
  const paths: string[] = []
  checkSchema(schema, 'input', (where) => void paths.push(where), { references })
  return paths
}

describe('checkSchema', () => {
  it('OTC-32: accepts JSON Schema 2020-12 and reports every violation with its path', () => {
    expect(
      reportedPaths({
        type: 'object',
        properties: { a: { type: 'number', format: 'anything', 'x-note': 1 } },
      }),
    ).toEqual([])
    expect(
      reportedPaths({
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

  it('OTC/T-18: refuses another dialect', () => {
    expect(reportedPaths({ $schema: 'http://json-schema.org/draft-07/schema#' })).toEqual(['input/$schema'])
    expect(reportedPaths({ $schema: 'https://json-schema.org/draft/2020-12/schema' })).toEqual([])
  })

  it('OTC/T-18: refuses keywords that the validator interprets differently from 2020-12', () => {
    for (const keyword of ['nullable', 'id', '$async', '$recursiveRef']) {
      expect(reportedPaths({ properties: { a: { [keyword]: true } } })).toEqual([
        `input/properties/a/${keyword}`,
      ])
      expect(reportedPaths({ properties: { [keyword]: { type: 'string' } } })).toEqual([])
    }
  })

  it('refuses schemas that cannot be compiled: invalid patterns, empty enums, properties named `__proto__`, inner ids', () => {
    expect(reportedPaths({ pattern: '(' })).toEqual(['input/pattern'])
    expect(reportedPaths({ patternProperties: { '[': true } })).toEqual(['input/patternProperties/['])
    expect(reportedPaths({ enum: [] })).toEqual(['input/enum'])
    expect(reportedPaths(JSON.parse('{"properties":{"__proto__":{"type":"string"}}}'))).toEqual([
      'input/properties',
    ])
    expect(reportedPaths({ $id: 'urn:a', properties: { a: { $id: 'urn:b' } } })).toEqual([
      'input/properties/a/$id',
    ])
  })

  it('OTC-34, OTC-36: finds references and definitions anywhere if they are forbidden, but allows properties of those names', () => {
    const schema = {
      properties: {
        $ref: { type: 'string' },
        p: { anyOf: [{ $ref: '#/$defs/x' }] },
        q: { const: { $defs: 1 } },
      },
      $defs: { x: {} },
      if: { definitions: {} },
    }
    expect(reportedPaths(schema, 'forbidden').sort()).toEqual([
      'input/$defs',
      'input/if/definitions',
      'input/properties/p/anyOf/0/$ref',
    ])
    expect(reportedPaths(schema, 'allowed')).toEqual([])
  })

  it('accepts no schema that would fail to compile at the first call', () => {
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
          if (reportedPaths(schema, 'forbidden').length > 0) return
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
