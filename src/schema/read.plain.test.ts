import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { ADD, findingsOf, prepared } from '../../test/samples/definitions.ts'

const A = { type: 'number', description: 'The first number.' }
const B = { type: 'number', description: 'The second number.' }

describe('JSON Schema written by hand', () => {
  it.each([
    [{ type: 'object', propertis: { a: A } }, 'input/propertis', 'properties'],
    [{ type: 'object', Properties: { a: A } }, 'input/Properties', 'properties'],
    [{ type: 'object', properties: { a: A }, require: ['a'] }, 'input/require', 'required'],
    [{ type: 'object', properties: { a: { ...A, min_imum: 1 } } }, 'input/properties/a/min_imum', 'minimum'],
    [{ type: 'object', properties: { a: { ...A, enums: [1] } } }, 'input/properties/a/enums', 'enum'],
    [
      { type: 'object', properties: { a: A }, additionalProperty: false },
      'input/additionalProperty',
      'additionalProperties',
    ],
  ])('OTC/T-18: %j is a misspelling, not an annotation', (input, where, meant) => {
    expect(findingsOf({ input })).toEqual([
      `${where}: Is not a keyword of JSON Schema 2020-12. Did you mean "${meant}"?`,
    ])
  })

  it('OTC-33: misspellings are reported in outputs too', () => {
    expect(findingsOf({ output: { type: 'string', patern: '^a' } })).toEqual([
      'output/patern: Is not a keyword of JSON Schema 2020-12. Did you mean "pattern"?',
    ])
  })

  it('OTC/T-18: annotations unlike any keyword, keywords of OpenAPI and `x-` names are kept', () => {
    const note = {
      note: 'a',
      example: 1,
      'x-require': 1,
      discriminator: {},
      markdownDescription: 'm',
      unit: 'm',
    }
    const input = { type: 'object', properties: { a: { ...A, ...note }, require: B, propertis: B }, ...note }
    expect(findingsOf({ input })).toEqual([])
  })

  it('OTC/T-18: annotations of a library are not checked', () => {
    const input = z.object({ a: z.number().meta({ description: 'A number.', enums: ['x'], require: true }) })
    expect(prepared({ ...ADD, input }).inputSchema).toMatchObject({ properties: { a: { enums: ['x'] } } })
  })
})

describe('`required` in JSON Schema written by hand', () => {
  const object = (more: object) => ({ type: 'object', properties: { a: A, b: B, center: B }, ...more })

  it('OTC/T-18: must name a declared property', () => {
    expect(findingsOf({ input: object({ required: ['a', 'centre', 'colour'] }) })).toEqual([
      'input/required/1: "centre" is not among the properties. Did you mean "center"?',
      'input/required/2: "colour" is not among the properties.',
    ])
    expect(findingsOf({ input: object({ required: ['c'], additionalProperties: false }) })).toHaveLength(1)
    const inner = { properties: { list: { ...A, type: 'array', items: object({ required: ['c'] }) } } }
    expect(findingsOf({ input: { type: 'object', ...inner } })).toEqual([
      'input/properties/list/items/required/0: "c" is not among the properties.',
    ])
  })

  it.each([
    { additionalProperties: true },
    { additionalProperties: { type: 'number' } },
    { unevaluatedProperties: { type: 'number' } },
    { patternProperties: { '^c': { type: 'number' } } },
    { allOf: [{ properties: { c: B } }] },
  ])('OTC/T-18: may name a property that %j could declare', (more) => {
    expect(findingsOf({ output: object({ ...more, required: ['c'] }) })).toEqual([])
  })

  it('OTC/T-18: in a branch may name a property that is declared around it', () => {
    const input = object({ anyOf: [{ required: ['a'] }, { properties: { a: A }, required: ['b'] }] })
    expect(findingsOf({ input })).toEqual([])
  })

  it('OTC/T-18: never throws for an invalid schema', () => {
    fc.assert(
      fc.property(
        fc.object({ key: fc.constantFrom('required', 'properties', 'items', 'not', 'type') }),
        (input) => {
          expect(() => findingsOf({ input })).not.toThrow()
        },
      ),
    )
  })
})
