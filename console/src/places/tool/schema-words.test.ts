import { expect, it } from 'vitest'
import { kindOfInput } from './schema-words.ts'

it.each([
  ['fields', { properties: { city: { type: 'string' } } }],
  ['fields', { properties: {}, additionalProperties: { type: 'string' } }],
  ['fields', { oneOf: [{ type: 'object' }] }],
  ['anything', { properties: {} }],
  ['nothing', { additionalProperties: false }],
  ['anything', {}],
  ['anything', { properties: {}, additionalProperties: true }],
] as const)('the form shows %s for the input %o', (kind, schema) => {
  expect(kindOfInput({ type: 'object', ...schema })).toBe(kind)
})
