import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { checkSchema } from '#schema/check'
import { createSchemaValidator } from '#schema/validator'
import { Documents } from './documents.ts'
import type { Dialect } from './operation.ts'
import { SchemaDefinitions } from './schemas.ts'

interface Lowered {
  readonly schema: JsonObject
  readonly warnings: readonly string[]
}

function lower(
  schema: JsonValue,
  {
    dialect = '3.0',
    direction = 'input',
    schemas = {},
  }: { dialect?: Dialect; direction?: 'input' | 'output'; schemas?: JsonObject } = {},
): Lowered {
  const warnings: string[] = []
  const root = { components: { schemas } }
  const documents = new Documents('file:///api.json', new Map([['file:///api.json', root]]))
  const definitions = new SchemaDefinitions({
    documents,
    dialect,
    direction,
    warn: (text) => warnings.push(text),
  })
  const uses = new Set<string>()
  const lowered = definitions.lower({ value: schema, document: 'file:///api.json' }, uses)
  return { schema: definitions.complete(lowered, uses), warnings }
}

describe('the dialect of OpenAPI 3.0', () => {
  it.each<[string, JsonObject, JsonObject]>([
    ['nullable', { type: 'string', nullable: true }, { type: ['string', 'null'] }],
    [
      'nullable beside enum',
      { type: 'string', nullable: true, enum: ['a'] },
      { type: ['string', 'null'], enum: ['a', null] },
    ],
    [
      'nullable without a type',
      { nullable: true, allOf: [{ type: 'string' }] },
      { anyOf: [{ allOf: [{ type: 'string' }] }, { type: 'null' }] },
    ],
    [
      'exclusive bounds',
      { type: 'number', minimum: 1, exclusiveMinimum: true, maximum: 5, exclusiveMaximum: false },
      { type: 'number', exclusiveMinimum: 1, maximum: 5 },
    ],
    [
      'tuples',
      { type: 'array', items: [{ type: 'string' }] },
      { type: 'array', prefixItems: [{ type: 'string' }] },
    ],
    [
      'bytes',
      { type: 'string', format: 'byte' },
      { type: 'string', format: 'byte', contentEncoding: 'base64' },
    ],
    ['files', { type: 'file' }, { type: 'string' }],
    ['an example', { type: 'string', example: 'x' }, { type: 'string', examples: ['x'] }],
    [
      'an unknown keyword',
      { type: 'object', xml: {}, externalDocs: {}, 'x-y': 1, id: 'z' },
      { type: 'object' },
    ],
    [
      'an invalid value',
      { type: 'any', required: true, enum: [], minLength: -1, multipleOf: 0, items: 3 },
      {},
    ],
  ])('%s', (_title, written, expected) => {
    expect(lower(written)).toEqual({ schema: expected, warnings: [] })
  })

  it('an invalid pattern is reported and left out', () => {
    const { schema, warnings } = lower({ type: 'string', pattern: '[' })
    expect([schema, warnings.length]).toEqual([{ type: 'string' }, 1])
  })

  it('before 3.1 a reference has no siblings except descriptions', () => {
    const schemas = { A: { type: 'string' } }
    const written = { $ref: '#/components/schemas/A', description: 'd', minLength: 3 }
    expect(lower(written, { schemas }).schema).toMatchObject({ $ref: '#/$defs/A', description: 'd' })
    expect(lower(written, { schemas }).schema).not.toHaveProperty('minLength')
    expect(lower(written, { schemas, dialect: '3.1' }).schema).toHaveProperty('minLength', 3)
  })
})

describe('read-only and write-only members', () => {
  const schemas = { Base: { type: 'object', properties: { id: { type: 'string', readOnly: true } } } }
  const written = {
    allOf: [{ $ref: '#/components/schemas/Base' }],
    type: 'object',
    required: ['id', 'own', 'made', 'password'],
    properties: { own: {}, made: { readOnly: true }, password: { writeOnly: true } },
  }

  it('a request has no read-only members, even if allOf declares them', () => {
    const { schema } = lower(written, { schemas })
    expect(schema.required).toEqual(['own', 'password'])
    expect(Object.keys(schema.properties ?? {})).toEqual(['own', 'password'])
    expect(schema.$defs).toEqual({ Base: { type: 'object', properties: {} } })
  })

  it('a response need not have write-only members', () => {
    const { schema } = lower(written, { schemas, direction: 'output' })
    expect(schema.required).toEqual(['id', 'own', 'made'])
    expect(Object.keys(schema.properties ?? {})).toEqual(['own', 'made', 'password'])
  })
})

describe('discriminators', () => {
  const schemas = {
    Cat: { type: 'object', properties: { kind: { type: 'string' }, lives: { type: 'integer' } } },
    Dog: { type: 'object', properties: { kind: { type: 'string' }, bark: { type: 'string' } } },
  }
  const oneOf = [{ $ref: '#/components/schemas/Cat' }, { $ref: '#/components/schemas/Dog' }]
  const mapping = { cat: '#/components/schemas/Cat', tiger: 'Cat', dog: '#/components/schemas/Dog' }

  it('a mapping makes the branches exclusive', () => {
    const { schema } = lower({ oneOf, discriminator: { propertyName: 'kind', mapping } }, { schemas })
    const check = createSchemaValidator(schema)
    expect(['cat', 'tiger', 'dog', 'cow'].map((kind) => check({ kind }).length === 0)).toEqual([
      true,
      true,
      true,
      false,
    ])
    expect(check({ kind: 'dog', bark: 1 }).length).toBeGreaterThan(0)
  })

  it('null is an additional branch', () => {
    const written = { nullable: true, oneOf, discriminator: { propertyName: 'kind', mapping } }
    const check = createSchemaValidator(lower(written, { schemas }).schema)
    expect([null, { kind: 'cat' }, { kind: 'cow' }].map((value) => check(value).length === 0)).toEqual([
      true,
      true,
      false,
    ])
  })

  it('without a mapping, one matching branch is enough', () => {
    const { schema } = lower({ oneOf, discriminator: { propertyName: 'kind' } }, { schemas })
    expect(createSchemaValidator(schema)({ kind: 'Cat' })).toEqual([])
  })
})

describe('unusual schemas', () => {
  it('a recursive schema is finite and still enforced', () => {
    const schemas = {
      Tree: {
        type: 'object',
        properties: { next: { $ref: '#/components/schemas/Tree' } },
        additionalProperties: false,
      },
    }
    const check = createSchemaValidator(lower({ $ref: '#/components/schemas/Tree' }, { schemas }).schema)
    expect(check({ next: { next: {} } })).toEqual([])
    expect(check({ next: { next: { x: 1 } } })).not.toEqual([])
  })

  it('schemas beyond the size limit are left out, and the schema accepts no fewer values', () => {
    const schemas: Record<string, JsonValue> = {}
    const names = Array.from({ length: 400 }, (_unused, at) => `S${at}`)
    // Each schema refers to two others, and the last ones refer to the first.
    for (const [at, name] of names.entries()) {
      const oneOf = [1, 2].map((more) => ({ $ref: `#/components/schemas/S${(2 * at + more) % 400}` }))
      const text = { type: 'string', description: 'x'.repeat(400) }
      schemas[name] = { type: 'object', properties: { text, both: { oneOf } } }
    }
    const { schema } = lower({ $ref: '#/components/schemas/S0' }, { schemas, direction: 'output' })
    expect(JSON.stringify(schema).length).toBeLessThan(40_000)
    expect(schema.$defs).toMatchObject({ S1: { type: 'object' }, S62: {} })
    const check = createSchemaValidator(schema)
    expect(check({ text: 1 })).not.toEqual([])
    expect(check({ both: { both: { text: 1 } } })).not.toEqual([])
    const deep = { both: { both: { both: { both: { both: { both: { text: 1 } } } } } } }
    expect(check(deep)).toEqual([])
    const small = lower({ $ref: '#/components/schemas/S300' }, { schemas: { S300: { type: 'string' } } })
    expect(small.schema.$defs).toEqual({ S300: { type: 'string' } })
  })

  it('ten thousand chained references and a hundred thousand levels do not overflow the stack', () => {
    const schemas: Record<string, JsonValue> = {}
    for (let at = 0; at < 10_000; at += 1)
      schemas[`S${at}`] = { items: { $ref: `#/components/schemas/S${at + 1}` } }
    const { $defs = {} } = lower({ $ref: '#/components/schemas/S0' }, { schemas }).schema
    expect(Object.keys(isJsonObject($defs) ? $defs : {}).length).toBeGreaterThan(500)
    let deep: JsonObject = {}
    for (let at = 0; at < 100_000; at += 1) deep = { items: deep }
    expect(lower(deep).warnings.join()).toMatch(/nested more than/)
  })

  it('members may have any name, and `__proto__` is reported', () => {
    const written: JsonValue = JSON.parse(
      '{"type":"object","properties":{"__proto__":{},"constructor":{"type":"string"}}}',
    )
    const { schema, warnings } = lower(written)
    expect(schema.properties).toEqual({ constructor: { type: 'string' } })
    expect(warnings.length).toBe(1)
  })

  const KEYWORDS = [
    'type',
    'nullable',
    'properties',
    'items',
    'allOf',
    'oneOf',
    'anyOf',
    'not',
    'required',
    'enum',
    'format',
    'pattern',
    'minimum',
    'exclusiveMinimum',
    'maximum',
    'additionalProperties',
    '$ref',
    'discriminator',
    'readOnly',
    'example',
    'default',
    'minLength',
    '$defs',
    'const',
    'dependentRequired',
    'patternProperties',
    'uniqueItems',
    'title',
  ]
  const anyValue = fc.letrec<{ value: JsonValue }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 5, depthSize: 'small' },
      fc.constantFrom<JsonValue>(
        null,
        true,
        false,
        0,
        1,
        -3,
        'string',
        'object',
        '[',
        'a',
        '#/components/schemas/A',
        '#/x',
      ),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...KEYWORDS, 'a', '('), tie('value'), { maxKeys: 5 }),
    ),
  })).value

  it('any value in place of a schema becomes valid JSON Schema 2020-12', () => {
    fc.assert(
      fc.property(
        anyValue,
        anyValue,
        fc.constantFrom<Dialect>('2.0', '3.0', '3.1'),
        (written, a, dialect) => {
          const { schema } = lower(written, { dialect, schemas: { A: a } })
          const problems: string[] = []
          checkSchema(schema, '', (where, problem) => void problems.push(`${where}: ${problem}`), {
            references: 'allowed',
          })
          expect(problems).toEqual([])
          expect(isJsonObject(schema)).toBe(true)
        },
      ),
      { numRuns: 1_000 },
    )
  })
})
