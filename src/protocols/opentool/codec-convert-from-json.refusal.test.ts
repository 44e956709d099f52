import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { cpuMsSince } from '../../../test/cpu-time.ts'
import { fromJsonSchema } from './codec-convert-from-json.ts'
import { SchemaConversionError } from './codec-convert-shape.ts'
import { validate } from './codec-document-read.ts'

/** A schema of one required parameter `p`. */
function input(schema: JsonValue, root: JsonObject = {}): JsonObject {
  return { type: 'object', properties: { p: schema }, required: ['p'], ...root }
}

/** The parameter `p` and the losses, as `severity pointer`, of a lossy conversion. */
function convert(schema: JsonValue, root: JsonObject = {}) {
  const { parameters, losses } = fromJsonSchema(input(schema, root), { mode: 'lossy' })
  return { p: parameters[0], losses: losses.map(({ severity, pointer }) => `${severity} ${pointer}`) }
}

/** Losses of a schema that cannot be converted at all. */
function refusal(schema: unknown): readonly string[] {
  try {
    fromJsonSchema(schema, { mode: 'lossy' })
    return []
  } catch (error) {
    if (!(error instanceof SchemaConversionError)) throw error
    return error.losses.map(({ severity, pointer }) => `${severity} ${pointer}`)
  }
}

const FREE = { type: 'object', properties: {} }
const P = '/properties/p'

describe('schemas that fromJsonSchema refuses', () => {
  it.each<[string, unknown, string[]]>([
    ['a root that is not an object', { type: 'string' }, ['unrepresentable ']],
    ['false', false, ['unrepresentable ']],
    ['a required property that nothing fits', input(false), [`unrepresentable ${P}`]],
    [
      'a contradiction',
      input({ allOf: [{ type: 'string' }, { type: 'integer' }] }),
      [`unrepresentable ${P}/allOf`],
    ],
    ['constants that differ', input({ allOf: [{ const: 1 }, { const: 2 }] }), [`unrepresentable ${P}/allOf`]],
    ['a constant of another type', input({ type: 'string', const: 1 }), [`unrepresentable ${P}/const`]],
    [
      'branches that are all impossible',
      input({ type: 'string', anyOf: [{ type: 'integer' }] }),
      [`unrepresentable ${P}/anyOf`],
    ],
    ['a reference without a target', input({ $ref: '#/$defs/No' }), [`unrepresentable ${P}/$ref`]],
    [
      'a reference to a value that is not a schema',
      input({ $ref: '#/required' }),
      [`unrepresentable ${P}/$ref`],
    ],
    ['$dynamicRef', input({ $dynamicRef: '#m' }), [`unrepresentable ${P}/$dynamicRef`]],
    ['an invalid schema', input({ type: 'text' }), [`unrepresentable ${P}/type`]],
    ['a string instead of a schema', input('string'), [`unrepresentable ${P}`]],
    [
      'a value that is not JSON',
      { type: 'object', properties: { p: new Date(0) } },
      [`unrepresentable ${P}`],
    ],
    [
      'a required parameter without a name',
      { type: 'object', properties: { '': {} }, required: [''] },
      ['approximated /properties/', 'unrepresentable /properties/'],
    ],
  ])('OTS-83: lossy refuses %s', (_what, schema, losses) => {
    expect(refusal(schema)).toEqual(losses)
  })

  it('OTS-83: strict throws on an approximation, with the full list', () => {
    const schema = input({ type: ['string', 'null'], maxLength: 3 })
    expect(() => fromJsonSchema(schema)).toThrow(/\/properties\/p\/type: `type` is approximated/)
    try {
      fromJsonSchema(schema, { mode: 'strict' })
      expect.unreachable()
    } catch (error) {
      if (!(error instanceof SchemaConversionError)) throw error
      expect(error.rule).toBe('OTS-83')
      expect(error.losses).toEqual([
        { pointer: `${P}/maxLength`, keyword: 'maxLength', severity: 'annotated' },
        { pointer: `${P}/type`, keyword: 'type', severity: 'approximated' },
      ])
    }
  })

  it('OTS-83: recursion ends, even where schemas refer to each other in a cycle', () => {
    const $defs = {
      A: { type: 'object', properties: { b: { $ref: '#/$defs/B' } } },
      B: { anyOf: [{ $ref: '#/$defs/A' }, { type: 'null' }] },
    }
    const { p, losses } = convert({ $ref: '#/$defs/A' }, { $defs })
    expect(p?.schema).toEqual({ type: 'object', properties: { b: { ...FREE, description: 'May be null' } } })
    expect(losses).toEqual(['approximated /$defs/B/anyOf/0', 'approximated /$defs/B/anyOf'])
    expect(convert({ $ref: '#' }).p?.schema).toEqual(FREE)
  })

  it('OTS-26: endlessly expanding references and deep nesting fail fast', () => {
    const $defs: Record<string, JsonObject> = { s0: { type: 'string' } }
    for (let index = 1; index < 60; index += 1) {
      const before = { $ref: `#/$defs/s${index - 1}` }
      $defs[`s${index}`] = { type: 'object', properties: { a: before, b: before } }
    }
    let deep: JsonObject = { type: 'string' }
    for (let level = 0; level < 120; level += 1) deep = { type: 'array', items: deep }
    const long = { type: 'string', description: 'x'.repeat(90_000) }
    const many = Array.from({ length: 1_000 }, (_, index) => [`p${index}`, { $ref: '#/$defs/long' }] as const)
    const started = process.cpuUsage()
    expect(refusal(input({ $ref: '#/$defs/s59' }, { $defs })).length).toBeGreaterThan(0)
    expect(refusal(input(deep))).toEqual([`unrepresentable ${P}${'/items'.repeat(100)}`])
    expect(refusal({ type: 'object', properties: Object.fromEntries(many), $defs: { long } })[0]).toContain(
      'unrepresentable',
    )
    const parts = Array.from({ length: 20_000 }, (_, index) => ({
      properties: { [`p${index}`]: { type: 'string' } },
    }))
    expect(refusal({ type: 'object', allOf: parts }).length).toBeGreaterThan(0)
    expect(cpuMsSince(started)).toBeLessThan(5_000)
  })

  it('OTS-83: throws only conversion errors for any value', () => {
    const keyword = fc.constantFrom(
      ...[
        'type',
        'enum',
        'const',
        'properties',
        'required',
        'items',
        'prefixItems',
        'additionalItems',
        'anyOf',
      ],
      ...['oneOf', 'allOf', '$ref', '$defs', 'not', 'nullable', 'additionalProperties', 'patternProperties'],
      ...['title', 'description', 'default', 'minLength', '$anchor', '__proto__', 'x-a', 'a'],
    )
    const { value } = fc.letrec<{ value: unknown }>((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        fc.constantFrom(
          'object',
          'string',
          'null',
          '#',
          '#/$defs/a',
          '#/properties/a',
          1,
          true,
          false,
          null,
          undefined,
        ),
        fc.dictionary(keyword, tie('value'), { maxKeys: 5 }),
        fc.array(tie('value'), { maxLength: 3 }),
      ),
    }))
    fc.assert(
      fc.property(
        fc.oneof(value, fc.anything({ withBigInt: true, withDate: true })),
        fc.boolean(),
        (schema, wrap) => {
          try {
            const { parameters } = fromJsonSchema(schema, { mode: 'lossy', wrap })
            const functions = [{ name: 'f', description: '', parameters }]
            const document = { opentool: '1.1.0', info: { title: '', version: '' }, functions }
            expect(validate(document).filter(({ level }) => level === 'error')).toEqual([])
          } catch (error) {
            if (!(error instanceof SchemaConversionError)) throw error
          }
        },
      ),
      { numRuns: 2_000 },
    )
  })
})
