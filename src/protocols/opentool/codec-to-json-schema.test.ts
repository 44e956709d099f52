import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, it } from 'vitest'
import { fromJsonSchema } from './codec-convert-from-json.ts'
import type { OpenToolFunction } from './codec-document.ts'
import { toJsonSchema } from './codec-to-json-schema.ts'

function functionWith(changes: Partial<OpenToolFunction>): OpenToolFunction {
  return { name: 'f', description: 'd', parameters: [], ...changes }
}

describe('toJsonSchema', () => {
  it('OTS-80: keeps both descriptions of a parameter, for the reverse conversion', () => {
    const parameters = [
      { name: 'a', description: 'mine', schema: { type: 'string', description: 'own' }, required: true },
      { name: 'b', description: 'same', schema: { type: 'string', description: 'same' }, required: false },
      { name: 'c', schema: { type: 'string', description: 'own' }, required: false },
    ] as const
    const { input } = toJsonSchema(functionWith({ parameters }))
    expect(input.properties).toEqual({
      a: { type: 'string', description: 'mine', 'x-opentool-schema-description': 'own' },
      b: { type: 'string', description: 'same' },
      c: { type: 'string', description: 'own' },
    })
    expect(fromJsonSchema(input).parameters).toEqual([
      parameters[0],
      { name: 'b', description: 'same', schema: { type: 'string' }, required: false },
      { name: 'c', description: 'own', schema: { type: 'string' }, required: false },
    ])
  })

  it('OTS-80: a return becomes the result object on the wire; without a return there is no schema', () => {
    const schema = { type: 'number' } as const
    const { output } = toJsonSchema(functionWith({ return: { name: 'sum', description: 'a+b', schema } }))
    expect(output).toEqual({
      type: 'object',
      properties: { sum: { type: 'number', description: 'a+b' } },
      required: ['sum'],
    })
    expect(toJsonSchema(functionWith({})).output).toBeNull()
  })

  it('OTS-80: leaves free-form objects and arrays unconstrained, and drops members that have no meaning in OpenTool', () => {
    const schema = { type: 'object', minProperties: 3, 'x-a': 1, required: [] } as const
    const parameters = [
      { name: 'a', schema, required: false },
      { name: 'b', schema: { type: 'array' }, required: false },
    ] as const
    expect(toJsonSchema(functionWith({ parameters })).input.properties).toEqual({
      a: { type: 'object', 'x-a': 1 },
      b: { type: 'array' },
    })
  })

  it('OTS-80: references become `$defs` with escaped names, even recursive ones', () => {
    const node = { type: 'object', properties: { next: { $ref: '#/schemas/a#b?~é %' } } } as const
    const schemas = {
      'a#b?~é %': node,
      Alias: { $ref: '#/schemas/a#b?~é %' },
      Unused: { type: 'string' },
    } as const
    const parameters = [
      { name: 'p', description: 'a list', schema: { $ref: '#/schemas/Alias' }, required: true },
    ]
    const { input } = toJsonSchema(functionWith({ parameters }), { schemas })
    expect(Object.keys(input.$defs ?? {})).toEqual(['Alias', 'a#b?~é %'])
    const accepts = new Ajv2020({ strict: false }).compile(input)
    expect(accepts({ p: { next: { next: {} } } })).toBe(true)
    expect(accepts({ p: { next: { next: 1 } } })).toBe(false)
  })

  it('OTS-80: keeps the description behind a reference as well', () => {
    const schemas = { A: { $ref: '#/schemas/B' }, B: { type: 'string', description: 'own' } } as const
    const parameters = [{ name: 'p', description: 'mine', schema: { $ref: '#/schemas/A' }, required: true }]
    const { input } = toJsonSchema(functionWith({ parameters }), { schemas })
    expect(fromJsonSchema(input).parameters).toEqual([
      { name: 'p', description: 'mine', schema: { type: 'string', description: 'own' }, required: true },
    ])
  })

  it('OTS-21: a reference without a target throws', () => {
    const parameters = [{ name: 'p', schema: { $ref: '#/schemas/A' }, required: true }]
    expect(() => toJsonSchema(functionWith({ parameters }))).toThrow('dereference first')
  })
})
