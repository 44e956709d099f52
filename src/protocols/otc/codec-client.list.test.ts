import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { readToolList } from './codec-client.ts'

const SCHEMA = { type: 'object', properties: { p: { type: 'string' } } }
const NOTHING = { authorization: [], secrets: [], userId: false }

function readOne(definition: JsonObject) {
  return readToolList([
    { id: 'A.B@1.0.0', name: 'A_B', description: 'd', version: '1.0.0', ...definition },
  ])?.[0]
}

describe('readToolList', () => {
  it('OTC/C-07: items take precedence over tools', () => {
    const items = [{ id: 'A.I@1.0.0' }]
    const tools = [{ id: 'A.T@1.0.0' }]
    expect(readToolList({ items, tools })?.map((tool) => tool.id)).toEqual(['A.I@1.0.0'])
    expect(readToolList({ tools })?.map((tool) => tool.id)).toEqual(['A.T@1.0.0'])
    expect(readToolList({ items: [], tools })).toEqual([])
  })

  it('OTC/C-08: a bare array is a list', () => {
    expect(readToolList([{ id: 'add@1.0.0', inputSchema: SCHEMA }])?.[0]?.input).toEqual(SCHEMA)
  })

  it.each([[null], ['tools'], [{}], [{ tools: 'none' }], [{ message: 'no' }]])(
    'is not a list: %j',
    (body) => {
      expect(readToolList(body)).toBeUndefined()
    },
  )

  it('OTC/C-09: parameters without type and properties is the wrapped form', () => {
    expect(readOne({ input_schema: { parameters: SCHEMA } })?.input).toEqual(SCHEMA)
    expect(readOne({ input_schema: { parameters: {} } })?.input).toEqual({})
    const plain = { type: 'object', properties: { parameters: { type: 'object' } } }
    expect(readOne({ input_schema: plain })?.input).toEqual(plain)
    expect(readOne({ input_schema: { type: 'object', parameters: {} } })?.input).toEqual({
      type: 'object',
      parameters: {},
    })
  })

  it('OTC/C-10, OTC/C-13: only a name is needed', () => {
    expect(readToolList([{ name: 'add' }])).toEqual([
      { id: 'add', name: 'add', description: '', input: {}, output: 'any', requirements: NOTHING },
    ])
    expect(readToolList([{ description: 'nameless' }, 7, null])).toEqual([])
  })

  it('OTC/C-11: reads the toolkit form, its version and its input', () => {
    const tool = readToolList({
      tools: [
        { name: 'Add', toolkit: { name: 'Calculator', version: '1.0.0' }, input: { parameters: SCHEMA } },
      ],
    })
    expect(tool).toMatchObject([{ id: 'Calculator.Add@1.0.0', name: 'Add', version: '1.0.0', input: SCHEMA }])
  })

  it.each([
    ['null means no output', { output_schema: null }, 'none'],
    ['{"type":"null"} means no output', { output_schema: { type: 'null' } }, 'none'],
    ['{} means any output', { output_schema: {} }, 'any'],
    ['absent means any output', {}, 'any'],
    [
      'older forms mean any output',
      { output: { available_modes: ['value'], value: { parameters: SCHEMA } } },
      'any',
    ],
    ['a schema is kept', { output_schema: { type: 'number' } }, { type: 'number' }],
  ])('OTC/C-12: %s', (_title, definition, output) => {
    expect(readOne(definition)?.output).toEqual(output)
  })

  it('OTC/C-14: ids are opaque and their version is only a fallback', () => {
    expect(readToolList([{ id: 'add@2' }])?.[0]).toMatchObject({ id: 'add@2', version: '2' })
    expect(readToolList([{ id: 'add' }])?.[0]).not.toHaveProperty('version')
    expect(readToolList([{ id: 'a@1.0.0', version: '9.0.0' }])?.[0]?.version).toBe('9.0.0')
  })

  it('OTC-41, OTC/C-29: keeps unknown requirement members and skips entries without an id', () => {
    const google = { id: 'google', oauth2: { scopes: ['mail'], flow: 'x' }, extra: 1 }
    const tool = readOne({
      requirements: { authorization: [google, {}], secrets: [{ id: 'K' }, { name: 'L' }], user_id: true },
    })
    expect(tool?.requirements).toEqual({
      authorization: [{ id: 'google', scopes: ['mail'], definition: google }],
      secrets: [{ id: 'K' }],
      userId: true,
    })
  })

  it('OTC/C-11: required parameters that the RFC names beside the schema are kept', () => {
    const parameters = { type: 'object', properties: { a: { type: 'number' } } }
    expect(readOne({ input: { parameters, required: ['a'] } })?.input).toEqual({
      ...parameters,
      required: ['a'],
    })
    const schema = { ...parameters, required: [] }
    expect(readOne({ input: { parameters: schema, required: ['a'] } })?.input).toEqual(schema)
  })

  it('OTC/T-29: hides the parameters that a model must not infer', () => {
    const tool = readOne({
      input_schema: {
        parameters: {
          type: 'object',
          properties: { q: { type: 'string' }, is_admin: { type: 'boolean' } },
          required: ['q', 'is_admin'],
        },
        non_inferrable_parameters: ['is_admin'],
      },
    })
    expect(tool?.input).toEqual({ type: 'object', properties: { q: { type: 'string' } }, required: ['q'] })
    expect(tool?.nonInferrable).toEqual(['is_admin'])
  })

  it('OTC-115: reads any JSON without throwing, and ignores members it does not know', () => {
    expect(readOne({ future: { members: true } })).not.toHaveProperty('future')
    const definition = fc.dictionary(
      fc.constantFrom(
        'id',
        'name',
        'version',
        'toolkit',
        'input_schema',
        'input',
        'output_schema',
        'requirements',
      ),
      fc.jsonValue(),
    )
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), fc.record({ items: fc.array(definition) })), (body) => {
        for (const tool of readToolList(JSON.parse(JSON.stringify(body))) ?? []) {
          expect(tool.id).not.toBe('')
          expect(typeof tool.input).toBe('object')
        }
      }),
    )
  })
})
