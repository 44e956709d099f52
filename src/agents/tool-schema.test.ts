import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { fitName, fitSchema, withoutWidening } from './tool-schema.ts'

const LIMITS = { nameLength: 64, strict: false }
const STRICT = { nameLength: 64, strict: true }

describe('names', () => {
  it('keeps a name that every provider accepts', () => {
    expect(fitName('Shop_Mail', 64, new Set())).toBe('Shop_Mail')
  })

  it('replaces other characters, and makes long and equal names distinct', () => {
    const dotted = fitName('a.b', 64, new Set(['a_b']))
    expect(dotted).toMatch(/^a_b_[0-9a-f]{6}$/)
    const long = fitName('x'.repeat(80), 64, new Set())
    expect(long).toHaveLength(64)
    expect(long).not.toBe(fitName('x'.repeat(81), 64, new Set()))
  })
})

describe('schemas', () => {
  it('are objects without unions at the top, and name what was left out', () => {
    const schema = {
      oneOf: [
        { properties: { a: { type: 'string' } }, required: ['a'] },
        { properties: { b: { type: 'string' } }, required: ['b'] },
      ],
    }
    const fitted = fitSchema(schema, LIMITS)
    expect(fitted.schema).toEqual({
      type: 'object',
      properties: { a: { type: 'string' }, b: { type: 'string' } },
      additionalProperties: true,
    })
    expect(fitted.notes).toEqual(['left out at the top of the schema: oneOf'])
  })

  it('in the strict form require all parameters, and null stands for an absent one', () => {
    const schema = {
      type: 'object',
      properties: {
        to: { type: 'string', minLength: 3 },
        cc: { type: 'array', items: { type: 'object', properties: { id: { type: 'integer' } } } },
        kind: { type: 'string', enum: ['a', 'b'] },
        note: { type: ['string', 'null'] },
      },
      required: ['to', 'note'],
    }
    const { schema: strict, isStrict, notes } = fitSchema(schema, STRICT)
    expect(isStrict).toBe(true)
    expect(strict).toEqual({
      type: 'object',
      properties: {
        to: { type: 'string' },
        cc: {
          type: ['array', 'null'],
          items: {
            type: 'object',
            properties: { id: { type: ['integer', 'null'] } },
            required: ['id'],
            additionalProperties: false,
          },
        },
        kind: { type: ['string', 'null'], enum: ['a', 'b', null] },
        note: { type: ['string', 'null'] },
      },
      required: ['to', 'cc', 'kind', 'note'],
      additionalProperties: false,
    })
    expect(notes).toEqual(['left out: minLength', 'optional parameters may be null'])
    const written = { to: 'ann', cc: [{ id: null }], kind: null, note: null }
    expect(withoutWidening(written, schema)).toEqual({ to: 'ann', cc: [{}], note: null })
  })

  it.each([
    [{ type: 'object', properties: { any: {} } }, 'a parameter may be anything'],
    [
      { type: 'object', properties: { map: { type: 'object', additionalProperties: { type: 'string' } } } },
      'an object may have any members',
    ],
    [nested(12), 'it has more than 10 levels'],
  ])('stay as they are where the strict form cannot express them', (schema, reason) => {
    const fitted = fitSchema(schema, STRICT)
    expect(fitted.isStrict).toBe(false)
    expect(fitted.notes).toEqual([`not strict, because ${reason}`])
  })
})

function nested(depth: number): JsonObject {
  const inner = depth === 0 ? { type: 'string' } : nested(depth - 1)
  return JSON.parse(JSON.stringify({ type: 'object', properties: { inner } }))
}
