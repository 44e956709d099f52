import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { createSchemaValidator, NO_ISSUES } from './validator.ts'

function messagesOf(schema: JsonObject, value: JsonValue): string[] {
  return createSchemaValidator(schema)(value).map(({ pointer, message }) => `${pointer} ${message}`)
}

/** Fails at the last value that is checked. */
const NODE: JsonObject = {
  type: 'object',
  properties: { a: { $ref: '#/$defs/node' } },
}

/** Each definition uses the next one twice. */
function doubling(keyword: 'allOf' | 'anyOf'): JsonObject {
  const levels = 40
  const definitions = Array.from({ length: levels }, (_, level): [string, JsonObject] => {
    const next = { $ref: `#/$defs/d${level + 1}` }
    return [
      `d${level}`,
      level === levels - 1 ? { type: keyword === 'allOf' ? 'object' : 'null' } : { [keyword]: [next, next] },
    ]
  })
  return { $ref: '#/$defs/d0', $defs: Object.fromEntries(definitions) }
}

describe('createSchemaValidator', () => {
  it('returns one shared empty list for every valid value', () => {
    expect(createSchemaValidator({ type: 'number' })(1)).toBe(NO_ISSUES)
    expect(createSchemaValidator({})({ any: 'thing' })).toBe(NO_ISSUES)
  })

  it('OTC/T-18: neither converts values nor adds defaults, and treats `format` as an annotation', () => {
    const schema = {
      type: 'object',
      properties: { n: { type: 'number', default: 1 }, s: { format: 'email' } },
    }
    const value = { s: 'no address' }
    expect(messagesOf(schema, value)).toEqual([])
    expect(value).toEqual({ s: 'no address' })
    expect(messagesOf(schema, { n: '1' })).toEqual(['/n Must be a number'])
  })

  it('OTC/T-18: accepts undeclared parameters unless the schema is closed', () => {
    const schema = { type: 'object', properties: { city: { type: 'string' } } }
    expect(messagesOf(schema, { more: 1 })).toEqual([])
    expect(messagesOf({ ...schema, additionalProperties: false }, { citty: 1 })).toEqual([
      '/citty Is not known here (did you mean "city"?)',
    ])
  })

  it('reads nothing from a prototype: `toString`, `constructor` and `__proto__` are ordinary names', () => {
    const required = ['toString', 'constructor', '__proto__']
    expect(messagesOf({ required }, {})).toEqual(required.map((name) => `/${name} Is required`))
    expect(messagesOf({ required }, JSON.parse('{"toString":1,"constructor":2,"__proto__":3}'))).toEqual([])
    expect(messagesOf({ properties: { constructor: { type: 'string' } } }, {})).toEqual([])
    expect(messagesOf({ additionalProperties: false }, JSON.parse('{"__proto__":{"a":1}}'))).toEqual([
      '/__proto__ Is not allowed',
    ])
  })

  it('never runs text of a schema as code', () => {
    const evil = '"];globalThis.pwned=true;//\u2028\n`$' + '{globalThis.pwned=true}`'
    const schema = {
      properties: { [evil]: { enum: [evil], description: evil } },
      required: [evil],
      title: evil,
    }
    expect(messagesOf(schema, {})).toHaveLength(1)
    expect(messagesOf(schema, { [evil]: 1 })).toHaveLength(1)
    expect('pwned' in globalThis).toBe(false)
  })

  it('reports only the first problem of a large value, and at most fifty of a small one', () => {
    const schema = { items: { type: 'number' } }
    expect(
      messagesOf(
        schema,
        Array.from({ length: 300_000 }, () => 'x'),
      ),
    ).toEqual(['/0 Must be a number'])
    expect(
      messagesOf(
        schema,
        Array.from({ length: 500 }, () => 'x'),
      ),
    ).toHaveLength(50)
  })

  it('checks keywords beside `prefixItems` also for shorter lists', () => {
    expect(messagesOf({ prefixItems: [true, { type: 'string' }], contains: { const: 1 } }, [2])).toEqual([
      ' Must contain at least 1 of the required items',
    ])
  })

  it('checks patterns beside alternatives, and refuses patterns that cannot be checked', () => {
    const closed = { properties: { a: true }, additionalProperties: false }
    const pattern = { patternProperties: { '^[ab]$': true } }
    const recursive = {
      ...pattern,
      anyOf: [{ ...pattern, properties: { a: closed }, additionalProperties: true }],
      not: { required: ['b'] },
    }
    expect(messagesOf(recursive, { a: {} })).toEqual([])
    expect(messagesOf(recursive, { a: { c: null } })).toHaveLength(1)
    const unevaluated = { ...recursive, unevaluatedProperties: false }
    expect(messagesOf(unevaluated, { a: { c: null } })).toHaveLength(1)
  })

  it('does not accept NaN and Infinity as numbers', () => {
    expect(messagesOf({ type: 'number' }, Number.NaN)).toEqual([' Must be a number'])
    expect(messagesOf({ type: 'number' }, Number.POSITIVE_INFINITY)).toEqual([' Must be a number'])
  })

  it('keeps no state between checks', () => {
    const validate = createSchemaValidator({ type: 'object', required: ['a'] })
    expect(validate({})).toHaveLength(1)
    expect(validate({ a: 1 })).toBe(NO_ISSUES)
    expect(validate({})).toHaveLength(1)
  })

  it('returns a verdict also where the generated code of Ajv fails', () => {
    const schema = {
      if: { allOf: [false] },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { anyOf: [{ contains: { type: 'string' } }], not: true },
      else: { type: 'null' },
    }
    const validate = createSchemaValidator(schema)
    expect(validate(null)).toEqual([])
    expect(validate(1)).toHaveLength(1)
  })

  it.each<[string, JsonObject]>([
    ['in place', doubling('allOf')],
    ['as alternatives', doubling('anyOf')],
    ['at every level of the value', { $ref: '#/$defs/node', $defs: { node: { anyOf: [NODE, NODE] } } }],
    ['in a cycle', { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }],
  ])('ends the check of an imported schema that is built to never end: %s', (_title, schema) => {
    let deep: JsonValue = 1
    for (let level = 0; level < 60; level += 1) deep = { a: deep }
    expect(createSchemaValidator(schema, { untrusted: true })(deep)).toHaveLength(1)
  })

  it('checks a long list of references without reaching the step limit', () => {
    const schema = { type: 'array', items: { $ref: '#/$defs/n' }, $defs: { n: { type: 'number' } } }
    const validate = createSchemaValidator(schema, { untrusted: true })
    const many = Array.from({ length: 50_000 }, (_, index) => index)
    for (let round = 0; round < 30; round += 1) expect(validate(many)).toBe(NO_ISSUES)
    expect(validate(['x'])).toHaveLength(1)
  })
})

const PATTERNS = ['^[A-Z]{2}$', '^[0-9]{5}$', '^$', '', 'x', '^a+$', '^[0-9]+:[0-9]+$', '\\S', '/'] as const
const TEXTS = ['DE', '10115', '', 'x', 'aaa', '1234:5678', ' ', '/v1', 'FR'] as const

/** Names that a library could mistake for part of a pointer, of a URL or of its generated code. */
const AMBIGUOUS_NAMES = [
  'a/b',
  'a~b',
  'a~1b',
  'a%b',
  'a%20b',
  'a b',
  'a',
  'A',
  'é',
  '#',
  '"',
  'toString',
  '0',
  '',
]

describe.each([
  ['an authored schema', false],
  ['an imported schema', true],
])('in %s', (_origin, untrusted) => {
  it('every pattern is checked separately, on members and on names', () => {
    const patterns = fc.array(fc.constantFrom(...PATTERNS), { minLength: 1, maxLength: 5 })
    const texts = fc.array(fc.constantFrom(...TEXTS), { minLength: 5, maxLength: 5 })
    fc.assert(
      fc.property(patterns, patterns, texts, texts, (ofMembers, ofNames, values, names) => {
        const schema: JsonObject = {
          properties: {
            members: {
              properties: Object.fromEntries(ofMembers.map((pattern, index) => [`m${index}`, { pattern }])),
            },
            names: {
              patternProperties: Object.fromEntries(
                ofNames.map((pattern, index) => [pattern, { minimum: index }]),
              ),
              additionalProperties: false,
            },
          },
        }
        const value: JsonObject = {
          members: Object.fromEntries(values.map((text, index) => [`m${index}`, text])),
          names: Object.fromEntries(names.map((text, index) => [text, index])),
        }
        const floors = Object.entries(Object.fromEntries(ofNames.map((pattern, index) => [pattern, index])))
        const namesFit = Object.entries(Object.fromEntries(names.map((text, index) => [text, index]))).every(
          ([name, number]) => {
            const hits = floors.filter(([pattern]) => new RegExp(pattern, 'u').test(name))
            return hits.length > 0 && hits.every(([, floor]) => number >= floor)
          },
        )
        const membersFit = ofMembers.every((pattern, index) =>
          new RegExp(pattern, 'u').test(values[index] ?? ''),
        )
        const fits = createSchemaValidator(schema, { untrusted })(value).length === 0
        expect(fits).toBe(membersFit && namesFit)
      }),
      { numRuns: 500 },
    )
  })

  it('patterns of a country and of a zip code are not confused', () => {
    const schema: JsonObject = {
      properties: { country: { pattern: '^[A-Z]{2}$' }, zip: { pattern: '^[0-9]{5}$' } },
    }
    const validate = createSchemaValidator(schema, { untrusted })
    expect(validate({ country: 'DE', zip: '10115' })).toBe(NO_ISSUES)
    expect(validate({ country: 'DE', zip: 'FR' })).toHaveLength(1)
  })

  it('definitions with similar names are distinct', () => {
    const $defs = Object.fromEntries(AMBIGUOUS_NAMES.map((name, index) => [name, { const: index }]))
    const properties = Object.fromEntries(
      AMBIGUOUS_NAMES.map((name) => [
        name,
        { $ref: `#/$defs/${encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))}` },
      ]),
    )
    const validate = createSchemaValidator({ properties, $defs }, { untrusted })
    for (const [index, name] of AMBIGUOUS_NAMES.entries()) {
      expect([name, validate({ [name]: index })]).toEqual([name, []])
      expect([name, validate({ [name]: index + 1 }).length]).toEqual([name, 1])
    }
  })

  it('similar values are distinct', () => {
    const looks: JsonValue[] = [
      1,
      '1',
      true,
      'true',
      null,
      'null',
      [1],
      '[1]',
      {},
      '{}',
      [],
      '',
      [[]],
      { a: null },
    ]
    for (const wanted of looks) {
      const asConst = createSchemaValidator({ const: wanted }, { untrusted })
      const asEnum = createSchemaValidator({ enum: [wanted] }, { untrusted })
      for (const tried of looks) {
        expect([tried, asConst(tried).length]).toEqual([tried, tried === wanted ? 0 : 1])
        expect([tried, asEnum(tried).length]).toEqual([tried, tried === wanted ? 0 : 1])
      }
    }
    expect(createSchemaValidator({ uniqueItems: true }, { untrusted })(looks)).toBe(NO_ISSUES)
  })
})
