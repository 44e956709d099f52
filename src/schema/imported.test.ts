import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { readImportedSchema } from './imported.ts'
import { createSchemaValidator } from './validator.ts'

function read(written: JsonObject, where: 'input' | 'output' = 'input') {
  const findings: string[] = []
  const found = readImportedSchema(
    written,
    where,
    (index, problem) => void findings.push(`${index}: ${problem}`),
    () => undefined,
  )
  return { schema: found?.schema, accepts: acceptsOf(found?.enforced() ?? {}), findings }
}

function acceptsOf(schema: JsonObject): (value: JsonValue) => boolean {
  const validate = createSchemaValidator(schema, { untrusted: true })
  return (value) => validate(value).length === 0
}

const FILLED: JsonObject = {
  type: 'object',
  properties: { url: { type: 'string' }, scale: { enum: ['css', 'device'], default: 'css' } },
  required: ['url', 'scale'],
}

describe('a member that is required and has a default', () => {
  it('is optional in an input, because the upstream applies the default, and callers see it as optional', () => {
    const { schema, accepts } = read(FILLED)
    expect(accepts({ url: 'u' })).toBe(true)
    expect(accepts({ url: 'u', scale: 'other' })).toBe(false)
    expect(accepts({ scale: 'css' })).toBe(false)
    expect(schema).toMatchObject({ required: ['url'], properties: { scale: { default: 'css' } } })
  })

  it('is required in an output, because the upstream has applied the default', () => {
    const { schema, accepts } = read(FILLED, 'output')
    expect(accepts({ url: 'u' })).toBe(false)
    expect(schema).toMatchObject({ required: ['url', 'scale'] })
  })

  it('is optional in a nested object, in a definition and in an alternative', () => {
    const { accepts } = read({
      properties: { a: FILLED, b: { $ref: '#/$defs/filled' }, c: { oneOf: [FILLED, { type: 'null' }] } },
      $defs: { filled: FILLED },
    })
    const filled = { url: 'u' }
    expect(accepts({ a: filled, b: filled, c: filled })).toBe(true)
    expect(accepts({ c: 1 })).toBe(false)
  })

  it('never makes the schema refuse a value that the original accepts', () => {
    const { schema } = fc.letrec<{ schema: JsonObject }>((tie) => ({
      schema: fc.oneof(
        { maxDepth: 3 },
        fc.constantFrom<JsonObject>(
          { properties: { a: { default: 1 } }, required: ['a'] },
          { properties: { a: { default: 1 }, b: { type: 'number' } }, required: ['a', 'b'] },
          { required: ['b'] },
          { $ref: '#/$defs/d' },
        ),
        fc.record({ not: tie('schema') }),
        fc.record({ anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }) }),
        fc.record({ oneOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }) }),
        fc.record({ if: tie('schema'), else: tie('schema') }),
        fc.record({ contains: tie('schema'), maxContains: fc.nat(1) }),
      ),
    }))
    const value = fc.dictionary(fc.constantFrom('a', 'b'), fc.nat(2))
    fc.assert(
      fc.property(schema, value, (written, tried) => {
        const whole = { ...written, $defs: { d: { properties: { a: { default: 1 } }, required: ['a'] } } }
        if (acceptsOf(whole)(tried)) expect(read(whole).accepts(tried)).toBe(true)
      }),
      { numRuns: 500 },
    )
  })
})

describe('an empty enum', () => {
  it('keeps the tool: the member accepts no value, and other members are unchanged', () => {
    const { schema, accepts, findings } = read({
      type: 'object',
      properties: { rule: { type: 'string', enum: [] }, name: { type: 'string' } },
    })
    expect(findings).toEqual([])
    expect(accepts({ name: 'n' })).toBe(true)
    expect(accepts({ rule: 'any' })).toBe(false)
    expect(JSON.stringify(schema)).not.toContain('"enum":[]')
  })
})
